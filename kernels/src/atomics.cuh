// Scoped atomic operations as inline PTX: what CUDA's own headers offer, without
// their compile time.
//
// Names say <operation>_<order>_<scope>: order is relaxed, acquire, release or
// acq_rel; scope is gpu (threads of one device) or sys (all devices and the host); there is
// one load of scope cta (threads of one block).
// Words are unsigned, of 32 or 64 bits, in memory of devices or of the host, where the `.global`
// address equals the generic one. If an address could also be one of shared memory, each 64-bit
// addition would need a branch and a loop more. Below are words of shared memory, whose scope is
// the block, and four adjacent words.
#pragma once

namespace millstream {

using u32 = unsigned int;
using u64 = unsigned long long;
static_assert(sizeof(u32) == 4 && sizeof(u64) == 8, "word sizes");

#define MILLSTREAM_LOAD(order, scope, type, bits, reg)                             \
    __device__ __forceinline__ type load_##order##_##scope(const type* address) {  \
        type value;                                                                \
        asm volatile("ld." #order "." #scope ".global." #bits " %0, [%1];"         \
                     : "=" reg(value) : "l"(address) : "memory");                  \
        return value;                                                              \
    }

#define MILLSTREAM_STORE(order, scope, type, bits, reg)                            \
    __device__ __forceinline__ void store_##order##_##scope(type* address,         \
                                                            type value) {          \
        asm volatile("st." #order "." #scope ".global." #bits " [%0], %1;"         \
                     : : "l"(address), reg(value) : "memory");                     \
    }

// The value before the operation.
#define MILLSTREAM_FETCH(name, instruction, order, scope, type, bits, reg)         \
    __device__ __forceinline__ type fetch_##name##_##order##_##scope(              \
        type* address, type operand) {                                             \
        type before;                                                               \
        asm volatile("atom." #order "." #scope ".global." #instruction "." #bits   \
                     " %0, [%1], %2;"                                              \
                     : "=" reg(before) : "l"(address), reg(operand) : "memory");   \
        return before;                                                             \
    }

// Does not return the value before: that would cost a reply.
#define MILLSTREAM_REDUCE(name, instruction, order, scope, type, bits, reg)        \
    __device__ __forceinline__ void name##_##order##_##scope(type* address,        \
                                                             type operand) {       \
        asm volatile("red." #order "." #scope ".global." #instruction "." #bits    \
                     " [%0], %1;"                                                  \
                     : : "l"(address), reg(operand) : "memory");                   \
    }

// Returns the value before; the exchange happened if that is `expected`.
#define MILLSTREAM_COMPARE_EXCHANGE(order, scope, type, bits, reg)                 \
    __device__ __forceinline__ type compare_exchange_##order##_##scope(            \
        type* address, type expected, type desired) {                              \
        type before;                                                               \
        asm volatile("atom." #order "." #scope ".global.cas." #bits                \
                     " %0, [%1], %2, %3;"                                          \
                     : "=" reg(before)                                             \
                     : "l"(address), reg(expected), reg(desired) : "memory");      \
        return before;                                                             \
    }

#define MILLSTREAM_READ_MODIFY_WRITE(order, scope)                                 \
    MILLSTREAM_FETCH(add, add, order, scope, u32, u32, "r")                        \
    MILLSTREAM_FETCH(add, add, order, scope, u64, u64, "l")                        \
    MILLSTREAM_FETCH(min, min, order, scope, u32, u32, "r")                        \
    MILLSTREAM_FETCH(min, min, order, scope, u64, u64, "l")                        \
    MILLSTREAM_FETCH(max, max, order, scope, u32, u32, "r")                        \
    MILLSTREAM_FETCH(max, max, order, scope, u64, u64, "l")                        \
    MILLSTREAM_FETCH(exchange, exch, order, scope, u32, b32, "r")                  \
    MILLSTREAM_FETCH(exchange, exch, order, scope, u64, b64, "l")                  \
    MILLSTREAM_FETCH(or, or, order, scope, u32, b32, "r")                          \
    MILLSTREAM_FETCH(and, and, order, scope, u32, b32, "r")                        \
    MILLSTREAM_COMPARE_EXCHANGE(order, scope, u32, b32, "r")                       \
    MILLSTREAM_COMPARE_EXCHANGE(order, scope, u64, b64, "l")

