//! Breadth-first search on a distributed worklist.
