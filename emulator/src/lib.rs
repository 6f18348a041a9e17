//! A CUDA driver and an NVRTC that run kernels on the CPU, for tests: see README.md.

mod addresses;
mod block;
mod compiler;
mod driver;
mod execute;
mod image;
mod ptx;
mod turns;
mod warp;
