//! Galois binary graphs of version 1, little-endian: the version, the size of an
//! arc's data (0 or 4), the numbers of vertices and arcs, each 64 bits; the end of
//! each row (64 bits); the targets (32 bits), padded to a multiple of 8 bytes; the
//! weights (32 bits).

use super::Fault;
use super::mill::{longs, words};
use crate::{CsrGraph, GraphError, Weights};

const HEADER: usize = 32;

/// The graph, its rows in the order of the file.
pub(super) fn parse(content: &[u8]) -> Result<CsrGraph, Fault> {
    let fault = |offset: usize, reason: String| Fault::At { offset, reason };
    let Some(header) = content.get(..HEADER) else {
        let reason = format!("the file ends in its header of {HEADER} bytes");
        return Err(fault(content.len(), reason));
    };
    let header = longs(header);
    let [version, data, vertices, arcs] = header[..] else {
        return Err(fault(0, "no header".to_string()));
    };
    if version != 1 {
        return Err(fault(0, format!("version {version} is not supported, only 1 is")));
    }
    if data != 0 && data != 4 {
        return Err(fault(8, format!("arc data of {data} bytes are not supported, only 0 and 4")));
    }
    check_length(content.len(), data, vertices, arcs)?;
    let (vertices, arcs) = (vertices as usize, arcs as usize);
    let targets_start = HEADER + 8 * vertices;
    let weights_start = targets_start + 4 * (arcs + arcs % 2);
    let mut offsets = longs(&content[HEADER..targets_start]);
    offsets.insert(0, 0);
    let targets = words(&content[targets_start..targets_start + 4 * arcs]);
    let weights =
        (data == 4).then(|| Weights::Integer(words(&content[weights_start..][..4 * arcs])));
    // The row index in the file lacks the first zero.
    CsrGraph::from_csr(offsets, targets, weights)
        .map_err(|error| csr_fault(&error, HEADER - 8, targets_start, weights_start))
}

/// Checks that the counts agree with the number of bytes.
fn check_length(length: usize, data: u64, vertices: u64, arcs: u64) -> Result<(), Fault> {
    if vertices > u64::from(u32::MAX) {
        let reason = format!("{vertices} vertices do not fit 32-bit ids");
        return Err(Fault::At { offset: 16, reason });
    }
    let (length, wide) = (length as u128, u128::from(arcs));
    let padding = 4 * (wide % 2);
    let expected =
        HEADER as u128 + 8 * u128::from(vertices) + 4 * wide + padding + u128::from(data) * wide;
    // Some writers omit the padding if nothing follows.
    if length == expected || (data == 0 && length + padding == expected) {
        return Ok(());
    }
    let reason = format!(
        "the header promises {vertices} vertices and {arcs} arcs, which take {expected} bytes, \
         but the file has {length}"
    );
    Err(Fault::At { offset: 16, reason })
}

/// Describes a fault in the arrays of a file, given where in the file the arrays begin.
pub(super) fn csr_fault(
    error: &GraphError,
    offsets: usize,
    targets: usize,
    weights: usize,
) -> Fault {
    let reason = error.to_string();
    match *error {
        GraphError::Offsets { row, .. } => {
            Fault::At { offset: offsets + 8 * (row as usize + 1), reason }
        }
        GraphError::VertexOutOfRange { arc, .. } => {
            Fault::At { offset: targets + 4 * arc as usize, reason }
        }
        GraphError::WeightNotFinite { arc } => {
            Fault::At { offset: weights + 4 * arc as usize, reason }
        }
        _ => Fault::Whole(reason),
    }
}
