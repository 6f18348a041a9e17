//! Shapes of other machines, for any context of eight devices: the way that each pair takes.

use futures_util::future::try_join_all;
use millstream_device::{Topology, TransferWay};
use millstream_flow::{Buffers, Context, Error, Graph, LinkStatistics, Receiver, Result, Sender};

/// A file of shapes, and for each pair of devices (rows send) whether they are connected: `c`,
/// else `h` for the host between them.
pub struct Shape {
    pub name: &'static str,
    pub text: &'static str,
    pub pairs: [&'static str; 8],
}

impl Shape {
    pub fn topology(&self) -> Topology {
        self.text.parse().unwrap()
    }
}

/// The article's machine.
pub const QUADRUPLETS: Shape = Shape {
    name: "two-quadruplets.json",
    text: include_str!("../../../millstream-device/tests/shapes/two-quadruplets.json"),
    pairs: [
        ".ccchhhh", "c.cchhhh", "cc.chhhh", "ccc.hhhh", "hhhh.ccc", "hhhhc.cc", "hhhhcc.c",
        "hhhhccc.",
    ],
};

/// The name of the way that all packets of a link took.
fn way(link: &LinkStatistics) -> &'static str {
    let all = |packets| packets == link.packets && link.packets > 0;
    let is_staged = all(link.packets_through_host);
    assert!(is_staged || link.packets_through_host == 0, "{link:?}");
    match TransferWay::ALL.into_iter().find(|way| all(link.packets_by(*way))) {
        Some(TransferWay::Copy) if is_staged => "two copies",
        Some(TransferWay::Copy) => "copy",
        Some(TransferWay::Push) => "push",
        Some(TransferWay::Host) if is_staged => "host",
        _ => panic!("more than one way: {link:?}"),
    }
}

/// Sends a message out of a buffer of the link.
pub async fn send(mut output: Sender<u32>, items: Vec<u32>) -> Result<()> {
    let stream = output.device().stream()?;
    let mut buffer = output.buffer(items.len()).await?;
    stream.upload(items, buffer.part_mut()?)?;
    output.send(buffer, &stream)?;
    output.shutdown()
}

/// Receives all there is, which must be that.
pub async fn receive(mut input: Receiver<u32>, expected: Vec<u32>) -> Result<()> {
    let (stream, mut items) = (input.device().stream()?, Vec::new());
    while let Some(pending) = input.recv().await? {
        stream.wait(&pending)?;
        items.extend(stream.download(pending.part()?)?.await?);
        pending.release_after(&stream)?;
    }
    assert_eq!(items, expected, "{}", input.device());
    Ok(())
}

/// Sends a message from each device to each other one, all at once, and checks that they arrive
/// and on which way: on `connected` between devices that are, else on `apart`.
pub async fn every_pair(
    context: &Context,
    shape: &Shape,
    [connected, apart]: [&str; 2],
) -> Result<()> {
    let (graph, devices) = (Graph::new(context), context.devices());
    let statistics = graph.statistics();
    let mut ends = Vec::new();
    for (place, from) in devices.iter().enumerate() {
        for to in devices.iter().filter(|to| *to != from) {
            let items: Vec<u32> = (0..500).map(|at| at * 8 + place as u32).collect();
            let (output, input) = graph.link::<u32>(from, to, Buffers::items(120).count(2))?;
            ends.push(async move {
                futures_util::try_join!(send(output, items.clone()), receive(input, items))?;
                Ok::<_, Error>(())
            });
        }
    }
    graph.run(try_join_all(ends)).await?;
    let (name, links) = (shape.name, statistics.links());
    for (from, row) in devices.iter().zip(shape.pairs) {
        for (to, pair) in devices.iter().zip(row.chars()).filter(|(_, pair)| *pair != '.') {
            let is_it = |link: &&LinkStatistics| link.from == from.name() && link.to == to.name();
            let link = links.iter().find(is_it).unwrap();
            let expected = if pair == 'c' { connected } else { apart };
            assert_eq!(way(link), expected, "{name}: {from} to {to}");
        }
    }
    Ok(())
}
