//! Edge lists: `from to [weight]` on each line, separated by blanks, tabs or commas, with `#` and
//! `%` comments. Between two commas, and between two tabs in a `.tsv` file, there must be a field;
//! one such separator may end the line. A first line of such fields is a heading if it names both
//! ends, and perhaps the weight. The number of vertices is the largest id plus one. A weight that
//! is written as an integer must fit 32 bits; if some weight is a real, all are, rounded to f32.

use rayon::prelude::*;

use super::Fault;
use super::arcs::{Arcs, Piece, Weighting, credible_vertices};
use super::relabel::relabel;
use super::text::{Scanner, WeightRule};

/// The arcs of an edge list whose ids are the vertices.
pub(super) fn parse(content: &[u8], separator: u8) -> Result<Arcs, Fault> {
    let (pieces, weighting) = parse_lines::<u32>(content, separator)?;
    let largest = |piece: &Piece<u32>| piece.ends.iter().map(|&(from, to)| from.max(to)).max();
    let largest = pieces.par_iter().filter_map(largest).max();
    let vertices = largest.map_or(0, |id| u64::from(id) + 1);
    let arcs = pieces.iter().map(|piece| piece.ends.len() as u64).sum();
    let vertices = credible_vertices(vertices, arcs)
        .map_err(|reason| fault_at_id(content, separator, largest.unwrap_or(0), reason))?;
    Ok(Arcs { vertices, pieces, weighting, is_symmetric: false })
}

/// A fault in the first line that names `id`, in a text that was parsed before.
#[cold]
fn fault_at_id(content: &[u8], separator: u8, id: u32, reason: String) -> Fault {
    let mut scanner = behind_heading(content, separator);
    while scanner.next_content(is_comment) {
        let ends = [end(&mut scanner), end(&mut scanner)];
        if ends.contains(&Ok(id)) {
            return scanner.fault(reason);
        }
        scanner.skip_line();
    }
    Fault::Whole(reason)
}

/// The arcs of an edge list between vertices that are numbered in the order of
/// their ids, and these ids.
pub(super) fn parse_relabelled(content: &[u8], separator: u8) -> Result<(Arcs, Vec<u64>), Fault> {
    let (pieces, weighting) = parse_lines::<u64>(content, separator)?;
    let (pieces, ids) = relabel(pieces)?;
    let vertices = ids.len() as u32;
    Ok((Arcs { vertices, pieces, weighting, is_symmetric: false }, ids))
}

/// A vertex id as it is written.
trait Id: Copy + Send {
    /// What an error says about ids that are too large.
    const LIMIT: &str;

    fn from_number(number: u64) -> Option<Self>;
}

impl Id for u32 {
    const LIMIT: &str = "larger than 4294967294; use --relabel";

    #[inline]
    fn from_number(number: u64) -> Option<u32> {
        // The largest 32-bit number is no id, so that the number of vertices fits 32 bits.
        u32::try_from(number).ok().filter(|&id| id < u32::MAX)
    }
}

impl Id for u64 {
    const LIMIT: &str = "larger than 18446744073709551614";

    #[inline]
    fn from_number(number: u64) -> Option<u64> {
        // The largest number stands for no vertex in results.
        Some(number).filter(|&id| id < u64::MAX)
    }
}

fn is_comment(byte: u8) -> bool {
    matches!(byte, b'#' | b'%')
}

fn parse_lines<I: Id>(content: &[u8], separator: u8) -> Result<(Vec<Piece<I>>, Weighting), Fault> {
    let scanner = behind_heading(content, separator);
    let mut first = scanner.clone();
    if !first.next_content(is_comment) {
        return Err(Fault::Whole("no arc in the file".to_string()));
    }
    // A fault in this line is found again when the line is parsed.
    let _ends = (first.word(), first.word());
    let is_weighted = !first.is_line_end();
    let pieces = scanner.parse_pieces(|_, piece| parse_piece(piece, separator, is_weighted))?;
    Ok((pieces, if is_weighted { Weighting::Integer } else { Weighting::None }))
}

/// The text without its heading, if any: the names of both ends, and perhaps of the weight.
fn behind_heading(content: &[u8], separator: u8) -> Scanner<'_> {
    let whole = Scanner::new(content);
    let (mut line, separators) = (whole.clone(), separators(separator));
    if !line.next_content(is_comment) || line.check_fields(separators).is_err() {
        return whole;
    }
    let Ok(heading) = str::from_utf8(line.line()) else { return whole };
    let is_separator = |char: char| separators.iter().any(|&byte| char == char::from(byte));
    let fields = heading.trim_end_matches(is_separator).split(is_separator);
    let fields: Vec<_> = fields.map(|field| field.trim_matches([' ', '\t', '"'])).collect();
    let is_heading = match fields[..] {
        [from, to] => !begins_number(from.as_bytes()) && !begins_number(to.as_bytes()),
        // With other columns, the first two may mean something else.
        [from, to, weight] => {
            let weight = weight.to_ascii_lowercase();
            !begins_number(from.as_bytes())
                && !begins_number(to.as_bytes())
                && WEIGHTS.contains(&&*weight)
        }
        _ => false,
    };
    if is_heading {
        line.skip_line();
        return line;
    }
    whole
}

/// Names of weights in headings.
const WEIGHTS: [&str; 8] =
    ["weight", "weights", "w", "value", "distance", "dist", "cost", "length"];

fn begins_number(word: &[u8]) -> bool {
    word.first().is_some_and(|byte| byte.is_ascii_digit() || b"+-.".contains(byte))
}

/// Separators between which there must be a field; blanks may be repeated.
fn separators(separator: u8) -> &'static [u8] {
    if separator == b'\t' { b",\t" } else { b"," }
}

fn parse_piece<I: Id>(
    mut scanner: Scanner<'_>,
    separator: u8,
    is_weighted: bool,
) -> Result<Piece<I>, Fault> {
    let mut piece = Piece::default();
    let separators = separators(separator);
    let has_separators = separators.iter().any(|&separator| scanner.has(separator));
    while scanner.next_content(is_comment) {
        if has_separators {
            scanner.check_fields(separators)?;
        }
        let ends = (end(&mut scanner)?, end(&mut scanner)?);
        piece.ends.push(ends);
        if is_weighted == scanner.is_line_end() {
            return Err(scanner.fault("some lines have a weight and some have none"));
        }
        if is_weighted {
            piece.push_weight(scanner.weight(WeightRule::Any)?);
        }
        scanner.end_line()?;
    }
    Ok(piece)
}

/// If the word is not a number at all, makes the fault say what it should have been.
#[cold]
fn explained(fault: Fault, mut word: Scanner<'_>) -> Fault {
    let is_of_number = |byte: &u8| byte.is_ascii_digit() || b"+-.".contains(byte);
    match fault {
        Fault::At { offset, reason } if !word.word().iter().all(is_of_number) => {
            let fields = "a heading begins with # or names two ends and perhaps a weight, and blanks, \
                          tabs or commas separate fields";
            Fault::At { offset, reason: format!("{reason}; {fields}") }
        }
        fault => fault,
    }
}

#[inline]
fn end<I: Id>(scanner: &mut Scanner<'_>) -> Result<I, Fault> {
    if scanner.is_line_end() {
        return Err(scanner.fault("an arc needs two vertices"));
    }
    let before = scanner.clone();
    let number = scanner.number("vertex id").map_err(|fault| explained(fault, before.clone()))?;
    let too_large = || before.fault(format!("vertex id {number} is {}", I::LIMIT));
    I::from_number(number).ok_or_else(too_large)
}
