//! CUDA C++ sources of Millstream: freestanding headers, one concept a file.
