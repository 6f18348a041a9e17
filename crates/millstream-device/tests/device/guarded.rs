//! Memory that words guard, twins that wait, and promises.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::Duration;

use millstream_device::{
    DeviceList, DeviceSet, Error, Guarded, Kernel, KernelFault, Read, Shared, Step, Trusted, Value,
    Words, Write,
};

use crate::common::on_both;

/// Adds to each block's item what a word says, once that is not 0.
static ADD_WORD: Kernel<(Guarded<u32>, Words, Shared<u32>)> = Kernel::of_steps(
    "add_word",
    // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
    unsafe { Trusted::new(millstream_device::CudaSource::new("add_word.cu", "add_word", "")) },
    |block, (items, words, calls)| {
        calls[0].fetch_add(1, Ordering::Relaxed);
        let word = words.words()[block].load(Ordering::Acquire);
        if word == 0 {
            return Ok(Step::Waits);
        }
        match items.try_write(block..block + 1, |items| items[0] += word)? {
            Some(()) => Ok(Step::Done),
            None => Ok(Step::Waits),
        }
    },
);

#[test]
fn a_twin_waits_for_words_and_does_nothing_twice() {
    on_both(|set| {
        let device = &set.devices()[0];
        let (compute, other) = (device.stream().unwrap(), device.stream().unwrap());
        let items = set.host().guarded::<u32>(4).unwrap();
        let words = set.host().shared::<u32>(4).unwrap();
        let calls = set.host().shared::<u32>(1).unwrap();
        items.write(0..4, |items| items.copy_from_slice(&[1, 2, 3, 4])).unwrap();
        ADD_WORD.launch(&compute, 4, (&items, &words, &calls)).unwrap();
        let ended = compute.record().unwrap();
        words.store(2, 10).unwrap();
        other.signal(&[(&words, 0, 20), (&words, 3, 30)]).unwrap();
        assert!(!ended.is_complete());
        words.store(1, 40).unwrap();
        ended.synchronize().unwrap();
        assert_eq!(items.read(0..4, <[u32]>::to_vec).unwrap(), [21, 42, 13, 34]);
        assert!(calls.load(0).unwrap() >= 4);
    });
}

#[test]
fn a_fault_of_one_block_fails_the_stream() {
    on_both(|set| {
        let stream = set.devices()[0].stream().unwrap();
        let kernel = Kernel::<(Value<u32>,)>::of_step_closure("fails", |block, _| match block {
            3 => Err(KernelFault::new("the third")),
            _ => Ok(Step::Done),
        });
        kernel.launch(&stream, 5, (0,)).unwrap();
        let said = stream.record().and_then(|event| event.synchronize()).unwrap_err().to_string();
        assert!(said.contains("the third"), "{said}");
    });
}

#[test]
fn kernels_that_know_no_words_are_refused() {
    on_both(|set| {
        let stream = set.devices()[0].stream().unwrap();
        let guarded = set.devices()[0].guarded::<u32>(4).unwrap().with_label("results");
        let reads = Kernel::<(Read<u32>,)>::new("reads", |_, _| Ok(()));
        let writes = Kernel::<(Write<u32>,)>::new("writes", |_, _| Ok(()));
        let part = guarded.part(0..4).unwrap();
        let refused = reads.launch(&stream, 1, (part,)).unwrap_err();
        assert!(matches!(&refused, Error::Guarded { buffer } if buffer.contains("results")));
        // SAFETY: there is no GPU, here and below.
        let part = unsafe { guarded.part_mut(0..4) }.unwrap();
        assert!(matches!(writes.launch(&stream, 1, (part,)), Err(Error::Guarded { .. })));
        // Host code reads what is the host's.
        assert!(guarded.read(0..4, |_| ()).is_err());
    });
}

#[test]
fn copies_of_guarded_memory_need_no_order() {
    on_both(|set| {
        let device = &set.devices()[0];
        let streams = [device.stream().unwrap(), device.stream().unwrap()];
        let (one, other) = (device.guarded::<u32>(8).unwrap(), device.guarded::<u32>(8).unwrap());
        for round in 0..50 {
            let (from, to) = if round % 2 == 0 { (&one, &other) } else { (&other, &one) };
            let stream = &streams[round % 2];
            // SAFETY: there is no GPU.
            let (all, half) = unsafe { (to.part_mut(0..8), to.part_mut(4..8)) };
            stream.copy(from.part(0..8).unwrap(), all.unwrap()).unwrap();
            // Within one buffer, too.
            stream.copy(to.part(0..4).unwrap(), half.unwrap()).unwrap();
        }
        streams
            .iter()
            .for_each(|stream| stream.record().and_then(|event| event.synchronize()).unwrap());
        assert!(one.in_flight().is_none() && other.in_flight().is_none());
    });
}

#[test]
fn a_promise_that_is_dropped_fails() {
    on_both(|set| {
        let stream = set.devices()[0].stream().unwrap();
        let promise = set.promise("bread");
        stream.wait(promise.event()).unwrap();
        drop(promise);
        // A stream that knows of it already records nothing.
        let end = stream.record().and_then(|event| event.synchronize());
        let said = end.unwrap_err().to_string();
        assert!(said.contains("bread will not come"), "{said}");
    });
}

/// On threads: a copy was refused its turn meanwhile.
#[test]
fn a_turn_that_ends_in_a_panic_is_told_to_who_was_refused() {
    let set = DeviceSet::builder().devices(DeviceList::host(1)).threads(2).build().unwrap();
    let stream = set.devices()[0].stream().unwrap();
    let source = stream.uploaded(vec![7u32; 4]).unwrap();
    stream.record().unwrap().synchronize().unwrap();
    let items = set.host().guarded::<u32>(4).unwrap();
    let refused = AssertUnwindSafe(|| {
        items.write(0..4, |_| {
            // SAFETY: a copy of a host device waits for its turn.
            let to = unsafe { items.part_mut(0..4).unwrap() };
            stream.copy(&source, to).unwrap();
            // Until it has asked.
            std::thread::sleep(Duration::from_millis(50));
            panic!("asked for");
        })
    });
    catch_unwind(refused).unwrap_err();
    let (told, hear) = channel();
    let copied = stream.record().unwrap();
    copied.on_complete(move |result| told.send(result).unwrap());
    hear.recv_timeout(Duration::from_secs(10)).unwrap().unwrap();
    assert_eq!(items.read(0..4, <[u32]>::to_vec).unwrap(), [7; 4]);
}

#[test]
fn more_blocks_than_memory_has_places_for_are_an_error() {
    let kernel = Kernel::<(Value<u32>,)>::of_step_closure("many", |_, _| Ok(Step::Done));
    on_both(|set| {
        let stream = set.devices()[0].stream().unwrap();
        kernel.launch(&stream, usize::MAX, (1,)).unwrap();
        let error = stream.record().and_then(|event| event.synchronize()).unwrap_err().to_string();
        assert!(error.contains("no memory for a list of 18446744073709551615 blocks"), "{error}");
    });
}
