//! Links between kernels that stay on their GPUs: blocks that fill slots of the receiver's
//! memory and read them where they are. What the twins do is tested in `millstream-flow`.

use std::time::Duration;

use millstream::device::{CudaSource, Kernel, Shared, TransferWay, Trusted, Value};
use millstream::flow::{Context, DeviceLink, DeviceLinkEnd, Error, Gang, LinkRoom};

use super::{Needs, by, is_gpu, scaled, skip};

const SOURCE: &str = include_str!("device_links.cu");
const MOST_ITEMS: usize = 37;
const PATIENCE: Duration = Duration::from_secs(20);

/// Packets of each sending block, and such blocks of a channel.
type Run = [u32; 2];
type Side = (DeviceLinkEnd<u32>, Shared<u32>, Shared<u32>, Value<Run>);

fn side(entry: &'static str, blocks: usize, threads: u32) -> Kernel<Side> {
    let source = CudaSource::new("device_links.cu", entry, SOURCE);
    // SAFETY: the kernel keeps to its arguments as the signature says.
    let source = unsafe { Trusted::new(source.blocks(blocks as u32).threads(threads)) };
    Gang::kernel(entry, source)
}

/// In the receiver's memory where both are peers, and in the host's.
#[test]
fn blocks_fill_slots_and_read_them_where_they_are() {
    for way in [None, Some(TransferWay::Host)] {
        fill_and_read(&by(way), way);
    }
}

fn fill_and_read(context: &Context, way: Option<TransferWay>) {
    let gpus: Vec<usize> =
        (0..context.devices().len()).filter(|place| is_gpu(&context.devices()[*place])).collect();
    let [first, .., last] = gpus[..] else {
        let needs = if context.devices().len() > 1 { Needs::Peers } else { Needs::Several };
        return skip(needs, "kernels that wait for each other run on GPUs only");
    };
    let (one, other) = (&context.devices()[first], &context.devices()[last]);
    let packets: usize = scaled(20_000, 60);
    // Slots of a channel, channels, sending blocks of each, threads.
    for (slots, channels, senders, threads) in
        [(1, 1, 1, 1), (1, 2, 2, 64), (2, 3, 1, 33), (4, 1, 4, 96)]
    {
        let room = LinkRoom::new(slots, MOST_ITEMS).channels(channels);
        let link = DeviceLink::<u32>::new(context, one, other, room, PATIENCE).unwrap();
        assert!(way.is_none_or(|way| link.way() == way));
        let report = context.host().shared::<u32>(4).unwrap();
        let gang = Gang::new(context).unwrap();
        let host = gang.words().clone();
        let sides = [side("fills", channels * senders, threads), side("reads", channels, threads)];
        for side in &sides {
            gang.prepare(side).unwrap();
        }
        let run = [packets as u32, senders as u32];
        let run = gang.run(|member| {
            let end = [first, last].iter().position(|place| *place == member.place);
            let Some(end) = end else { return Ok(()) };
            Ok(sides[end].launch(member.stream, 1, (&link, &host, &report, run))?)
        });
        let time = context.block_on(run).unwrap().unwrap();
        println!(
            "{}, {slots} slots, {channels} channels of {senders} blocks, {packets} packets: {time:?}",
            link.way()
        );
        let sent = context.block_on(link.statistics()).unwrap().unwrap();
        let all = (packets * channels * senders) as u64;
        assert_eq!((sent.packets, sent.packets_by(link.way())), (all, all));
        assert!(sent.largest_packet_bytes <= 4 * MOST_ITEMS as u64 && sent.bytes > 8 * all);
        let report = [0, 1, 2, 3].map(|word| report.load(word).unwrap());
        assert_eq!(report, [0; 4], "{slots} slots, {channels} channels of {senders} blocks");
    }
}

/// Kernels and twins do not understand each other's words.
#[test]
fn a_gpu_and_a_host_device_have_no_link() {
    let context = by(None);
    let endpoints: Vec<_> = context.devices().iter().chain([context.host()]).collect();
    let mut refused = 0;
    for (from, to) in endpoints.iter().flat_map(|from| endpoints.iter().map(move |to| (from, to))) {
        let link = DeviceLink::<u32>::new(&context, from, to, (2, 1), PATIENCE);
        let is_mixed = is_gpu(from) != is_gpu(to);
        assert_eq!(
            matches!(link, Err(Error::MixedLink { .. })),
            is_mixed,
            "{from} to {to}: {link:?}"
        );
        assert!(is_mixed || link.is_ok(), "{from} to {to}: {link:?}");
        refused += usize::from(is_mixed);
    }
    if refused == 0 {
        skip(Needs::Peers, "GPUs are no part of these devices");
    }
}
