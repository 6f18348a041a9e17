//! Which way packets go from one device to another \[G §2.1\].

use millstream_device::{Device, Event, Part, PartMut, Stream, TransferTable, TransferWay};

use crate::{Item, Result};

/// The most bytes of a small message, which does not wait behind larger ones: it has lanes of its
/// own, and while engines are busy (they finish what they have been given), kernels of GPUs move it
/// (`docs/measurements/links.md`). Small messages from the host pass large ones even without
/// kernels.
pub(crate) const SMALL_BYTES: usize = Device::SMALL_COPY_BYTES;

/// A copy engine's time is multiplied by this before it is compared with other ways, since an
/// engine leaves the multiprocessors to kernels.
const FAVOUR_FOR_ENGINES: f64 = 0.9;

/// Prepares a device for the ways that need kernels: loading them later might wait for running kernels.
///
/// # Errors
/// The kernel is not available, and a way that needs it was asked for. If none was, links do without.
pub(crate) fn prepare(asked_for: Option<TransferWay>, device: &Device) -> Result<()> {
    match (device.prepare_copies_by_kernel(), asked_for) {
        (Err(error), Some(TransferWay::Push | TransferWay::Host)) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Copies on a lane of the device at which the way begins or ends. Returns the event of the copy.
pub(crate) fn copy<T: Item>(
    way: TransferWay,
    items: Part<'_, T>,
    into: PartMut<'_, T>,
    lane: &Stream,
) -> Result<Event> {
    Ok(match way {
        TransferWay::Copy => {
            lane.copy(items, into)?;
            lane.record()?
        }
        TransferWay::Push | TransferWay::Host => lane.copy_by_kernel_and_record(items, into)?,
    })
}

/// The ways of one link.
#[derive(Debug)]
pub(crate) struct Ways {
    /// Whether the devices cannot reach each other's memory.
    goes_through_host: bool,
    /// Whether whoever copies does so faster together.
    copies_together: bool,
    /// The way for packets of small messages while the sender's engines are busy, if it may differ
    /// from `by_size`.
    without_engines: Option<TransferWay>,
    /// At place `p`: the ways for packets of less than 2^(p + 1) bytes, first for one that is a
    /// whole message, then for others.
    by_size: Vec<[TransferWay; 2]>,
}

impl Ways {
    pub(crate) fn new(
        asked_for: Option<TransferWay>,
        table: Option<&TransferTable>,
        from: &Device,
        to: &Device,
    ) -> Ways {
        Ways::of_pair(&Pair::new(from, to), asked_for, table)
    }

    fn of_pair(
        pair: &Pair<'_>,
        asked_for: Option<TransferWay>,
        table: Option<&TransferTable>,
    ) -> Ways {
        let by_size = (0..usize::BITS).map(|power| {
            [true, false].map(|is_whole| match asked_for {
                Some(way) => pair.nearest(way),
                None => pair.fastest(table, 1 << power, is_whole),
            })
        });
        let without_engines = if asked_for.is_none() { pair.without_engines() } else { None };
        let goes_through_host = pair.from.copies_through_host(pair.to);
        let copying = if pair.from.is_host_endpoint() { pair.to } else { pair.from };
        let copies_together = copying.copies_together();
        Ways { goes_through_host, copies_together, without_engines, by_size: by_size.collect() }
    }

    /// Whether packets on this way go through memory of the host.
    pub(crate) fn through_host(&self, way: TransferWay) -> bool {
        match way {
            TransferWay::Copy => self.goes_through_host,
            TransferWay::Push => false,
            TransferWay::Host => true,
        }
    }

    /// Whether packets of up to this many bytes may go through memory of the host.
    pub(crate) fn stages(&self, packet_bytes: usize) -> bool {
        let powers = packet_bytes.max(1).ilog2() as usize + 1;
        let ways = self.by_size.iter().take(powers).flatten().chain(&self.without_engines);
        ways.copied().any(|way| self.through_host(way))
    }

    /// Whether packets of so many bytes, parts of a message, had better be copied together: where one engine
    /// copies them, without a detour.
    pub(crate) fn join(&self, packet_bytes: usize) -> bool {
        let [_, way] = self.by_size[packet_bytes.max(1).ilog2() as usize];
        self.copies_together && way == TransferWay::Copy && !self.goes_through_host
    }

    /// The way for a packet of `bytes` of a message of `message_bytes`. `is_copying` tells whether
    /// the sender's engines still have other copies to finish.
    pub(crate) fn of(
        &self,
        bytes: usize,
        message_bytes: usize,
        is_copying: impl FnOnce() -> bool,
    ) -> TransferWay {
        let way = self.by_size[bytes.max(1).ilog2() as usize][usize::from(bytes < message_bytes)];
        match self.without_engines {
            Some(other)
                if way == TransferWay::Copy && message_bytes <= SMALL_BYTES && is_copying() =>
            {
                other
            }
            _ => way,
        }
    }
}

struct Pair<'a> {
    from: &'a Device,
    to: &'a Device,
    is_from_gpu: bool,
    pushes: bool,
    goes_through_host: bool,
}

impl Pair<'_> {
    fn new<'a>(from: &'a Device, to: &'a Device) -> Pair<'a> {
        // The host endpoint has no kernels.
        let launches = |device: &Device| {
            !device.is_host_endpoint() && device.prepare_copies_by_kernel().is_ok()
        };
        let pushes = launches(from);
        let goes_through_host = pushes && launches(to);
        let (is_from_gpu, pushes) = (from.is_gpu(), pushes && from.reaches(to));
        Pair { from, to, is_from_gpu, pushes, goes_through_host }
    }

    fn has(&self, way: TransferWay) -> bool {
        match way {
            TransferWay::Copy => true,
            TransferWay::Push => self.pushes,
            TransferWay::Host => self.goes_through_host,
        }
    }

    /// The way that was asked for, or the one closest to it.
    fn nearest(&self, way: TransferWay) -> TransferWay {
        let choice = match (way, self.to.is_host_endpoint()) {
            (TransferWay::Copy, _) => [TransferWay::Copy; 2],
            // The packet goes into the host's memory, and no further.
            (TransferWay::Host, true) => [TransferWay::Push, TransferWay::Copy],
            (TransferWay::Host, false) => [TransferWay::Host, TransferWay::Copy],
            (TransferWay::Push, _) => [TransferWay::Push, TransferWay::Host],
        };
        choice.into_iter().find(|way| self.has(*way)).unwrap_or_default()
    }

    /// The way for packets that would wait for a copy engine of a GPU.
    fn without_engines(&self) -> Option<TransferWay> {
        let ways = [TransferWay::Push, TransferWay::Host];
        ways.into_iter().find(|way| self.is_from_gpu && self.has(*way))
    }

    fn fastest(&self, table: Option<&TransferTable>, bytes: usize, is_whole: bool) -> TransferWay {
        let (from, to) = (self.from.name(), self.to.name());
        let time = |way| match is_whole {
            true => table?.latency_us(way, &from, &to, bytes),
            false => table?.time_us(way, &from, &to, bytes),
        };
        let Some(copy) = time(TransferWay::Copy) else {
            let is_far = self.from.copies_through_host(self.to);
            return if is_far { self.nearest(TransferWay::Host) } else { TransferWay::Copy };
        };
        let others = [TransferWay::Push, TransferWay::Host].map(|way| (way, time(way)));
        let others = others.into_iter().filter_map(|(way, time)| Some((way, time?)));
        let faster =
            others.filter(|(way, time)| *time < copy * FAVOUR_FOR_ENGINES && self.has(*way));
        faster.min_by(|one, other| one.1.total_cmp(&other.1)).map_or(TransferWay::Copy, |way| way.0)
    }
}

