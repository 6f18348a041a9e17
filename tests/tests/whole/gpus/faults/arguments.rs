//! The arguments of one rank's kernel cannot be written, while the kernels of the others wait for
//! it: they end, and everybody hears why.

use std::time::Instant;

use millstream::device::{
    Accesses, Argument, ArgumentWriter, CudaSource, Kernel, Parameter, Shared, Trusted, Value,
};
use millstream::flow::Gang;

use super::super::{Needs, context, skip};
use super::ranks::SOON;

/// The rank, which none but the first has arguments for.
struct Written;

// SAFETY: the value is given out as what it is.
unsafe impl Parameter for Written {
    type Bound = u32;
    type View<'a> = u32;

    fn write(rank: &u32, to: &mut ArgumentWriter) {
        assert_eq!(*rank, 0, "no arguments for this rank");
        Value::<u32>::write(rank, to);
    }

    unsafe fn view(rank: &u32) -> u32 {
        *rank
    }
}

// SAFETY: a value uses no memory.
unsafe impl Argument<Written> for u32 {
    fn bind(self, _: &mut Accesses) -> millstream::device::Result<u32> {
        Ok(self)
    }
}

/// Until it is stopped, or for ten seconds.
const TEXT: &str = "
#include \"gang.cuh\"
extern \"C\" __global__ void waits(millstream::Span<millstream::u32> host, unsigned) {
    using namespace millstream;
    const u64 since = nanoseconds();
    while (load_relaxed_sys(&host[host_stop]) == goes_on && nanoseconds() - since < 10000000000) {}
}
";

#[test]
fn arguments_that_cannot_be_written() {
    let context = context();
    if context.devices().len() == 1 {
        return skip(Needs::Several, "nobody waits");
    }
    if !Gang::is_possible(&context) {
        return skip(Needs::Peers, "these devices are no gang");
    }
    let source = CudaSource::new("waits.cu", "waits", TEXT);
    // SAFETY: it reads a word of the host.
    let source = unsafe { Trusted::new(source.blocks(1).threads(32)) };
    let kernel: Kernel<(Shared<u32>, Written)> = Gang::kernel("waits", source);
    let start = Instant::now();
    let run = Gang::run_kernel(&context, &kernel, |host, member| {
        Ok(kernel.bind(member.stream, member.sharers, (host, member.place as u32))?)
    });
    let error = context.block_on(run).unwrap().unwrap_err().to_string();
    assert!(error.contains("no arguments for this rank"), "{error}");
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}
