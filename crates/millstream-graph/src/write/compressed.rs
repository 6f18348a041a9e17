//! Files that are compressed as their names say.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use flate2::write::GzEncoder;

use super::OutputFile;
use crate::format::Compression;

/// An [`OutputFile`], compressed if the last extension of its name is `.gz` or `.zst`. Small
/// writes should be buffered before they come here.
///
/// ```
/// use std::io::Write;
///
/// use millstream_graph::read::{ReadOptions, read_graph};
/// use millstream_graph::write::CompressedFile;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("edges.el.gz");
/// let mut file = CompressedFile::create(&path)?;
/// file.write_all(b"0 1\n1 2\n")?;
/// file.finish()?;
/// assert_eq!(std::fs::read(&path)?[..2], [0x1f, 0x8b]);
/// assert_eq!(read_graph(&path, &ReadOptions::default())?.arcs(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CompressedFile(Encoder);

enum Encoder {
    None(OutputFile),
    Gzip(GzEncoder<OutputFile>),
    Zstandard(zstd::Encoder<'static, OutputFile>),
}

impl CompressedFile {
    /// Begins a file.
    ///
    /// # Errors
    /// Those of [`OutputFile::create`].
    pub fn create(path: &Path) -> io::Result<CompressedFile> {
        let file = OutputFile::create(path)?;
        Ok(CompressedFile(match Compression::from_path(path) {
            Compression::None => Encoder::None(file),
            Compression::Gzip => {
                Encoder::Gzip(GzEncoder::new(file, flate2::Compression::default()))
            }
            Compression::Zstandard => {
                Encoder::Zstandard(zstd::Encoder::new(file, zstd::DEFAULT_COMPRESSION_LEVEL)?)
            }
        }))
    }

    /// Puts the complete file in its place.
    ///
    /// # Errors
    /// Those of [`OutputFile::finish`].
    pub fn finish(self) -> io::Result<()> {
        match self.0 {
            Encoder::None(file) => file,
            Encoder::Gzip(encoder) => encoder.finish()?,
            Encoder::Zstandard(encoder) => encoder.finish()?,
        }
        .finish()
    }

    fn encoder(&mut self) -> &mut dyn Write {
        match &mut self.0 {
            Encoder::None(file) => file,
            Encoder::Gzip(encoder) => encoder,
            Encoder::Zstandard(encoder) => encoder,
        }
    }
}

impl Write for CompressedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.encoder().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.encoder().flush()
    }
}

impl fmt::Debug for CompressedFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = match &self.0 {
            Encoder::None(file) => file,
            Encoder::Gzip(encoder) => encoder.get_ref(),
            Encoder::Zstandard(encoder) => encoder.get_ref(),
        };
        formatter.debug_tuple("CompressedFile").field(file).finish()
    }
}
