//! The types that ranks are computed in.

use std::iter::Sum;
use std::ops::{Add, Div, Mul};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use millstream_device::{AtomicPod, Pod};

mod sealed {
    pub trait Sealed {}
}

/// f32 or f64, in memory that many kernels change at once.
pub trait Real:
    sealed::Sealed
    + Pod
    + Send
    + Sync
    + std::fmt::Debug
    + PartialOrd
    + Add<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Sum
{
    /// Whether it has 64 bits.
    const IS_DOUBLE: bool;
    /// Nothing.
    const ZERO: Self;
    /// What it is kept as where many change it.
    type Bits: AtomicPod + std::fmt::Debug;
    /// Fills a packet up to a multiple of its alignment.
    type Padding: Pod + Send + Sync + std::fmt::Debug;

    /// The nearest one.
    fn from_f64(value: f64) -> Self;
    /// Exactly.
    fn to_f64(self) -> f64;
    /// Without its sign.
    fn abs(self) -> Self;
    /// As it is kept.
    fn to_bits(self) -> Self::Bits;
    /// From what is kept.
    fn from_bits(bits: Self::Bits) -> Self;
    /// The value now.
    fn get(atomic: &<Self::Bits as AtomicPod>::Atomic) -> Self;
    /// Adds, and returns the value before.
    fn add_to(atomic: &<Self::Bits as AtomicPod>::Atomic, value: Self) -> Self;
    /// Leaves zero, and returns the value before.
    fn take(atomic: &<Self::Bits as AtomicPod>::Atomic) -> Self;
}

macro_rules! real {
    ($real:ty, $bits:ty, $atomic:ty, $padding:ty, $is_double:literal) => {
        impl sealed::Sealed for $real {}

        impl Real for $real {
            const IS_DOUBLE: bool = $is_double;
            const ZERO: $real = 0.0;
            type Bits = $bits;
            type Padding = $padding;

            fn from_f64(value: f64) -> $real {
                value as $real
            }

            fn to_f64(self) -> f64 {
                self.into()
            }

            fn abs(self) -> $real {
                <$real>::abs(self)
            }

            fn to_bits(self) -> $bits {
                <$real>::to_bits(self)
            }

            fn from_bits(bits: $bits) -> $real {
                <$real>::from_bits(bits)
            }

            fn get(atomic: &$atomic) -> $real {
                // Relaxed: the bit of the queue orders values.
                <$real>::from_bits(atomic.load(Ordering::Relaxed))
            }

            fn add_to(atomic: &$atomic, value: $real) -> $real {
                // Relaxed: as above.
                let order = Ordering::Relaxed;
                let mut before = atomic.load(order);
                loop {
                    let sum = (<$real>::from_bits(before) + value).to_bits();
                    match atomic.compare_exchange_weak(before, sum, order, order) {
                        Ok(_) => return <$real>::from_bits(before),
                        Err(current) => before = current,
                    }
                }
            }

            fn take(atomic: &$atomic) -> $real {
                // Relaxed: as above.
                <$real>::from_bits(atomic.swap(0, Ordering::Relaxed))
            }
        }
    };
}

real!(f32, u32, AtomicU32, [u32; 0], false);
real!(f64, u64, AtomicU64, [u32; 1], true);
