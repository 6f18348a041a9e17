//! A sweep over rows on a host device: what the twins have in common.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::real::Real;
use crate::slices::{SLICE, rows_of};
use crate::sweep::{Settings, rank, share};

/// Rows that are added up at a time, in registers.
const LANES: usize = 8;
/// Arcs and rows of a block, roughly.
const BLOCK: u64 = 1 << 14;

/// The rows of a device (see [slices](crate::slices)), and the parameters of a sweep that are the
/// same for all rows.
pub(crate) struct HostRows<'a, R> {
    offsets: &'a [u64],
    sources: &'a [u32],
    weights: &'a [R],
    row_weights: &'a [R],
    teleport: &'a [R],
    settings: Settings,
}

/// Sums over some rows: the L1 norm of their ranks' change, and the rank of dangling vertices among
/// them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) change: f64,
    pub(crate) dangling: f64,
}

impl Sums {
    /// The total of some sums.
    pub(crate) fn total(all: impl Iterator<Item = Sums>) -> Sums {
        all.fold(Sums::default(), |all, its| Sums {
            change: all.change + its.change,
            dangling: all.dangling + its.dangling,
        })
    }

    /// Writes the sums for the host, which reads them when the kernel is over.
    pub(crate) fn report(self, report: &[AtomicU64]) {
        for (word, sum) in report.iter().zip([self.change, self.dangling]) {
            // Release: pairs with the host's acquire.
            word.store(sum.to_bits(), Ordering::Release);
        }
    }
}

impl<'a, R: Real> HostRows<'a, R> {
    /// Takes kernel arguments: offsets, sources and weights of arcs; for each owned vertex, the weight of
    /// all arcs that leave it, and its teleport rank.
    pub(crate) fn new(
        (offsets, sources, weights): (&'a [u64], &'a [u32], &'a [R]),
        (row_weights, teleport): (&'a [R], &'a [R]),
        settings: Settings,
    ) -> HostRows<'a, R> {
        HostRows { offsets, sources, weights, row_weights, teleport, settings }
    }

    /// Blocks of consecutive items with about equally many arcs, where each row counts as one arc more.
    pub(crate) fn blocks(&self) -> Vec<Range<usize>> {
        let (mut blocks, mut first) = (Vec::new(), 0);
        for item in 1..self.offsets.len() {
            let rows = self.rows_of(&(first..item)).len() as u64;
            let work = self.offsets[item] - self.offsets[first] + rows;
            if work >= BLOCK || item + 1 == self.offsets.len() {
                blocks.push(first..item);
                first = item;
            }
        }
        blocks
    }

    /// Rows of some items.
    pub(crate) fn rows_of(&self, items: &Range<usize>) -> Range<usize> {
        let of = |item| rows_of(item, self.settings.long_rows as usize, self.row_weights.len());
        match items.is_empty() {
            true => 0..0,
            false => of(items.start).start..of(items.end - 1).end,
        }
    }

    /// Sweeps the rows of some items. `known(place)` is the previous share at a place, `None` past the last
    /// place. Passes the new shares of each item's rows, in order, to `give(item, first row, shares)`.
    pub(crate) fn sweep(
        &self,
        items: Range<usize>,
        known: impl Fn(usize) -> Option<R>,
        mut give: impl FnMut(usize, usize, &[R]),
    ) -> Sums {
        let Settings { damping, base, first_vertex, .. } = self.settings;
        let (damping, base) = (R::from_f64(damping), R::from_f64(base));
        let mut all = Sums::default();
        for item in items {
            let rows = self.rows_of(&(item..item + 1));
            let (sums, mut shares) = (self.sums(item, &known), [R::ZERO; SLICE]);
            for ((row, sum), to) in rows.clone().zip(sums).zip(&mut shares) {
                let row_weight = self.row_weights[row];
                let from_nowhere = self.teleport.get(row).copied().unwrap_or(R::ZERO);
                let next = damping * R::from_f64(sum) + base + from_nowhere;
                let before = known(first_vertex as usize + row).unwrap_or(R::ZERO);
                let before = rank(before, row_weight).to_f64();
                all.change += (next.to_f64() - before).abs();
                if row_weight == R::ZERO {
                    all.dangling += next.to_f64();
                }
                *to = share(next, row_weight);
            }
            give(item, rows.start, &shares[..rows.len()]);
        }
        all
    }

    /// The sums of what comes along arcs to each row of an item; a long item has one row only.
    /// In f64, since rows of many arcs would lose small terms.
    fn sums(&self, item: usize, known: &impl Fn(usize) -> Option<R>) -> [f64; SLICE] {
        let arcs = self.offsets[item] as usize..self.offsets[item + 1] as usize;
        let sources = &self.sources[arcs.clone()];
        let is_long = item < self.settings.long_rows as usize;
        let known = |source: u32| known(source as usize);
        match self.weights.get(arcs).filter(|weights| !weights.is_empty()) {
            None => sums(sources, is_long, |_, source| known(source).map(R::to_f64)),
            Some(weights) => sums(sources, is_long, |arc, source| {
                known(source).map(|share| (share * weights[arc]).to_f64())
            }),
        }
    }
}

/// The sums over the arcs of an item, which have these sources. `comes(arc, source)` is what comes along an
/// arc; `None` for padding.
fn sums(sources: &[u32], is_long: bool, comes: impl Fn(usize, u32) -> Option<f64>) -> [f64; SLICE] {
    let (chunks, rest) = sources.as_chunks::<LANES>();
    let lanes = |first: usize, step: usize| {
        let mut sums = [0.0; LANES];
        for (chunk, sources) in chunks.iter().enumerate().skip(first).step_by(step) {
            for (lane, (sum, &source)) in sums.iter_mut().zip(sources).enumerate() {
                if let Some(comes) = comes(chunk * LANES + lane, source) {
                    *sum += comes;
                }
            }
        }
        sums
    };
    let mut sums = [0.0; SLICE];
    if is_long {
        // Summed by lanes, so that additions do not wait for each other.
        let rest =
            (chunks.len() * LANES..).zip(rest).filter_map(|(arc, &source)| comes(arc, source));
        sums[0] = lanes(0, 1).into_iter().chain(rest).sum();
        return sums;
    }
    for (group, sums) in sums.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
        *sums = lanes(group, SLICE / LANES);
    }
    sums
}
