//! Sweeps of host devices that reach each other's memory: the first device's memory has the shares of all
//! vertices. Each device reads there the shares that its rows ask for, and writes those of its own vertices.
//! The devices' twins meet after each sweep.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use millstream_device::{
    AtomicPod, Grid, Kernel, KernelFault, Parameter, Read, Shared, Stream, Value,
};
use millstream_traversal::internals::{TwinMeetings, streams};
use parking_lot::Mutex;

use crate::host_rows::{HostRows, Sums};
use crate::pull::PullGraph;
use crate::real::Real;
use crate::sweep::{Settings, is_over};
use crate::sweep_memory::{SweepMemory, links, ranks};
use crate::{PageRankOptions, PageRankResult, Result};

/// As for a single sweep; then the shares of all vertices after even numbers of sweeps, and after odd ones;
/// the device that sweeps; settings.
type Signature<R> = (
    (Read<u64>, Read<u32>, Read<R>),
    (Read<R>, Read<R>),
    (Shared<<R as Real>::Bits>, Shared<<R as Real>::Bits>),
    Value<u32>,
    Value<Settings>,
);

/// How far the devices have come.
#[derive(Clone, Copy, Debug)]
struct Course {
    sweeps: u32,
    /// The sums of the last sweep over all devices.
    sums: Sums,
}

/// Each device's sums of the last sweep.
type AllSums = Arc<[Mutex<Sums>]>;

/// Sweeps at least once, until the change is small enough.
pub(crate) async fn run<R: Real>(
    pull: &PullGraph<R>,
    options: &PageRankOptions,
) -> Result<PageRankResult> {
    let memory = SweepMemory::new(pull, options).await?;
    let first = Sums { change: f64::INFINITY, dangling: pull.dangling };
    let meetings = TwinMeetings::new(&pull.context, Course { sweeps: 0, sums: first });
    let kernel = kernel::<R>(pull, options, &meetings);
    let launch = |place: usize, stream: &Stream| {
        let part = &pull.parts[place];
        let [even, odd] = [0, 1].map(|sweeps| &memory.after(sweeps)[0]);
        let arguments = (
            (&*part.offsets, &*part.sources, &*part.weights),
            (&*part.row_weights, &memory.teleport[place]),
            (even, odd),
            place as u32,
            pull.settings(place, options, pull.dangling),
        );
        kernel.launch(stream, 1, arguments)
    };
    let start = Instant::now();
    meetings.run(&streams(&pull.context)?, launch).await?;
    let run_time = start.elapsed();
    let start = Instant::now();
    let Course { sweeps: iterations, sums: Sums { change, .. } } = meetings.course();
    let ranks = ranks(pull, memory.after(iterations)).await?;
    let times = [run_time, start.elapsed()];
    Ok(pull.result(options, ranks, (iterations, change), links(pull, iterations), times))
}

fn kernel<R: Real>(
    pull: &PullGraph<R>,
    options: &PageRankOptions,
    meetings: &Arc<TwinMeetings<Course>>,
) -> Kernel<Signature<R>> {
    let all_sums: AllSums = pull.parts.iter().map(|_| Mutex::default()).collect();
    let (meetings, base) = (Arc::clone(meetings), pull.base(options));
    let (tolerance, most) = (options.tolerance, options.max_iterations);
    Kernel::of_step_closure("sweeps", move |_, view: &View<'_, R>| {
        let &(.., here, settings) = view;
        let sweep = |course: &Course| {
            let settings = Settings { base: base(course.sums.dangling), ..settings };
            let sums = sweep::<R>(view, course.sweeps, settings)?;
            *all_sums[here as usize].lock() = sums;
            Ok(())
        };
        let advance = |course: &mut Course| {
            let of = |its: &Mutex<Sums>| *its.lock();
            course.sums = Sums::total(all_sums.iter().map(of));
            course.sweeps += 1;
            !is_over(tolerance, most, course.sweeps, course.sums.change)
        };
        meetings.run_twin(here as usize, sweep, advance)
    })
}