// Orders what is before it and what is after it.
__device__ __forceinline__ void fence_acq_rel_gpu() {
    asm volatile("fence.acq_rel.gpu;" : : : "memory");
}

__device__ __forceinline__ void fence_acq_rel_sys() {
    asm volatile("fence.acq_rel.sys;" : : : "memory");
}

#define MILLSTREAM_SCOPE(scope)                                                    \
    MILLSTREAM_LOAD(relaxed, scope, u32, u32, "r")                                 \
    MILLSTREAM_LOAD(relaxed, scope, u64, u64, "l")                                 \
    MILLSTREAM_LOAD(acquire, scope, u32, u32, "r")                                 \
    MILLSTREAM_LOAD(acquire, scope, u64, u64, "l")                                 \
    MILLSTREAM_STORE(relaxed, scope, u32, u32, "r")                                \
    MILLSTREAM_STORE(relaxed, scope, u64, u64, "l")                                \
    MILLSTREAM_STORE(release, scope, u32, u32, "r")                                \
    MILLSTREAM_STORE(release, scope, u64, u64, "l")                                \
    MILLSTREAM_REDUCE(add, add, relaxed, scope, u64, u64, "l")                     \
    MILLSTREAM_REDUCE(raise, max, relaxed, scope, u64, u64, "l")                   \
    MILLSTREAM_READ_MODIFY_WRITE(relaxed, scope)                                   \
    MILLSTREAM_READ_MODIFY_WRITE(acquire, scope)                                   \
    MILLSTREAM_READ_MODIFY_WRITE(release, scope)                                   \
    MILLSTREAM_READ_MODIFY_WRITE(acq_rel, scope)

MILLSTREAM_SCOPE(gpu)
MILLSTREAM_SCOPE(sys)

// For words that may be stale: the multiprocessor's own cache may answer.
MILLSTREAM_LOAD(relaxed, cta, u32, u32, "r")

// In `__shared__` memory: less code than with a generic address.
__device__ __forceinline__ u32 load_relaxed_shared(const u32* address) {
    u32 value;
    asm volatile("ld.relaxed.cta.shared.u32 %0, [%1];"
                 : "=r"(value) : "l"(__cvta_generic_to_shared(address)) : "memory");
    return value;
}

__device__ __forceinline__ void store_relaxed_shared(u32* address, u32 value) {
    asm volatile("st.relaxed.cta.shared.u32 [%0], %1;"
                 : : "l"(__cvta_generic_to_shared(address)), "r"(value) : "memory");
}

__device__ __forceinline__ u32 compare_exchange_relaxed_shared(u32* address, u32 expected,
                                                               u32 desired) {
    u32 before;
    asm volatile("atom.relaxed.cta.shared.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(before)
                 : "l"(__cvta_generic_to_shared(address)), "r"(expected), "r"(desired)
                 : "memory");
    return before;
}

// Four words, each atomic only by itself, at an address that is a multiple of 16.
struct Quad {
    u32 words[4];
};

__device__ __forceinline__ Quad load_relaxed_gpu(const Quad* address) {
    u32 one, two, three, four;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(one), "=r"(two), "=r"(three), "=r"(four)
                 : "l"(address) : "memory");
    return {{one, two, three, four}};
}

#define MILLSTREAM_STORE_QUAD(scope)                                               \
    __device__ __forceinline__ void store_relaxed_##scope(Quad* address, Quad quad) { \
        asm volatile("st.relaxed." #scope ".global.v4.u32 [%0], {%1, %2, %3, %4};" \
                     : : "l"(address), "r"(quad.words[0]), "r"(quad.words[1]),     \
                         "r"(quad.words[2]), "r"(quad.words[3])                    \
                     : "memory");                                                  \
    }

MILLSTREAM_STORE_QUAD(gpu)
MILLSTREAM_STORE_QUAD(sys)

#undef MILLSTREAM_STORE_QUAD
#undef MILLSTREAM_SCOPE
#undef MILLSTREAM_READ_MODIFY_WRITE
#undef MILLSTREAM_COMPARE_EXCHANGE
#undef MILLSTREAM_REDUCE
#undef MILLSTREAM_FETCH
#undef MILLSTREAM_STORE
#undef MILLSTREAM_LOAD

}  // namespace millstream
