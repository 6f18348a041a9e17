//! Links between GPUs fall asleep, and whoever stores over one then waits until it is awake:
//! after 200 ms without traffic over NVLink, two H200 took 60 to 170 us longer for each of the
//! first stores in either direction, a search of 0.15 ms twice as long (after 20 ms, no longer;
//! `docs/measurements/links.md`). So bytes are copied over all links while memory is prepared for
//! kernels that wait for each other; and the threads are woken to which their launches are left.

use std::time::{Duration, Instant};

use millstream_device::{Device, DeviceBuffer, LinkKind, Stream, StreamKind, Topology};
use parking_lot::Mutex;

use crate::Result;

/// Bytes of a copy, by measurement: 4 KiB leave most of a pair's links asleep.
const BYTES: usize = 64 << 10;
/// After so long without a gang links may sleep.
const REST: Duration = Duration::from_millis(10);

/// Copies from each device to each other one that reaches its memory over a link.
#[derive(Debug, Default)]
pub(crate) struct Waking {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// From the first time on.
    ways: Option<Vec<Way>>,
    /// When the links were last in use, as far as it is known.
    used: Option<Instant>,
}

#[derive(Debug)]
struct Way {
    stream: Stream,
    from: DeviceBuffer<u8>,
    to: DeviceBuffer<u8>,
}

impl Waking {
    /// The links have just been used.
    pub(crate) fn used(&self) {
        self.state.lock().used = Some(Instant::now());
    }

    /// Has bytes copied over all links that may sleep, and waits for none of them. Whether
    /// there were any.
    pub(crate) fn wake(&self, devices: &[Device], topology: &Topology) -> Result<bool> {
        devices.iter().for_each(Device::expect_launches);
        let mut state = self.state.lock();
        if state.used.is_some_and(|used| used.elapsed() < REST) {
            return Ok(false);
        }
        let ways = match state.ways.take() {
            Some(ways) => ways,
            None => ways(devices, topology)?,
        };
        let ways = state.ways.insert(ways);
        for Way { stream, from, to } in ways.iter_mut() {
            stream.copy(&*from, &mut *to)?;
        }
        let is_any = !ways.is_empty();
        state.used = Some(Instant::now());
        Ok(is_any)
    }
}

fn ways(devices: &[Device], topology: &Topology) -> Result<Vec<Way>> {
    let mut ways = Vec::new();
    for (from, device) in devices.iter().enumerate() {
        let is_linked = |to: usize| {
            to != from && matches!(topology.link(from, to), LinkKind::Pcie | LinkKind::NvLink)
        };
        for (_, other) in devices.iter().enumerate().filter(|(to, _)| is_linked(*to)) {
            let stream = device.stream_of(StreamKind::SmallCopy)?;
            ways.push(Way { stream, from: device.buffer(BYTES)?, to: other.buffer(BYTES)? });
        }
    }
    Ok(ways)
}