#[cfg(test)]
mod tests {
    use millstream_device::{DeviceList, DeviceSet, Topology, Transfer};

    use super::*;

    use TransferWay::{Copy, Host, Push};

    fn set(topology: Option<&str>) -> DeviceSet {
        let builder = DeviceSet::builder().devices(DeviceList::host(8));
        match topology.map(|text| text.parse::<Topology>().unwrap()) {
            Some(topology) => builder.topology(topology).build().unwrap(),
            None => builder.build().unwrap(),
        }
    }

    #[test]
    fn quadruplets_go_through_the_host_to_each_other() {
        let shape = include_str!("../../millstream-device/tests/shapes/two-quadruplets.json");
        let set = set(Some(shape));
        let way = |asked_for, from: usize, to: usize| {
            let devices = set.devices();
            let ways = Ways::new(asked_for, None, &devices[from], &devices[to]);
            [4, 4 << 10, 16 << 20].map(|bytes| ways.of(bytes, bytes, || true))
        };
        for (from, to) in (0..8).flat_map(|from| (0..8).map(move |to| (from, to))) {
            if from == to {
                continue;
            }
            let are_peers = from / 4 == to / 4;
            let or_host = |way| if are_peers { way } else { Host };
            assert_eq!(way(None, from, to), [or_host(Copy); 3], "{from} to {to}");
            assert_eq!(way(Some(Push), from, to), [or_host(Push); 3], "{from} to {to}");
            assert_eq!(way(Some(Host), from, to), [Host; 3], "{from} to {to}");
            assert_eq!(way(Some(Copy), from, to), [Copy; 3], "{from} to {to}");
        }
    }

