use millstream_device::{DeviceBuffer, DeviceSet, Kernel, KernelResult, Read, Write};

use crate::common::on_both;

/// Aligned to more than any memory is by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(16384))]
struct Page([u32; 4096]);

// SAFETY: numbers, as many as fill it.
unsafe impl bytemuck::Zeroable for Page {}
// SAFETY: as above.
unsafe impl bytemuck::Pod for Page {}

static MOVE: Kernel<(Read<Page>, Write<Page>)> = Kernel::new("move", |_, (from, to)| {
    assert!(from.as_ptr().is_aligned() && to.as_ptr().is_aligned());
    to.copy_from_slice(from);
    Ok(())
});

#[test]
fn items_are_aligned_as_their_type_asks_for() {
    on_both(|set| {
        let (stream, pages) = (set.devices()[0].stream().unwrap(), vec![Page([7; 4096]); 3]);
        // Some of them would be aligned by chance.
        let buffers: Vec<_> = (0..4).map(|_| set.host().buffer::<Page>(3).unwrap()).collect();
        assert!(buffers.iter().all(|buffer| buffer.host_view().unwrap().as_ptr().is_aligned()));
        let (from, mut to) =
            (stream.uploaded(pages.clone()).unwrap(), set.host().buffer(3).unwrap());
        let last = to.part_mut(2..3).unwrap();
        MOVE.launch(&stream, 1, (from.part(1..2).unwrap(), last)).unwrap();
        let download = stream.download(&to).unwrap();
        assert_eq!(set.block_on(download).unwrap().unwrap()[2], pages[0]);
        let guarded = set.host().guarded::<Page>(2).unwrap();
        assert!(guarded.read(1..2, |pages| pages.as_ptr().is_aligned()).unwrap());
    });
}

#[test]
fn memory_that_is_not_aligned_for_items_holds_none() {
    static NONE: Kernel<(Write<Page>,)> = Kernel::new("none", |_, view| none(view));
    fn none((pages,): (&mut [Page],)) -> KernelResult {
        assert!(pages.is_empty() && pages.as_ptr().is_aligned());
        Ok(())
    }
    on_both(|set: &DeviceSet| {
        let stream = set.devices()[0].stream().unwrap();
        let memory = vec![0_u8; 2 * size_of::<Page>()];
        // Neither is one of the items, of any alignment.
        let address = memory.as_ptr().expose_provenance() | 1;
        // SAFETY: the vector keeps what is there, and nobody else has it.
        let bytes = unsafe { set.host().adopt::<u8>(address, size_of::<Page>(), memory) };
        let mut pages: DeviceBuffer<Page> = bytes.cast();
        assert!(pages.is_empty() && pages.host_view().unwrap().as_ptr().is_aligned());
        NONE.launch(&stream, 1, (&mut pages,)).unwrap();
        stream.record().unwrap().synchronize().unwrap();
    });
}
