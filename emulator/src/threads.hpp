// Threads of an emulated GPU: a thread is a coroutine, a block an operating system's thread.
// How they let others run, and meet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

struct uint2 { unsigned x, y; };
struct uint3 { unsigned x, y, z; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
using dim3 = uint3;

inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }

namespace emulated {

using u32 = unsigned;
using u64 = unsigned long long;

// Where a thread stands; written by block.rs.
struct Thread {
    uint3 thread, block, threads, grid;
};

// What the scheduler does for threads; written by block.rs. The first three may run others.
struct Hooks {
    // Lets others run; how many operations until the next time.
    u32 (*step)();
    // Meets the lanes of `mask` that are in the same operation: their values.
    void (*exchange)(u32 mask, u32 operation, u64 value, u64* values);
    // Meets `threads` threads (0: all) at a barrier: how many of them say so.
    u32 (*barrier)(u32 barrier, u32 threads, u32 says);
    // Nanoseconds.
    u64 (*time)();
    void (*trap)();
    u32 (*multiprocessors)();
    // For each 512 bytes of all addresses 0, or 1 and how many of them are allocated.
    const std::uint16_t* (*table)();
    // An access outside of what is allocated.
    void (*stray)(u64 address, u32 bytes);
};

// Of the module, set when it is loaded.
static const Hooks* hooks;
static const std::uint16_t* table;
// Of the coroutine that runs: set again whenever others may have run.
static thread_local const Thread* current;
static thread_local u32 steps;

inline void step() {
    if (steps > 0) {
        --steps;
        return;
    }
    // Stays 0 meanwhile: whoever goes on after an exchange lets others run soon, too.
    const Thread* self = current;
    const u32 next = hooks->step();
    current = self;
    steps = next;
}

inline u64 time() {
    step();
    return hooks->time();
}

inline void yield() {
    steps = 0;
    step();
}

#define EMULATED_UNCHECKED __attribute__((no_sanitize("kernel-address")))

constexpr u32 granule = 512;

inline void stray(u64 address, u32 bytes) {
    const Thread* self = current;
    hooks->stray(address, bytes);
    current = self;
}

// The compiler has every access call this first.
EMULATED_UNCHECKED inline void check(u64 address, u32 bytes) {
    if (table == nullptr) return;
    const u64 last = address + bytes - 1;
    const u32 first_valid = table[address / granule], valid = table[last / granule];
    if (first_valid == 0 || (first_valid > address % granule + 1 && valid > last % granule + 1))
        return;
    stray(address, bytes);
}

// An address in `.global`, where variables of blocks and of threads are not.
template <class T>
EMULATED_UNCHECKED T* global(T* address) {
    if (table != nullptr && table[u64(address) / granule] == 0) stray(u64(address), sizeof(T));
    return address;
}

enum Operation : u32 { shuffle, ballot, reduce, match, meet };

inline void exchange(u32 mask, Operation operation, u64 value, u64* values) {
    const Thread* self = current;
    hooks->exchange(mask, operation, value, values);
    current = self;
}

inline u32 barrier(u32 which, u32 threads, u32 says) {
    const Thread* self = current;
    const u32 count = hooks->barrier(which, threads, says);
    current = self;
    return count;
}

inline u32 place() {
    const uint3 &at = current->thread, &threads = current->threads;
    return at.x + threads.x * (at.y + threads.y * at.z);
}

inline u32 lane() { return place() % 32; }

template <class T>
u64 bits(T value) {
    static_assert(sizeof(T) <= 8, "lanes exchange up to 8 bytes");
    u64 word = 0;
    std::memcpy(&word, &value, sizeof(T));
    return word;
}

template <class T>
T value_of(u64 word) {
    T value;
    std::memcpy(&value, &word, sizeof(T));
    return value;
}

template <class T>
T shuffled(u32 mask, T value, u32 from) {
    u64 values[32];
    exchange(mask, shuffle, bits(value), values);
    return value_of<T>(values[from % 32]);
}

template <class T, class Combine>
T reduced(u32 mask, T value, Combine combine) {
    u64 values[32];
    exchange(mask, reduce, bits(value), values);
    bool first = true;
    T result = value;
    for (u32 at = 0; at < 32; ++at) {
        if ((mask >> at & 1) == 0) continue;
        result = first ? value_of<T>(values[at]) : combine(result, value_of<T>(values[at]));
        first = false;
    }
    return result;
}

}  // namespace emulated
