//! What is found out about a graph when it is uploaded.

use std::ops::Range;

use millstream_traversal::DistributedGraph;

use crate::Result;
use crate::kernels::SURVEY;

/// What decides how a graph is searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Survey {
    /// Whether every arc has its reverse, by fingerprints.
    pub(crate) is_symmetric: bool,
    /// For each device the vertices that its rows belong to or name, those between, and
    /// some more, so that it begins and ends at multiples of 32, or with the last vertex.
    pub(crate) named: Vec<Range<u32>>,
}

impl Survey {
    pub(crate) async fn of(graph: &DistributedGraph) -> Result<Survey> {
        let (mut asymmetry, mut named, mut surveys) = (0u64, Vec::new(), Vec::new());
        let devices = graph.context().devices().iter();
        let ranges = graph.partition().boundaries().windows(2);
        let vertices = graph.vertices();
        for ((device, part), range) in devices.zip(graph.parts()).zip(ranges) {
            let (stream, words) = (device.stream()?, device.shared(WORDS)?);
            let arguments = (&*part.offsets, &*part.targets, range[0], &words);
            SURVEY.launch(&stream, part.offsets.len() - 1, arguments)?;
            surveys.push((stream.download_shared(&words, 0..WORDS)?, range));
        }
        for (words, range) in surveys {
            let words = words.await?;
            let &[sum, lowest, end] = &*words else { continue };
            asymmetry = asymmetry.wrapping_add(sum);
            let targets = u32::MAX - lowest as u32..end as u32;
            named.push(rounded(union(&(range[0]..range[1]), &targets), vertices));
        }
        Ok(Survey { is_symmetric: asymmetry == 0, named })
    }

    /// Every device names every vertex.
    pub(crate) fn name_all(&mut self, vertices: u32) {
        self.named.fill(0..vertices);
    }
}

/// Of the device's answer: see [`SURVEY`].
const WORDS: usize = 3;

fn rounded(range: Range<u32>, vertices: u32) -> Range<u32> {
    let end = range.end.checked_next_multiple_of(32).unwrap_or(u32::MAX);
    range.start / 32 * 32..end.min(vertices)
}

/// The vertices in two ranges, and those between.
fn union(one: &Range<u32>, other: &Range<u32>) -> Range<u32> {
    match (one.is_empty(), other.is_empty()) {
        (true, true) => 0..0,
        (true, false) => other.clone(),
        (false, true) => one.clone(),
        _ => one.start.min(other.start)..one.end.max(other.end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::reversed_empty_ranges)]
    fn unions_of_nothing_are_empty() {
        assert_eq!([union(&(4..4), &(u32::MAX..0)), union(&(4..4), &(1..2))], [0..0, 1..2]);
        assert_eq!([union(&(1..2), &(9..3)), union(&(7..9), &(1..2))], [1..2, 1..9]);
    }
}
