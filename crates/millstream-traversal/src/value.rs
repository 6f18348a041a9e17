//! What a vertex holds, and what links carry for it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use millstream_device::{AtomicPod, Pod, Zeroable};

/// The key of a vertex nobody has reached, and the predecessor of a vertex that
/// has none.
pub const UNREACHED: u32 = u32::MAX;

mod sealed {
    pub trait Sealed {}
}

/// What goes to the owner of a vertex, in a [`Packet`]: a number of 32 or of 64 bits.
pub trait PacketValue: sealed::Sealed + Pod + Send + Sync + std::fmt::Debug {
    /// Fills a packet up to a multiple of its alignment.
    type Padding: Pod + Send + Sync + std::fmt::Debug;
}

macro_rules! packet_value {
    ($($value:ty: $padding:literal),+) => {
        $(
            impl sealed::Sealed for $value {}

            impl PacketValue for $value {
                type Padding = [u32; $padding];
            }

            const _: () = assert!(size_of::<Packet<$value>>() == size_of::<$value>() + 4 + 4 * $padding);
        )+
    };
}

packet_value!(u32: 0, f32: 0, u64: 1, f64: 1);

/// What a vertex holds: a key that only becomes smaller, such as a distance,
/// perhaps with the predecessor that gave it.
///
/// With a predecessor too, only a smaller key replaces a value, so on a cycle of weight 0 the first
/// predecessor stays. Predecessors never form a cycle, since each vertex had its final key before it
/// passed that key on.
pub trait Value: AtomicPod + PacketValue + Ord {
    /// A vertex nobody has reached.
    const UNREACHED: Self;
    /// Whether predecessors are kept.
    const KEEPS_PREDECESSOR: bool;

    /// A vertex with `key`, reached from `predecessor`.
    fn new(key: u32, predecessor: u32) -> Self;
    /// The key.
    fn key(self) -> u32;
    /// The predecessor; [`UNREACHED`] if there is none or it is not kept.
    fn predecessor(self) -> u32;
    /// The value now.
    fn get(atomic: &Self::Atomic) -> Self;
    /// Stores `value` if the present key is larger, and returns the previous value.
    fn lower(atomic: &Self::Atomic, value: Self) -> Self;
}

impl Value for u32 {
    const UNREACHED: u32 = UNREACHED;
    const KEEPS_PREDECESSOR: bool = false;

    #[inline]
    fn new(key: u32, _: u32) -> u32 {
        key
    }

    #[inline]
    fn key(self) -> u32 {
        self
    }

    fn predecessor(self) -> u32 {
        UNREACHED
    }

    #[inline]
    fn get(atomic: &AtomicU32) -> u32 {
        // Relaxed: the bit of the queue orders values.
        atomic.load(Ordering::Relaxed)
    }

    #[inline]
    fn lower(atomic: &AtomicU32, value: u32) -> u32 {
        // A plain load first: most arcs lead to settled vertices, which need no atomic update.
        let before = atomic.load(Ordering::Relaxed);
        if before <= value { before } else { atomic.fetch_min(value, Ordering::Relaxed) }
    }
}

impl Value for u64 {
    const UNREACHED: u64 = u64::MAX;
    const KEEPS_PREDECESSOR: bool = true;

    #[inline]
    fn new(key: u32, predecessor: u32) -> u64 {
        u64::from(key) << 32 | u64::from(predecessor)
    }

    #[inline]
    fn key(self) -> u32 {
        (self >> 32) as u32
    }

    fn predecessor(self) -> u32 {
        self as u32
    }

    #[inline]
    fn get(atomic: &AtomicU64) -> u64 {
        // Relaxed: the bit of the queue orders values.
        atomic.load(Ordering::Relaxed)
    }

    #[inline]
    fn lower(atomic: &AtomicU64, value: u64) -> u64 {
        let mut before = atomic.load(Ordering::Relaxed);
        while value.key() < before.key() {
            let order = Ordering::Relaxed;
            match atomic.compare_exchange_weak(before, value, order, order) {
                Ok(_) => break,
                Err(current) => before = current,
            }
        }
        before
    }
}

/// A vertex and its value on the way to another device.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Packet<V: PacketValue> {
    /// The value.
    pub value: V,
    /// New id of the vertex.
    pub vertex: u32,
    padding: V::Padding,
}

impl<V: PacketValue> Packet<V> {
    /// A packet for `vertex`.
    pub fn new(value: V, vertex: u32) -> Packet<V> {
        Packet { value, vertex, padding: Zeroable::zeroed() }
    }
}

// SAFETY: plain numbers.
unsafe impl<V: PacketValue> Zeroable for Packet<V> {}
// SAFETY: plain numbers, and `padding` leaves no hidden bytes: 4 + 4 + 0 for a
// 32-bit value, 8 + 4 + 4 for a 64-bit one; there are no other values.
unsafe impl<V: PacketValue> Pod for Packet<V> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_replaced_by_smaller_keys_only() {
        let narrow = AtomicU32::new(5);
        assert_eq!(u32::lower(&narrow, 7), 5);
        assert_eq!(u32::lower(&narrow, 3), 5);
        assert_eq!(u32::get(&narrow), 3);
        let wide = AtomicU64::new(u64::new(5, 9));
        // An equal key from a smaller predecessor replaces nothing.
        assert_eq!(u64::lower(&wide, u64::new(5, 1)), u64::new(5, 9));
        assert_eq!(u64::get(&wide).predecessor(), 9);
        assert_eq!(u64::lower(&wide, u64::new(4, 10)).key(), 5);
        assert_eq!((u64::get(&wide).key(), u64::get(&wide).predecessor()), (4, 10));
    }
}
