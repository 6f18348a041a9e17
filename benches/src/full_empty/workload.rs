//! The benchmarks: their data, and what one tile of each reads and computes. Host devices run this,
//! and GPUs are checked against it; `workloads.cuh` is the same for GPUs.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::bed::Moved;

millstream::device::cuda_struct! {
    /// `Parameters` of `workloads.cuh`.
    #[derive(Clone, Copy, Debug, Pod, Zeroable)]
    pub struct Parameters as "Parameters" {
        /// Work items.
        pub items: u32,
        /// Of those, in one tile.
        pub tile: u32,
        /// Tiles.
        pub tiles: u32,
        /// Of a matrix or a grid; vertices of a graph.
        pub width: u32,
    }
}

/// For each input, the items that a tile reads, and where they begin.
pub(super) type Inputs = [(usize, Vec<u32>); 3];

/// One benchmark and its data; all items are words, some of them the bits of floats.
#[derive(Clone, Debug)]
pub struct Workload {
    /// As the paper calls it.
    pub name: &'static str,
    /// Copied to the device.
    pub inputs: [Vec<u32>; 3],
    /// Already there.
    pub table: Vec<u32>,
    /// How it is cut.
    pub parameters: Parameters,
    /// Words of output for each work item.
    pub words: usize,
    /// Length of the output where that is not one for each item: tiles add it up.
    pub summed: Option<usize>,
    pub(super) needs: fn(&Parameters, usize, usize) -> Range<usize>,
    pub(super) compute: fn(&Parameters, usize, &Inputs, &dyn Fn(usize) -> u32) -> Vec<u32>,
    /// Whether each item of the inputs is read once, by one block: such data may stay in
    /// the host's memory.
    pub is_read_once: bool,
    /// Whether results are floats, which may differ slightly.
    is_float: bool,
}

/// The most bytes of inputs that are read in place, and of results that blocks write in place.
const SMALL_BYTES: usize = 4 << 20;

/// Bytes of a packet that is copied for an early launch.
pub const EARLY_PACKET: usize = 16 << 20;

/// How large the benchmarks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// As in the paper.
    Paper,
    /// Eight times the paper's data: a bus of 55 GB/s moves it in the time that the paper's bus, at
    /// 6.8 GB/s, took.
    Node,
    /// Far more than that: copies take nearly all of the time.
    Large,
    /// For tests.
    Small,
}

/// The items of a tile, such that vectors of this many items are cut into about as many tiles as a
/// GPU has multiprocessors.
fn tile(items: usize, least: usize) -> usize {
    (items / 256).next_power_of_two().clamp(least, 16384)
}

fn parameters(items: usize, tile: usize, width: usize) -> Parameters {
    let tiles = items.div_ceil(tile) as u32;
    Parameters { items: items as u32, tile: tile as u32, tiles, width: width as u32 }
}

fn floats(items: usize, least: f32, span: f32, seed: u32) -> Vec<u32> {
    let random = words(items, seed).into_iter();
    random.map(|word| (least + span * (word >> 8) as f32 / (1 << 24) as f32).to_bits()).collect()
}

fn words(items: usize, seed: u32) -> Vec<u32> {
    let mix = |at: u32| {
        let mixed = (at ^ seed).wrapping_mul(0x9E37_79B1) ^ at.rotate_left(13);
        (mixed ^ mixed >> 15).wrapping_mul(0x85EB_CA77)
    };
    (0..items as u32).map(mix).map(|word| word ^ word >> 13).collect()
}

impl Parameters {
    /// Work items of a tile.
    pub(super) fn range(&self, tile: usize) -> Range<usize> {
        let start = (tile * self.tile as usize).min(self.items as usize);
        start..(start + self.tile as usize).min(self.items as usize)
    }
}

fn own(parameters: &Parameters, _: usize, tile: usize) -> Range<usize> {
    parameters.range(tile)
}

fn float(input: &(usize, Vec<u32>), at: usize) -> f32 {
    f32::from_bits(input.1[at - input.0])
}

/// What they are called.
pub const NAMES: [&str; 7] =
    ["vectorAdd", "matrixMul", "histogram64", "BlackScholes", "BFS", "HotSpot", "FIBLookup"];

