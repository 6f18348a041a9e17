// What CUDA C++ means where it is emulated.
#pragma once

#include "module.hpp"
#include "halves.hpp"
#include "words.hpp"

// Of the host's library what kernels call: <cmath> is most of what would be compiled.
extern "C" {
double ceil(double) noexcept;
double fabs(double) noexcept;
float expf(float) noexcept;
float fabsf(float) noexcept;
float log2f(float) noexcept;
float logf(float) noexcept;
float sqrtf(float) noexcept;
}

#define threadIdx (::emulated::current->thread)
#define blockIdx (::emulated::current->block)
#define blockDim (::emulated::current->threads)
#define gridDim (::emulated::current->grid)

// The host's library has functions of its own of these names.
#define __log2f log2f

#define __device__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __restrict__ __restrict
#define __grid_constant__
#define __launch_bounds__(...)
#define __shared__ static thread_local
#define __CUDA_ARCH__ 900

template <class One, class Other>
constexpr std::common_type_t<One, Other> min(One one, Other other) {
    using Both = std::common_type_t<One, Other>;
    return Both(other) < Both(one) ? Both(other) : Both(one);
}
template <class One, class Other>
constexpr std::common_type_t<One, Other> max(One one, Other other) {
    using Both = std::common_type_t<One, Other>;
    return Both(one) < Both(other) ? Both(other) : Both(one);
}

inline void __syncthreads() { emulated::barrier(0, 0, 0); }
inline int __syncthreads_or(int says) { return emulated::barrier(0, 0, says != 0) > 0; }
inline int __syncthreads_and(int says) { return emulated::barrier(0, 0, says == 0) == 0; }
inline void __syncwarp(unsigned mask = ~0u) {
    unsigned long long values[32];
    emulated::exchange(mask, emulated::meet, 0, values);
}
inline unsigned __activemask() { return 1u << emulated::lane(); }

inline unsigned __ballot_sync(unsigned mask, int says) {
    unsigned long long values[32];
    emulated::exchange(mask, emulated::ballot, says != 0, values);
    unsigned votes = 0;
    for (unsigned at = 0; at < 32; ++at) votes |= unsigned((mask >> at & values[at] & 1) << at);
    return votes;
}
inline int __any_sync(unsigned mask, int says) { return __ballot_sync(mask, says) != 0; }
inline int __all_sync(unsigned mask, int says) { return __ballot_sync(mask, says == 0) == 0; }
template <class T>
unsigned __match_any_sync(unsigned mask, T value) {
    unsigned long long values[32];
    emulated::exchange(mask, emulated::match, emulated::bits(value), values);
    unsigned same = 0;
    for (unsigned at = 0; at < 32; ++at) {
        if ((mask >> at & 1) != 0 && values[at] == emulated::bits(value)) same |= 1u << at;
    }
    return same;
}

template <class T>
T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
    const unsigned first = emulated::lane() & ~unsigned(width - 1);
    return emulated::shuffled(mask, value, first + (unsigned(from) & unsigned(width - 1)));
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32) {
    const unsigned lane = emulated::lane(), place = lane & unsigned(width - 1);
    return emulated::shuffled(mask, value, place < distance ? lane : lane - distance);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int difference, int width = 32) {
    const unsigned lane = emulated::lane(), other = lane ^ unsigned(difference);
    const bool inside = (other & ~unsigned(width - 1)) == (lane & ~unsigned(width - 1));
    return emulated::shuffled(mask, value, inside ? other : lane);
}

template <class T>
T __reduce_add_sync(unsigned mask, T value) {
    return emulated::reduced(mask, value, [](T one, T other) { return T(one + other); });
}
template <class T>
T __reduce_min_sync(unsigned mask, T value) {
    return emulated::reduced(mask, value, [](T one, T other) { return min(one, other); });
}
template <class T>
T __reduce_max_sync(unsigned mask, T value) {
    return emulated::reduced(mask, value, [](T one, T other) { return max(one, other); });
}
template <class T>
T __reduce_or_sync(unsigned mask, T value) {
    return emulated::reduced(mask, value, [](T one, T other) { return T(one | other); });
}

inline void __nanosleep(unsigned) { emulated::yield(); }
inline void __threadfence() { emulated::fence(); }
inline void __trap() { emulated::hooks->trap(); }

template <class T>
T atomicAdd(T* address, std::common_type_t<T> operand) {
    return emulated::fetch_add<T>(address, operand);
}
template <class T>
T atomicSub(T* address, std::common_type_t<T> operand) {
    return emulated::fetch<T>(address, [=](T value) { return T(value - operand); });
}
template <class T>
T atomicMin(T* address, std::common_type_t<T> operand) {
    return emulated::fetch_min<T>(address, operand);
}
template <class T>
T atomicMax(T* address, std::common_type_t<T> operand) {
    return emulated::fetch_max<T>(address, operand);
}
template <class T>
T atomicOr(T* address, std::common_type_t<T> operand) {
    return emulated::fetch_or<T>(address, operand);
}
template <class T>
T atomicExch(T* address, std::common_type_t<T> operand) {
    return emulated::fetch_exch<T>(address, operand);
}
template <class T>
T atomicCAS(T* address, std::common_type_t<T> expected, std::common_type_t<T> desired) {
    return emulated::fetch_cas<T>(address, expected, desired);
}

template <class T>
T* __cvta_generic_to_shared(T* address) { return address; }

template <class T>
T __ldg(const T* address) { return *address; }
template <class T>
T __ldcs(const T* address) { return *address; }
template <class T>
void __stcs(T* address, T value) { *address = value; }

inline int __popc(unsigned word) { return __builtin_popcount(word); }
inline int __ffs(unsigned word) { return __builtin_ffs(int(word)); }
inline int __clz(unsigned word) { return word == 0 ? 32 : __builtin_clz(word); }

inline unsigned __float_as_uint(float value) { return unsigned(emulated::bits(value)); }
inline float __uint_as_float(unsigned word) { return emulated::value_of<float>(word); }
inline double __longlong_as_double(long long word) {
    return emulated::value_of<double>((unsigned long long)word);
}
inline long long __double_as_longlong(double value) { return (long long)emulated::bits(value); }
inline float __fmul_rn(float one, float other) { return one * other; }
inline float __fadd_rn(float one, float other) { return one + other; }
inline float __fdividef(float one, float other) { return one / other; }
// Towards zero, to the nearest that there is; not a number is 0.
inline unsigned __float2uint_rz(float value) {
    if (!(value > 0)) return 0;
    return value >= 4294967296.0f ? ~0u : unsigned(value);
}
