// Offsets of fields in structures that Rust writes; the checks are generated from Rust's
// structures: see `StructLayout` in millstream-device.
#pragma once

// There is no <cstddef>: each compiler has its own built-in for an offset.
#ifdef __CUDACC_RTC__
#define MILLSTREAM_OFFSET(type, field) __INTADDR__(&((type*)nullptr)->field)
#else
#define MILLSTREAM_OFFSET(type, field) __builtin_offsetof(type, field)
#endif
