//! The callbacks of PageRank by pushing. All numbers are sums of few powers of two, and
//! those of a case have one sign: sums are exact in any order, and residuals only grow.

use millstream::flow::Context;
use millstream::pagerank::Real;
use millstream::pagerank::push::{Problem, Push, Settings};
use millstream::traversal::{Owners, Packet, Vertices};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::{Case, Seen, cases, contexts, downloaded, on, shared};

/// Far from where a priority changes, for sums of few powers of two.
const BETWEEN_PRIORITIES: f64 = 1.090_507_732_665_257_7; // 2^(1/8)

/// A device's residuals, and those that it hears of.
#[derive(Debug)]
struct Pushes {
    case: Case,
    weights: Vec<f64>,
    inverse_row_weights: Vec<f64>,
    costs: Vec<f32>,
    residuals: Vec<f64>,
    allowance: i64,
    arriving: Vec<f64>,
    settings: Settings,
}

/// What a device has in the end.
#[derive(Debug, PartialEq)]
struct Memory {
    residuals: Vec<f64>,
    ranks: Vec<f64>,
    allowance: i64,
}

/// A power of two, from one down.
fn part(random: &mut SmallRng, halvings: i32) -> f64 {
    0.5_f64.powi(random.random_range(0..=halvings))
}

impl Pushes {
    fn new(seed: u64) -> Pushes {
        let random = &mut SmallRng::seed_from_u64(seed);
        let is_order_free = random.random();
        let case = Case::new(random, is_order_free);
        let (vertices, owned) = (case.vertices(), case.owned().len());
        let sign = if random.random() { 1.0 } else { -1.0 };
        let is_weighted = random.random();
        // Some arcs weigh nothing.
        let weight = |random: &mut SmallRng| [0.0, 1.0, 2.0, 4.0][random.random_range(0..4)];
        let arcs = if is_weighted { case.targets.len() } else { 0 };
        Pushes {
            weights: (0..arcs).map(|_| weight(random)).collect(),
            inverse_row_weights: (0..owned).map(|_| part_or_none(random, 3)).collect(),
            costs: (0..owned).map(|_| 1.0 / part(random, 4) as f32).collect(),
            residuals: (0..vertices).map(|_| sign * part_or_none(random, 5)).collect(),
            allowance: if random.random_range(0..4) == 0 { 0 } else { 1 << 40 },
            arriving: case.receivers.iter().map(|_| sign * part(random, 5)).collect(),
            settings: Settings {
                damping: 0.75,
                threshold: 0.25 * part(random, 5),
                top: BETWEEN_PRIORITIES / part(random, 8),
                first: case.owned().start.into(),
            },
            case,
        }
    }

    /// What is seen, and the memory in the end.
    async fn run<R: Real>(&self, context: &Context) -> (Seen, Memory) {
        let (case, device) = (&self.case, &context.devices()[0]);
        let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect();
        let weights: Vec<_> = self.weights.iter().map(|&weight| R::from_f64(weight)).collect();
        let residuals = shared(device, bits(&self.residuals)).await;
        let ranks = shared(device, vec![0; case.owned().len()]).await;
        let allowance = shared(device, vec![self.allowance as u64]).await;
        let problem = Problem::<R> {
            offsets: on(device, &case.offsets),
            targets: on(device, &case.targets),
            weights: on(device, &weights),
            inverse_row_weights: on(device, &self.inverse_row_weights),
            costs: on(device, &self.costs),
            residuals: residuals.clone(),
            ranks: ranks.clone(),
            allowance: allowance.clone(),
            owners: on(device, &case.boundaries),
            settings: self.settings,
        };
        let program = Vertices::new(Owners::new(&case.boundaries), Push::<R>::PROGRAM);
        let packets = self.arriving.iter().zip(&case.receivers);
        let packets = packets.map(|(&value, &vertex)| Packet::new(value, vertex));
        let seen = case.run(context, (program, problem), packets.collect()).await;
        let values = async |buffer| {
            let bits = downloaded(device, buffer).await;
            bits.into_iter().map(f64::from_bits).collect()
        };
        let memory = Memory {
            residuals: values(&residuals).await,
            ranks: values(&ranks).await,
            allowance: downloaded(device, &allowance).await[0] as i64,
        };
        (seen, memory)
    }
}

/// A power of two, or nothing.
fn part_or_none(random: &mut SmallRng, halvings: i32) -> f64 {
    if random.random_range(0..4) == 0 { 0.0 } else { part(random, halvings) }
}

fn compare<R: Real>() {
    let [context, twin] = contexts();
    let (mut deferred, mut passed, mut pushed, mut refused) = (0, 0, 0, 0);
    for seed in cases() {
        let case = Pushes::new(seed);
        let seen = context.block_on(case.run::<R>(&context)).unwrap();
        let expected = twin.block_on(case.run::<R>(&twin)).unwrap();
        assert!(seen == expected, "MILLSTREAM_SEED={seed}: {case:?}\n{seen:?}\n{expected:?}");
        let (expected, memory) = expected;
        deferred += expected.deferred();
        passed += expected.passed();
        pushed += memory.ranks.iter().filter(|&&rank| rank != 0.0).count();
        refused += usize::from(memory.allowance < 0);
    }
    // All cases together are about something.
    let counts = [deferred, passed, pushed, refused];
    assert!(cases().count() == 1 || counts.iter().all(|&count| count > 0), "{counts:?}");
}

#[test]
fn pushed_residuals() {
    compare::<f32>();
    compare::<f64>();
}
