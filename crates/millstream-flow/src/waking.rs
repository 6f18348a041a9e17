//! Links between GPUs fall asleep, and a store over a sleeping link waits until it is awake. After
//! 200 ms without traffic over NVLink, the first stores of two H200 took 60 to 170 us longer in
//! either direction, and a search of 0.15 ms took twice as long (not so after 20 ms; see
//! `docs/measurements/links.md`). So bytes are copied over all links while memory is prepared for
//! kernels that wait for each other; and the threads that will launch these kernels are woken.

use std::time::{Duration, Instant};

use millstream_device::{Device, DeviceBuffer, LinkKind, Stream, StreamKind, Topology};
use parking_lot::Mutex;

use crate::Result;

/// Bytes of each copy, from measurements: 4 KiB leave most of a pair's links asleep.
const BYTES: usize = 64 << 10;
/// After this long without a gang, links may be asleep.
const REST: Duration = Duration::from_millis(10);

/// Copies from each device to every other whose memory it reaches over a link.
#[derive(Debug, Default)]
pub(crate) struct Waking {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Made by the first call that wakes links.
    ways: Option<Vec<Way>>,
    /// When the links were last in use, as far as is known.
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

    /// Submits a copy over each link that may be asleep, and waits for none of them. Returns
    /// whether there were any.
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
