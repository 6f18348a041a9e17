//! Rows that GPUs sort, in the partition's ids, beside those that the host sorts.

use millstream::flow::Context;
use millstream::graph::{CsrGraph, Partition, Weights, partition};
use millstream::traversal::{Columns, DistributedGraph, PartWeights};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::{context, scaled};

/// Lengths of rows on either side of each that is sorted in another way, and a few that are much longer.
fn lengths(longest: usize) -> Vec<usize> {
    let around =
        [0, 1, 2, 32, 256, 2048, 8192].map(|length: usize| length.saturating_sub(1)..length + 3);
    let some = [3, 17, 40, 100, 300, 700, 1000, 3000, longest];
    around.into_iter().flatten().chain(some).filter(|&length| length <= longest).collect()
}

/// A row of each of these lengths, here and there among many short ones; targets repeat.
fn graph(vertices: u32, lengths: &[usize], random: &mut SmallRng) -> CsrGraph {
    let mut edges = Vec::new();
    for from in 0..vertices {
        for _ in 0..random.random_range(0..5) {
            edges.push((from, random.random_range(0..vertices)));
        }
    }
    for &length in lengths {
        let from = random.random_range(0..vertices);
        // Of a row that few targets repeat in, all digits differ.
        let few = random.random_bool(0.3).then(|| random.random_range(1..300));
        edges.extend((0..length).map(|_| (from, random.random_range(0..few.unwrap_or(vertices)))));
    }
    CsrGraph::from_edges(vertices, &edges).unwrap()
}

/// Offsets, targets and bits of weights of each device.
type Rows = Vec<(Vec<u64>, Vec<u32>, Vec<u32>)>;

async fn rows_of(graph: &DistributedGraph) -> Rows {
    let mut rows = Vec::new();
    for (device, part) in graph.context().devices().iter().zip(graph.parts()) {
        let stream = device.stream().unwrap();
        let offsets = stream.download(&*part.offsets).unwrap().await.unwrap();
        let targets = stream.download(&*part.targets).unwrap().await.unwrap();
        let weights = match &part.weights {
            PartWeights::None => Vec::new(),
            PartWeights::Integer(all) => stream.download(&**all).unwrap().await.unwrap(),
            PartWeights::Real(all) => {
                let reals = stream.download(&**all).unwrap().await.unwrap();
                reals.into_iter().map(f32::to_bits).collect()
            }
        };
        rows.push((offsets, targets, weights));
    }
    rows
}

/// Compares all rows of a graph, with the partition's ids, with those that the host makes.
fn check(context: &Context, graph: &CsrGraph, parts: &Partition, columns: Columns, what: &str) {
    let upload = DistributedGraph::new(context, graph, parts.clone(), columns);
    let found = async { rows_of(&upload.await.unwrap()).await };
    let found = context.block_on(found).unwrap();
    let expected = match columns {
        Columns::Structure => parts.renumber_structure(graph),
        Columns::Weighted => parts.renumber(graph),
        Columns::ByWeight => parts.renumber_by_weight(graph),
    };
    for (part, (offsets, targets, weights)) in found.into_iter().enumerate() {
        let own = parts.range(part);
        let its = &expected.offsets()[own.start as usize..=own.end as usize];
        let arcs = its[0] as usize..its[its.len() - 1] as usize;
        assert!(offsets.iter().eq(its.iter().map(|it| it - its[0]).collect::<Vec<_>>().iter()));
        assert!(targets == expected.targets()[arcs.clone()], "{what}, {columns:?}, part {part}");
        let bits: Vec<u32> = match expected.weights() {
            None => Vec::new(),
            Some(Weights::Integer(all)) => all[arcs].to_vec(),
            Some(Weights::Real(all)) => all[arcs].iter().map(|weight| weight.to_bits()).collect(),
        };
        assert!(weights == bits, "weights, {what}, {columns:?}, part {part}");
    }
}

/// Rows of all lengths, in all orders, of vertices in blocks, scattered, and by degree; without weights,
/// with integers, some of which are equal, and with reals of both signs.
#[test]
fn rows_are_sorted_as_on_the_host() {
    let (context, mut random) = (context(), SmallRng::seed_from_u64(20));
    let devices = context.devices().len();
    let graph = graph(70_000, &lengths(scaled(200_000, 10_000)), &mut random);
    let integers = (0..graph.arcs()).map(|_| random.random_range(0..1000)).collect();
    let real = |_| (random.random_range(0..2000) as f32 - 1000.0) / 7.0;
    let reals = (0..graph.arcs()).map(real).collect();
    let all = [
        graph.clone(),
        graph.clone().with_weights(Some(Weights::Integer(integers))).unwrap(),
        graph.clone().with_weights(Some(Weights::Real(reals))).unwrap(),
    ];
    let blocks = partition::edge_balanced_blocks(&graph, devices);
    let parts = [
        ("blocks", blocks.clone()),
        ("scattered", partition::random(&graph, devices, 5)),
        ("by degree", blocks.by_degree(&graph, u32::MAX)),
    ];
    for graph in &all {
        for (what, parts) in &parts {
            check(&context, graph, parts, Columns::Structure, what);
            if graph.weights().is_some() {
                check(&context, graph, parts, Columns::Weighted, what);
                check(&context, graph, parts, Columns::ByWeight, what);
            }
        }
    }
}

/// A graph without vertices, one without arcs, and one with fewer vertices than devices.
#[test]
fn rows_that_are_hardly_there() {
    let context = context();
    let devices = context.devices().len();
    for (vertices, arcs) in [(0, &[][..]), (5, &[]), (1, &[(0, 0), (0, 0)]), (2, &[(1, 0), (1, 1)])]
    {
        let graph = CsrGraph::from_edges(vertices, arcs).unwrap();
        let weights = (0..graph.arcs() as u32).rev().collect();
        let weighted = graph.clone().with_weights(Some(Weights::Integer(weights))).unwrap();
        let parts = partition::random(&graph, devices, 1);
        check(&context, &graph, &parts, Columns::Structure, "few");
        check(&context, &weighted, &parts, Columns::Weighted, "few");
        check(&context, &weighted, &parts, Columns::ByWeight, "few");
    }
}
