//! Writes the text formats: threads turn blocks of rows into text, which is
//! written in their order.

use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

use rayon::prelude::*;

use super::Stop;
use crate::format::separator;
use crate::pieces::{InPieces, rows_of};
use crate::read::arcs::credible_vertices;
use crate::{CsrGraph, Weights};

/// Matrix Market, always as a general matrix.
pub(super) fn matrix_market(output: &mut impl Write, graph: &CsrGraph) -> Result<(), Stop> {
    let field = match graph.weights() {
        None => "pattern",
        Some(Weights::Integer(_)) => "integer",
        Some(Weights::Real(_)) => "real",
    };
    check_credible(graph)?;
    let vertices = graph.vertices();
    writeln!(output, "%%MatrixMarket matrix coordinate {field} general")?;
    writeln!(output, "{vertices} {vertices} {}", graph.arcs())?;
    write_rows(output, graph, |vertex, text| {
        for arc in graph.row(vertex) {
            push_number(text, u64::from(vertex) + 1);
            text.push(b' ');
            push_number(text, u64::from(graph.targets()[arc]) + 1);
            push_weight(text, b' ', graph.weights(), arc);
            text.push(b'\n');
        }
    })
}

/// DIMACS-9 shortest path text; an arc without a weight gets 1.
pub(super) fn dimacs(output: &mut impl Write, graph: &CsrGraph) -> Result<(), Stop> {
    check_credible(graph)?;
    writeln!(output, "p sp {} {}", graph.vertices(), graph.arcs())?;
    write_rows(output, graph, |vertex, text| {
        for arc in graph.row(vertex) {
            text.extend_from_slice(b"a ");
            push_number(text, u64::from(vertex) + 1);
            text.push(b' ');
            push_number(text, u64::from(graph.targets()[arc]) + 1);
            match graph.weights() {
                None => text.extend_from_slice(b" 1"),
                weights => push_weight(text, b' ', weights, arc),
            }
            text.push(b'\n');
        }
    })
}

/// METIS text; the graph must be undirected.
pub(super) fn metis(output: &mut impl Write, graph: &CsrGraph) -> Result<(), Stop> {
    check_undirected(graph)?;
    let format = if graph.weights().is_some() { " 1" } else { "" };
    writeln!(output, "{} {}{format}", graph.vertices(), graph.arcs() / 2)?;
    write_rows(output, graph, |vertex, text| {
        let row = graph.row(vertex);
        for arc in row.clone() {
            if arc > row.start {
                text.push(b' ');
            }
            push_number(text, u64::from(graph.targets()[arc]) + 1);
            push_weight(text, b' ', graph.weights(), arc);
        }
        text.push(b'\n');
    })
}

/// An edge list of original ids, with the separator that the extension demands.
pub(super) fn edge_list(
    output: &mut impl Write,
    graph: &CsrGraph,
    path: &Path,
) -> Result<(), Stop> {
    let separator = separator(path);
    match graph.original_ids() {
        Some(ids) => check_all_named(graph, ids)?,
        None => {
            check_credible(graph)?;
            check_last_vertex(graph)?;
        }
    }
    write_rows(output, graph, |vertex, text| {
        for arc in graph.row(vertex) {
            push_number(text, id(graph, vertex));
            text.push(separator);
            push_number(text, id(graph, graph.targets()[arc]));
            push_weight(text, separator, graph.weights(), arc);
            text.push(b'\n');
        }
    })
}

/// The id of a vertex in the file that the graph was read from.
fn id(graph: &CsrGraph, vertex: u32) -> u64 {
    graph.original_ids().map_or(vertex.into(), |ids| ids[vertex as usize])
}

/// Checks that every arc has its reverse of the same weight, and that there are no self-loops.
fn check_undirected(graph: &CsrGraph) -> Result<(), Stop> {
    let has_loop = |&vertex: &u32| graph.neighbors(vertex).contains(&vertex);
    if let Some(vertex) = rows_of(graph).find_first(has_loop) {
        let reason = format!("vertex {} has an arc to itself", id(graph, vertex));
        return Err(Stop::NotRepresentable(reason));
    }
    let first = graph.first_asymmetric().map_err(|error| io::Error::other(error.to_string()))?;
    first.map_or(Ok(()), |vertex| {
        let vertex = id(graph, vertex);
        let reason = format!(
            "it is not symmetric: arcs from and to vertex {vertex} differ (symmetrize it first)"
        );
        Err(Stop::NotRepresentable(reason))
    })
}

