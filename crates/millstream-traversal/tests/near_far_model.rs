//! The search of `NEAR_FAR.md` by several devices, step by step on the host: items are visited in any
//! order, and what one device has not told, no other knows.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use millstream_graph::generate::{self, GenerateOptions};
use millstream_graph::{CsrGraph, Partition, Weights, partition, reference};
use millstream_traversal::internals::Halos;

const UNREACHED: u32 = u32::MAX;

/// What a search leaves out, to see that it matters.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// Nobody tells anything.
    Tell,
    /// Who hears of a vertex lowers its copy and does not visit it.
    VisitTold,
    /// The search ends when nothing is far, whatever was told.
    EndAfterTold,
    /// An item with an old key keeps its vertex from being visited with the new one.
    OneItemAVertex,
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

/// A vertex and the key that it got.
type Item = (u32, u32);

struct Device<'a> {
    own: Range<u32>,
    halo: &'a [u32],
    /// Of owned vertices and of the halo.
    keys: HashMap<u32, u32>,
    near: Vec<Item>,
    far: Vec<Item>,
    told: HashMap<(usize, u32), u32>,
}

struct Search<'a> {
    graph: &'a CsrGraph,
    weights: &'a [u32],
    partition: &'a Partition,
    devices: Vec<Device<'a>>,
    threshold: u32,
    fault: Fault,
    random: Random,
}

impl Search<'_> {
    fn key(&self, device: usize, vertex: u32) -> u32 {
        self.devices[device].keys.get(&vertex).copied().unwrap_or(UNREACHED)
    }

    /// As `NearFarDevice::lower`.
    fn lower(&mut self, device: usize, vertex: u32, key: u32) -> bool {
        let is_news = key < self.key(device, vertex);
        if is_news {
            self.devices[device].keys.insert(vertex, key);
        }
        is_news
    }

    /// As `visit`, of the arcs of one item.
    fn visit(&mut self, device: usize, (vertex, key): Item) {
        for arc in self.graph.row(self.partition.to_original(vertex)) {
            let target = self.partition.to_new(self.graph.targets()[arc]);
            let its = &self.devices[device];
            if !its.own.contains(&target) && its.halo.binary_search(&target).is_err() {
                continue;
            }
            let key = key + self.weights[arc];
            if !self.lower(device, target, key) {
                continue;
            }
            let its = &mut self.devices[device];
            let pile = if key < self.threshold { &mut its.near } else { &mut its.far };
            let is_there = pile.iter().any(|&(other, _)| other == target);
            if self.fault != Fault::OneItemAVertex || !is_there {
                pile.push((target, key));
            }
        }
    }

    /// As `settle`, in any order.
    fn settle(&mut self, device: usize) {
        while !self.devices[device].near.is_empty() {
            let at = self.random.below(self.devices[device].near.len());
            let item = self.devices[device].near.swap_remove(at);
            self.visit(device, item);
        }
    }

    /// As `tell`: what each device hears.
    fn tell(&mut self) -> Vec<Vec<Item>> {
        let mut heard = vec![Vec::new(); self.devices.len()];
        if self.fault == Fault::Tell {
            return heard;
        }
        for (to, heard) in heard.iter_mut().enumerate() {
            for &vertex in self.devices[to].halo {
                let owner = self.partition.owner(vertex);
                let key = self.key(owner, vertex);
                let told = self.devices[owner].told.entry((to, vertex)).or_insert(UNREACHED);
                if key < self.threshold && key != *told {
                    *told = key;
                    heard.push((vertex, key));
                }
            }
        }
        heard
    }

    /// As `begin_after`.
    fn begin_after(&mut self, nearest: u32, delta: u32) {
        self.threshold = nearest + delta;
        for its in &mut self.devices {
            for (vertex, key) in std::mem::take(&mut its.far) {
                if self.fault != Fault::OneItemAVertex && its.keys[&vertex] != key {
                    continue;
                }
                let pile = if key < self.threshold { &mut its.near } else { &mut its.far };
                pile.push((vertex, key));
            }
        }
    }

    /// As `take_told`.
    fn take_told(&mut self, heard: Vec<Vec<Item>>) {
        for (device, heard) in heard.into_iter().enumerate() {
            for (vertex, key) in heard {
                if self.lower(device, vertex, key) && self.fault != Fault::VisitTold {
                    self.devices[device].near.push((vertex, key));
                }
            }
        }
    }
}

