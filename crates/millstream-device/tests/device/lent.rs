use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use millstream_device::{
    DeviceSet, Error, HostData, InjectedFault, Injection, Kernel, KernelResult, Read, Shared, Value,
};

use crate::common::{ADD_ONE, eventually, on_both, with};

/// Items, and what is dropped with them.
struct Kept {
    items: Vec<u32>,
    _dropped: Arc<()>,
}

impl AsRef<[u32]> for Kept {
    fn as_ref(&self) -> &[u32] {
        &self.items
    }
}

static ADDRESS: Kernel<(Read<u32>, Value<u64>, Shared<u32>)> =
    Kernel::new("address", |_, view| address(view));

/// Whether the items are where they were.
fn address(
    (items, address, found): (&[u32], u64, &[std::sync::atomic::AtomicU32]),
) -> KernelResult {
    let is_there = items.as_ptr().addr() as u64 == address;
    found[0].store(is_there.into(), std::sync::atomic::Ordering::Relaxed);
    Ok(())
}

#[test]
fn a_host_device_reads_them_where_they_lie() {
    on_both(|set: &DeviceSet| {
        let (stream, dropped) = (set.devices()[0].stream().unwrap(), Arc::new(()));
        let kept = Arc::new(Kept { items: (0..100).collect(), _dropped: Arc::clone(&dropped) });
        let first = kept.items.as_ptr().addr() + 4 * 20;
        let some = HostData::shared(kept).slice(20..30).unwrap();
        let buffer = stream.lent(some).unwrap();
        assert_eq!(buffer.len(), 10);
        let found = set.devices()[0].shared::<u32>(1).unwrap();
        ADDRESS.launch(&stream, 1, (&buffer, first as u64, &found)).unwrap();
        let download = stream.download(&buffer).unwrap();
        // The operations hold them.
        drop(buffer);
        assert_eq!(set.block_on(download).unwrap().unwrap(), (20..30).collect::<Vec<_>>());
        let found = stream.download_shared(&found, 0..1).unwrap();
        assert_eq!(set.block_on(found).unwrap().unwrap(), [1]);
        set.quiesce().unwrap();
        eventually(|| Arc::strong_count(&dropped) == 1);
        assert!(stream.lent(Vec::<u64>::new()).unwrap().is_empty());
    });
}

#[test]
fn nothing_writes_them() {
    on_both(|set| {
        let stream = set.host().stream().unwrap();
        let mut buffer = stream.lent(vec![1_u32, 2, 3]).unwrap().with_label("the rows");
        let mut other = set.host().buffer::<u32>(3).unwrap();
        let is_refused = |result: Result<(), Error>| matches!(result, Err(Error::Lent { buffer, .. }) if buffer.contains("the rows"));
        assert!(is_refused(ADD_ONE.launch(&stream, 3, (&mut buffer,))));
        assert!(is_refused(stream.upload(vec![4_u32; 3], &mut buffer)));
        assert!(is_refused(stream.copy(&other, &mut buffer)));
        assert!(is_refused(stream.fill(&mut buffer, 5)));
        stream.record().unwrap().synchronize().unwrap();
        assert!(is_refused(buffer.host_view_mut().map(drop)));
        assert_eq!(buffer.host_view().unwrap(), [1, 2, 3]);
        // A refused operation has changed nothing, and reading goes on.
        stream.copy(&buffer, &mut other).unwrap();
        ADD_ONE.launch(&stream, 3, (&mut other,)).unwrap();
        assert_eq!(set.block_on(stream.download(&other).unwrap()).unwrap().unwrap(), [2, 3, 4]);
        // The same memory by another name.
        let mut bytes = buffer.cast::<u8>();
        assert!(is_refused(stream.fill(&mut bytes, 0)));
    });
}

#[test]
fn who_does_not_wait_for_the_stream_is_refused_as_after_an_upload() {
    on_both(|set| {
        let streams = [0, 1].map(|device| set.devices()[device].stream().unwrap());
        let buffer = streams[0].lent(vec![1_u32; 8]).unwrap();
        assert!(matches!(streams[1].download(&buffer), Err(Error::Hazard { .. })));
        streams[1].wait(&streams[0].record().unwrap()).unwrap();
        let download = streams[1].download(&buffer).unwrap();
        assert_eq!(set.block_on(download).unwrap().unwrap(), [1; 8]);
    });
}

#[test]
fn they_count_as_memory_of_the_device() {
    with(
        |builder| builder.memory_budget(1000),
        |set| {
            let stream = set.devices()[0].stream().unwrap();
            let lent = stream.lent(vec![0_u8; 600]).unwrap();
            assert!(matches!(stream.lent(vec![0_u8; 500]), Err(Error::OutOfMemory { .. })));
            drop(lent);
            set.quiesce().unwrap();
            eventually(|| stream.lent(vec![0_u8; 500]).is_ok());
        },
    );
    let faults = vec![InjectedFault::new("allocate")];
    with(
        |builder| builder.injection(Injection { faults: faults.clone(), ..Injection::default() }),
        |set| {
            let stream = set.devices()[0].stream().unwrap();
            assert!(matches!(stream.lent(vec![0_u8; 5]), Err(Error::Injected { .. })));
            assert!(stream.lent(vec![0_u8; 5]).is_ok());
        },
    );
}

/// Threads that others rely on run no code of the program.
#[test]
fn the_owner_is_asked_once() {
    struct Once(Vec<u32>, AtomicBool);
    impl AsRef<[u32]> for Once {
        fn as_ref(&self) -> &[u32] {
            assert!(!self.1.swap(true, Ordering::Relaxed), "asked again");
            &self.0
        }
    }
    on_both(|set| {
        let stream = set.devices()[0].stream().unwrap();
        let once = || HostData::shared(Arc::new(Once((0..100).collect(), AtomicBool::new(false))));
        let uploaded = stream.uploaded(once().slice(20..30).unwrap()).unwrap();
        let lent = stream.lent(once().clone()).unwrap();
        for (buffer, expected) in [(&uploaded, 20..30), (&lent, 0..100)] {
            let items = stream.download(buffer).unwrap();
            assert_eq!(set.block_on(items).unwrap().unwrap(), expected.collect::<Vec<_>>());
        }
        let refused = once().slice(90..101).unwrap_err().to_string();
        assert!(refused.contains("90") && refused.contains("101"), "{refused}");
    });
}
