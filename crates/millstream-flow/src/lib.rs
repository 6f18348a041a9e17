//! Asynchronous dataflow over devices: links, routers, segments.
