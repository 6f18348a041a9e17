//! Matrix Market coordinate matrices: an entry is an arc from its row to its
//! column, and the number of vertices is the larger of both dimensions.

use super::Fault;
use super::arcs::{Arcs, Piece, Weighting, credible_vertices};
use super::text::{Scanner, WeightRule, show};

/// The contents of the first line.
struct Banner {
    weighting: Weighting,
    rule: WeightRule,
    is_symmetric: bool,
}

/// The numbers in the line after the comments.
struct Sizes {
    rows: u32,
    columns: u32,
    entries: u64,
}

fn is_comment(byte: u8) -> bool {
    byte == b'%'
}

/// The arcs of a matrix.
pub(super) fn parse(content: &[u8]) -> Result<Arcs, Fault> {
    let mut scanner = Scanner::new(content);
    let banner = parse_banner(&mut scanner)?;
    if !scanner.next_content(is_comment) {
        return Err(scanner.fault("the line with the sizes is missing"));
    }
    let place = scanner.clone();
    let sizes = parse_sizes(&mut scanner)?;
    if banner.is_symmetric && sizes.rows != sizes.columns {
        return Err(place.fault("a symmetric matrix that is not square"));
    }
    let pieces = scanner.parse_pieces(|_, piece| parse_piece(piece, &banner, &sizes))?;
    let vertices = sizes.rows.max(sizes.columns);
    let Banner { weighting, is_symmetric, .. } = banner;
    let arcs = Arcs { vertices, pieces, weighting, is_symmetric };
    let found = arcs.entries();
    if found != sizes.entries {
        let promised = sizes.entries;
        return Err(place.fault(format!("{promised} entries promised, but there are {found}")));
    }
    Ok(arcs)
}

fn parse_banner(scanner: &mut Scanner<'_>) -> Result<Banner, Fault> {
    // The standard has no blank lines before the banner, but they do no harm.
    scanner.next_content(|_| false);
    let mut word = || (scanner.clone(), scanner.word().to_ascii_lowercase());
    let (place, banner) = word();
    if banner != b"%%matrixmarket" {
        return Err(place.fault("the first line does not start with %%MatrixMarket"));
    }
    let (place, object) = word();
    if object != b"matrix" {
        return Err(place.fault(format!("{} is not a matrix", show(&object))));
    }
    let (place, layout) = word();
    if layout != b"coordinate" {
        return Err(place.fault(format!("{} is not a coordinate matrix", show(&layout))));
    }
    let (place, field) = word();
    let (weighting, rule) = match &field[..] {
        b"pattern" => (Weighting::None, WeightRule::Integer),
        b"integer" => (Weighting::Integer, WeightRule::Integer),
        b"real" => (Weighting::Real, WeightRule::Real),
        other => return Err(place.fault(format!("field {} is not supported", show(other)))),
    };
    let (place, symmetry) = word();
    let is_symmetric = match &symmetry[..] {
        b"general" => false,
        b"symmetric" => true,
        other => return Err(place.fault(format!("symmetry {} is not supported", show(other)))),
    };
    scanner.end_line()?;
    Ok(Banner { weighting, rule, is_symmetric })
}

fn parse_sizes(scanner: &mut Scanner<'_>) -> Result<Sizes, Fault> {
    let place = scanner.clone();
    let rows = scanner.number("number of rows")?;
    let columns = scanner.number("number of columns")?;
    let entries = scanner.number("number of entries")?;
    scanner.end_line()?;
    // An entry takes at least four bytes, the last one perhaps three.
    let most = (scanner.remaining() as u64 + 1) / 4;
    if entries > most {
        let reason =
            format!("{entries} entries promised, but what follows has room for {most} at most");
        return Err(place.fault(reason));
    }
    let size = |number| credible_vertices(number, entries).map_err(|reason| place.fault(reason));
    Ok(Sizes { rows: size(rows)?, columns: size(columns)?, entries })
}

fn parse_piece(
    mut scanner: Scanner<'_>,
    banner: &Banner,
    sizes: &Sizes,
) -> Result<Piece<u32>, Fault> {
    let mut piece = Piece::default();
    while scanner.next_content(is_comment) {
        let ends = (scanner.vertex(sizes.rows)?, scanner.vertex(sizes.columns)?);
        piece.ends.push(ends);
        if banner.weighting != Weighting::None {
            piece.push_weight(scanner.weight(banner.rule)?);
        }
        scanner.end_line()?;
    }
    Ok(piece)
}
