//! The types that ranks are computed in.

use std::ops::{Add, Div, Mul};

use millstream_device::{AtomicPod, Pod};

mod sealed {
    pub trait Sealed {}
}

/// f32 or f64, as kept in memory that many threads change at once.
#[doc(hidden)]
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
{
    /// Whether it has 64 bits.
    const IS_DOUBLE: bool;
    /// Zero.
    const ZERO: Self;
    /// The integer type that has its bits, in memory that many threads change.
    type Bits: AtomicPod + std::fmt::Debug;

    /// The nearest value of this type.
    fn from_f64(value: f64) -> Self;
    /// The same value as an f64, exactly.
    fn to_f64(self) -> f64;
    /// The absolute value.
    fn abs(self) -> Self;
    /// Its bits.
    fn to_bits(self) -> Self::Bits;
    /// The value with these bits.
    fn from_bits(bits: Self::Bits) -> Self;
}

macro_rules! real {
    ($real:ty, $bits:ty, $is_double:literal) => {
        impl sealed::Sealed for $real {}

        impl Real for $real {
            const IS_DOUBLE: bool = $is_double;
            const ZERO: $real = 0.0;
            type Bits = $bits;

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
        }
    };
}

real!(f32, u32, false);
real!(f64, u64, true);
