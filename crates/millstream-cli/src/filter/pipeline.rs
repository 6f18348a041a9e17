//! The dataflow graph of predicate-based filtering \[G §3, Fig. 5 and 6\]: numbers
//! go from the host to the devices, and the kept ones back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use futures_util::try_join;
use millstream::device::{CudaSource, Trusted};
use millstream::flow::{Error, LinkStatistics, RoutingPolicy, first_available};
use millstream::prelude::*;

/// Rounds in which rates are measured.
const ROUNDS: usize = 3;
/// Seconds that a device's part of a round takes at most, unless a single packet takes longer.
const LONGEST: f64 = 1.0;
/// Packets are not made smaller than this, however slow a device is.
const LEAST_PACKET_BYTES: usize = 4 << 10;

/// A device that filters.
#[derive(Clone, Debug)]
pub(crate) struct Filterer {
    pub(crate) device: Device,
    /// How many times it processes each packet: more than once to be slower.
    pub(crate) repeats: u32,
    /// Packets of the link to it.
    pub(crate) buffers: Buffers,
}

/// What is kept, and how it travels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filter {
    /// Multiples of this are kept.
    pub(crate) divisor: u32,
    /// How many times each number is tested.
    pub(crate) cost: u32,
    /// Packets of the links back to the host.
    pub(crate) buffers: Buffers,
}

/// The part of the work that a device did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub(crate) packets: u64,
    pub(crate) items: u64,
    /// The time from the beginning until the device had processed its last packet.
    pub(crate) time: Duration,
}

impl Share {
    /// Items a second; 0 without any.
    fn rate(&self) -> f64 {
        match self.items {
            0 => 0.0,
            items => items as f64 / self.time.as_secs_f64(),
        }
    }
}

/// The numbers kept, in no order, and what each device did.
#[derive(Debug)]
pub(crate) struct Filtered {
    pub(crate) kept: Vec<u32>,
    /// The share of each device, in the order of the filterers.
    pub(crate) shares: Vec<Share>,
    /// The time until the host had everything.
    pub(crate) time: Duration,
    pub(crate) links: Vec<LinkStatistics>,
}

type Signature = (Read<u32>, Write<u32>, Shared<u32>, Shared<u32>, Value<u32>, Value<u32>);

const SOURCE: &str = include_str!("filter.cu");

static FILTER: Kernel<Signature> = Kernel::with_source(
    "filter",
    // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
    unsafe { Trusted::new(CudaSource::new("filter.cu", "filter", SOURCE)) },
    |_, (input, kept, _, count, divisor, cost)| {
        let keeps = |item: u32| std::hint::black_box(item).is_multiple_of(divisor);
        let is_kept = |item: u32| {
            let again = (1..cost).filter(|_| keeps(item)).count() as u32;
            item.is_multiple_of(divisor) && again + 1 == cost
        };
        let matching = input.iter().filter(|item| is_kept(**item));
        let number = kept.iter_mut().zip(matching).map(|(to, item)| *to = *item).count();
        count[0].store(number as u32, Ordering::Release);
        Ok(())
    },
);

impl Filter {
    /// Filters `numbers`, which lie in host memory, on devices among which `policy` divides them.
    ///
    /// # Errors
    /// Packets too small; the graph's first cause.
    pub(crate) async fn run(
        self,
        context: &Context,
        filterers: &[Filterer],
        policy: RoutingPolicy,
        numbers: &DeviceBuffer<u32>,
    ) -> Result<Filtered, Error> {
        let graph = Graph::new(context);
        let scatter = graph.router(policy)?;
        let gather = graph.router(first_available())?;
        let mut feed = scatter.sender(context.host())?;
        let results = gather.receiver(context.host(), self.buffers)?;
        let mut ends = Vec::new();
        for Filterer { device, repeats, buffers } in filterers {
            let input = scatter.receiver(device, *buffers)?;
            ends.push((input, gather.sender(device)?, *repeats));
        }
        let statistics = graph.statistics();
        let stream = context.host().stream()?;
        let feeding = async move {
            feed.send_from(numbers, &stream, 0)?.await?;
            feed.shutdown()
        };
        let start = Instant::now();
        let workers = ends
            .into_iter()
            .map(|(input, output, repeats)| self.worker(input, output, repeats, start));
        let all = async { try_join!(feeding, results.collect(), try_join_all(workers)) };
        let (_, kept, shares) = graph.run(all).await?;
        Ok(Filtered { kept, shares, time: start.elapsed(), links: statistics.links() })
    }

