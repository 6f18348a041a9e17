//! Devices that do not reach each other's memory, and how long copies take: on
//! the devices that `MILLSTREAM_TEST_DEVICES` names, else on four host devices.

use std::str::FromStr;

use futures_util::try_join;
use millstream::bfs::{Algorithm, Bfs, BfsOptions};
use millstream::cc::CcOptions;
use millstream::device::{
    Device, DeviceList, DeviceSet, Error, LinkKind, SharedBuffer, StreamKind, Topology,
    TransferTable, TransferWay,
};
use millstream::flow::{Buffers, Context, Devices, Gang, Graph, LinkStatistics, broadcast};
use millstream::graph::generate::{self, GenerateOptions};
use millstream::graph::{partition, reference};
use millstream::pagerank::Algorithm as Sweeping;
use millstream::traversal::internals::can_meet;
use millstream::worklist::Routing;

use super::latency::HELD;
use super::{Needs, scaled, skip};
use crate::collective_model::all_types;
use crate::shape_cases::{QUADRUPLETS, every_pair, receive, send};
use crate::{cc, pagerank};

fn list() -> DeviceList {
    match std::env::var("MILLSTREAM_TEST_DEVICES") {
        Ok(list) => list.parse().unwrap(),
        Err(_) => DeviceList::host(4),
    }
}

/// A context whose devices are connected as `link` says.
fn connected(link: impl Fn(usize, usize) -> LinkKind) -> Context {
    let names = (0..list().len()).map(|place| place.to_string());
    let shape = Topology::from_links(names, |from, to| match from == to {
        true => LinkKind::Memory,
        false => link(from, to),
    });
    Context::builder().devices(Devices::List(list())).topology(shape).build().unwrap()
}

fn no_peers() -> Context {
    connected(|_, _| LinkKind::Host)
}

fn is_gpu(device: &Device) -> bool {
    device.name().starts_with("cuda")
}

/// Whether all packets of a link went the way that the topology says.
fn check_way(context: &Context, link: &LinkStatistics) {
    let find = |name: &String| context.devices().iter().position(|device| device.name() == *name);
    let staged = match (find(&link.from), find(&link.to)) {
        (Some(from), Some(to)) => {
            let is_gpu = [from, to].map(|place| is_gpu(&context.devices()[place]));
            is_gpu[0] == is_gpu[1] && !context.topology().are_peers(from, to)
        }
        _ => false,
    };
    assert_eq!(link.packets_through_host, if staged { link.packets } else { 0 }, "{link:?}");
}

#[test]
fn messages_between_devices_that_are_no_peers() {
    let context = no_peers();
    assert!(context.devices().len() < 2 || !context.topology().all_peers());
    for from in context.devices() {
        for to in context.devices().iter().filter(|to| *to != from) {
            let graph = Graph::new(&context);
            // Far more packets than buffers, the last one shorter.
            let (mut output, mut input) =
                graph.link::<u64>(from, to, Buffers::items(1000).count(2)).unwrap();
            let back = Buffers::items(3000);
            let (mut echo, results) = graph.link::<u64>(to, context.host(), back).unwrap();
            let stream = from.stream().unwrap();
            graph.spawn(async move {
                for part in 0..20u64 {
                    let numbers: Vec<u64> = (part * 5003..(part + 1) * 5003).collect();
                    let mut buffer = output.buffer(numbers.len()).await?;
                    stream.upload(numbers, buffer.part_mut()?)?;
                    output.send(buffer, &stream)?;
                }
                output.shutdown()
            });
            let stream = to.stream().unwrap();
            graph.spawn(async move {
                while let Some(pending) = input.recv().await? {
                    let mut copy = echo.buffer(pending.len()).await?;
                    stream.wait(&pending)?;
                    stream.copy(pending.part()?, copy.part_mut()?)?;
                    pending.release_after(&stream)?;
                    echo.send(copy, &stream)?;
                }
                echo.shutdown()
            });
            let statistics = graph.statistics();
            let received = context.block_on(graph.run(results.collect())).unwrap().unwrap();
            assert!(received.into_iter().eq(0..20 * 5003), "{from} to {to}");
            let links = statistics.links();
            assert_eq!(links.len(), 2);
            links.iter().for_each(|link| check_way(&context, link));
        }
    }
    context.device_set().quiesce().unwrap();
}