/// Refuses vertices for which the reader would demand more arcs.
fn check_credible(graph: &CsrGraph) -> Result<(), Stop> {
    let vertices = credible_vertices(graph.vertices().into(), graph.arcs());
    vertices.map(drop).map_err(Stop::NotRepresentable)
}

/// The last vertex must have an arc: the reader takes the number of vertices from the largest id.
fn check_last_vertex(graph: &CsrGraph) -> Result<(), Stop> {
    let largest = graph.targets().par_iter().in_pieces().max().copied();
    let last_row = (0..graph.vertices()).rev().find(|&vertex| graph.degree(vertex) > 0);
    let named = largest.max(last_row).map_or(0, |id| u64::from(id) + 1);
    let vertices = u64::from(graph.vertices());
    if named > 0 && named == vertices {
        return Ok(());
    }
    let reason = match named {
        0 => "it has no arc".to_string(),
        _ => format!(
            "it has no arc from or to the last of its {vertices} vertices, whose number would be \
             lost; every other format keeps it, such as .mtx or .mill"
        ),
    };
    Err(Stop::NotRepresentable(reason))
}

/// Every vertex must have an arc: the reader finds only ids that arcs name.
fn check_all_named(graph: &CsrGraph, ids: &[u64]) -> Result<(), Stop> {
    let mut is_named: Vec<bool> =
        (0..graph.vertices()).map(|vertex| graph.degree(vertex) > 0).collect();
    graph.targets().iter().for_each(|&target| is_named[target as usize] = true);
    match is_named.iter().position(|is_named| !is_named) {
        None if ids.is_empty() => Err(Stop::NotRepresentable("it has no arc".to_string())),
        None => Ok(()),
        Some(vertex) => Err(Stop::NotRepresentable(format!(
            "it has no arc from or to vertex {}, whose id would be lost (.mill keeps it)",
            ids[vertex]
        ))),
    }
}

/// Writes the text that `push_row` makes of each row.
fn write_rows(
    output: &mut impl Write,
    graph: &CsrGraph,
    push_row: impl Fn(u32, &mut Vec<u8>) + Sync,
) -> Result<(), Stop> {
    let blocks = row_blocks(graph.offsets());
    // Only some blocks for each thread at a time, so that little text is in memory.
    for blocks in blocks.chunks(4 * rayon::current_num_threads()) {
        let to_text = |rows: &Range<u32>| {
            let mut text = Vec::new();
            rows.clone().for_each(|vertex| push_row(vertex, &mut text));
            text
        };
        let texts: Vec<_> = blocks.par_iter().map(to_text).collect();
        texts.iter().try_for_each(|text| output.write_all(text))?;
    }
    Ok(())
}

/// All rows, in blocks of some thousand arcs.
fn row_blocks(offsets: &[u64]) -> Vec<Range<u32>> {
    const ARCS_AND_ROWS: u64 = 1 << 15;
    let rows = offsets.len() - 1;
    let (mut blocks, mut first) = (Vec::new(), 0);
    for row in 0..rows {
        let work = offsets[row + 1] - offsets[first] + (row - first) as u64;
        if work >= ARCS_AND_ROWS || row + 1 == rows {
            blocks.push(first as u32..row as u32 + 1);
            first = row + 1;
        }
    }
    blocks
}

/// Appends the decimal digits.
fn push_number(text: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    text.extend_from_slice(&digits[start..]);
}

/// Appends the separator and the arc's weight, if it has one.
fn push_weight(text: &mut Vec<u8>, separator: u8, weights: Option<&Weights>, arc: usize) {
    match weights {
        None => {}
        Some(Weights::Integer(weights)) => {
            text.push(separator);
            push_number(text, u64::from(weights[arc]));
        }
        Some(Weights::Real(weights)) => {
            text.push(separator);
            // The shortest text that is read as the same real. It has a point or an exponent, so
            // that it is not taken for an integer.
            text.extend_from_slice(format!("{:?}", weights[arc]).as_bytes());
        }
    }
}
