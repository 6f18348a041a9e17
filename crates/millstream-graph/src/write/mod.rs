//! Writes graphs to files of any format.
//!
//! Only the `.mill` format keeps everything: the width of a lattice, the original ids of renumbered
//! vertices, and the order of arcs in a row. Edge lists are written with the original ids, too, and
//! Galois files keep the order of arcs. In all other formats vertices are numbered as in the
//! library.

mod binary;
mod compressed;
mod file;
mod text;

pub use compressed::CompressedFile;
pub use file::{OutputFile, discard_unfinished};

pub use crate::format::extension;

#[cfg(test)]
mod tests;

use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use crate::{CsrGraph, Format, Weights};

/// Why a graph was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The operating system.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Its reason.
        source: io::Error,
    },
    /// No format was given, and the extension stands for none.
    #[error(
        "{}: no format has this extension (.mtx, .gr, .graph, .el, .wel, .txt, .csv, .tsv or \
         .mill, and then perhaps .gz or .zst)", path.display()
    )]
    UnknownExtension {
        /// The file.
        path: PathBuf,
    },
    /// Under this name, the reader would take the file for one of another format.
    #[error("{}: under this name, {format} would be read as {read_as}", path.display())]
    Misnamed {
        /// The file.
        path: PathBuf,
        /// The format.
        format: Format,
        /// What the name stands for.
        read_as: Format,
    },
    /// The format holds integer weights only.
    #[error("{}: the format {format} cannot hold this graph: its weights are reals", path.display())]
    RealWeights {
        /// The file.
        path: PathBuf,
        /// The format.
        format: Format,
    },
    /// The format cannot hold this graph.
    #[error("{}: the format {format} cannot hold this graph: {reason}", path.display())]
    NotRepresentable {
        /// The file.
        path: PathBuf,
        /// The format.
        format: Format,
        /// What it lacks.
        reason: String,
    },
}

/// Why writing ended early.
enum Stop {
    Io(io::Error),
    NotRepresentable(String),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Io(error)
    }
}

/// Writes a graph, in the format that the extension stands for unless `format` is
/// given; a last extension `.gz` or `.zst` compresses it. `.gr` stands for DIMACS
/// text.
///
/// The file is a [`CompressedFile`]: it appears under its name when it is complete and
/// replaces one that was there; nothing is left of one that could not be completed.
///
/// DIMACS wants a weight on every arc, and gets 1 if the graph has none. In a
/// `.csv` file columns are separated by commas, in a `.tsv` file by tabs, and in
/// other edge lists by blanks.
///
/// ```
/// use millstream_graph::read::{ReadOptions, read_graph};
/// use millstream_graph::write::write_graph;
/// use millstream_graph::{CsrGraph, Format};
///
/// let folder = tempfile::tempdir()?;
/// let graph = CsrGraph::from_weighted_edges(3, &[(0, 1, 5u32), (2, 1, 7)])?;
/// for (name, format) in [("a.mtx.gz", None), ("a.mill", None), ("a.gr", Some(Format::Galois))] {
///     let path = folder.path().join(name);
///     write_graph(&path, &graph, format)?;
///     assert_eq!(read_graph(&path, &ReadOptions::default())?, graph);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`WriteError::Io`] if the file cannot be written;
/// [`WriteError::UnknownExtension`] and [`WriteError::Misnamed`] as
/// [`format_of_file`] says; [`WriteError::RealWeights`] in DIMACS, Galois and METIS;
/// [`WriteError::NotRepresentable`] if the format has no place for the graph: one that is not symmetric
/// or has self-loops in METIS, vertices without arcs at the end of an edge list, or anywhere if
/// vertices have original ids; in Matrix Market, DIMACS and edge lists one of so many vertices and so few
/// arcs that it would not be read.
pub fn write_graph(
    path: &Path,
    graph: &CsrGraph,
    format: Option<Format>,
) -> Result<(), WriteError> {
    let format = format_of_file(path, format)?;
    let holds_integers = matches!(format, Format::Dimacs | Format::Galois | Format::Metis);
    if holds_integers && matches!(graph.weights(), Some(Weights::Real(_))) {
        return Err(WriteError::RealWeights { path: path.to_path_buf(), format });
    }
    write_file(path, graph, format).map_err(|stop| match stop {
        Stop::Io(source) => WriteError::Io { path: path.to_path_buf(), source },
        Stop::NotRepresentable(reason) => {
            WriteError::NotRepresentable { path: path.to_path_buf(), format, reason }
        }
    })
}

/// The format that [`write_graph`] writes to a file of this name.
///
/// ```
/// use millstream_graph::Format;
/// use millstream_graph::write::format_of_file;
///
/// assert_eq!(format_of_file("road.gr".as_ref(), None)?, Format::Dimacs);
/// assert!(format_of_file("road.txt".as_ref(), Some(Format::Metis)).is_err());
/// # Ok::<(), millstream_graph::write::WriteError>(())
/// ```
///
/// # Errors
/// [`WriteError::UnknownExtension`] if neither `format` nor the extension tells it;
/// [`WriteError::Misnamed`] for METIS and edge lists under names that stand for another
/// format. Both are lines of numbers, so the reader goes by the name.
pub fn format_of_file(path: &Path, format: Option<Format>) -> Result<Format, WriteError> {
    let by_name = Format::from_path(path);
    let unknown = || WriteError::UnknownExtension { path: path.to_path_buf() };
    let format = format.or(by_name).ok_or_else(unknown)?;
    let read_as = by_name.unwrap_or(Format::EdgeList);
    match format {
        Format::Metis | Format::EdgeList if read_as != format => {
            Err(WriteError::Misnamed { path: path.to_path_buf(), format, read_as })
        }
        _ => Ok(format),
    }
}

fn write_file(path: &Path, graph: &CsrGraph, format: Format) -> Result<(), Stop> {
    let mut output = BufWriter::with_capacity(1 << 16, CompressedFile::create(path)?);
    match format {
        Format::MatrixMarket => text::matrix_market(&mut output, graph)?,
        Format::Dimacs => text::dimacs(&mut output, graph)?,
        Format::Metis => text::metis(&mut output, graph)?,
        Format::EdgeList => text::edge_list(&mut output, graph, path)?,
        Format::Galois => binary::galois(&mut output, graph)?,
        Format::Millstream => binary::mill(&mut output, graph)?,
    }
    output.into_inner().map_err(io::IntoInnerError::into_error)?.finish()?;
    Ok(())
}
