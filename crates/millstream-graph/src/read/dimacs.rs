//! The text format of the ninth DIMACS challenge: `c` comments, one line
//! `p sp VERTICES ARCS`, and `a FROM TO WEIGHT` for each arc.

use super::Fault;
use super::arcs::{Arcs, Piece, Weighting, credible_vertices};
use super::text::{Scanner, WeightRule, show};

fn is_comment(byte: u8) -> bool {
    byte == b'c'
}

/// The arcs of a shortest path problem.
pub(super) fn parse(content: &[u8]) -> Result<Arcs, Fault> {
    let mut scanner = Scanner::new(content);
    if !scanner.next_content(is_comment) {
        return Err(scanner.fault("the line with the problem, p sp, is missing"));
    }
    let place = scanner.clone();
    let (vertices, promised) = parse_problem(&mut scanner)?;
    let pieces = scanner.parse_pieces(|_, piece| parse_piece(piece, vertices))?;
    let arcs = Arcs { vertices, pieces, weighting: Weighting::Integer, is_symmetric: false };
    let found = arcs.entries();
    if found != promised {
        return Err(place.fault(format!("{promised} arcs promised, but there are {found}")));
    }
    Ok(arcs)
}

fn parse_problem(scanner: &mut Scanner<'_>) -> Result<(u32, u64), Fault> {
    let place = scanner.clone();
    let (letter, problem) = (scanner.word(), scanner.word());
    if letter != b"p" {
        let letter = show(letter);
        return Err(place.fault(format!("{letter} where the problem, p sp, should be")));
    }
    if problem != b"sp" {
        let problem = show(problem);
        return Err(place.fault(format!("{problem} is not the shortest path problem, sp")));
    }
    let vertices = scanner.number("number of vertices")?;
    let arcs = scanner.number("number of arcs")?;
    scanner.end_line()?;
    // An arc takes at least eight bytes, the last one perhaps seven.
    let most = (scanner.remaining() as u64 + 1) / 8;
    if arcs > most {
        let reason = format!("{arcs} arcs promised, but what follows has room for {most} at most");
        return Err(place.fault(reason));
    }
    let vertices = credible_vertices(vertices, arcs).map_err(|reason| place.fault(reason))?;
    Ok((vertices, arcs))
}

fn parse_piece(mut scanner: Scanner<'_>, vertices: u32) -> Result<Piece<u32>, Fault> {
    let mut piece = Piece::default();
    while scanner.next_content(is_comment) {
        let place = scanner.clone();
        let letter = scanner.word();
        if letter != b"a" {
            return Err(place.fault(format!("{} where an arc, a, should be", show(letter))));
        }
        piece.ends.push((scanner.vertex(vertices)?, scanner.vertex(vertices)?));
        piece.push_weight(scanner.weight(WeightRule::Integer)?);
        scanner.end_line()?;
    }
    Ok(piece)
}
