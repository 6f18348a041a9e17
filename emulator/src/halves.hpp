// Conversions between float and numbers of 16 bits, rounded to the nearest, ties to even.
#pragma once

#include "threads.hpp"

namespace emulated {

inline float float_of_half(unsigned short half) {
    const u32 magnitude = u32(half & 0x7fff) << 13;
    // A float's exponents are larger by 112. The largest stands for infinities and NaN.
    const u32 word = magnitude < 0x0f800000u
                         ? u32(bits(value_of<float>(magnitude) * 0x1p112f))
                         : magnitude | 0x7f800000u;
    return value_of<float>(u32(half & 0x8000) << 16 | word);
}

inline u32 half_of_magnitude(u32 magnitude) {
    if (magnitude > 0x7f800000u) return 0x7fffu;
    // 65536 and more.
    if (magnitude >= 0x47800000u) return 0x7c00u;
    // Below 2^-14 numbers are multiples of 2^-24, as floats from 0.5 on are.
    if (magnitude < 0x38800000u) {
        return u32(bits(value_of<float>(magnitude) + 0.5f)) - 0x3f000000u;
    }
    return (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
}

inline unsigned short half_of_float(float number) {
    const u32 word = u32(bits(number));
    return (unsigned short)((word >> 16 & 0x8000u) | half_of_magnitude(word & 0x7fffffffu));
}

inline unsigned short brain_float_of_float(float number) {
    const u32 word = u32(bits(number));
    if ((word & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
    return (unsigned short)((word + 0x7fffu + (word >> 16 & 1u)) >> 16);
}

}  // namespace emulated