/// `c = a + b` with vectors of this many floats.
pub fn vector_add(items: usize) -> Workload {
    Workload {
        name: "vectorAdd",
        inputs: [floats(items, 0.0, 1.0, 1), floats(items, 1.0, 1.0, 2), Vec::new()],
        table: vec![0],
        parameters: parameters(items, tile(items, 512), 0),
        words: 1,
        summed: None,
        needs: |parameters, input, tile| {
            if input < 2 { own(parameters, input, tile) } else { 0..0 }
        },
        compute: |parameters, tile, inputs, _| {
            let range = parameters.range(tile);
            range.map(|at| (float(&inputs[0], at) + float(&inputs[1], at)).to_bits()).collect()
        },
        is_read_once: true,
        is_float: true,
    }
}

fn matrix_mul(width: usize) -> Workload {
    let items = width * width;
    Workload {
        name: "matrixMul",
        inputs: [floats(items, 0.0, 1.0, 3), floats(items, 0.0, 1.0, 4), Vec::new()],
        table: vec![0],
        parameters: parameters(items, width * (width / 96).clamp(1, 8), width),
        words: 1,
        summed: None,
        needs: |parameters, input, tile| match input {
            0 => parameters.range(tile),
            1 => 0..parameters.items as usize,
            _ => 0..0,
        },
        compute: |parameters, tile, inputs, _| {
            let width = parameters.width as usize;
            let dot = |at: usize| {
                let (row, column) = (at / width, at % width);
                let products = (0..width).map(|k| {
                    float(&inputs[0], row * width + k) * float(&inputs[1], k * width + column)
                });
                products.sum::<f32>().to_bits()
            };
            parameters.range(tile).map(dot).collect()
        },
        is_read_once: false,
        is_float: true,
    }
}

fn histogram64(items: usize) -> Workload {
    Workload {
        name: "histogram64",
        inputs: [words(items, 5), Vec::new(), Vec::new()],
        table: vec![0; 65],
        parameters: parameters(items, tile(items, 1024), 0),
        words: 1,
        summed: Some(64),
        needs: |parameters, input, tile| {
            if input == 0 { own(parameters, input, tile) } else { 0..0 }
        },
        compute: |_, _, inputs, _| {
            let mut bins = vec![0; 64];
            for word in &inputs[0].1 {
                [2, 10, 18, 26].iter().for_each(|shift| bins[(word >> shift & 63) as usize] += 1);
            }
            bins
        },
        is_read_once: true,
        is_float: false,
    }
}

fn cumulative(d: f32) -> f32 {
    let k = 1.0 / (1.0 + 0.231_641_9 * d.abs());
    let series = 1.781_477_9 + k * (-1.821_255_9 + k * 1.330_274_5);
    let series = k * (0.319_381_54 + k * (-0.356_563_78 + k * series));
    let tail = 0.398_942_3 * (-0.5 * d * d).exp() * series;
    if d > 0.0 { 1.0 - tail } else { tail }
}

fn black_scholes(items: usize) -> Workload {
    Workload {
        name: "BlackScholes",
        inputs: [
            floats(items, 5.0, 25.0, 6),
            floats(items, 1.0, 99.0, 7),
            floats(items, 0.25, 9.75, 8),
        ],
        table: vec![0],
        parameters: parameters(items, tile(items, 512), 0),
        words: 2,
        summed: None,
        needs: own,
        compute: |parameters, tile, inputs, _| {
            let option = |at: usize| {
                let [price, strike, time] = [0, 1, 2].map(|input| float(&inputs[input], at));
                let (rate, spread, root) = (0.02f32, 0.3f32, time.sqrt());
                let drift = (rate + 0.5 * spread * spread) * time;
                let d1 = ((price / strike).ln() + drift) / (spread * root);
                let (n1, n2) = (cumulative(d1), cumulative(d1 - spread * root));
                let later = strike * (-rate * time).exp();
                [price * n1 - later * n2, later * (1.0 - n2) - price * (1.0 - n1)]
            };
            parameters.range(tile).flat_map(option).map(f32::to_bits).collect()
        },
        is_read_once: true,
        is_float: true,
    }
}

