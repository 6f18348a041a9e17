//! How collectives combine items.

use std::fmt;
use std::ops::Add;
use std::sync::Arc;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use millstream_device::{CudaSource, Kernel, Read, Trusted, Write};

use crate::Item;

/// A number whose sum, minimum and maximum are known to every device.
///
/// Sums of integers wrap around. A minimum or maximum with NaN is any of the two.
/// [`f16`](struct@f16) and [`bf16`] are those of the crate `half`; each sum of two is made in 32
/// bits and rounded.
pub trait Number: Item + sealed::Sealed {
    /// The type in CUDA C++, as `Element`.
    #[doc(hidden)]
    const CUDA: &'static str;
    /// The sum of `one` and `other` in CUDA C++.
    #[doc(hidden)]
    const CUDA_SUM: &'static str;

    /// Adds `arrived` to what is here.
    #[doc(hidden)]
    fn sum_all(here: &mut [Self], arrived: &[Self]);
    #[doc(hidden)]
    fn is_less(&self, other: &Self) -> bool;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! number {
    ($number:ty, $cuda:literal, $cuda_sum:literal, $sum:expr) => {
        impl sealed::Sealed for $number {}

        impl Number for $number {
            const CUDA: &'static str = concat!($cuda, ";");
            const CUDA_SUM: &'static str = $cuda_sum;

            fn sum_all(here: &mut [$number], arrived: &[$number]) {
                $sum(here, arrived)
            }

            fn is_less(&self, other: &$number) -> bool {
                self < other
            }
        }
    };
}

number!(u32, "using Element = u32", "one + other", combine_all(u32::wrapping_add));
number!(u64, "using Element = u64", "one + other", combine_all(u64::wrapping_add));
number!(i32, "using Element = int", "int(u32(one) + u32(other))", combine_all(i32::wrapping_add));
number!(
    i64,
    "using Element = long long",
    "(long long)(u64(one) + u64(other))",
    combine_all(i64::wrapping_add)
);
number!(f32, "using Element = float", "one + other", combine_all(Add::add));
number!(f64, "using Element = double", "one + other", combine_all(Add::add));
number!(f16, "#include \"half.cuh\"\nusing Element = Half", "one + other", sum_halves);
number!(bf16, "#include \"half.cuh\"\nusing Element = BrainFloat", "one + other", sum_halves);

/// Combines what has arrived into what is here, item by item.
fn combine_all<T: Copy>(combine: impl Fn(T, T) -> T) -> impl Fn(&mut [T], &[T]) {
    move |here, arrived| {
        for (to, from) in here.iter_mut().zip(arrived) {
            *to = combine(*to, *from);
        }
    }
}

/// The same for sums of halves, which processors convert several at a time.
fn sum_halves<T>(here: &mut [T], arrived: &[T])
where
    [T]: HalfFloatSliceExt,
{
    const AT_ONCE: usize = 64;
    let (mut sums, mut terms) = ([0.0; AT_ONCE], [0.0; AT_ONCE]);
    for (here, arrived) in here.chunks_mut(AT_ONCE).zip(arrived.chunks(AT_ONCE)) {
        let (sums, terms) = (&mut sums[..here.len()], &mut terms[..here.len()]);
        here.convert_to_f32_slice(sums);
        arrived.convert_to_f32_slice(terms);
        combine_all(Add::add)(sums, terms);
        here.convert_from_f32_slice(sums);
    }
}

/// An associative and commutative operation on two items. Cheap to clone; a program
/// keeps one for all its calls, since its kernels are loaded once for each.
///
/// The result of a floating-point sum depends on the algorithm, the number of ranks and
/// the root, but is the same on all ranks.
///
/// ```
/// use millstream_device::Trusted;
/// use millstream_flow::Operator;
///
/// // The item that comes first of two, as (time, number).
/// let earlier = Operator::new(
///     "earlier",
///     // SAFETY: it touches its arguments only.
///     unsafe { Trusted::new(
///         "struct Element { millstream::u32 time, number; };
///          __device__ Element combine(Element one, Element other) {
///              return other.time < one.time ? other : one;
///          }",
///     ) },
///     |one: [u32; 2], other: [u32; 2]| if other[0] < one[0] { other } else { one },
/// );
/// assert_eq!(earlier.name(), "earlier");
/// ```
pub struct Operator<T: Item> {
    name: Arc<str>,
    /// CUDA C++ text of `Element` and `combine`.
    cuda: Arc<str>,
    /// Combines the items of one buffer into those of another.
    kernel: Arc<Kernel<(Read<T>, Write<T>)>>,
}

impl<T: Item> Clone for Operator<T> {
    fn clone(&self) -> Operator<T> {
        let (name, cuda) = (Arc::clone(&self.name), Arc::clone(&self.cuda));
        Operator { name, cuda, kernel: Arc::clone(&self.kernel) }
    }
}

impl<T: Item> fmt::Debug for Operator<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Operator({})", self.name)
    }
}

impl<T: Number> Operator<T> {
    /// Their sum.
    pub fn sum() -> Operator<T> {
        Operator::of_numbers("sum", T::CUDA_SUM, T::sum_all)
    }

