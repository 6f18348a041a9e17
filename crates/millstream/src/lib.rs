//! Asynchronous multi-GPU dataflow: links, routers, distributed worklists and graph algorithms.