    /// Items a second that each device filters while the others are idle, measured over
    /// `items` items, or as many as it filters in a second, after two packets to warm up: the median
    /// of a few rounds, in each of which every device takes its turn.
    ///
    /// # Errors
    /// As [`Filter::run`].
    pub(crate) async fn rates_alone(
        self,
        context: &Context,
        filterers: &[Filterer],
        warm_up: u32,
        items: u32,
    ) -> Result<Vec<f64>, Error> {
        let rate = async |filterer: &[Filterer], numbers: &DeviceBuffer<u32>| {
            let filtered = self.run(context, filterer, first_available(), numbers).await?;
            Ok::<_, Error>(filtered.shares.iter().map(Share::rate).sum())
        };
        let (few, all) = (numbers(context.host(), warm_up)?, numbers(context.host(), items)?);
        let mut samples = Vec::new();
        for filterer in filterers.chunks(1) {
            // The first run compiles kernels.
            rate(filterer, &few).await?;
            let second: f64 = rate(filterer, &few).await?;
            let most = ((second * LONGEST) as u32).max(warm_up);
            samples.push((most < items).then(|| numbers(context.host(), most)).transpose()?);
        }
        let mut rounds = vec![Vec::new(); filterers.len()];
        for _ in 0..ROUNDS {
            let places = filterers.chunks(1).zip(&samples).zip(&mut rounds);
            for ((filterer, sample), rates) in places {
                rates.push(rate(filterer, sample.as_ref().unwrap_or(&all)).await?);
            }
        }
        let median = |mut rates: Vec<f64>| {
            rates.sort_by(f64::total_cmp);
            rates[ROUNDS / 2]
        };
        Ok(rounds.into_iter().map(median).collect())
    }

    async fn worker(
        self,
        mut input: Receiver<u32>,
        mut output: Sender<u32>,
        repeats: u32,
        start: Instant,
    ) -> Result<Share, Error> {
        let stream = input.device().stream()?;
        let scratch = input.device().shared(2)?;
        let (mut packets, mut items) = (0, 0);
        let last_done = Arc::new(AtomicU64::new(0));
        while let Some(pending) = input.recv().await? {
            packets += 1;
            items += pending.len() as u64;
            stream.wait(&pending)?;
            let mut kept = output.buffer(pending.len()).await?;
            let count = output.counter()?;
            for _ in 0..repeats {
                let Filter { divisor, cost, .. } = self;
                let arguments = (&pending, &mut kept, &scratch, &count, divisor, cost);
                FILTER.launch(&stream, pending.len(), arguments)?;
            }
            // Taken here, not when the input ends: that is only when all devices' packets are assigned.
            let done = Arc::clone(&last_done);
            stream.record()?.on_complete(move |_| {
                // Relaxed: read after a later event of this stream.
                done.fetch_max(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
            });
            pending.release_after(&stream)?;
            output.send_counted(kept, count, &stream)?;
        }
        stream.completed()?.await?;
        output.shutdown()?;
        let time = Duration::from_nanos(last_done.load(Ordering::Relaxed));
        Ok(Share { packets, items, time })
    }
}

/// 0, 1, 2 and so on in the host's memory, from where GPUs copy them by themselves.
///
/// # Errors
/// No such memory.
pub(crate) fn numbers(host: &Device, items: u32) -> Result<DeviceBuffer<u32>, Error> {
    let mut numbers = host.buffer(items as usize)?.with_label("numbers");
    numbers.host_view_mut()?.iter_mut().zip(0..items).for_each(|(to, number)| *to = number);
    Ok(numbers)
}

/// How many of `items` each device would process if all finished at once, and how long that would
/// take, given each device's rate in items a second.
pub(crate) fn ideal_split(items: u64, rates: &[f64]) -> (Vec<f64>, Duration) {
    let together: f64 = rates.iter().sum();
    let seconds = if items == 0 { 0.0 } else { items as f64 / together };
    let shares = rates.iter().map(|rate| rate * seconds).collect();
    (shares, Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

/// Bytes of packets for devices with these rates: `most` for the fastest, halved for each factor of two
/// by which a device is slower, so that none is busy with its last packets long after the others.
pub(crate) fn packet_bytes(most: usize, rates: &[f64]) -> Vec<usize> {
    let fastest = rates.iter().copied().fold(0.0, f64::max);
    let bytes = |rate: &f64| {
        let halved = (fastest / rate).log2().clamp(0.0, 63.0) as u32;
        (most >> halved).max(LEAST_PACKET_BYTES).min(most)
    };
    rates.iter().map(bytes).collect()
}
