//! Criterion benches of Millstream: `cargo bench -p millstream-benches`.
