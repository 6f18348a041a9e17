//! Kernels that are bound and not submitted, and host code.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use millstream_device::{
    BoundKernel, DeviceBuffer, DeviceSet, Error, GangParts, GangRead, Kernel, Read, SharedBuffer,
    SharedSet, Stream,
};

use crate::common::{ADD_ONE, on_both, slow_add};

static LOOK: Kernel<(Read<u32>,)> = Kernel::new("look", |_, _| Ok(()));

fn place(set: &DeviceSet) -> (Stream, DeviceBuffer<u32>) {
    (set.devices()[0].stream().unwrap(), set.host().buffer(16).unwrap().with_label("the packet"))
}

fn is_refused<T>(view: Result<T, Error>) -> bool {
    match view {
        Err(Error::Hazard { buffer, .. }) => buffer.contains("the packet"),
        _ => false,
    }
}

#[test]
fn what_a_bound_kernel_writes_is_not_looked_at() {
    type Ends = fn(BoundKernel);
    let ends: [Ends; 4] = [
        |bound| bound.submit().unwrap(),
        |bound| bound.submit_soon().unwrap(),
        |bound| bound.enter().unwrap().begin().unwrap(),
        drop,
    ];
    on_both(|set| {
        for (round, end) in ends.into_iter().enumerate() {
            let (stream, mut buffer) = place(set);
            let bound = slow_add().bind(&stream, 16, (&mut buffer,)).unwrap();
            assert!(is_refused(buffer.host_view()) && is_refused(buffer.host_view_mut()));
            end(bound);
            let is_dropped = round == 3;
            assert_eq!(is_refused(buffer.host_view()), !is_dropped);
            stream.record().unwrap().synchronize().unwrap();
            assert_eq!(buffer.host_view_mut().unwrap()[7], u32::from(!is_dropped));
        }
    });
}

#[test]
fn what_a_bound_kernel_reads_is_not_changed() {
    on_both(|set| {
        let (stream, mut buffer) = place(set);
        let bound = LOOK.bind(&stream, 16, (&buffer,)).unwrap();
        assert_eq!(buffer.host_view().unwrap()[0], 0);
        assert!(is_refused(buffer.host_view_mut()));
        drop(bound);
        let reader = buffer.reader();
        let bound = LOOK.bind(&stream, 16, (reader.part(0..8).unwrap(),)).unwrap();
        drop(reader);
        assert!(is_refused(buffer.host_view_mut()));
        bound.submit().unwrap();
        assert!(is_refused(buffer.host_view_mut()));
        stream.record().unwrap().synchronize().unwrap();
        buffer.host_view_mut().unwrap()[0] = 1;
    });
}

#[test]
fn a_bound_kernel_that_is_refused_holds_nothing() {
    on_both(|set| {
        let (stream, mut buffer) = place(set);
        let other = set.devices()[1].stream().unwrap();
        let bound = ADD_ONE.bind(&other, 16, (&mut buffer,)).unwrap();
        ADD_ONE.launch(&stream, 16, (&mut buffer,)).unwrap();
        assert!(is_refused(bound.submit()));
        stream.record().unwrap().synchronize().unwrap();
        assert_eq!(buffer.host_view_mut().unwrap(), [1; 16]);
    });
}

struct Owner(Arc<AtomicBool>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Not by who hears of its end, as long as whoever has entered it keeps it.
#[test]
fn what_an_entered_kernel_uses_is_given_back_where_it_is_dropped() {
    on_both(|set| {
        let (stream, mut items) = (set.devices()[0].stream().unwrap(), [0u32; 16]);
        let is_given_back = Arc::new(AtomicBool::new(false));
        let (address, owner) =
            (items.as_mut_ptr().expose_provenance(), Owner(Arc::clone(&is_given_back)));
        // SAFETY: the items are there until the owner is dropped, and nobody else uses them until then.
        let mut buffer = unsafe { set.host().adopt::<u32>(address, 16, owner) };
        let mut entered = ADD_ONE.bind(&stream, 16, (&mut buffer,)).unwrap().enter().unwrap();
        entered.begin().unwrap();
        drop(buffer);
        stream.record().unwrap().synchronize().unwrap();
        assert!(!is_given_back.load(Ordering::Relaxed));
        // Nothing is left to begin.
        entered.begin_here().unwrap();
        drop(entered);
        stream.record().unwrap().synchronize().unwrap();
        assert!(is_given_back.load(Ordering::Relaxed));
        assert_eq!(items, [1; 16]);
    });
}

/// A thread submits while another looks: never does it see both before and after.
#[test]
fn a_view_beside_a_submission_is_never_of_what_it_writes() {
    let set = DeviceSet::builder().build().unwrap();
    for round in 0..300 {
        let (stream, mut buffer) = place(&set);
        let bound = ADD_ONE.bind(&stream, 16, (&mut buffer,)).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| bound.submit().unwrap());
            (0..round % 50).for_each(|_| std::hint::spin_loop());
            assert!(is_refused(buffer.host_view()));
        });
    }
}

static LOOK_AT_SET: Kernel<(SharedSet<u32>,)> = Kernel::new("look at a set", |_, _| Ok(()));
static LOOK_AT_PARTS: Kernel<(GangRead<u32>,)> = Kernel::new("look at parts", |_, _| Ok(()));

#[test]
fn no_buffer_of_many_is_left_out() {
    const MOST: usize = SharedSet::<u32>::MOST;
    on_both(|set| {
        let stream = set.devices()[0].stream().unwrap();
        let shared: Vec<_> = (0..=MOST).map(|_| set.devices()[0].shared(1).unwrap()).collect();
        let shared: Vec<&SharedBuffer<u32>> = shared.iter().collect();
        let parts: Vec<_> = (0..=MOST).map(|_| set.devices()[0].buffer(1).unwrap()).collect();
        let look = |count| {
            let parts = GangParts::from(&parts[..count]);
            let answers = [
                LOOK_AT_SET.launch(&stream, 1, (&shared[..count],)),
                LOOK_AT_PARTS.launch(&stream, 1, ((&parts, 0),)),
            ];
            stream.record().unwrap().synchronize().unwrap();
            answers
        };
        assert_eq!(look(MOST), [Ok(()), Ok(())]);
        for refused in look(MOST + 1) {
            let error = refused.unwrap_err();
            assert_eq!(error, Error::TooManyBuffers { buffers: MOST + 1, most: MOST });
        }
    });
}
