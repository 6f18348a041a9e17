// Where fields of structures lie that Rust writes; the checks are made from Rust's: see
// `StructLayout` in millstream-device.
#pragma once

// There is no <cstddef>: each compiler has a word of its own for it.
#ifdef __CUDACC_RTC__
#define MILLSTREAM_OFFSET(type, field) __INTADDR__(&((type*)nullptr)->field)
#else
#define MILLSTREAM_OFFSET(type, field) __builtin_offsetof(type, field)
#endif
