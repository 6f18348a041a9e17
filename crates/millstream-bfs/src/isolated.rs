//! Which vertices a search need not look for, and the visited bits that it begins with.

use std::collections::BTreeMap;
use std::iter::repeat;
use std::sync::Arc;

use millstream_device::{DeviceBuffer, SharedBuffer, Stream};
use millstream_flow::Context;
use millstream_graph::pieces::InPieces;
use millstream_traversal::internals::on_each_device;
use rayon::prelude::*;

use crate::Result;

/// The fewest words that a thread computes.
const PIECE: usize = 1 << 9;
/// Up to this many words are set one by one, each by a call to the driver.
const FEW: usize = 8;

/// Vertices without arcs: their visited bits are set when a search begins.
#[derive(Debug)]
pub(crate) struct Isolated {
    /// A bit for each vertex by new id, set if it is isolated; bits past the last vertex are 0.
    bits: Arc<[u32]>,
    /// Vertices with arcs.
    connected: u32,
    /// The bits on each device.
    on_devices: Vec<DeviceBuffer<u32>>,
}

impl Isolated {
    /// No vertex is known to be isolated.
    pub(crate) async fn none(context: &Context, vertices: u32) -> Result<Isolated> {
        Isolated::new(context, vertices, |_| false).await
    }

    /// `is_isolated` takes new ids.
    pub(crate) async fn new(
        context: &Context,
        vertices: u32,
        is_isolated: impl Fn(u32) -> bool + Sync,
    ) -> Result<Isolated> {
        let word = |first: u32| {
            let its = first..vertices.min(first.saturating_add(32));
            its.rev().fold(0, |word, vertex| word << 1 | u32::from(is_isolated(vertex)))
        };
        let words = (0..vertices.div_ceil(32)).into_par_iter().with_min_len(PIECE);
        let bits: Arc<[u32]> = words.map(|at| word(32 * at)).collect();
        let connected =
            vertices - bits.par_iter().in_pieces().map(|word| word.count_ones()).sum::<u32>();
        let lend = |_, stream: &Stream, ()| stream.lent(Arc::clone(&bits));
        let on_devices = on_each_device(context, repeat(()), lend).await?;
        Ok(Isolated { bits, connected, on_devices })
    }

    /// Vertices with arcs.
    pub(crate) fn connected(&self) -> u32 {
        self.connected
    }

    /// The bits that a search from these sources begins with: isolated sources are to be found, too.
    pub(crate) fn beginning(&self, sources: &[u32]) -> Beginning<'_> {
        let mut beginning =
            Beginning { isolated: self, connected: self.connected, changed: BTreeMap::new() };
        for &source in sources {
            let word = beginning.word(source);
            let was_isolated = *word >> (source % 32) & 1;
            *word &= !(1 << (source % 32));
            beginning.connected += was_isolated;
        }
        beginning
    }
}

/// The visited bits that a search begins with.
#[derive(Debug)]
pub(crate) struct Beginning<'a> {
    isolated: &'a Isolated,
    /// Vertices to be found.
    pub(crate) connected: u32,
    /// Words that may differ from those of the isolated vertices.
    changed: BTreeMap<usize, u32>,
}

impl Beginning<'_> {
    fn word(&mut self, vertex: u32) -> &mut u32 {
        let at = vertex as usize / 32;
        self.changed.entry(at).or_insert(self.isolated.bits[at])
    }

    /// Marks these vertices visited, so that no device claims them.
    pub(crate) fn visit(&mut self, vertices: &[u32]) {
        vertices.iter().for_each(|vertex| *self.word(*vertex) |= 1 << (vertex % 32));
    }

    /// How many words the bits of all vertices take.
    pub(crate) fn words(&self) -> usize {
        self.isolated.bits.len()
    }

    /// Writes the bits into `visited` on device `place`, from word `start` on.
    pub(crate) fn write(
        &self,
        stream: &Stream,
        place: usize,
        visited: &SharedBuffer<u32>,
        start: usize,
    ) -> millstream_device::Result<()> {
        let bits = &self.isolated.bits;
        let differs = |(at, word): &(&usize, &u32)| bits[**at] != **word;
        let changed: Vec<_> = self.changed.iter().filter(differs).collect();
        if changed.len() > FEW {
            let mut bits = bits.to_vec();
            changed.into_iter().for_each(|(&at, &word)| bits[at] = word);
            return stream.upload_shared(bits, visited, start..start + self.words());
        }
        let here = &self.isolated.on_devices[place];
        stream.copy_to_shared(here, visited, start..start + self.words())?;
        for (at, &word) in changed {
            stream.fill_shared(visited, start + at..start + at + 1, word)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_flow::Devices;

    /// The bits of two devices, of which every third vertex is isolated.
    fn bits(sources: &[u32], visited: &[u32]) -> (u32, Vec<u32>) {
        let context = Context::builder().devices(Devices::host(2)).build().unwrap();
        let beginning = async {
            let isolated = Isolated::new(&context, 1000, |vertex| vertex % 3 == 0).await?;
            assert_eq!(isolated.connected(), 666);
            let mut beginning = isolated.beginning(sources);
            beginning.visit(visited);
            let mut found = Vec::new();
            for (place, device) in context.devices().iter().enumerate() {
                let (stream, words) = (device.stream()?, device.shared(1 + beginning.words())?);
                beginning.write(&stream, place, &words, 1)?;
                found.push(stream.download_shared(&words, 0..words.len())?.await?);
            }
            assert_eq!(found[0], found[1]);
            Ok::<_, crate::Error>((beginning.connected, found.remove(0)))
        };
        context.block_on(beginning).unwrap().unwrap()
    }

    fn expected(sources: &[u32], visited: &[u32]) -> Vec<u32> {
        let mut words = vec![0; 1 + 1000_usize.div_ceil(32)];
        let is_set = |vertex: &u32| {
            visited.contains(vertex) || vertex.is_multiple_of(3) && !sources.contains(vertex)
        };
        for vertex in (0..1000).filter(is_set) {
            words[1 + vertex as usize / 32] |= 1 << (vertex % 32);
        }
        words
    }

    #[test]
    fn sources_are_to_be_found() {
        let many: Vec<u32> = (0..1000).step_by(7).collect();
        for (sources, connected) in [(&[][..], 666), (&[1], 666), (&[3, 3, 999], 668)] {
            assert_eq!(bits(sources, &[]), (connected, expected(sources, &[])), "{sources:?}");
        }
        let isolated = many.iter().filter(|vertex| vertex.is_multiple_of(3)).count() as u32;
        assert_eq!(bits(&many, &[]), (666 + isolated, expected(&many, &[])));
    }

    #[test]
    fn what_is_visited_is_found() {
        assert_eq!(bits(&[4], &[4]), (666, expected(&[4], &[4])));
        let many: Vec<u32> = (1..1000).step_by(40).collect();
        assert_eq!(bits(&many, &many).1, expected(&many, &many));
    }
}
