// Floating-point numbers of 16 bits. They are computed in 32 bits and rounded to the nearest, ties to even,
// as the crate `half` does, so that all devices find the same.
#pragma once

namespace millstream {

// IEEE 754's binary16: an exponent of 5 bits, and 10 more.
struct Half {
    unsigned short bits;

    __device__ float value() const {
        float number;
        asm("cvt.f32.f16 %0, %1;" : "=f"(number) : "h"(bits));
        return number;
    }

    __device__ static Half of(float number) {
        Half half;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half.bits) : "f"(number));
        return half;
    }
};

// The upper half of a float: an exponent of 8 bits, and 7 more.
struct BrainFloat {
    unsigned short bits;

    __device__ float value() const { return __uint_as_float(unsigned(bits) << 16); }

    __device__ static BrainFloat of(float number) {
        BrainFloat half;
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(half.bits) : "f"(number));
        return half;
    }
};

template <class Number>
__device__ auto operator+(Number one, Number other) -> decltype(Number::of(one.value())) {
    return Number::of(one.value() + other.value());
}

template <class Number>
__device__ auto operator<(Number one, Number other) -> decltype(one.value() < other.value()) {
    return one.value() < other.value();
}

}  // namespace millstream