fn bfs(vertices: usize) -> Workload {
    const ARCS: usize = 6;
    let random = words(vertices * ARCS, 9).into_iter();
    let targets: Vec<u32> = random.map(|word| word % vertices as u32).collect();
    let offsets = (0..=vertices).map(|vertex| (vertex * ARCS) as u32).collect();
    Workload {
        name: "BFS",
        inputs: [offsets, targets, Vec::new()],
        table: vec![0; vertices + 1],
        parameters: parameters(vertices, vertices, vertices),
        words: 1,
        summed: None,
        needs: |parameters, input, _| match input {
            0 => 0..parameters.width as usize + 1,
            1 => 0..parameters.width as usize * ARCS,
            _ => 0..0,
        },
        compute: |parameters, _, inputs, _| {
            let mut levels = vec![u32::MAX; parameters.width as usize];
            let (mut frontier, mut level) = (vec![0usize], 0);
            levels[0] = 0;
            while !frontier.is_empty() {
                level += 1;
                let arcs =
                    |vertex: usize| inputs[0].1[vertex] as usize..inputs[0].1[vertex + 1] as usize;
                let mut next = Vec::new();
                for arc in std::mem::take(&mut frontier).into_iter().flat_map(arcs) {
                    let target = inputs[1].1[arc] as usize;
                    if levels[target] == u32::MAX {
                        levels[target] = level;
                        next.push(target);
                    }
                }
                frontier = next;
            }
            levels
        },
        is_read_once: false,
        is_float: false,
    }
}

fn hot_spot(width: usize) -> Workload {
    let items = width * width;
    Workload {
        name: "HotSpot",
        inputs: [floats(items, 40.0, 50.0, 10), floats(items, 0.0, 1.0, 11), Vec::new()],
        table: vec![0],
        parameters: parameters(items, width * (tile(items, 256) / width).max(1), width),
        words: 1,
        summed: None,
        needs: |parameters, input, tile| {
            let (range, width) = (parameters.range(tile), parameters.width as usize);
            match input {
                0 => {
                    let end = (range.end + width).min(parameters.items as usize);
                    range.start.saturating_sub(width)..end
                }
                1 => range,
                _ => 0..0,
            }
        },
        compute: |parameters, tile, inputs, _| {
            let (width, items) = (parameters.width as usize, parameters.items as usize);
            let heat = |at: usize| float(&inputs[0], at);
            let step = |at: usize| {
                let (here, column) = (heat(at), at % width);
                let north = if at < width { here } else { heat(at - width) };
                let south = if at + width >= items { here } else { heat(at + width) };
                let west = if column == 0 { here } else { heat(at - 1) };
                let east = if column + 1 == width { here } else { heat(at + 1) };
                let change = float(&inputs[1], at)
                    + 0.1 * (north + south - 2.0 * here)
                    + 0.1 * (east + west - 2.0 * here)
                    + 0.05 * (80.0 - here);
                (here + 0.5 * change).to_bits()
            };
            parameters.range(tile).map(step).collect()
        },
        is_read_once: false,
        is_float: true,
    }
}

fn fib_lookup(items: usize) -> Workload {
    let mut table = words(65536 + 16384 * 256, 12);
    table.iter_mut().for_each(|hop| *hop &= 0xffff);
    // One in four prefixes is longer.
    (0..16384).for_each(|long| table[long * 4] = 1 << 31 | long as u32);
    Workload {
        name: "FIBLookup",
        inputs: [words(items, 13), Vec::new(), Vec::new()],
        table,
        parameters: parameters(items, tile(items, 128), 0),
        words: 1,
        summed: None,
        needs: |parameters, input, tile| {
            if input == 0 { own(parameters, input, tile) } else { 0..0 }
        },
        compute: |_, _, inputs, table| {
            let hop = |address: &u32| match table((address >> 16) as usize) {
                hop if hop >> 31 == 0 => hop,
                long => {
                    let block = (long & 0xffff) as usize * 256;
                    table(65536 + block + (address >> 8 & 255) as usize)
                }
            };
            inputs[0].1.iter().map(hop).collect()
        },
        is_read_once: true,
        is_float: false,
    }
}

