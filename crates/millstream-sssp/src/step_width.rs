//! The automatic width of a search's steps.
//!
//! A step is to hold few arcs that stay in it, and paths of few of them: those are relaxed in no order, the others
//! once. How many are few depends on the arcs that leave a vertex to which a path has come, which are the more, the
//! more arcs enter it. Measured: see `docs/decisions/0015-shortest-paths-in-steps.md`.

use millstream_graph::pieces::InPieces;
use millstream_graph::{CsrGraph, Weights};
use rayon::prelude::*;

use crate::means::{Means, usable_step};

/// The share of arcs that weigh less than a step of host devices, times the degree of [`degree_on_paths`] to the
/// power of 2/3.
const FACTOR: f64 = 1.5;
/// For GPUs, on which a step costs more and repeated work less.
const GPU_FACTOR: f64 = 2.1;
/// Where weights are multiples of a unit, a step has room for paths of nearly so many units,
const UNITS: f64 = 4.2;
/// or fewer if half of the weights are not far above this many units.
const FEW_UNITS: f64 = 3.0;
/// Beyond this degree on paths there is room for both, a share of light arcs and some units.
const HUBS: f64 = 400.0;
/// The unit is the weight of the lightest of this many light arcs.
const LIGHT_ARCS: f64 = 64.0;

/// Weights that are looked at, at most.
const SAMPLE: usize = 1 << 18;

/// How wide the steps of a search are; `None` if all weights are 0. The share of light arcs is what counts, not
/// the mean weight: a few heavy arcs change nothing. Arcs of weight 0 stay in any step, and do not count.
pub(crate) fn step_width(graph: &CsrGraph, means: Means, on_gpus: bool) -> Option<f64> {
    let factor = if on_gpus { GPU_FACTOR } else { FACTOR };
    let degree = degree_on_paths(graph);
    let share = (factor * degree.powf(-2.0 / 3.0)).min(1.0);
    let mut weights = sample(graph.weights()?);
    weights.retain(|&weight| weight > 0.0);
    if weights.is_empty() {
        return usable_step(means.weight());
    }
    let [unit, middle] = [share / LIGHT_ARCS, 0.5].map(|share| quantile(&mut weights, share));
    let light = spread_quantile(&mut weights, share);
    let units = UNITS * (1.0 - FEW_UNITS * unit / middle).max(0.0) * unit;
    let width = if degree > HUBS { light + units } else { light.max(units) };
    usable_step(width.max(unit))
}

/// The mean degree of the vertices that arcs lead to, if as many enter as leave.
fn degree_on_paths(graph: &CsrGraph) -> f64 {
    let degrees = graph.offsets().par_windows(2).in_pieces().map(|ends| ends[1] - ends[0]);
    let squares: u128 = degrees.map(|degree| u128::from(degree).pow(2)).sum();
    squares as f64 / graph.arcs() as f64
}

/// Weights of arcs from all over the graph; all of a small one.
fn sample(weights: &Weights) -> Vec<f64> {
    match weights {
        Weights::Integer(weights) => picked(weights).map(f64::from).collect(),
        Weights::Real(weights) => picked(weights).map(f64::from).collect(),
    }
}

/// Up to [`SAMPLE`] of them.
fn picked<T: Copy>(weights: &[T]) -> impl Iterator<Item = T> {
    /// 2^64 divided by the golden ratio, of which multiples are spread evenly, in step with nothing.
    const STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;
    let all = weights.len();
    let place = move |at: usize| match all <= SAMPLE {
        true => at,
        false => ((u128::from(STRIDE.wrapping_mul(at as u64)) * all as u128) >> 64) as usize,
    };
    (0..all.min(SAMPLE)).map(move |at| weights[place(at)])
}

/// The weight that this share of them do not exceed.
fn quantile(weights: &mut [f64], share: f64) -> f64 {
    let place = (share * weights.len() as f64) as usize;
    let place = place.min(weights.len() - 1);
    *weights.select_nth_unstable_by(place, f64::total_cmp).1
}

/// The same if equal weights were spread evenly between theirs and the next lighter one, or 0.
fn spread_quantile(weights: &mut [f64], share: f64) -> f64 {
    let weight = quantile(weights, share);
    let lighter = || weights.iter().copied().filter(|&other| other < weight);
    let equal = weights.iter().filter(|&&other| other == weight).count();
    let part = (share * weights.len() as f64 - lighter().count() as f64) / equal as f64;
    let next = lighter().fold(0.0, f64::max);
    next + (weight - next) * part.min(1.0)
}

#[cfg(test)]
mod tests {
    use millstream_graph::generate::{self, GenerateOptions};

    use super::*;

