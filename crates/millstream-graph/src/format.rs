//! The file formats, and what a file's name says about them.

use std::fmt;
use std::path::Path;

/// A file format for graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Matrix Market coordinate text, `.mtx`.
    MatrixMarket,
    /// Text of the ninth DIMACS challenge (shortest paths), `.gr`.
    Dimacs,
    /// Galois binary of version 1, `.gr`.
    Galois,
    /// METIS text, also that of the tenth DIMACS challenge, `.graph`.
    Metis,
    /// One arc a line: `.el`, `.wel`, `.txt`, `.csv`, `.tsv`.
    EdgeList,
    /// Millstream's own memory-mapped binary, `.mill`.
    Millstream,
}

impl Format {
    /// The format that the file's extension stands for, before `.gz` or `.zst`.
    /// `.gr` stands for DIMACS text.
    ///
    /// ```
    /// use millstream_graph::Format;
    ///
    /// assert_eq!(Format::from_path("road.mtx.gz".as_ref()), Some(Format::MatrixMarket));
    /// assert_eq!(Format::from_path("picture.png".as_ref()), None);
    /// ```
    pub fn from_path(path: &Path) -> Option<Format> {
        Some(match extension(path)?.as_str() {
            "mtx" => Format::MatrixMarket,
            "gr" => Format::Dimacs,
            "graph" => Format::Metis,
            "el" | "wel" | "txt" | "csv" | "tsv" => Format::EdgeList,
            "mill" => Format::Millstream,
            _ => return None,
        })
    }

    /// Whether the format is lines of text.
    pub(crate) fn is_text(self) -> bool {
        !matches!(self, Format::Galois | Format::Millstream)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Format::MatrixMarket => "Matrix Market",
            Format::Dimacs => "DIMACS",
            Format::Galois => "Galois",
            Format::Metis => "METIS",
            Format::EdgeList => "edge list",
            Format::Millstream => "Millstream",
        })
    }
}

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstandard,
}

impl Compression {
    /// The compression that the name of a file to be written asks for.
    pub(crate) fn from_path(path: &Path) -> Compression {
        match lowercase_extension(path).as_deref() {
            Some("gz") => Compression::Gzip,
            Some("zst") => Compression::Zstandard,
            _ => Compression::None,
        }
    }

    /// The compression that the first bytes of a file to be read show.
    pub(crate) fn from_content(head: &[u8]) -> Compression {
        match head {
            [0x1f, 0x8b, ..] => Compression::Gzip,
            // A frame, or a skippable frame before it, as pzstd writes.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
                Compression::Zstandard
            }
            _ => Compression::None,
        }
    }
}

/// The extension in lower case, before `.gz` or `.zst`.
///
/// ```
/// use millstream_graph::write::extension;
///
/// assert_eq!(extension("levels.NPY.gz".as_ref()).as_deref(), Some("npy"));
/// assert_eq!(extension("levels.gz".as_ref()), None);
/// ```
pub fn extension(path: &Path) -> Option<String> {
    match Compression::from_path(path) {
        Compression::None => lowercase_extension(path),
        _ => lowercase_extension(Path::new(path.file_stem()?)),
    }
}

/// The separator of fields in a text file of this name: a comma in `.csv`, a tab in `.tsv`,
/// otherwise a blank.
pub(crate) fn separator(path: &Path) -> u8 {
    match extension(path).as_deref() {
        Some("csv") => b',',
        Some("tsv") => b'\t',
        _ => b' ',
    }
}

fn lowercase_extension(path: &Path) -> Option<String> {
    Some(path.extension()?.to_str()?.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_formats() {
        for (name, format) in [
            ("a.mtx", Some(Format::MatrixMarket)),
            ("a.b.GR.GZ", Some(Format::Dimacs)),
            ("a.graph.zst", Some(Format::Metis)),
            ("dir.mtx/a.wel", Some(Format::EdgeList)),
            ("a.tsv", Some(Format::EdgeList)),
            ("a.mill", Some(Format::Millstream)),
            ("mtx", None),
            ("a.gz", None),
            (".gz", None),
            ("", None),
        ] {
            assert_eq!(Format::from_path(Path::new(name)), format, "{name}");
        }
        assert_eq!(Compression::from_path(Path::new("a.mtx.ZST")), Compression::Zstandard);
    }
}
