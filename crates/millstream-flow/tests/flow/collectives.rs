//! Collectives against a sequential model.

use millstream_device::{Device, DeviceBuffer, InjectedFault, Injection};
use millstream_flow::{Algorithm, Communicator, Context, Devices, Error, Operator, Result};
use proptest::prelude::*;

use super::collective_model::{ALGORITHMS, all_types, download, odd_types, options};
use super::common::{assert_nothing_leaked, everywhere};

#[test]
fn everything_on_threads() {
    for devices in 1..=8 {
        let context = Context::builder().devices(Devices::host(devices)).build().unwrap();
        for (len, packet_bytes) in [(0, 64), (1, 1), (devices + 1, 8), (100, 40), (1003, 1 << 20)] {
            context.block_on(all_types(&context, len, packet_bytes)).unwrap().unwrap();
        }
        assert_nothing_leaked(&context);
    }
}

#[test]
fn items_of_odd_sizes() {
    for devices in [1, 2, 3, 5] {
        let context = host(devices);
        for len in [0, 1, devices * 7, 1003] {
            context.block_on(odd_types(&context, len)).unwrap().unwrap();
        }
        assert_nothing_leaked(&context);
    }
    everywhere(3, |context| async move { odd_types(&context, 13).await.unwrap() });
}

#[test]
fn everything_in_many_orders() {
    for devices in [1, 2, 3, 5, 8] {
        everywhere(devices, |context| async move {
            all_types(&context, 2 * devices + 3, 16).await.unwrap();
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_length_and_schedule(
        devices in 1usize..9,
        len in 0usize..200,
        packet_bytes in 1usize..300,
        seed: u64,
    ) {
        let builder = Context::builder().devices(Devices::host(devices)).simulated(seed);
        let reorder = seed % 2 == 1;
        let context =
            builder.injection(Injection { seed, reorder, ..Injection::default() }).build().unwrap();
        context.block_on(all_types(&context, len, packet_bytes)).unwrap().unwrap();
    }
}

fn host(devices: usize) -> Context {
    Context::builder().devices(Devices::host(devices)).build().unwrap()
}

/// Items on each device, used by nothing.
fn buffers(devices: &[Device], len: usize) -> Vec<DeviceBuffer<u32>> {
    devices.iter().map(|device| device.buffer(len).unwrap()).collect()
}

#[test]
fn operands_that_do_not_fit() {
    let context = host(3);
    let devices = context.devices();
    let mut communicator = Communicator::new(&context).unwrap();
    let (sum, mut good) = (Operator::<u32>::sum(), buffers(devices, 4));
    let run = async {
        let mut collectives = communicator.begin().await.unwrap();
        let says = |result: Result<()>, text: &str| {
            let error = result.unwrap_err().to_string();
            assert!(error.contains(text), "{text:?}: {error}");
        };
        says(
            collectives.all_reduce(&mut good[..2], &sum),
            "all-reduce needs one buffer of each of 3 ranks, not 2",
        );
        good.swap(0, 2);
        says(
            collectives.broadcast(0, &mut good),
            "broadcast: the buffer of rank 0 is on host:2, not on host:0",
        );
        good.swap(0, 2);
        says(collectives.reduce(3, &mut good, &sum), "reduce with root 3 of 3 ranks");
        let mut uneven = buffers(devices, 4);
        uneven[2] = devices[2].buffer(5).unwrap();
        for result in [
            collectives.broadcast(1, &mut uneven),
            collectives.all_reduce(&mut uneven, &sum),
            collectives.reduce(0, &mut uneven, &sum),
            collectives.reduce_scatter(&mut uneven, &sum),
            collectives.all_gather(&mut uneven),
        ] {
            says(result, "the buffer of rank 2 has 5 items, not 4");
        }
        says(
            collectives.all_to_all(&mut good),
            "all-to-all: the buffer of rank 0 has 4 items, not 6",
        );
        says(
            collectives.all_gather((&good, &mut uneven)),
            "all-gather: the buffer of rank 0 has 4 items, not 12",
        );
        // Used elsewhere, and nobody has waited.
        let stream = devices[1].stream().unwrap();
        stream.fill(&mut good[1], 7).unwrap();
        says(collectives.broadcast(1, &mut good), "not ordered after");
        collectives.wait(&stream.record().unwrap()).unwrap();
        collectives.broadcast(1, &mut good).unwrap();
        collectives.completed().await.unwrap();
        assert_eq!(download(&good).await.unwrap(), vec![vec![7; 4]; 3]);
    };
    context.block_on(run).unwrap();
}

#[test]
fn another_contexts_buffers() {
    let (context, other) = (host(2), host(2));
    let mut communicator = Communicator::new(&context).unwrap();
    let mut strange = buffers(other.devices(), 3);
    let run = async { communicator.begin().await?.broadcast(0, &mut strange) };
    let error = context.block_on(run).unwrap().unwrap_err();
    assert!(matches!(error, Error::BufferElsewhere { rank: 0, .. }), "{error}");
}

#[test]
fn another_contexts_event_is_refused_and_no_more() {
    let (context, other) = (host(2), host(1));
    let mut communicator = Communicator::new(&context).unwrap();
    let mut vectors = buffers(context.devices(), 3);
    let strange = other.devices()[0].stream().unwrap().record().unwrap();
    let run = async {
        let mut collectives = communicator.begin().await?;
        let refused = collectives.wait(&strange);
        collectives.broadcast(0, &mut vectors)?;
        collectives.completed().await?;
        Ok::<_, Error>(refused)
    };
    let refused = context.block_on(run).unwrap().unwrap();
    let is_it = |error| matches!(error, millstream_device::Error::DifferentDeviceSet { .. });
    assert!(matches!(refused, Err(Error::Device(error)) if is_it(error.clone())));
}

/// Streams order what comes before and after; the host waits once.
#[test]
fn a_chain_without_the_host() {
    everywhere(4, |context| async move {
        let devices = context.devices();
        let mut communicator = Communicator::new(&context).unwrap();
        let sum = Operator::<u32>::sum();
        let mut vectors = buffers(devices, 10);
        let mut events = Vec::new();
        for (device, vector) in devices.iter().zip(&mut vectors) {
            let stream = device.stream().unwrap();
            stream.fill(vector, 1).unwrap();
            events.push(stream.record().unwrap());
        }
        let mut collectives = communicator.begin().await.unwrap();
        for event in &events {
            collectives.wait(event).unwrap();
        }
        for _ in 0..5 {
            collectives.all_reduce(&mut vectors, &sum).unwrap();
        }
        collectives.barrier().unwrap();
        let events = collectives.record().unwrap();
        let stream = devices[3].stream().unwrap();
        stream.wait(&events[3]).unwrap();
        let items = stream.download(&vectors[3]).unwrap();
        // Given up: what is submitted still happens.
        drop(collectives);
        assert_eq!(items.await.unwrap(), vec![4u32.pow(5); 10]);
    });
}

/// After a barrier on any rank comes everything before it on every rank.
#[test]
fn a_barrier_orders_all_ranks() {
    everywhere(5, |context| async move {
        for algorithm in ALGORITHMS {
            let mut communicator =
                Communicator::with_options(&context, options(algorithm, 16)).unwrap();
            let mut collectives = communicator.begin().await.unwrap();
            let mut written = buffers(context.devices(), 4);
            for (rank, buffer) in written.iter_mut().enumerate() {
                collectives.streams()[rank].fill(&mut *buffer, rank as u32).unwrap();
                let reads = collectives.streams()[(rank + 1) % 5].download(&*buffer);
                assert!(reads.is_err(), "nothing orders it yet");
            }
            collectives.barrier().unwrap();
            let mut read = Vec::new();
            for (rank, buffer) in written.iter().enumerate() {
                let streams = collectives.streams().iter();
                read.extend(streams.map(|stream| (rank, stream.download(buffer).unwrap())));
            }
            collectives.completed().await.unwrap();
            for (rank, items) in read {
                assert_eq!(items.await.unwrap(), [rank as u32; 4]);
            }
        }
    });
}

/// A device that fails: everyone hears the first cause, and later calls too.
#[test]
fn the_first_cause_reaches_everybody() {
    for algorithm in ALGORITHMS {
        for (operation, device) in [("combine", "host:1"), ("copy", "host:2")] {
            let fault = InjectedFault::new(operation).on(device);
            let injection = Injection { faults: vec![fault], ..Injection::default() };
            let builder = Context::builder().devices(Devices::host(3)).injection(injection);
            let context = builder.build().unwrap();
            // Without a combination at rank 1 there is nothing to fail.
            if operation == "combine" && matches!(algorithm, Algorithm::Tree | Algorithm::Auto) {
                continue;
            }
            let mut communicator =
                Communicator::with_options(&context, options(algorithm, 16)).unwrap();
            let mut vectors = buffers(context.devices(), 64);
            let sum = Operator::<u32>::sum();
            let run = async {
                let mut collectives = communicator.begin().await?;
                // Refused already, if the failure is known by then.
                let submitted = collectives.all_reduce(&mut vectors, &sum);
                let completed = collectives.completed().await;
                let first = submitted.and(completed).err();
                let again = communicator.begin().await.err();
                Ok::<_, Error>([first, again, communicator.begin().await.err()])
            };
            let expected = format!("injected failure of {operation} on {device}");
            for error in context.block_on(run).unwrap().unwrap() {
                let text = error.unwrap().to_string();
                assert!(text.contains(&expected), "{algorithm:?} {operation}: {text}");
            }
        }
    }
}

/// A future given up before it began, and one given up while it waits.
#[test]
fn futures_that_are_given_up() {
    let context = host(4);
    let mut communicator = Communicator::new(&context).unwrap();
    let sum = Operator::<u32>::sum();
    let mut vectors = buffers(context.devices(), 1000);
    drop(communicator.begin());
    let run = async {
        let mut collectives = communicator.begin().await?;
        collectives.all_reduce(&mut vectors, &sum)?;
        drop(collectives.completed());
        let mut collectives = communicator.begin().await?;
        collectives.all_reduce(&mut vectors, &sum)?;
        collectives.completed().await
    };
    context.block_on(run).unwrap().unwrap();
    drop((vectors, communicator));
    assert_nothing_leaked(&context);
}
