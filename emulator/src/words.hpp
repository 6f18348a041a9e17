// Operations on words of memory, which is the host's.
#pragma once

#include "threads.hpp"

namespace emulated {

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

}  // namespace emulated
