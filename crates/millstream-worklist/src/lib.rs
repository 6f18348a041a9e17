//! A distributed worklist over devices: ring and direct routing, soft priority, termination.
