//! Numbered examples of Millstream, in `examples/`:
//! `cargo run -p millstream-examples --example 01-link`.
