//! The bytes of a file, decompressed.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use flate2::bufread::MultiGzDecoder;
use memmap2::Mmap;

use crate::format::Compression;

/// What a file holds.
pub(crate) enum Content {
    /// The file itself.
    Mapped(Arc<Mmap>),
    /// A copy of it.
    Owned(Vec<u8>),
}

impl Deref for Content {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Content::Mapped(map) => map,
            Content::Owned(bytes) => bytes,
        }
    }
}

/// All of a file.
pub(crate) fn read(path: &Path) -> io::Result<Content> {
    let file = open(path)?;
    if !file.metadata()?.is_file() {
        // A pipe: it has no length, and cannot be mapped.
        let mut bytes = Vec::new();
        BufReader::new(file).read_to_end(&mut bytes)?;
        return decompress(Content::Owned(bytes));
    }
    if file.metadata()?.len() == 0 {
        return Ok(Content::Owned(Vec::new()));
    }
    // SAFETY: the mapping is only read. That nobody changes or cuts the file
    // meanwhile is what the documentation of the module asks for; every reader of
    // mapped files depends on that.
    let map = unsafe { Mmap::map(&file) }?;
    decompress(Content::Mapped(Arc::new(map)))
}

/// The first bytes of a file, some thousands at most.
pub(crate) fn read_head(path: &Path) -> io::Result<Content> {
    const HEAD: u64 = 1 << 16;
    let mut file = BufReader::new(open(path)?);
    let compression = Compression::from_content(file.fill_buf()?);
    let mut bytes = Vec::new();
    decoder(file, compression)?.take(HEAD).read_to_end(&mut bytes).map_err(broken(compression))?;
    Ok(Content::Owned(bytes))
}

fn open(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Ok(file)
}

fn decompress(content: Content) -> io::Result<Content> {
    let compression = Compression::from_content(&content);
    if compression == Compression::None {
        return Ok(content);
    }
    let mut bytes = Vec::new();
    decoder(&content[..], compression)?.read_to_end(&mut bytes).map_err(broken(compression))?;
    Ok(Content::Owned(bytes))
}

fn decoder<'a>(
    input: impl BufRead + 'a,
    compression: Compression,
) -> io::Result<Box<dyn Read + 'a>> {
    Ok(match compression {
        Compression::None => Box::new(input),
        Compression::Gzip => Box::new(MultiGzDecoder::new(input)),
        Compression::Zstandard => Box::new(zstd::Decoder::with_buffer(input)?),
    })
}

fn broken(compression: Compression) -> impl FnOnce(io::Error) -> io::Error {
    move |error| {
        let name = match compression {
            Compression::None => return error,
            Compression::Gzip => "gzip",
            Compression::Zstandard => "Zstandard",
        };
        io::Error::new(error.kind(), format!("broken {name} compression: {error}"))
    }
}