    /// Of degree 16, with weights from 1 to 1000.
    fn random() -> CsrGraph {
        let options = GenerateOptions { seed: 1, max_weight: Some(1000) };
        generate::random(10_000, 80_000, &options).unwrap()
    }

    /// The width on GPUs, with other weights.
    fn width(graph: &CsrGraph, weight: impl Fn(u32) -> u32) -> Option<f64> {
        let weights = graph.weights().and_then(Weights::as_integers).unwrap();
        let weights = Weights::Integer(weights.iter().map(|&it| weight(it)).collect());
        let graph = graph.clone().with_weights(Some(weights)).unwrap();
        step_width(&graph, Means::of(&graph).unwrap(), true)
    }

    #[test]
    fn so_many_arcs_are_light_whatever_weights_mean() {
        let graph = random();
        let usual = width(&graph, |it| it).unwrap();
        let expected = 1000.0 * GPU_FACTOR * 17f64.powf(-2.0 / 3.0);
        assert!((usual / expected - 1.0).abs() < 0.03, "{usual}, not {expected}");
        assert_eq!(width(&graph, |it| 1000 * it), Some(1000.0 * usual));
        assert_eq!(width(&graph, |it| if it > 990 { 1_000_000 } else { it }), Some(usual));
        let means = Means::of(&graph).unwrap();
        let on_hosts = step_width(&graph, means, false).unwrap();
        assert!((on_hosts / usual - FACTOR / GPU_FACTOR).abs() < 0.02);
    }

    #[test]
    fn hubs_make_steps_narrow() {
        let options = GenerateOptions { seed: 1, max_weight: Some(1000) };
        let hubs = generate::kron(13, 8, &options).unwrap();
        let (alike, hubs) = (width(&random(), |it| it), width(&hubs, |it| it));
        assert!(hubs.unwrap() < 0.3 * alike.unwrap(), "{hubs:?}, {alike:?}");
    }

    #[test]
    fn steps_have_some_units_unless_weights_are_few_units() {
        let options = GenerateOptions { seed: 1, max_weight: Some(1024) };
        let graph = generate::kron(15, 16, &options).unwrap();
        let units = |most: u32| width(&graph, |it| 1 + it % most).map(f64::round);
        assert_eq!([1, 2, 4, 8, 16, 64].map(units), [1.0, 1.0, 1.0, 1.0, 3.0, 6.0].map(Some));
        let tens = width(&graph, |it| 10 * (1 + it % 64));
        assert_eq!(tens, width(&graph, |it| 1 + it % 64).map(|one| 10.0 * one));
        // Many units make the share of light arcs the wider one.
        assert!(units(1024) > Some(8.0));
    }

    #[test]
    fn beside_hubs_there_is_room_for_both() {
        let options = GenerateOptions { seed: 1, max_weight: Some(1 << 20) };
        let hubs = generate::kron(15, 16, &options).unwrap();
        for (graph, most, has_hubs) in [(hubs, 256, true), (random(), 16, false)] {
            let degree = degree_on_paths(&graph);
            let light = f64::from(most) * GPU_FACTOR * degree.powf(-2.0 / 3.0);
            let units = UNITS * (1.0 - FEW_UNITS / f64::from(most / 2));
            let expected = if has_hubs { light + units } else { light.max(units) };
            let width = width(&graph, |it| 1 + it % most).unwrap();
            assert!((width / expected - 1.0).abs() < 0.05, "{width}, not {expected} of {degree}");
        }
    }

    #[test]
    fn equal_weights_are_spread() {
        let mut weights = [3.0, 1.0, 3.0, 7.0];
        let shares = [0.0, 0.125, 0.25, 0.5, 0.75, 0.875, 1.0];
        let expected = [0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 7.0];
        assert_eq!(shares.map(|share| spread_quantile(&mut weights, share)), expected);
    }

    #[test]
    fn a_few_light_arcs_change_nothing() {
        let options = GenerateOptions { seed: 1, max_weight: Some(1 << 20) };
        let graph = generate::kron(15, 16, &options).unwrap();
        let usual = width(&graph, |it| 10 * (1 + it % 64));
        for lightest in [0, 1] {
            let lighter = |it| if it < 9 { lightest } else { 10 * (1 + it % 64) };
            assert_eq!(width(&graph, lighter), usual);
        }
    }

    #[test]
    fn zeros_are_no_width() {
        let graph = random();
        assert_eq!(width(&graph, |_| 0), None);
        // Of what is left, from 1 to 300, the same share is light.
        let some = width(&graph, |it| it.saturating_sub(700)).unwrap();
        let expected = 300.0 * GPU_FACTOR * 17f64.powf(-2.0 / 3.0);
        assert!((some / expected - 1.0).abs() < 0.03, "{some}, not {expected}");
    }
}
