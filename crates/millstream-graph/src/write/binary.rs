//! Writes Galois and `.mill` files.

use std::borrow::Cow;
use std::io::{self, Write};

use super::Stop;
use crate::mill::{HEADER, Header, WeightKind, checksum};
use crate::{CsrGraph, Weights};

/// The bytes of numbers, little-endian.
macro_rules! little_endian {
    ($values:expr) => {{
        let values = $values;
        match cfg!(target_endian = "little") {
            true => Cow::Borrowed(bytemuck::cast_slice::<_, u8>(values)),
            false => Cow::Owned(values.iter().flat_map(|value| value.to_le_bytes()).collect()),
        }
    }};
}

/// Galois, version 1, for a graph without real weights; rows keep the order of their arcs.
pub(super) fn galois(output: &mut impl Write, graph: &CsrGraph) -> Result<(), Stop> {
    let weights = graph.weights().and_then(Weights::as_integers);
    let data = if weights.is_some() { 4 } else { 0 };
    let header = [1u64, data, u64::from(graph.vertices()), graph.arcs()];
    output.write_all(&little_endian!(&header[..]))?;
    output.write_all(&little_endian!(&graph.offsets()[1..]))?;
    output.write_all(&little_endian!(graph.targets()))?;
    if !graph.arcs().is_multiple_of(2) {
        output.write_all(&[0; 4])?;
    }
    if let Some(weights) = weights {
        output.write_all(&little_endian!(weights))?;
    }
    Ok(())
}

/// Our own format, see [`crate::mill`].
pub(super) fn mill(output: &mut impl Write, graph: &CsrGraph) -> Result<(), Stop> {
    let (kind, weights) = match graph.weights() {
        None => (WeightKind::None, Cow::Borrowed(&[][..])),
        Some(Weights::Integer(weights)) => (WeightKind::Integer, little_endian!(&weights[..])),
        Some(Weights::Real(weights)) => (WeightKind::Real, little_endian!(&weights[..])),
    };
    let arrays: [Cow<'_, [u8]>; 4] = [
        little_endian!(graph.offsets()),
        little_endian!(graph.targets()),
        weights,
        little_endian!(graph.original_ids().unwrap_or(&[])),
    ];
    let header = Header {
        vertices: u64::from(graph.vertices()),
        arcs: graph.arcs(),
        weights: kind,
        lattice_width: graph.lattice_width(),
        has_original_ids: graph.original_ids().is_some(),
        checksums: [0, 1, 2, 3].map(|section: usize| checksum(&arrays[section])),
    };
    let sections = header.sections().ok_or(io::Error::from(io::ErrorKind::FileTooLarge))?;
    output.write_all(&header.encode())?;
    let mut end = HEADER as u64;
    for (section, array) in sections.into_iter().zip(&arrays) {
        output.write_all(&[0; 64][..(section.start - end) as usize])?;
        output.write_all(array)?;
        end = section.end;
    }
    Ok(())
}
