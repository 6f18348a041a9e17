//! Rows that GPUs sort, in the partition's ids, beside those that the host sorts; and graphs that are uploaded
//! as if they were symmetric.

use millstream::bfs::BfsOptions;
use millstream::flow::Context;
use millstream::graph::generate::{self, GenerateOptions};
use millstream::graph::{CsrGraph, Partition, Weights, partition, source};
use millstream::pagerank::Algorithm;
use millstream::sssp::SsspOptions;
use millstream::traversal::{Columns, DistributedGraph, PartWeights};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::{context, scaled};
use crate::{bfs, pagerank, sssp};

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

/// Rows of so many vertices, of all lengths and up to the longest, in all orders: of vertices in blocks,
/// scattered, and by degree; without weights, with integers, some of which are equal, and with reals of both signs.
fn check_all(vertices: u32, longest: usize) {
    let (context, mut random) = (context(), SmallRng::seed_from_u64(20));
    let devices = context.devices().len();
    let graph = graph(vertices, &lengths(longest), &mut random);
    let integers = (0..graph.arcs()).map(|_| random.random_range(0..1000)).collect();
    let real = |_| match random.random_range(0..2000) {
        0..20 => -0.0,
        other => (other as f32 - 1000.0) / 7.0,
    };
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

#[test]
fn rows_are_sorted_as_on_the_host() {
    check_all(70_000, scaled(200_000, 10_000));
}

/// Few, for tools that look at every access.
#[test]
fn some_rows_of_all_lengths_are_sorted() {
    check_all(300, 3000);
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

/// A Kronecker graph without the last arc of its longest row that leads to where nobody looks; and with
/// that arc, but of another weight than the way back.
fn nearly_symmetric() -> [CsrGraph; 2] {
    let options = GenerateOptions { max_weight: Some(50), ..GenerateOptions::default() };
    let kron = generate::kron(12, 8, &options).unwrap();
    let longest = source::max_degree(&kron).unwrap();
    let is_hidden = |arc: &usize| !kron.targets()[*arc].is_multiple_of(16);
    let last = kron.row(longest).rev().find(is_hidden).unwrap();
    let mut others = kron.weights().unwrap().as_integers().unwrap().to_vec();
    others[last] += 1;
    let heavier = kron.clone().with_weights(Some(Weights::Integer(others.clone()))).unwrap();
    let (mut offsets, mut targets) = (kron.offsets().to_vec(), kron.targets().to_vec());
    targets.remove(last);
    others.remove(last);
    offsets[longest as usize + 1..].iter_mut().for_each(|offset| *offset -= 1);
    let less = CsrGraph::from_csr(offsets, targets, Some(Weights::Integer(others))).unwrap();
    [less, heavier]
}

/// What looks symmetric is uploaded as such, and again when it is not.
#[test]
fn graphs_that_only_look_symmetric() {
    let context = context();
    let [less, heavier] = nearly_symmetric();
    assert!(less.looks_symmetric(true) && !less.is_symmetric());
    assert!(heavier.looks_symmetric(true) && !heavier.is_symmetric_with_weights());
    for (what, graph) in [("an arc less", less), ("a heavier arc", heavier)] {
        let from = source::max_degree(&graph).unwrap();
        let parts = || partition::edge_balanced_blocks(&graph, context.devices().len());
        let options = BfsOptions::default();
        let found = bfs::run(&context, &graph, parts(), options, &[from]);
        bfs::check(what, &graph, &[from], &options, &found);
        let (auto, options) = (millstream::sssp::Algorithm::Auto, SsspOptions::default());
        let found = sssp::run_as(auto, &context, &graph, parts(), options, &[from]).unwrap();
        sssp::check(what, &graph, &[from], &found);
        for weighted in [false, true] {
            let mut options = pagerank::exact(Algorithm::Pull);
            options.weighted = weighted;
            let found = pagerank::run(&context, &graph, options.clone()).unwrap();
            pagerank::check(what, &graph, &options, &found);
        }
    }
}