    #[test]
    fn the_host_itself_has_no_kernels() {
        let set = set(None);
        let (host, device) = (set.host(), &set.devices()[0]);
        for (asked_for, out_of_host, into_host) in
            [(None, Copy, Copy), (Some(Push), Copy, Push), (Some(Host), Copy, Push)]
        {
            let way = |from, to| Ways::new(asked_for, None, from, to).of(9, 9, || true);
            assert_eq!([way(host, device), way(device, host)], [out_of_host, into_host]);
        }
    }

    #[test]
    fn messages_go_by_latency_and_packets_by_time() {
        let set = set(None);
        let transfer = |way, bytes, time_us, latency_us| {
            let (from, to) = ("host".to_string(), "host".to_string());
            Transfer { from, to, way, bytes, time_us, latency_us }
        };
        let table = TransferTable::new([
            transfer(Copy, 1 << 10, 2.0, 10.0),
            transfer(Push, 1 << 10, 4.0, 8.0),
            transfer(Copy, 1 << 20, 4.0, 12.0),
            // Faster, but by less than the engine's advantage.
            transfer(Push, 1 << 20, 3.7, 11.0),
        ]);
        let ways = Ways::new(None, Some(&table), &set.devices()[0], &set.devices()[1]);
        for (bytes, whole, part) in
            [(0, Push, Copy), (1 << 10, Push, Copy), (1 << 20, Copy, Copy), (1 << 30, Copy, Copy)]
        {
            assert_eq!(
                [ways.of(bytes, bytes, || true), ways.of(bytes, bytes + 1, || true)],
                [whole, part],
                "{bytes}"
            );
        }
    }

    #[test]
    fn small_messages_of_gpus_take_no_engine_that_is_busy() {
        let set = set(None);
        let pair = |is_from_gpu, pushes, goes_through_host| {
            let (from, to) = (&set.devices()[0], &set.devices()[1]);
            Pair { from, to, is_from_gpu, pushes, goes_through_host }
        };
        let transfer = |way, time_us| {
            let (from, to) = ("host".to_string(), "host".to_string());
            Transfer { from, to, way, bytes: 1 << 10, time_us, latency_us: time_us }
        };
        let table =
            TransferTable::new([transfer(Copy, 1.0), transfer(Push, 9.0), transfer(Host, 9.0)]);
        for (pair, small) in [
            (pair(true, true, true), Push),
            // To the host.
            (pair(true, true, false), Push),
            // Devices that cannot reach each other.
            (pair(true, false, true), Host),
            // Devices without kernels.
            (pair(true, false, false), Copy),
            (pair(false, true, true), Copy),
        ] {
            let ways = Ways::of_pair(&pair, None, Some(&table));
            for is_busy in [true, false] {
                let small = if is_busy { small } else { Copy };
                let of = |bytes| ways.of(bytes, bytes, || is_busy);
                assert_eq!([4, SMALL_BYTES, SMALL_BYTES + 1].map(of), [small, small, Copy]);
                assert_eq!(ways.of(4, SMALL_BYTES + 1, || is_busy), Copy);
            }
            assert_eq!(ways.stages(4), small == Host);
            let asked_for = Ways::of_pair(&pair, Some(Copy), Some(&table));
            assert_eq!(asked_for.of(4, 4, || true), Copy);
        }
    }

