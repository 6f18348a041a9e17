//! Several copies in one call.

use cudarc::driver::sys::{CUmemcpyAttributes, CUmemcpySrcAccessOrder};

use super::*;

#[test]
fn several_copies_in_one_call() {
    let device = Used::new(2);
    let stream = device.stream();
    let (from, to) = (device.allocate(64), device.allocate(64));
    assert_eq!(cu!(cuMemsetD8Async(from, 1, 32, stream)), OK);
    assert_eq!(cu!(cuMemsetD8Async(from + 32, 2, 32, stream)), OK);
    assert_eq!(cu!(cuMemsetD8Async(to, 0, 64, stream)), OK);
    // SAFETY: numbers and enums, of which each has a variant of zero.
    let mut attributes: CUmemcpyAttributes = unsafe { std::mem::zeroed() };
    attributes.srcAccessOrder = CUmemcpySrcAccessOrder::CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    let mut copy = |mut sinks: [u64; 2], mut sizes: [usize; 2], count| {
        let (sinks, sizes) = (sinks.as_mut_ptr(), sizes.as_mut_ptr());
        let (mut sources, mut first) = ([from, from + 32], 0);
        let sources = sources.as_mut_ptr();
        let attributes = &mut attributes;
        cu!(cuMemcpyBatchAsync_v2(sinks, sources, sizes, count, attributes, &mut first, 1, stream))
    };
    assert_eq!(copy([to + 40, to], [8, 16], 2), OK);
    assert_eq!(copy([to + 60, to], [5, 16], 2), INVALID, "beyond the end");
    assert_eq!(copy([to + 40, to], [8, 0], 2), INVALID, "nothing to copy");
    assert_eq!(copy([to + 40, to], [8, 16], 0), INVALID, "no copies");
    assert_eq!(cu!(cuStreamSynchronize(stream)), OK);
    let mut expected = [0; 64];
    expected[40..48].fill(1);
    expected[..16].fill(2);
    assert_eq!(read(to, 64), expected);
}