    /// The lesser one.
    pub fn min() -> Operator<T> {
        let min = |one: T, other: T| if other.is_less(&one) { other } else { one };
        Operator::of_numbers("min", "other < one ? other : one", combine_all(min))
    }

    /// The greater one.
    pub fn max() -> Operator<T> {
        let max = |one: T, other: T| if one.is_less(&other) { other } else { one };
        Operator::of_numbers("max", "one < other ? other : one", combine_all(max))
    }

    fn of_numbers(
        name: &str,
        expression: &str,
        combine: impl Fn(&mut [T], &[T]) + Send + Sync + 'static,
    ) -> Operator<T> {
        let element = T::CUDA;
        let cuda = format!(
            "using namespace millstream;\n{element}\n\
             __device__ Element combine(Element one, Element other) {{ return {expression}; }}\n"
        );
        // SAFETY: arithmetic on two numbers.
        Operator::of(name, unsafe { Trusted::new(cuda) }, combine)
    }
}

impl<T: Item> Operator<T> {
    /// An operation of the program's own. `cuda` is CUDA C++ that defines the type
    /// `Element`, as large as `T`, and the function `combine` of two of them, which touches
    /// no memory; `combine` is the same for host devices. Both must be associative and
    /// commutative.
    pub fn new(
        name: impl Into<Arc<str>>,
        cuda: Trusted<impl Into<Arc<str>>>,
        combine: impl Fn(T, T) -> T + Send + Sync + 'static,
    ) -> Operator<T> {
        Operator::of(name, cuda, combine_all(combine))
    }

    /// `combine` takes what is here, and what has arrived.
    fn of(
        name: impl Into<Arc<str>>,
        cuda: Trusted<impl Into<Arc<str>>>,
        combine: impl Fn(&mut [T], &[T]) + Send + Sync + 'static,
    ) -> Operator<T> {
        let (name, cuda) = (name.into(), cuda.into_inner().into());
        let twin = move |_: &millstream_device::Grid, (arrived, here): (&[T], &mut [T])| {
            combine(here, arrived);
            Ok(())
        };
        let program = program("collective_combine.cuh", &cuda, size_of::<T>(), COMBINE);
        let source = CudaSource::generated(format!("{name}.cu"), "combine_items", program);
        let kernel = Kernel::from_closure("combine", twin).with_cuda(
            // SAFETY: each thread combines two items of the spans; that `combine` is sound is the
            // caller's promise.
            unsafe { Trusted::new(source) },
        );
        Operator { name, cuda, kernel: Arc::new(kernel) }
    }

    /// The name, as errors give it.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn cuda(&self) -> &Arc<str> {
        &self.cuda
    }

    pub(super) fn kernel(&self) -> &Kernel<(Read<T>, Write<T>)> {
        &self.kernel
    }

    /// The CUDA C++ of the kernels that use it, to be compiled without running it.
    #[doc(hidden)]
    #[cfg(feature = "cuda")]
    pub fn cuda_sources(&self) -> Vec<CudaSource> {
        let combine = program("collective_combine.cuh", &self.cuda, size_of::<T>(), COMBINE);
        let combine = CudaSource::generated("combine.cu", "combine_items", combine);
        let [lines, pass, chain, ring] = super::programs::cuda_sources::<T>(Some(&self.cuda));
        let mut sources = vec![combine, pass, chain, ring];
        sources.extend(super::line_settings::fits(size_of::<T>()).then_some(lines));
        sources
    }
}

const COMBINE: &str = "
extern \"C\" __global__ void combine_items(millstream::Span<const Element> arrived,
                                         millstream::Span<Element> here) {
    millstream::combine_into(arrived, here,
                             [](Element one, Element other) { return combine(one, other); });
}
";

/// The text of a program: a header, an operator for items of `size` bytes, and a kernel.
pub(super) fn program(header: &str, cuda: &str, size: usize, kernel: &str) -> String {
    format!(
        "#include \"{header}\"\n#line 1 \"operator\"\n{cuda}\n#line 1 \"{header}\"\n\
         static_assert(sizeof(Element) == {size}, \"Element is as large as in Rust\");\n{kernel}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of all sizes, subnormal and infinite ones among them.
    fn adds_as_one_by_one<T: Number + Add<Output = T> + PartialOrd + fmt::Display>(
        of: fn(u16) -> T,
    ) {
        for len in [0, 1, 63, 64, 65, 5000] {
            let item = |at: u32| of((at.wrapping_mul(0x9E37_79B1) >> 16) as u16);
            let before: Vec<T> = (0..len).map(item).collect();
            let arrived: Vec<T> = (77..77 + len).map(item).collect();
            let mut here = before.clone();
            T::sum_all(&mut here, &arrived);
            for ((&sum, one), other) in here.iter().zip(before).zip(arrived) {
                let expected = one + other;
                // NaN is no number.
                let is_nan = |item: T| item.partial_cmp(&item).is_none();
                let is_right = sum == expected || is_nan(sum) && is_nan(expected);
                assert!(is_right, "{one} + {other} is {expected}, not {sum}");
            }
        }
    }

    #[test]
    fn halves_are_added_as_one_by_one() {
        adds_as_one_by_one(f16::from_bits);
        adds_as_one_by_one(bf16::from_bits);
    }
}