    /// The devices share one memory here, but not in the file.
    #[test]
    fn the_table_of_a_file_chooses_by_pair_and_size() {
        let transfer = |from: usize, to: usize, way: TransferWay, bytes: usize, time_us: f64| {
            format!(
                r#"{{ "from": "cuda:{from}", "to": "cuda:{to}", "way": "{way}",
                     "bytes": {bytes}, "time_us": {time_us}, "latency_us": {time_us} }}"#
            )
        };
        let (small, large) = (1 << 10, 1 << 20);
        let transfers = [
            // Engines start late, so small copies favour kernels.
            transfer(0, 1, Copy, small, 9.0),
            transfer(0, 1, Push, small, 2.0),
            transfer(0, 1, Copy, large, 20.0),
            transfer(0, 1, Push, large, 40.0),
            // In the other direction, kernels are always slower.
            transfer(1, 0, Copy, small, 3.0),
            transfer(1, 0, Push, small, 5.0),
            // Devices that cannot reach each other.
            transfer(0, 2, Copy, small, 9.0),
            transfer(0, 2, Host, small, 3.0),
            transfer(0, 2, Copy, large, 50.0),
            transfer(0, 2, Host, large, 90.0),
        ];
        let shape = format!(
            r#"{{ "devices": ["cuda:0", "cuda:1", "cuda:2"], "transfers": [{}],
                 "links": [["memory", "pcie", "host"],
                           ["pcie", "memory", "host"],
                           ["host", "host", "memory"]] }}"#,
            transfers.join(",")
        );
        let set =
            DeviceSet::builder().devices(DeviceList::host(3)).topology(shape.parse().unwrap());
        let set = set.build().unwrap();
        let ways = |from: usize, to: usize| {
            let (devices, table) = (set.devices(), set.topology().transfer_table());
            let ways = Ways::new(None, table, &devices[from], &devices[to]);
            [small, large].map(|bytes| ways.of(bytes, bytes, || true))
        };
        assert_eq!(ways(0, 1), [Push, Copy]);
        assert_eq!(ways(1, 0), [Copy, Copy]);
        assert_eq!(ways(0, 2), [Host, Copy]);
        // Pairs that were not measured.
        assert_eq!([ways(1, 2), ways(2, 0)], [[Host, Host]; 2]);
    }

    #[test]
    fn pairs_out_of_reach_go_the_faster_way_through_the_host() {
        let shape = include_str!("../../millstream-device/tests/shapes/two-quadruplets.json");
        let set = set(Some(shape));
        let transfer = |way, bytes, time_us| {
            let (from, to) = ("host".to_string(), "host".to_string());
            Transfer { from, to, way, bytes, time_us, latency_us: time_us }
        };
        let table = TransferTable::new([
            transfer(Copy, 1 << 10, 9.0),
            transfer(Host, 1 << 10, 3.0),
            transfer(Push, 1 << 10, 1.0),
            transfer(Copy, 1 << 20, 20.0),
            transfer(Host, 1 << 20, 40.0),
            transfer(Push, 1 << 20, 1.0),
        ]);
        let ways = |to: usize| {
            let devices = set.devices();
            let ways = Ways::new(None, Some(&table), &devices[0], &devices[to]);
            [1 << 10, 1 << 20].map(|bytes| ways.of(bytes, bytes, || true))
        };
        assert_eq!([ways(1), ways(4)], [[Push, Push], [Host, Copy]]);
    }
}
