//! The text format of METIS and of the tenth DIMACS challenge: a line for each
//! vertex with its neighbours, counted from 1. Sizes and weights of vertices are
//! skipped.

use super::arcs::{Arcs, Piece, Weighting};
use super::text::{Scanner, WeightRule, show};
use super::{Fault, ReadOptions};
use crate::CsrGraph;

/// The first line.
struct Header {
    vertices: u32,
    edges: u64,
    /// How many numbers of a line come before the neighbours.
    skipped: u64,
    has_weights: bool,
}

fn is_comment(byte: u8) -> bool {
    byte == b'%'
}

/// The graph, which is undirected: both directions of an edge are in the file, with one weight.
pub(super) fn parse(content: &[u8]) -> Result<CsrGraph, Fault> {
    let graph = parse_arcs(content)?.into_graph(&ReadOptions::default())?;
    if graph.is_symmetric_with_weights() {
        return Ok(graph);
    }
    let rule = "a METIS file lists an edge at both of its ends, with one weight";
    Err(match graph.first_asymmetric() {
        // Described by the number that the file uses for the vertex.
        Ok(Some(vertex)) => {
            let id = vertex + 1;
            let reason = format!("{rule}; the lines of vertex {id} and its neighbours do not");
            fault_at_vertex(content, vertex, reason)
        }
        _ => Fault::Whole(format!("{rule}; this one does not")),
    })
}

/// A fault in the line of a vertex, in a text that was parsed before.
#[cold]
fn fault_at_vertex(content: &[u8], vertex: u32, reason: String) -> Fault {
    let mut scanner = Scanner::new(content);
    scanner.next_content(is_comment);
    for _ in 0..=vertex {
        scanner.skip_line();
        scanner.next_line(is_comment);
    }
    scanner.fault(reason)
}

fn parse_arcs(content: &[u8]) -> Result<Arcs, Fault> {
    let mut scanner = Scanner::new(content);
    if !scanner.next_content(is_comment) {
        return Err(scanner.fault("the line with the sizes is missing"));
    }
    let place = scanner.clone();
    let header = parse_header(&mut scanner)?;
    // The number of lines before a line tells which vertex it is for.
    let lines = scanner.parse_pieces(|_, piece| Ok(count_lines(piece)))?;
    let count: u64 = lines.iter().sum();
    let vertices = header.vertices;
    if count < u64::from(vertices) {
        let reason = format!("{vertices} vertices promised, but {count} lines follow");
        return Err(place.fault(reason));
    }
    let mut firsts = Vec::with_capacity(lines.len());
    let mut next = 0;
    for lines in lines {
        firsts.push(next);
        next += lines;
    }
    let pieces = scanner.parse_pieces(|index, piece| parse_piece(piece, firsts[index], &header))?;
    let weighting = if header.has_weights { Weighting::Integer } else { Weighting::None };
    let arcs = Arcs { vertices, pieces, weighting, is_symmetric: false };
    let (found, edges) = (arcs.entries(), header.edges);
    if edges.checked_mul(2) != Some(found) {
        let reason = format!("{edges} edges promised, but there are {found} neighbours, not twice");
        return Err(place.fault(reason + " as many"));
    }
    Ok(arcs)
}

fn parse_header(scanner: &mut Scanner<'_>) -> Result<Header, Fault> {
    let place = scanner.clone();
    let vertices = scanner.number("number of vertices")?;
    let edges = scanner.number("number of edges")?;
    let kinds = match scanner.is_line_end() {
        true => [false; 3],
        false => parse_kinds(scanner)?,
    };
    let [has_sizes, has_vertex_weights, has_weights] = kinds;
    let constraints = match scanner.is_line_end() {
        true => u64::from(has_vertex_weights),
        false => scanner.number("number of vertex weights")?,
    };
    scanner.end_line()?;
    // Each vertex has a line, but the last line may lack its end.
    if vertices > scanner.remaining() as u64 {
        let bytes = scanner.remaining();
        let reason = format!("{vertices} vertices promised, but only {bytes} bytes follow");
        return Err(place.fault(reason));
    }
    let too_many = |_| place.fault(format!("{vertices} vertices do not fit 32-bit ids"));
    let vertices = u32::try_from(vertices).map_err(too_many)?;
    let weights = if has_vertex_weights { constraints } else { 0 };
    let skipped = weights.saturating_add(u64::from(has_sizes));
    Ok(Header { vertices, edges, skipped, has_weights })
}

/// Whether there are sizes of vertices, weights of vertices, weights of edges.
fn parse_kinds(scanner: &mut Scanner<'_>) -> Result<[bool; 3], Fault> {
    let place = scanner.clone();
    let word = scanner.word();
    let is_kinds = word.len() <= 3 && word.iter().all(|digit| matches!(digit, b'0' | b'1'));
    if !is_kinds {
        return Err(place.fault(format!("{} is not up to three digits 0 or 1", show(word))));
    }
    let mut kinds = [false; 3];
    for (kind, digit) in kinds.iter_mut().rev().zip(word.iter().rev()) {
        *kind = *digit == b'1';
    }
    Ok(kinds)
}

fn count_lines(mut scanner: Scanner<'_>) -> u64 {
    let mut lines = 0;
    while scanner.next_line(is_comment) {
        lines += 1;
        scanner.skip_line();
    }
    lines
}

/// Parses lines from that of vertex `first` on.
fn parse_piece(mut scanner: Scanner<'_>, first: u64, header: &Header) -> Result<Piece<u32>, Fault> {
    let mut piece = Piece::default();
    let mut line = first;
    while scanner.next_line(is_comment) {
        match u32::try_from(line).ok().filter(|&vertex| vertex < header.vertices) {
            Some(vertex) => parse_vertex(&mut scanner, vertex, header, &mut piece)?,
            None if !scanner.is_line_end() => {
                let vertices = header.vertices;
                return Err(scanner.fault(format!("a line after those of {vertices} vertices")));
            }
            None => {}
        }
        scanner.end_line()?;
        line += 1;
    }
    Ok(piece)
}

fn parse_vertex(
    scanner: &mut Scanner<'_>,
    vertex: u32,
    header: &Header,
    piece: &mut Piece<u32>,
) -> Result<(), Fault> {
    for _ in 0..header.skipped {
        scanner.number("size or weight of the vertex")?;
    }
    while !scanner.is_line_end() {
        piece.ends.push((vertex, scanner.vertex(header.vertices)?));
        if header.has_weights {
            piece.push_weight(scanner.weight(WeightRule::Integer)?);
        }
    }
    Ok(())
}
