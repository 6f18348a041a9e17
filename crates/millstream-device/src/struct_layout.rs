//! Structures that kernels take by value: defined in Rust, checked in CUDA C++.

use std::fmt::Write;

/// How a structure lies in memory in Rust; its twin in CUDA C++ lies the same way, or does not
/// compile: see [`cuda_struct!`](crate::cuda_struct!).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StructLayout<'a> {
    /// The twin, with its namespace.
    pub name: &'a str,
    /// Bytes.
    pub size: usize,
    /// Bytes that its place is a multiple of.
    pub alignment: usize,
    /// All of it, in order.
    pub fields: &'a [FieldLayout],
}

/// How a field lies in a [`StructLayout`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldLayout {
    /// Its name, in Rust and in CUDA C++.
    pub name: &'static str,
    /// Where it begins, in bytes.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
}

impl StructLayout<'_> {
    /// CUDA C++ that compiles only if the twin, defined before it, has this layout; otherwise the
    /// compiler's message names the structure and the field.
    /// [`CudaSource::structs`](crate::CudaSource::structs) adds it to a source.
    pub fn checks(&self) -> String {
        let StructLayout { name, size, alignment, fields } = self;
        let mut text = format!(
            "\n#line 1 \"{name} as in Rust\"\n#include \"struct_layout.cuh\"\n\
             static_assert(sizeof({name}) == {size} && alignof({name}) == {alignment}, \
             \"{name}: in Rust {size} bytes, aligned to {alignment}\");\n"
        );
        for FieldLayout { name: field, offset, size } in *fields {
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "static_assert(MILLSTREAM_OFFSET({name}, {field}) == {offset} && \
                 sizeof({name}::{field}) == {size}, \
                 \"{name}::{field}: in Rust {size} bytes, from byte {offset} on\");"
            );
        }
        text
    }
}

/// Defines a structure that kernels take by value, and what its twin in CUDA C++ must look like:
/// fields of the same names and sizes in the same places. The structure is `repr(C)`. It has a
/// constant `LAYOUT`, as visible as the structure itself; pass it to
/// [`CudaSource::structs`](crate::CudaSource::structs) of every source that has the twin.
///
/// ```
/// use bytemuck::{Pod, Zeroable};
/// use millstream_device::CudaSource;
///
/// millstream_device::cuda_struct! {
///     /// Scales numbers.
///     #[derive(Clone, Copy, Debug, Pod, Zeroable)]
///     struct Scale as "Scale" {
///         factor: u32,
///         offset: u32,
///     }
/// }
///
/// const TEXT: &str = r#"
///     #include "span.cuh"
///     using namespace millstream;
///     struct Scale {
///         u32 factor;
///         u32 offset;
///     };
///     extern "C" __global__ void scale(Span<u32> items, Scale by) {
///         for (u64 at = thread_in_grid(); at < items.len; at += threads_in_grid())
///             items[at] = items[at] * by.factor + by.offset;
///     }
/// "#;
/// let source = CudaSource::new("scale.cu", "scale", TEXT).structs(&[Scale::LAYOUT]);
/// assert!(source.text().contains("MILLSTREAM_OFFSET(Scale, offset) == 4"));
/// ```
#[macro_export]
macro_rules! cuda_struct {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $Struct:ident as $twin:literal {
            $(
                $(#[$field_attribute:meta])*
                $field_visibility:vis $field:ident: $type:ty
            ),+ $(,)?
        }
    ) => {
        $(#[$attribute])*
        #[repr(C)]
        $visibility struct $Struct {
            $($(#[$field_attribute])* $field_visibility $field: $type,)+
        }

        impl $Struct {
            #[doc = concat!("How it lies in memory, as `", $twin, "` does in CUDA C++.")]
            $visibility const LAYOUT: $crate::StructLayout<'static> = $crate::StructLayout {
                name: $twin,
                size: ::std::mem::size_of::<$Struct>(),
                alignment: ::std::mem::align_of::<$Struct>(),
                fields: &[
                    $($crate::FieldLayout {
                        name: stringify!($field),
                        offset: ::std::mem::offset_of!($Struct, $field),
                        size: ::std::mem::size_of::<$type>(),
                    },)+
                ],
            };
        }
    };
}

#[cfg(all(test, feature = "cuda"))]
mod tests {
    #![allow(clippy::panic)]

    use crate::{CudaSource, Error};

    cuda_struct! {
        #[allow(dead_code)]
        struct Settings as "test::Settings" {
            patience_ns: u64,
            first: u32,
            end: u32,
            lists: [u32; 2],
        }
    }

    const TWIN: &str = "u64 patience_ns; u32 first; u32 end; u32 lists[2];";

    /// What the compiler says about a twin with these fields: nothing if it compiles. `None` if
    /// there is no compiler.
    fn complaint(fields: &str) -> Option<String> {
        let text = format!(
            "#include \"span.cuh\"\nnamespace test {{ using namespace millstream;\n\
             struct Settings {{ {fields} }}; }}\n\
             extern \"C\" __global__ void empty(test::Settings) {{}}"
        );
        let source = CudaSource::generated("test.cu", "empty", text).structs(&[Settings::LAYOUT]);
        let complaints = [80, 90, 100].map(|architecture| match source.compile(architecture) {
            Ok(_) => Some(String::new()),
            Err(Error::Compile { log, .. }) => Some(log.to_string()),
            Err(Error::DriverUnavailable { reason, .. })
                if std::env::var_os("MILLSTREAM_REQUIRE_NVRTC").is_none() =>
            {
                println!("skipped: {reason}");
                None
            }
            Err(error) => panic!("{error}"),
        });
        let [first, second, third] = complaints;
        assert!(first == second && second == third, "{second:?}");
        first
    }

    #[test]
    fn twins_that_differ_do_not_compile() {
        let Some(complaint_of_equal) = complaint(TWIN) else { return };
        assert_eq!(complaint_of_equal, "");
        let differs = |from: &str, to: &str, names: &[&str]| {
            let fields = TWIN.replace(from, to);
            assert_ne!(fields, TWIN);
            let complaint = complaint(&fields).unwrap_or_default();
            for name in names {
                assert!(complaint.contains(name), "{fields}: {name} not in:\n{complaint}");
            }
        };
        let (first, end) = ("test::Settings::first: in Rust", "test::Settings::end: in Rust");
        let whole = "test::Settings: in Rust 24 bytes";
        differs("u32 first; u32 end;", "u32 end; u32 first;", &[first, end]);
        differs("u32 first;", "", &["\"test::Settings\" has no member \"first\"", end]);
        differs("u32 first;", "u64 first;", &[first, end, whole]);
        // The same total size, but other fields.
        differs("u32 first; u32 end;", "u32 end; unsigned short first, other;", &[first, end]);
        differs("lists[2];", "lists[2]; u32 more[2];", &[whole]);
        differs("lists[2];", "lists[1]; u32 more;", &["test::Settings::lists: in Rust 8 bytes"]);
        differs("u64 patience_ns;", "u32 patience_ns[2];", &["aligned to 8"]);
    }
}