/// The twin's view of a [`Signature`].
type View<'a, R> = <Signature<R> as Parameter>::View<'a>;

/// One device's next sweep, after `sweeps` sweeps.
fn sweep<R: Real>(
    view: &View<'_, R>,
    sweeps: u32,
    settings: Settings,
) -> std::result::Result<Sums, KernelFault> {
    let &(arcs, vertices, (even, odd), ..) = view;
    let [known, all] = if sweeps.is_multiple_of(2) { [even, odd] } else { [odd, even] };
    let rows = HostRows::new(arcs, vertices, settings);
    // SAFETY: a share has the layout of its bits, and their atomics have the same size and alignment; and
    // no device writes the known shares before all have met after this sweep.
    let known = unsafe { std::slice::from_raw_parts(known.as_ptr().cast::<R>(), known.len()) };
    let known = |place: usize| known.get(place).copied();
    let own = &all[settings.first_vertex as usize..];
    let give = |_, row: usize, shares: &[R]| {
        let to = own[row..].iter().zip(shares);
        to.for_each(|(to, share)| R::Bits::store(to, share.to_bits()));
    };
    let blocks: Vec<(Range<usize>, Mutex<Sums>)> =
        rows.blocks().into_iter().map(|items| (items, Mutex::default())).collect();
    Grid::of_blocks(blocks.len(), 1).for_each_block(|block| {
        for (items, sums) in &blocks[block.range] {
            let its = rows.sweep(items.clone(), known, give);
            // No other block locks this one.
            *sums.lock() = its;
        }
        Ok(())
    })?;
    let sums = blocks.into_iter().map(|(_, sums)| sums.into_inner());
    Ok(Sums::total(sums))
}

#[cfg(test)]
mod tests {
    use millstream_graph::CsrGraph;
    use millstream_graph::generate::{self, GenerateOptions};

    use super::*;
    use crate::pull::on_host_devices;

    /// The result, and the most memory that a run takes.
    fn swept(graph: &CsrGraph, devices: usize, with_links: bool) -> (PageRankResult, u64) {
        let (context, pull) = on_host_devices(graph, devices, with_links);
        let ranks = context.block_on(pull.run(&PageRankOptions::default()));
        let most = context.devices().iter().map(|device| device.memory().peak).sum();
        (ranks.unwrap().unwrap(), most)
    }

    #[test]
    fn ranks_and_what_is_read_of_others_are_those_over_links() {
        let options = GenerateOptions::default();
        let road = generate::road(100, 100, generate::KEEP_PERMILLE, &options).unwrap();
        let kron = generate::kron(10, 8, &options).unwrap();
        // In the star, all devices ask for the middle vertex, and only its owner for the others.
        let arcs: Vec<_> = (0..2000).flat_map(|from| [(from, 2000), (2000, from)]).collect();
        let star = CsrGraph::from_edges(4001, &arcs).unwrap();
        for (graph, devices) in [(&road, 1), (&road, 4), (&kron, 3), (&kron, 16), (&star, 3)] {
            let [(ranks, _), (linked, _)] =
                [false, true].map(|with_links| swept(graph, devices, with_links));
            // Exactly equal: the same rows are summed in the same order.
            assert_eq!((ranks.iterations, &ranks.ranks), (linked.iterations, &linked.ranks));
            let bytes = |ranks: &PageRankResult| -> u64 {
                ranks.statistics.links.iter().map(|link| link.bytes).sum()
            };
            assert_eq!(bytes(&ranks), bytes(&linked), "{devices} devices");
            assert_eq!(bytes(&ranks) > 0, devices > 1);
        }
    }

    #[test]
    fn devices_have_the_shares_of_all_vertices_together() {
        let vertices = 1 << 18;
        let few = CsrGraph::from_edges(vertices, &[(0, 1), (vertices - 1, 0)]).unwrap();
        // The shares of all vertices take 1 MiB, in three copies (even, odd, initial); the weights of their
        // rows take another, spread over the owners.
        let (_, most) = swept(&few, 16, false);
        assert!(most < 5 << 20, "{most} bytes");
    }
}