/// The gang's barrier adds to words of other devices: over PCIe trees and shares go over links.
#[test]
fn nobody_meets_over_pcie() {
    let context = connected(|_, _| LinkKind::Pcie);
    if context.devices().len() < 2 {
        return skip(Needs::Several, "one device meets nobody");
    }
    if !Gang::is_possible(&context) {
        return skip(Needs::Peers, "only GPUs that are peers could meet");
    }
    if Gang::can_meet(&context) {
        return skip(Needs::SeveralGpus, "devices on one GPU meet whatever a shape says");
    }
    assert!(!can_meet(&context));
    let graph = generate::kron(scaled(10, 6), 8, &GenerateOptions::default()).unwrap();
    let options = CcOptions::default();
    let parts = partition::automatic(&graph, context.devices().len());
    let result = cc::run(&context, &graph, parts, options);
    cc::check("components", &graph, &options, &result);
    assert!(!result.statistics.links.is_empty());
    let options = pagerank::exact(Sweeping::Pull);
    let result = pagerank::run(&context, &graph, options.clone()).unwrap();
    pagerank::check("ranks", &graph, &options, &result);
    assert!(!result.statistics.links.is_empty());
}

/// Where a table says that two engines are faster.
#[test]
fn small_messages_of_gpus_take_engines_that_are_free() {
    let automatic = super::context();
    let [one, other, ..] = automatic.devices() else {
        return skip(Needs::Several, "a link has two ends");
    };
    if !is_gpu(one) || !is_gpu(other) {
        return skip(Needs::Peers, "small messages of host devices go by the table");
    }
    if one.shares_gpu_with(other) {
        return skip(Needs::SeveralGpus, "a shape does not part virtual devices");
    }
    let [from, to] = [one.name(), other.name()];
    let transfer = |way: TransferWay, bytes: usize, time_us: u32| {
        format!(
            r#"{{ "from": "{from}", "to": "{to}", "way": "{way}", "bytes": {bytes},
                 "time_us": {time_us}, "latency_us": {time_us} }}"#
        )
    };
    let transfers = [4 << 10, 1 << 20].map(|bytes| {
        [transfer(TransferWay::Copy, bytes, 1), transfer(TransferWay::Host, bytes, 9)].join(",")
    });
    let shape = format!(
        r#"{{ "devices": ["{from}", "{to}"], "transfers": [{}],
             "links": [["memory", "host"], ["host", "memory"]] }}"#,
        transfers.join(",")
    );
    let pair = DeviceList::from_str(&format!("{from},{to}")).unwrap();
    let builder = Context::builder().devices(Devices::List(pair));
    let context = builder.topology(shape.parse().unwrap()).build().unwrap();
    let [one, other] = context.devices() else { unreachable!() };
    let way_of = |bytes: usize| {
        let graph = Graph::new(&context);
        let buffers = Buffers::bytes(bytes).count(2);
        let (output, input) = graph.link::<u32>(one, other, buffers).unwrap();
        let (items, statistics) = ((0..bytes as u32 / 4).collect::<Vec<_>>(), graph.statistics());
        let run =
            graph.run(async { try_join!(send(output, items.clone()), receive(input, items)) });
        context.block_on(run).unwrap().unwrap();
        let link = statistics.links().pop().unwrap();
        check_way(&context, &link);
        TransferWay::ALL.into_iter().find(|way| link.packets_by(*way) == link.packets)
    };
    assert!(!one.is_copying());
    assert_eq!([4 << 10, 1 << 20].map(way_of), [Some(TransferWay::Copy); 2]);
    let gate = hold_up_a_copy(&context, one);
    // The gate is opened before anything may fail: the device waits for it.
    let found = (one.is_copying(), way_of(4 << 10));
    gate.store(0, 1).unwrap();
    assert_eq!(found, (true, Some(TransferWay::Host)));
    context.device_set().quiesce().unwrap();
    assert!(!one.is_copying());
}

/// A large copy of the device waits until the gate is opened.
fn hold_up_a_copy(context: &Context, device: &Device) -> SharedBuffer<u32> {
    HELD.prepare(device, 1).unwrap();
    let gate = context.host().shared::<u32>(1).unwrap();
    let [kernels, copies] =
        [StreamKind::Gang, StreamKind::Copy].map(|kind| device.stream_of(kind).unwrap());
    HELD.launch(&kernels, 1, (&gate,)).unwrap();
    copies.wait(&kernels.record().unwrap()).unwrap();
    // Nobody waits for it, and yet it is under way.
    let from = device.buffer::<u8>((64 << 10) + 1).unwrap();
    copies.copy(&from, &mut device.buffer(from.len()).unwrap()).unwrap();
    gate
}

