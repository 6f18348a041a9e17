// What a compiled library says of its kernels, and what is called in it: by image.rs, and by the
// compiler before every access.
#pragma once

#include <link.h>

#include "threads.hpp"

namespace emulated {

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