/// The vertices that are next to each part.
fn beside(graph: &CsrGraph, partition: &Partition) -> Vec<Vec<u32>> {
    let beside = |part| {
        let own = partition.range(part);
        let neighbours = own.clone().flat_map(|from| Halos::neighbours(graph, partition, from));
        let beside: BTreeSet<u32> = neighbours.filter(|to| !own.contains(to)).collect();
        beside.into_iter().collect()
    };
    (0..partition.parts()).map(beside).collect()
}

/// Distances of all vertices, by original id.
fn search(
    graph: &CsrGraph,
    partition: &Partition,
    delta: u32,
    source: u32,
    fault: Fault,
    seed: u64,
) -> Vec<u32> {
    let Some(Weights::Integer(weights)) = graph.weights() else { panic!("integers") };
    let halos = Halos::new(graph, partition, beside(graph, partition), 64).expect("few neighbours");
    let source = partition.to_new(source);
    let device = |part: usize| {
        let (own, halo) = (partition.range(part), &halos.of[part][..]);
        let is_near = own.contains(&source) || halo.binary_search(&source).is_ok();
        let near: Vec<Item> = is_near.then_some((source, 0)).into_iter().collect();
        let keys = near.iter().copied().collect();
        Device { own, halo, keys, near, far: Vec::new(), told: HashMap::new() }
    };
    let devices = (0..partition.parts()).map(device).collect();
    let random = Random(seed);
    let mut search = Search { graph, weights, partition, devices, threshold: delta, fault, random };
    loop {
        (0..partition.parts()).for_each(|device| search.settle(device));
        let heard = search.tell();
        let far = search.devices.iter().flat_map(|device| device.far.iter().map(|&(_, key)| key));
        match far.min() {
            Some(nearest) => search.begin_after(nearest, delta),
            None if heard.iter().all(Vec::is_empty) || fault == Fault::EndAfterTold => break,
            None => {}
        }
        search.take_told(heard);
    }
    let key = |vertex: u32| search.key(partition.owner(vertex), vertex);
    partition.restore((0..graph.vertices()).map(key).collect())
}

/// Roads in rows, columns and corners.
fn cases(seed: u64) -> (CsrGraph, Vec<Partition>) {
    let options = GenerateOptions { seed, max_weight: Some(50) };
    let road = generate::road(40, 30, generate::KEEP_PERMILLE, &options).unwrap();
    let place = |vertex: u32| (vertex % 40, vertex / 40);
    let columns: Vec<_> = (0..1200).map(|vertex| place(vertex).0 / 14).collect();
    let corners: Vec<_> = (0..1200).map(place).map(|(x, y)| x / 20 + y / 15 * 2).collect();
    let partitions = vec![
        partition::edge_balanced_blocks(&road, 3),
        Partition::from_parts(3, &columns).unwrap(),
        Partition::from_parts(4, &corners).unwrap(),
    ];
    (road, partitions)
}

#[test]
fn any_order_and_any_threshold_is_right() {
    for seed in 1..4 {
        let (road, partitions) = cases(seed);
        for source in [0, 617] {
            let expected = reference::dijkstra(&road, &[source]).unwrap();
            let reference::Distances::Integer(expected) = expected else { panic!("integers") };
            for partition in &partitions {
                for delta in [1, 30, 200, 100_000] {
                    let found = search(&road, partition, delta, source, Fault::None, seed);
                    assert!(found == expected, "{delta} from {source}, seed {seed}");
                }
            }
        }
    }
}

#[test]
fn every_step_is_needed() {
    let (road, partitions) = cases(1);
    let expected = reference::dijkstra(&road, &[617]).unwrap();
    let reference::Distances::Integer(expected) = expected else { panic!("integers") };
    for fault in [Fault::Tell, Fault::VisitTold, Fault::EndAfterTold, Fault::OneItemAVertex] {
        let is_wrong = partitions.iter().any(|partition| {
            [30, 200, 100_000]
                .into_iter()
                .any(|delta| search(&road, partition, delta, 617, fault, 1) != expected)
        });
        assert!(is_wrong, "{fault:?} goes unnoticed");
    }
}