/// Every second device is a peer: some packets of one message are staged.
#[test]
fn a_broadcast_over_mixed_ways() {
    let context = connected(|from, to| match from % 2 == to % 2 {
        true => LinkKind::NvLink,
        false => LinkKind::Host,
    });
    let Some((source, others)) = context.devices().split_first() else { return };
    let graph = Graph::new(&context);
    let router = graph.router::<u32>(broadcast()).unwrap();
    let mut output = router.sender(source).unwrap();
    let mut receiving = Vec::new();
    for device in others {
        let mut input = router.receiver(device, Buffers::items(700)).unwrap();
        let stream = device.stream().unwrap();
        receiving.push(async move {
            let mut items = Vec::new();
            while let Some(pending) = input.recv().await? {
                stream.wait(&pending)?;
                let mut copy = stream.device().buffer::<u32>(pending.len())?;
                stream.copy(pending.part()?, &mut copy)?;
                pending.release_after(&stream)?;
                items.extend(stream.download(&copy)?.await?);
            }
            Ok::<_, millstream::flow::Error>(items)
        });
    }
    if others.is_empty() {
        return skip(Needs::Several, "a broadcast needs someone to hear it");
    }
    let stream = source.stream().unwrap();
    let numbers: Vec<u32> = (0..20_000).collect();
    let expected = numbers.clone();
    let statistics = graph.statistics();
    let sending = async move {
        let mut buffer = output.buffer(numbers.len()).await?;
        stream.upload(numbers, buffer.part_mut()?)?;
        output.send(buffer, &stream)?;
        output.shutdown()
    };
    let receiving = futures_util::future::try_join_all(receiving);
    let run = graph.run(async { try_join!(sending, receiving) });
    let (_, received) = context.block_on(run).unwrap().unwrap();
    assert!(received.iter().all(|items| *items == expected));
    statistics.links().iter().for_each(|link| check_way(&context, link));
}

#[test]
fn bfs_without_peers() {
    let context = no_peers();
    let graphs = [
        generate::kron(10, 8, &GenerateOptions::default()).unwrap(),
        generate::road(60, 60, generate::KEEP_PERMILLE, &GenerateOptions::default()).unwrap(),
    ];
    for graph in &graphs {
        let source = millstream::graph::source::max_degree(graph).unwrap();
        for routing in [Routing::Auto, Routing::Ring, Routing::Direct] {
            let mut options = crate::bfs::asynchronous();
            options.worklist.routing = routing;
            let run =
                async { Bfs::with_options(&context, graph, options).await?.run(&[source]).await };
            let result = context.block_on(run).unwrap().unwrap();
            assert_eq!(result.levels, reference::bfs_levels(graph, &[source], None));
            result.statistics.links.iter().for_each(|link| check_way(&context, link));
        }
    }
}

/// Plain copies find a way; kernels are kept out of what they would not reach.
#[test]
fn memory_of_others_is_out_of_reach() {
    let context = no_peers();
    let [one, other, ..] = context.devices() else {
        return skip(Needs::Several, "one device has no others");
    };
    let stream = one.stream_of(StreamKind::Copy).unwrap();
    let source = stream.uploaded((0..10_000u32).collect::<Vec<_>>()).unwrap();
    let mut target = other.buffer::<u32>(10_000).unwrap();
    stream.copy(&source, &mut target).unwrap();
    let items = context.block_on(stream.download(&target).unwrap()).unwrap().unwrap();
    assert!(items.into_iter().eq(0..10_000));
    if is_gpu(one) == is_gpu(other) {
        let error = stream.fill(&mut target, 7).unwrap_err();
        assert!(matches!(error, Error::OutOfReach { .. }), "{error}");
    }
}

fn rate(table: &TransferTable, from: &str, to: &str, bytes: usize) -> f64 {
    table
        .bandwidth(TransferWay::Copy, from, to, bytes)
        .unwrap_or_else(|| panic!("{from} to {to} was not measured"))
}

#[test]
fn calibration_is_sane() {
    if scaled(false, true) {
        return skip(Needs::More, "it moves gigabytes to measure how fast that is");
    }
    let set = DeviceSet::builder().devices(list()).build().unwrap();
    let start = std::time::Instant::now();
    let table = set.block_on(set.calibrate()).unwrap().unwrap();
    println!("measured in {:?}", start.elapsed());
    let endpoints: Vec<Device> = set.devices().iter().chain([set.host()]).cloned().collect();
    for from in &endpoints {
        for to in &endpoints {
            let (from, to) = (from.name(), to.name());
            let [small, large] = [4 << 10, 16 << 20].map(|bytes| rate(&table, &from, &to, bytes));
            assert!(small > 0.0 && large.is_finite());
            // Within one memory of the host, small copies stay in the cache.
            if from.starts_with("cuda") || to.starts_with("cuda") {
                assert!(large >= small, "{from} to {to}: {large} after {small} bytes a second");
            }
        }
    }
    for transfer in table.transfers() {
        println!("{:.2} GB/s: {transfer:?}", transfer.bandwidth() / 1e9);
        assert!(transfer.time_us > 0.0 && transfer.latency_us > 0.0, "{transfer:?}");
    }
}