/// The seven.
pub fn workloads(sizes: Sizes) -> Vec<Workload> {
    let [vector, matrix, histogram, options, vertices, grid, lookups] = match sizes {
        Sizes::Paper => [65_536, 64, 65_536, 65_536, 4096, 64, 512],
        Sizes::Node => [1 << 19, 192, 1 << 19, 1 << 19, 1 << 15, 192, 4096],
        Sizes::Large => [1 << 24, 768, 1 << 24, 1 << 23, 1 << 15, 4096, 1 << 20],
        Sizes::Small => [3000, 16, 3000, 1500, 200, 24, 300],
    };
    vec![
        vector_add(vector),
        matrix_mul(matrix),
        histogram64(histogram),
        black_scholes(options),
        bfs(vertices),
        hot_spot(grid),
        fib_lookup(lookups),
    ]
}

impl Workload {
    /// Words of the output.
    pub fn output_len(&self) -> usize {
        self.summed.unwrap_or(self.parameters.items as usize * self.words)
    }

    /// Bytes of all inputs.
    pub fn input_bytes(&self) -> usize {
        4 * self.inputs.iter().map(Vec::len).sum::<usize>()
    }

    /// How data that stays in the host's memory is read.
    pub fn in_place(&self) -> Moved {
        if self.is_read_once { Moved::Mapped } else { Moved::Pulled }
    }

    /// How the data of an early launch moves, chosen by what the benchmark is: reading in
    /// place saves calls, copy engines are faster with what is large; twice as large where each
    /// item is read once, and blocks need not fetch it for each other first.
    pub fn early(&self) -> Moved {
        let most = if self.is_read_once { 2 * SMALL_BYTES } else { SMALL_BYTES };
        if self.input_bytes() <= most { self.in_place() } else { Moved::Copied }
    }

    /// The same for full overlap. Where results leave all the time, blocks that read and
    /// write in the host's memory share its bus better than engines and blocks do.
    pub fn overlapped(&self) -> Moved {
        let leaves_by_tiles = self.summed.is_none() && self.is_read_once;
        if leaves_by_tiles { self.in_place() } else { self.early() }
    }

    /// Whether results leave while the kernel runs, where its inputs have been copied
    /// before: not where they are so large that blocks write them to the host in more
    /// time than the kernel and a copy engine take.
    pub fn returns(&self) -> bool {
        4 * self.output_len() <= SMALL_BYTES
    }

    /// Bytes of a packet that is copied for full overlap: sixteen of them, but from 1 MiB,
    /// since each costs about 5 us, to 4 MiB. Results that leave at the end, as all do
    /// after an early launch, gain little by packets that come early: 16 MiB.
    pub fn packet_bytes(&self) -> usize {
        let largest = self.inputs.iter().map(|items| items.len() * 4).max().unwrap_or(4);
        match self.summed {
            Some(_) => EARLY_PACKET,
            None => (largest / 16).next_power_of_two().clamp(1 << 20, 4 << 20),
        }
    }

    /// The answer, computed on one thread.
    pub fn expected(&self) -> Vec<u32> {
        let mut output = vec![0; if self.summed.is_some() { self.output_len() } else { 0 }];
        for tile in 0..self.parameters.tiles as usize {
            let part = [0, 1, 2].map(|input| {
                let range = (self.needs)(&self.parameters, input, tile);
                (range.start, self.inputs[input][range].to_vec())
            });
            let result = (self.compute)(&self.parameters, tile, &part, &|at| self.table[at]);
            match self.summed {
                Some(_) => output.iter_mut().zip(result).for_each(|(sum, count)| *sum += count),
                None => output.extend(result),
            }
        }
        output
    }

    /// Whether an answer is the expected one.
    pub fn is_right(&self, expected: &[u32], found: &[u32]) -> bool {
        let is_near = |one: f32, other: f32| (one - other).abs() <= 1e-3 * (1.0 + one.abs());
        expected.len() == found.len()
            && expected.iter().zip(found).all(|(one, other)| match self.is_float {
                true => is_near(f32::from_bits(*one), f32::from_bits(*other)),
                false => one == other,
            })
    }
}
