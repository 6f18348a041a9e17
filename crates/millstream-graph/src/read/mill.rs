//! Reads `.mill` files, see [`crate::mill`] for their layout.

use std::ops::Range;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use bytemuck::AnyBitPattern;
use memmap2::Mmap;
use rayon::prelude::*;

use super::Fault;
use super::galois::csr_fault;
use super::source::Content;
use crate::mill::{Header, WeightKind, checksum};
use crate::pieces::InPieces;
use crate::storage::Storage;
use crate::{CsrGraph, GraphError, Weights};

const NAMES: [&str; 4] = ["offsets", "targets", "weights", "original ids"];

/// The graph; where the file is mapped, so are its offsets and targets.
pub(super) fn parse(content: &Content) -> Result<CsrGraph, Fault> {
    let fault = |offset: usize, reason: String| Fault::At { offset, reason };
    let header = Header::decode(content).map_err(|(offset, reason)| fault(offset, reason))?;
    let sections = check_sections(content, &header)?;
    let [offsets, targets, weights, ids] = sections.clone();
    let weights = &content[weights];
    let weights = match header.weights {
        WeightKind::None => None,
        WeightKind::Integer => Some(Weights::Integer(words(weights))),
        WeightKind::Real => Some(Weights::Real(convert(weights, f32::from_le_bytes))),
    };
    let original_ids = header.has_original_ids.then(|| longs(&content[ids.clone()]));
    let offsets = storage(content, offsets, longs)?;
    let targets = storage(content, targets, words)?;
    let graph = CsrGraph::from_storage(offsets, targets, weights).map_err(|error| {
        csr_fault(&error, sections[0].start, sections[1].start, sections[2].start)
    })?;
    let graph = graph.with_lattice_width(header.lattice_width);
    match original_ids {
        None => Ok(graph),
        Some(all) => graph.with_original_ids(all).map_err(|error| match error {
            GraphError::OriginalIdOrder { vertex } => {
                Fault::At { offset: ids.start + 8 * vertex as usize, reason: error.to_string() }
            }
            error => error.into(),
        }),
    }
}

/// The byte ranges of the sections, if the file has all of them and their checksums are right.
fn check_sections(content: &[u8], header: &Header) -> Result<[Range<usize>; 4], Fault> {
    let Header { vertices, arcs, .. } = *header;
    let sections = header.sections().ok_or_else(|| {
        let reason = format!("{vertices} vertices and {arcs} arcs do not fit a file");
        Fault::At { offset: 16, reason }
    })?;
    let (length, expected) = (content.len() as u64, sections[3].end);
    if length != expected {
        let reason = format!(
            "the header promises {vertices} vertices and {arcs} arcs, which take {expected} \
             bytes, but the file has {length}"
        );
        return Err(Fault::At { offset: 16, reason });
    }
    let sections = sections.map(|section| section.start as usize..section.end as usize);
    for ((section, name), sum) in sections.iter().zip(NAMES).zip(header.checksums) {
        if checksum(&content[section.clone()]) != sum {
            let reason = format!("the checksum of the {name} does not match");
            return Err(Fault::At { offset: section.start, reason });
        }
    }
    Ok(sections)
}

/// The array of a section, mapped if it can be.
fn storage<T: AnyBitPattern + Send + Sync + UnwindSafe + RefUnwindSafe>(
    content: &Content,
    section: Range<usize>,
    copy: impl FnOnce(&[u8]) -> Vec<T>,
) -> Result<Storage<T>, Fault> {
    match content {
        Content::Mapped(map) if cfg!(target_endian = "little") => mapped(map, section),
        _ => Ok(copy(&content[section]).into()),
    }
}

fn mapped<T: AnyBitPattern>(map: &Arc<Mmap>, section: Range<usize>) -> Result<Storage<T>, Fault> {
    let offset = section.start;
    let fault = |error| Fault::At { offset, reason: format!("a section cannot be used: {error}") };
    Storage::mapped(map, section).map_err(fault)
}

/// Little-endian numbers of `SIZE` bytes.
fn convert<const SIZE: usize, T: Send>(
    bytes: &[u8],
    from_bytes: impl Fn([u8; SIZE]) -> T + Sync,
) -> Vec<T> {
    let (numbers, _) = bytes.as_chunks::<SIZE>();
    numbers.par_iter().in_pieces().map(|bytes| from_bytes(*bytes)).collect()
}

pub(super) fn words(bytes: &[u8]) -> Vec<u32> {
    convert(bytes, u32::from_le_bytes)
}

pub(super) fn longs(bytes: &[u8]) -> Vec<u64> {
    convert(bytes, u64::from_le_bytes)
}
