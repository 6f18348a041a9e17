// What CUDA C++ means where it is emulated: a thread is a coroutine, a block an
// operating system's thread, and memory is the host's.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <link.h>
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

// The compiler has every access call this first.
EMULATED_UNCHECKED inline void check(u64 address, u32 bytes) {
    constexpr u32 granule = 512;
    if (table == nullptr) return;
    const u64 last = address + bytes - 1;
    const u32 first_valid = table[address / granule], valid = table[last / granule];
    if (first_valid == 0 || (first_valid > address % granule + 1 && valid > last % granule + 1))
        return;
    const Thread* self = current;
    hooks->stray(address, bytes);
    current = self;
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

enum Order { relaxed, acquire, release };

template <class T>
T load(const void* address, Order order) {
    step();
    return order == acquire
               ? __atomic_load_n(static_cast<const T*>(address), __ATOMIC_ACQUIRE)
               : __atomic_load_n(static_cast<const T*>(address), __ATOMIC_RELAXED);
}

template <class T>
void store(void* address, T value, Order order) {
    step();
    if (order == release) {
        __atomic_store_n(static_cast<T*>(address), value, __ATOMIC_RELEASE);
    } else {
        __atomic_store_n(static_cast<T*>(address), value, __ATOMIC_RELAXED);
    }
}

// The value before `change`, in one operation.
template <class T, class Change>
T fetch(void* address, Change change) {
    static_assert(std::is_trivially_copyable<T>::value, "a word");
    step();
    using Word = std::conditional_t<sizeof(T) == 4, u32, u64>;
    Word* word = static_cast<Word*>(address);
    Word before = __atomic_load_n(word, __ATOMIC_RELAXED);
    for (;;) {
        const Word after = Word(bits(T(change(value_of<T>(before)))));
        if (__atomic_compare_exchange_n(word, &before, after, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) {
            return value_of<T>(before);
        }
    }
}

template <class T>
T fetch_add(void* address, T operand) {
    return fetch<T>(address, [=](T value) { return T(value + operand); });
}
template <class T>
T fetch_min(void* address, T operand) {
    return fetch<T>(address, [=](T value) { return operand < value ? operand : value; });
}
template <class T>
T fetch_max(void* address, T operand) {
    return fetch<T>(address, [=](T value) { return value < operand ? operand : value; });
}
template <class T>
T fetch_exch(void* address, T operand) {
    return fetch<T>(address, [=](T) { return operand; });
}
template <class T>
T fetch_or(void* address, T operand) {
    return fetch<T>(address, [=](T value) { return T(value | operand); });
}
template <class T>
T fetch_and(void* address, T operand) {
    return fetch<T>(address, [=](T value) { return T(value & operand); });
}
template <class T>
T fetch_cas(void* address, T expected, T desired) {
    step();
    __atomic_compare_exchange_n(static_cast<T*>(address), &expected, desired, false,
                                __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    return expected;
}

inline void fence() {
    step();
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

// Both words in one operation.
inline void store_words(void* address, u64 low, u64 high) {
    step();
    const __int128 line = __int128(high) << 64 | low;
    __int128 before = *static_cast<volatile __int128*>(address);
    while (!__sync_bool_compare_and_swap(static_cast<__int128*>(address), before, line)) {
        before = *static_cast<volatile __int128*>(address);
    }
}

inline void load_words(const void* address, u64* low, u64* high) {
    step();
    __int128* word = static_cast<__int128*>(const_cast<void*>(address));
    const __int128 line = __sync_val_compare_and_swap(word, 0, 0);
    *low = u64(line);
    *high = u64(line >> 64);
}

// Four words, each by itself.
inline void load_quad(const void* address, u32& one, u32& two, u32& three, u32& four) {
    const u32* const words = static_cast<const u32*>(address);
    one = load<u32>(words, relaxed);
    two = load<u32>(words + 1, relaxed);
    three = load<u32>(words + 2, relaxed);
    four = load<u32>(words + 3, relaxed);
}

inline void store_quad(void* address, u32 one, u32 two, u32 three, u32 four) {
    u32* const words = static_cast<u32*>(address);
    store<u32>(words, one, relaxed);
    store<u32>(words + 1, two, relaxed);
    store<u32>(words + 2, three, relaxed);
    store<u32>(words + 3, four, relaxed);
}

struct Parameter {
    u64 offset, size;
};

struct Kernel {
    const char* name;
    void (*call)(const char* arguments);
    const Parameter* parameters;
    u64 count;
};

template <class... Types>
struct Layout {
    Parameter parameters[sizeof...(Types) + 1] = {};
    constexpr Layout() {
        constexpr u64 sizes[] = {sizeof(Types)..., 0}, aligned[] = {alignof(Types)..., 1};
        u64 offset = 0;
        for (u64 at = 0; at < sizeof...(Types); ++at) {
            offset = (offset + aligned[at] - 1) / aligned[at] * aligned[at];
            parameters[at] = {offset, sizes[at]};
            offset += sizes[at];
        }
    }
};

template <auto Function>
struct Entry;

template <class... Types, void (*Function)(Types...)>
struct Entry<Function> {
    static constexpr Layout<Types...> layout{};

    template <size_t... Places>
    static void call_with(const char* arguments, std::index_sequence<Places...>) {
        (void)arguments;
        Function(*reinterpret_cast<const Types*>(arguments +
                                                 layout.parameters[Places].offset)...);
    }

    static void call(const char* arguments) {
        call_with(arguments, std::index_sequence_for<Types...>());
    }

    static Kernel kernel(const char* name) {
        return {name, call, layout.parameters, sizeof...(Types)};
    }
};

constexpr u32 most_kernels = 256;
static Kernel kernels[most_kernels];
static u32 kernel_count;

struct Registration {
    explicit Registration(Kernel kernel) {
        if (kernel_count < most_kernels) kernels[kernel_count++] = kernel;
    }
};

}  // namespace emulated

#define EMULATED_ACCESS(bytes)                                                            \
    extern "C" EMULATED_UNCHECKED void __asan_load##bytes##_noabort(emulated::u64 at) {   \
        emulated::check(at, bytes);                                                       \
    }                                                                                     \
    extern "C" EMULATED_UNCHECKED void __asan_store##bytes##_noabort(emulated::u64 at) {  \
        emulated::check(at, bytes);                                                       \
    }
EMULATED_ACCESS(1)
EMULATED_ACCESS(2)
EMULATED_ACCESS(4)
EMULATED_ACCESS(8)
EMULATED_ACCESS(16)
extern "C" EMULATED_UNCHECKED void __asan_loadN_noabort(emulated::u64 at, emulated::u64 bytes) {
    emulated::check(at, emulated::u32(bytes));
}
extern "C" EMULATED_UNCHECKED void __asan_storeN_noabort(emulated::u64 at, emulated::u64 bytes) {
    emulated::check(at, emulated::u32(bytes));
}
extern "C" EMULATED_UNCHECKED void __asan_handle_no_return() {}
extern "C" EMULATED_UNCHECKED void __asan_before_dynamic_init(const char*) {}
extern "C" EMULATED_UNCHECKED void __asan_after_dynamic_init() {}

namespace emulated {

// Fills the calling thread's variables of the module whose code is at `code`.
EMULATED_UNCHECKED inline int fill_variables(dl_phdr_info* module, size_t, void* code) {
    const auto address = reinterpret_cast<ElfW(Addr)>(code) - module->dlpi_addr;
    const ElfW(Phdr)* variables = nullptr;
    bool is_ours = false;
    for (int at = 0; at < module->dlpi_phnum; ++at) {
        const ElfW(Phdr)& part = module->dlpi_phdr[at];
        if (part.p_type == PT_TLS) variables = &part;
        if (part.p_type == PT_LOAD) is_ours |= address - part.p_vaddr < part.p_memsz;
    }
    if (is_ours && variables != nullptr && module->dlpi_tls_data != nullptr)
        std::memset(module->dlpi_tls_data, 0xA5, variables->p_memsz);
    return is_ours;
}

}  // namespace emulated

// Before a block: its shared variables hold anything.
extern "C" __attribute__((visibility("default"), used)) void emulated_begin() {
    // A thread has variables once it has used one.
    *const_cast<const emulated::Thread* volatile*>(&emulated::current) = nullptr;
    dl_iterate_phdr(emulated::fill_variables, reinterpret_cast<void*>(&emulated_begin));
}

// Calls a kernel as one thread.
extern "C" __attribute__((visibility("default"), used)) void emulated_call(
    const emulated::Kernel* kernel, const char* arguments, const emulated::Thread* thread) {
    emulated::current = thread;
    emulated::steps = 0;
    kernel->call(arguments);
}

extern "C" __attribute__((visibility("default"), used)) const emulated::Kernel* emulated_kernels(
    const emulated::Hooks* hooks, unsigned* count) {
    emulated::hooks = hooks;
    emulated::table = hooks->table();
    *count = emulated::kernel_count;
    return emulated::kernels;
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
