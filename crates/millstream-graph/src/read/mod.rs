//! Reads graphs from files: Matrix Market, DIMACS, Galois, METIS, edge lists and
//! our own format, each plain or compressed with gzip or Zstandard.
//!
//! The content decides which format a file has. The extension decides only where the content leaves
//! a choice (an edge list and METIS are both lines of numbers).
//!
//! A comment may hold any bytes, and a heading any text; everything else in a text is ASCII.
//!
//! Plain files are mapped into memory: **nobody may change or cut a file while it
//! is read**, nor a plain `.mill` file as long as the graph lives. To replace one,
//! write another and rename it, as [`write_graph`](crate::write::write_graph) does.
//!
//! No memory is allocated just because a header asks for it. Counts are compared with the bytes
//! that the file really has, and a file may name at most 2²⁰ vertices more than twice the number of
//! its arcs. So a header with false counts costs less than a gibibyte, including what algorithms
//! keep for each vertex on each of 32 host devices. METIS and `.mill` files may name more
//! vertices without arcs, since they contain bytes for each vertex. Decompressed content is held in
//! memory, however large it is.

pub(crate) mod arcs;
mod detect;
mod dimacs;
mod edge_list;
mod galois;
mod matrix_market;
mod metis;
mod mill;
mod relabel;
mod source;
mod text;

#[cfg(test)]
mod id_tests;
#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

use crate::changed::change_graph;
use crate::format::separator;
use crate::{CsrGraph, Format, GraphError};
use source::Content;

/// What to do with a graph while it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadOptions {
    /// Adds the reverse of every arc; a self-loop is its own.
    pub symmetrize: bool,
    /// Keeps one arc of several between the same vertices, the lightest.
    pub dedupe: bool,
    /// Leaves out arcs from a vertex to itself.
    pub drop_self_loops: bool,
    /// Turns every arc around.
    pub transpose: bool,
    /// Numbers the ids of an edge list densely, in their order, and keeps them as
    /// [`original_ids`](CsrGraph::original_ids). Ids may have 64 bits then. In other
    /// formats ids are dense as they are.
    pub relabel: bool,
}

/// Why a file is not a graph.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The operating system, or broken compression.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Its reason.
        source: io::Error,
    },
    /// A line that is not what its format wants.
    #[error("{}:{line}: {reason}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong.
        reason: String,
    },
    /// A place in a binary file that is not what its format wants.
    #[error("{}: at byte {offset}: {reason}", path.display())]
    Offset {
        /// The file.
        path: PathBuf,
        /// The byte, from 0, of the decompressed content.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
    /// The whole is not what its parts say.
    #[error("{}: {reason}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A graph for which there is not enough memory.
    #[error("{}: a table of {bytes} bytes does not fit in memory", path.display())]
    OutOfMemory {
        /// The file.
        path: PathBuf,
        /// Size of the table.
        bytes: u64,
    },
}

/// What is wrong with the content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Something wrong at this byte of the content.
    At { offset: usize, reason: String },
    /// Something wrong that has no single place.
    Whole(String),
    /// There is no memory for a table of this many bytes.
    OutOfMemory(u64),
}

impl From<GraphError> for Fault {
    fn from(error: GraphError) -> Fault {
        match error {
            GraphError::OutOfMemory { bytes } => Fault::OutOfMemory(bytes),
            error => Fault::Whole(error.to_string()),
        }
    }
}

impl Fault {
    #[cfg(test)]
    fn reason(self) -> String {
        match self {
            Fault::At { reason, .. } | Fault::Whole(reason) => reason,
            Fault::OutOfMemory(bytes) => bytes.to_string(),
        }
    }

    /// The error for the fault, with the file's name; in a text, the offset becomes a line number.
    fn into_error(self, path: &Path, content: &[u8], format: Format) -> ReadError {
        let path = path.to_path_buf();
        match self {
            Fault::Whole(reason) => ReadError::Content { path, reason },
            Fault::OutOfMemory(bytes) => ReadError::OutOfMemory { path, bytes },
            Fault::At { offset, reason } if format.is_text() => {
                let before = &content[..offset.min(content.len())];
                let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count() as u64;
                ReadError::Line { path, line, reason }
            }
            Fault::At { offset, reason } => {
                ReadError::Offset { path, offset: offset as u64, reason }
            }
        }
    }
}

/// Reads a graph of any format. The file must not change meanwhile, see
/// [the module](self).
///
/// ```
/// use millstream_graph::read::{ReadOptions, read_graph};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("triangle.el");
/// std::fs::write(&path, "# from to\n0 1\n1 2\n2 0\n")?;
/// let mut options = ReadOptions::default();
/// options.symmetrize = true;
/// let graph = read_graph(&path, &options)?;
/// assert_eq!(graph.neighbors(0), &[1, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ReadError::Io`] if the file cannot be read or decompressed;
/// [`ReadError::Line`], [`ReadError::Offset`] or [`ReadError::Content`] if what it
/// holds is not a graph: fields that are no numbers, ids out of range, counts that
/// do not hold, weights that are missing or not finite, a broken checksum, more
/// vertices than are credible; [`ReadError::OutOfMemory`] if it does not fit.
pub fn read_graph(path: impl AsRef<Path>, options: &ReadOptions) -> Result<CsrGraph, ReadError> {
    read_graph_with_format(path, options).map(|(graph, _)| graph)
}

/// Reads a graph as [`read_graph`] does, and says which format the file has.
///
/// # Errors
/// Those of [`read_graph`].
pub fn read_graph_with_format(
    path: impl AsRef<Path>,
    options: &ReadOptions,
) -> Result<(CsrGraph, Format), ReadError> {
    let path = path.as_ref();
    let io_error = |source| ReadError::Io { path: path.to_path_buf(), source };
    let content = source::read(path).map_err(io_error)?;
    let format = detect::detect_content(&content, path)?;
    let graph = match read_content(&content, (format, separator(path)), options) {
        Ok(graph) => graph,
        Err(fault) => return Err(fault.into_error(path, &content, format)),
    };
    Ok((graph, format))
}

/// Tells the format of a file by its first bytes and its extension, without
/// reading the rest.
///
/// # Errors
/// [`ReadError::Io`] if the file cannot be read or decompressed,
/// [`ReadError::Content`] if it is empty.
pub fn detect(path: &Path) -> Result<Format, ReadError> {
    let io_error = |source| ReadError::Io { path: path.to_path_buf(), source };
    detect::detect_content(&source::read_head(path).map_err(io_error)?, path)
}

fn read_content(
    content: &Content,
    (format, separator): (Format, u8),
    options: &ReadOptions,
) -> Result<CsrGraph, Fault> {
    let stored = |graph| change_graph(graph, options).map_err(Fault::from);
    match format {
        Format::MatrixMarket => matrix_market::parse(content)?.into_graph(options),
        Format::Dimacs => dimacs::parse(content)?.into_graph(options),
        Format::Metis => stored(metis::parse(content)?),
        Format::EdgeList if options.relabel => {
            let (arcs, ids) = edge_list::parse_relabelled(content, separator)?;
            Ok(arcs.into_graph(options)?.with_original_ids(ids)?)
        }
        Format::EdgeList => edge_list::parse(content, separator)?.into_graph(options),
        Format::Galois => stored(galois::parse(content)?),
        Format::Millstream => stored(mill::parse(content)?),
    }
}
