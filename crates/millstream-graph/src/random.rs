//! Random numbers by position instead of by history: what is drawn does not depend on the order of
//! drawing, so results are the same for any number of threads.

/// A stream of random words, each a hash of the key and its position (the
/// generator is SplitMix64, whose state after `i` steps is `key + i * STEP`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct CounterRandom {
    key: u64,
}

/// What numbers are drawn for: different uses of one seed get independent numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Edges = 1,
    Labels = 2,
    Weights = 3,
    Parts = 4,
}

/// SplitMix64's step, 2^64 divided by the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl CounterRandom {
    pub(crate) fn new(seed: u64, purpose: Purpose) -> CounterRandom {
        CounterRandom { key: mix(mix(seed) ^ purpose as u64) }
    }

    /// The word at `position`.
    pub(crate) fn at(&self, position: u64) -> u64 {
        mix(self.key.wrapping_add(position.wrapping_mul(STEP)))
    }

    /// A number below `bound` (0 if `bound` is), from the word at `position`.
    pub(crate) fn below(&self, bound: u32, position: u64) -> u32 {
        (((self.at(position) >> 32) * u64::from(bound)) >> 32) as u32
    }
}

/// A word that reveals nothing about `word`: the first output of SplitMix64 with that seed.
pub(crate) fn hash(word: u64) -> u64 {
    mix(word.wrapping_add(STEP))
}

/// SplitMix64's output function (Steele, Lea, Flood, OOPSLA 2014).
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// A seeded bijection on the numbers of `bits` bits: every step can be undone (an
/// odd factor, a sum, and a shifted copy of the higher bits).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permutation {
    mask: u32,
    shift: u32,
    rounds: [(u32, u32); 4],
}

impl Permutation {
    /// For at most 32 bits.
    pub(crate) fn new(bits: u32, random: CounterRandom) -> Permutation {
        let round = |round: u64| (random.at(2 * round) as u32 | 1, random.at(2 * round + 1) as u32);
        Permutation {
            mask: ((1u64 << bits) - 1) as u32,
            shift: (bits / 2).max(1),
            rounds: [round(0), round(1), round(2), round(3)],
        }
    }

    pub(crate) fn apply(&self, mut number: u32) -> u32 {
        for (factor, summand) in self.rounds {
            number = number.wrapping_mul(factor).wrapping_add(summand) & self.mask;
            number ^= number >> self.shift;
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permutations_hit_every_number_once() {
        for bits in 0..13 {
            for seed in 0..5 {
                let permutation = Permutation::new(bits, CounterRandom::new(seed, Purpose::Labels));
                let mut hit = vec![false; 1 << bits];
                for number in 0..1 << bits {
                    let image = permutation.apply(number) as usize;
                    assert!(!std::mem::replace(&mut hit[image], true));
                }
            }
        }
    }

    #[test]
    fn numbers_below_a_bound_are_even() {
        let random = CounterRandom::new(7, Purpose::Edges);
        let mut counts = [0; 10];
        for position in 0..100_000 {
            counts[random.below(10, position) as usize] += 1;
        }
        // Each count has mean 10,000 and standard deviation 95.
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
        assert_eq!(random.below(0, 3), 0);
    }

    #[test]
    fn seeds_and_purposes_differ() {
        let word = |seed, purpose| CounterRandom::new(seed, purpose).at(0);
        assert_ne!(word(1, Purpose::Edges), word(2, Purpose::Edges));
        assert_ne!(word(1, Purpose::Edges), word(1, Purpose::Weights));
    }
}