/// The locations of GPUs, and of nobody else.
#[test]
fn gpus_say_where_they_sit() {
    let set = DeviceSet::builder().devices(list()).build().unwrap();
    for (place, device) in set.devices().iter().enumerate() {
        let location = set.topology().location(place);
        assert_eq!(location.is_some(), is_gpu(device), "{device}");
        let Some(location) = location else { continue };
        println!("{device}: {location:?}");
        assert!(!location.model.is_empty());
        assert_eq!((location.bus.len(), location.bus.to_lowercase()), (12, location.bus.clone()));
    }
}

/// Links are woken where there are any, beside whatever runs.
#[test]
fn links_that_may_sleep_are_woken() {
    let context = Context::builder().devices(Devices::List(list())).build().unwrap();
    let (count, topology) = (context.devices().len(), context.topology());
    let is_link = |from, to| matches!(topology.link(from, to), LinkKind::Pcie | LinkKind::NvLink);
    let is_any = (0..count).any(|from| (0..count).any(|to| from != to && is_link(from, to)));
    assert_eq!(context.wake_links().unwrap(), is_any);
    std::thread::sleep(std::time::Duration::from_millis(20));
    // The second time with the same memory.
    assert_eq!(context.wake_links().unwrap(), is_any);
    context.device_set().quiesce().unwrap();
}

/// Virtual devices of one GPU that a shape connects by NVLink still share its
/// multiprocessors: kernels of a gang must all fit at once.
#[test]
fn a_shape_does_not_part_virtual_devices() {
    let context = connected(|_, _| LinkKind::NvLink);
    if list().to_string().contains("cuda") && !context.devices().iter().all(is_gpu) {
        return skip(Needs::Peers, "host devices are no part of a gang");
    }
    let graph = generate::kron(scaled(14, 8), 8, &GenerateOptions::default()).unwrap();
    let expected = reference::bfs_levels(&graph, &[0], None);
    let mut options = BfsOptions::default();
    options.algorithm = Algorithm::LevelSynchronous;
    let bfs = context.block_on(Bfs::with_options(&context, &graph, options)).unwrap().unwrap();
    let result = context.block_on(bfs.run(&[0])).unwrap().unwrap();
    assert!(result.levels == expected);
}

/// The article's machine: two quadruplets, between which everything goes through the host.
#[test]
fn two_quadruplets() {
    if list().len() != 8 {
        return skip(Needs::Eight, "the shape has as many");
    }
    let builder = Context::builder().devices(Devices::List(list()));
    let context = builder.topology(QUADRUPLETS.topology()).build().unwrap();
    let devices = context.devices();
    if devices.iter().any(|device| is_gpu(device) != is_gpu(&devices[0])) {
        return skip(Needs::Peers, "the shape is of devices of one kind");
    }
    let pairs = every_pair(&context, &QUADRUPLETS, ["copy", "host"]);
    context.block_on(pairs).unwrap().unwrap();
    context.block_on(all_types(&context, 19, scaled(16, 64))).unwrap().unwrap();

    let graph = generate::kron(scaled(10, 7), 8, &GenerateOptions::default()).unwrap();
    let source = millstream::graph::source::max_degree(&graph).unwrap();
    let bfs = context
        .block_on(Bfs::with_options(&context, &graph, crate::bfs::asynchronous()))
        .unwrap()
        .unwrap();
    let result = context.block_on(bfs.run(&[source])).unwrap().unwrap();
    assert_eq!(result.levels, reference::bfs_levels(&graph, &[source], None));
    // Not all reach each other: a ring, which leaves each quadruplet once.
    assert_eq!(result.statistics.routing, Some(Routing::Ring));
    let links = result.statistics.links.iter().filter(|link| link.packets > 0);
    links.clone().for_each(|link| check_way(&context, link));
    assert_eq!(links.clone().count(), 8);
    assert_eq!(links.filter(|link| link.packets_through_host > 0).count(), 2);
    context.device_set().quiesce().unwrap();
}
