//! The memory that sweeps change where devices reach each other's memory, and their result; for a gang
//! (`gang_sweeps.rs`) and for host devices (`host_sweeps.rs`).

use futures_util::future::try_join_all;
use millstream_device::{Device, DeviceBuffer, SharedBuffer};
use millstream_flow::LinkStatistics;
use millstream_traversal::internals::OwnedValues;

use crate::pull::{Exchange, PullGraph};
use crate::real::Real;
use crate::share::teleport;
use crate::sweep::rank;
use crate::{PageRankOptions, Result};

/// The memory that changes in a run: shares after even numbers of sweeps, and after odd ones, on each GPU
/// of a gang, or on the first host device for all. And the teleport ranks of each device's own vertices,
/// if they are not the same for all.
pub(crate) struct SweepMemory<R: Real> {
    even: Vec<SharedBuffer<R::Bits>>,
    odd: Vec<SharedBuffer<R::Bits>>,
    pub(crate) teleport: Vec<DeviceBuffer<R>>,
}

impl<R: Real> SweepMemory<R> {
    /// All vertices start with the same rank.
    pub(crate) async fn new(
        pull: &PullGraph<R>,
        options: &PageRankOptions,
    ) -> Result<SweepMemory<R>> {
        let chances = teleport(&pull.partition, options);
        let mut memory = SweepMemory { even: vec![], odd: vec![], teleport: vec![] };
        let mut completions = Vec::new();
        for (place, device) in pull.context.devices().iter().enumerate() {
            let (part, stream) = (&pull.parts[place], device.stream()?);
            let own = chances.get(pull.own(place)).unwrap_or_default();
            let own: Vec<R> = own.iter().map(|&chance| R::from_f64(chance)).collect();
            memory.teleport.push(stream.uploaded(own)?);
            if place == 0 || Exchange::of(&pull.context) == Exchange::Gang {
                let shares = &*part.even;
                let even = device.shared_to_overwrite(shares.len())?;
                stream.copy_to_shared(shares, &even, 0..shares.len())?;
                memory.even.push(even);
                memory.odd.push(device.shared(shares.len())?);
            }
            completions.push(stream.completed()?);
        }
        try_join_all(completions).await?;
        Ok(memory)
    }

    /// The shares after `sweeps` sweeps.
    pub(crate) fn after(&self, sweeps: u32) -> &[SharedBuffer<R::Bits>] {
        if sweeps.is_multiple_of(2) { &self.even } else { &self.odd }
    }
}

/// The ranks of all vertices, by original id, from their owners' shares.
pub(crate) async fn ranks<R: Real>(
    pull: &PullGraph<R>,
    shares: &[SharedBuffer<R::Bits>],
) -> Result<Vec<f64>> {
    let download = |(place, device): (usize, &Device)| {
        let own = pull.partition.range(place);
        let first = pull.parts[place].places.of_own(own.clone()) as usize;
        // Each GPU has all shares; of host devices, the first one has them.
        let shares = &shares[place.min(shares.len() - 1)];
        device.stream()?.download_shared(shares, first..first + own.len())
    };
    let arriving = pull.context.devices().iter().enumerate().map(download);
    let arriving = arriving.collect::<Result<Vec<_>, _>>()?;
    let shares = OwnedValues::arrived(&pull.partition, arriving).await?;
    let rank = |new: u32, share| {
        let row_weight = R::from_f64(pull.row_weights[new as usize]);
        rank(R::from_bits(share), row_weight).to_f64()
    };
    Ok(shares.restored(rank)?)
}

/// Link statistics, in which a packet is what one device tells another, or reads from it, after a sweep.
pub(crate) fn links<R: Real>(pull: &PullGraph<R>, iterations: u32) -> Vec<LinkStatistics> {
    let devices = pull.context.devices();
    let mut links = Vec::new();
    for (from, part) in pull.parts.iter().enumerate() {
        for (to, &rows) in part.told.iter().enumerate().filter(|(to, _)| *to != from) {
            let link = LinkStatistics::new(devices[from].name(), devices[to].name());
            let packets = if rows == 0 { 0 } else { iterations.into() };
            links.push(link.pushed(packets, rows * size_of::<R>() as u64));
        }
    }
    links
}
