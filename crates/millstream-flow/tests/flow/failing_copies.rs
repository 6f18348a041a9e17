//! A copy of a link fails, on every way and at each half of it: both ends hear the first cause,
//! soon, and nothing leaks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_device::{Device, InjectedFault, Injection, Stream, TransferWay};
use millstream_flow::{Buffers, Context, Error, Graph, Receiver, Result, Sender};
use parking_lot::Mutex;

use crate::common::assert_nothing_leaked;
use crate::ways::four;

/// The host's place among the endpoints, after four devices.
const HOST: usize = 4;
/// Items of a message, and of a packet.
const SMALL: [usize; 2] = [10, 4];
/// Those have lanes of their own.
const LARGE: [usize; 2] = [20_000, 7000];

const ENGINE: &str = "copy";
const KERNEL: &str = "copy by kernel";

fn endpoint(context: &Context, place: usize) -> Device {
    context.devices().get(place).unwrap_or(context.host()).clone()
}

/// On threads, with and without delays, and simulated.
fn contexts(way: Option<TransferWay>, fault: &InjectedFault) -> Vec<Context> {
    let injection = Injection { faults: vec![fault.clone()], ..Injection::default() };
    let delay = Some(Duration::from_micros(1)..=Duration::from_micros(200));
    let delayed = Injection { seed: 7, delay, ..injection.clone() };
    let mut builders = vec![four(way).injection(injection.clone()), four(way).injection(delayed)];
    builders.extend((0..4).map(|seed| {
        let reorder = seed % 2 == 1;
        four(way).simulated(seed).injection(Injection { seed, reorder, ..injection.clone() })
    }));
    builders.into_iter().map(|builder| builder.build().unwrap()).collect()
}

/// Far more messages than copies until one fails.
async fn send(mut output: Sender<u32>, stream: Stream, len: usize) -> Result<()> {
    for _ in 0..100 {
        let buffer = output.buffer(len).await?;
        output.send(buffer, &stream)?;
    }
    output.shutdown()
}

async fn receive(mut input: Receiver<u32>) -> Result<()> {
    while let Some(pending) = input.recv().await? {
        pending.ready().await?.release()?;
    }
    Ok(())
}

/// What the graph of one link ends with, and what its two ends have heard.
async fn ends(
    context: &Context,
    [from, to]: [usize; 2],
    [message, packet]: [usize; 2],
) -> Result<(Error, Vec<Result<()>>)> {
    let (from, to) = (endpoint(context, from), endpoint(context, to));
    let graph = Graph::new(context);
    let (output, input) = graph.link::<u32>(&from, &to, Buffers::items(packet))?;
    let heard = Arc::new(Mutex::new(Vec::new()));
    let stream = from.stream()?;
    let log = Arc::clone(&heard);
    graph.spawn(async move {
        let result = send(output, stream, message).await;
        log.lock().push(result.clone());
        result
    });
    let log = Arc::clone(&heard);
    graph.spawn(async move {
        let result = receive(input).await;
        log.lock().push(result.clone());
        result
    });
    let run = graph.run(async { Ok::<_, Error>(()) }).await;
    let heard = std::mem::take(&mut *heard.lock());
    Ok((run.expect_err("no copy failed"), heard))
}

/// Fails one copy of a link between these endpoints: the one after so many others that an engine
/// or a kernel of `device` makes.
fn both_hear(
    way: Option<TransferWay>,
    pair: [usize; 2],
    (copy, device): (&str, usize),
    occurrence: u64,
) {
    let fault = InjectedFault::new(copy).on(format!("host:{device}")).occurrence(occurrence);
    let expected = format!("injected failure of {copy} on host:{device}");
    for sizes in [SMALL, LARGE] {
        for context in contexts(way, &fault) {
            let start = Instant::now();
            let (cause, heard) = context.block_on(ends(&context, pair, sizes)).unwrap().unwrap();
            let case = format!("{way:?}, {pair:?}, {sizes:?}, {expected} after {occurrence}");
            assert!(start.elapsed() < Duration::from_secs(10), "{case}: {:?}", start.elapsed());
            assert_eq!(cause.to_string(), expected, "{case}");
            let heard: Vec<_> = heard.into_iter().map(|end| end.unwrap_err().to_string()).collect();
            assert_eq!(heard, [expected.clone(), expected.clone()], "{case}");
            assert_nothing_leaked(&context);
        }
    }
}

#[test]
fn both_ends_hear_of_each_half_of_every_way() {
    use TransferWay::{Copy, Host, Push};
    // Devices 0 and 1 reach each other, 0 and 2 do not.
    let table: [(_, _, &[(&str, usize)]); 12] = [
        (None, [0, 1], &[(ENGINE, 0)]),
        (Some(Copy), [0, 1], &[(ENGINE, 0)]),
        (Some(Push), [0, 1], &[(KERNEL, 0)]),
        (Some(Host), [0, 1], &[(KERNEL, 0), (KERNEL, 1)]),
        (None, [0, 2], &[(KERNEL, 0), (KERNEL, 2)]),
        (Some(Copy), [0, 2], &[(ENGINE, 0), (ENGINE, 2)]),
        (Some(Push), [0, 2], &[(KERNEL, 0), (KERNEL, 2)]),
        (Some(Host), [0, 2], &[(KERNEL, 0), (KERNEL, 2)]),
        (None, [0, HOST], &[(ENGINE, 0)]),
        (Some(Push), [0, HOST], &[(KERNEL, 0)]),
        (Some(Host), [0, HOST], &[(KERNEL, 0)]),
        // The host has no lanes of its own.
        (None, [HOST, 0], &[(ENGINE, 0)]),
    ];
    for (way, pair, copies) in table {
        for copy in copies {
            for occurrence in [0, 3] {
                both_hear(way, pair, *copy, occurrence);
            }
        }
    }
}
