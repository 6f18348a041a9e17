//! The bytes of a file, decompressed.

use std::fs::{File, FileType};
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use flate2::bufread::GzDecoder;
use memmap2::Mmap;

use crate::format::Compression;

/// Logarithm to base 2 of the memory that Zstandard's decoder may use: more than its default, for
/// files of `zstd --long`.
const LARGEST_WINDOW: u32 = 30;

/// The contents of a file.
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
        // A pipe: it has no length and cannot be mapped.
        let mut bytes = Vec::new();
        BufReader::new(file).read_to_end(&mut bytes)?;
        return decompress(Content::Owned(bytes));
    }
    if file.metadata()?.len() == 0 {
        return Ok(Content::Owned(Vec::new()));
    }
    // SAFETY: the mapping is only read. The module's documentation requires that nobody changes or
    // cuts the file meanwhile; every reader of mapped files depends on that.
    let map = unsafe { Mmap::map(&file) }?;
    decompress(Content::Mapped(Arc::new(map)))
}

/// The first bytes of a file, some thousands at most.
pub(crate) fn read_head(path: &Path) -> io::Result<Content> {
    const HEAD: u64 = 1 << 16;
    let mut file = BufReader::new(open(path)?);
    let compression = Compression::from_content(file.fill_buf()?);
    decompressed(decoder(file, compression)?.take(HEAD), compression).map(Content::Owned)
}

fn open(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if is_device(kind) && !file.is_terminal() {
        // A device may never end.
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a device, not a file"));
    }
    Ok(file)
}

#[cfg(unix)]
fn is_device(kind: FileType) -> bool {
    use std::os::unix::fs::FileTypeExt;
    kind.is_char_device()
}

#[cfg(not(unix))]
fn is_device(_: FileType) -> bool {
    false
}

fn decompress(content: Content) -> io::Result<Content> {
    let compression = Compression::from_content(&content);
    if compression == Compression::None {
        return Ok(content);
    }
    decompressed(decoder(&content[..], compression)?, compression).map(Content::Owned)
}

/// Everything that a decoder yields. If the input ends too early, the error says after how many bytes.
fn decompressed(mut decoder: impl Read, compression: Compression) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match decoder.read_to_end(&mut bytes) {
        Ok(_) => Ok(bytes),
        Err(error) => Err(broken(compression, bytes.len(), error)),
    }
}

fn decoder<'a>(
    input: impl BufRead + 'a,
    compression: Compression,
) -> io::Result<Box<dyn Read + 'a>> {
    Ok(match compression {
        Compression::None => Box::new(input),
        Compression::Gzip => Box::new(GzipMembers::Member(Box::new(GzDecoder::new(input)))),
        Compression::Zstandard => {
            let mut decoder = zstd::Decoder::with_buffer(input)?;
            decoder.window_log_max(LARGEST_WINDOW)?;
            Box::new(decoder)
        }
    })
}

/// The first byte of a gzip member.
const GZIP: u8 = 0x1f;

/// The members of a gzip file, one after another. Zeros may follow the last one, as on tapes.
enum GzipMembers<R> {
    Member(Box<GzDecoder<R>>),
    /// Behind a member; tells whether zeros have followed it.
    Between(R, bool),
    Over,
}

impl<R: BufRead> Read for GzipMembers<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self {
                GzipMembers::Member(member) => {
                    let bytes = member.read(into)?;
                    if bytes > 0 || into.is_empty() {
                        return Ok(bytes);
                    }
                }
                GzipMembers::Between(rest, is_padded) => {
                    let bytes = rest.fill_buf()?;
                    let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
                    if *is_padded && zeros < bytes.len() {
                        return Err(io::Error::new(io::ErrorKind::InvalidData, "zeros within it"));
                    }
                    if zeros > 0 {
                        *is_padded = true;
                        rest.consume(zeros);
                        continue;
                    }
                    match bytes.first().copied() {
                        None => *self = GzipMembers::Over,
                        Some(GZIP) => {}
                        Some(_) => {
                            let reason = "what follows is not gzip";
                            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
                        }
                    }
                }
                GzipMembers::Over => return Ok(0),
            }
            *self = match std::mem::replace(self, GzipMembers::Over) {
                GzipMembers::Member(member) => GzipMembers::Between(member.into_inner(), false),
                GzipMembers::Between(rest, _) => {
                    GzipMembers::Member(Box::new(GzDecoder::new(rest)))
                }
                GzipMembers::Over => GzipMembers::Over,
            };
        }
    }
}

fn broken(compression: Compression, bytes: usize, error: io::Error) -> io::Error {
    let name = match compression {
        _ if error.kind() == io::ErrorKind::OutOfMemory => return error,
        Compression::None => return error,
        Compression::Gzip => "gzip",
        Compression::Zstandard => "Zstandard",
    };
    // The library reports these cases, which are not faults of the file, only by their texts; tests
    // watch these.
    let said = error.to_string();
    if said.contains("not enough memory") {
        return io::Error::new(io::ErrorKind::OutOfMemory, said);
    }
    let reason = match said.contains("too much memory") {
        true => format!("{said}: compress it with zstd --long={LARGEST_WINDOW} at most"),
        false => format!("broken {name} compression, after {bytes} decompressed bytes: {said}"),
    };
    io::Error::new(error.kind(), reason)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::tests::gzip;
    use super::super::{ReadError, ReadOptions, detect, read_graph};
    use super::*;

    #[test]
    fn windows_up_to_the_largest_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.el.zst");
        let text = "0 1\n".repeat(1000);
        for window in [27, LARGEST_WINDOW, LARGEST_WINDOW + 1] {
            let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
            encoder.long_distance_matching(true).unwrap();
            encoder.window_log(window).unwrap();
            std::io::Write::write_all(&mut encoder, text.as_bytes()).unwrap();
            std::fs::write(&path, encoder.finish().unwrap()).unwrap();
            let graph = read_graph(&path, &ReadOptions::default());
            match window <= LARGEST_WINDOW {
                true => assert_eq!(graph.unwrap().arcs(), 1000, "{window}"),
                false => {
                    let said = graph.unwrap_err().to_string();
                    assert!(said.contains("--long=30 at most"), "{said}");
                }
            }
        }
    }

    /// The library's own text.
    #[test]
    fn a_decoder_without_memory_is_no_broken_file() {
        let text = zstd::zstd_safe::get_error_name(0usize.wrapping_sub(64));
        assert!(text.contains("not enough memory"), "{text}");
        let failed = |text: &str| broken(Compression::Zstandard, 0, io::Error::other(text)).kind();
        assert_eq!(failed(text), io::ErrorKind::OutOfMemory);
        assert_eq!(failed("Data corruption detected"), io::ErrorKind::Other);
    }

    /// Several members, frames to skip, and the padding of a tape's block.
    #[test]
    fn all_parts_of_compressed_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = ["0 1\n", "1 2\n"].map(|text| gzip(text.as_bytes()));
        let [first, second] =
            ["0 1\n", "1 2\n"].map(|text| zstd::encode_all(text.as_bytes(), 3).unwrap());
        let skipped = [&[0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"any"].concat();
        let zeros = vec![0; 70_000];
        for parts in [
            vec![&one, &other],
            vec![&one, &other, &zeros],
            vec![&first, &second],
            vec![&skipped, &first, &skipped, &second, &skipped],
        ] {
            let path = folder.path().join("a.el");
            std::fs::write(&path, parts.into_iter().flatten().copied().collect::<Vec<u8>>())
                .unwrap();
            assert_eq!(read_graph(&path, &ReadOptions::default()).unwrap().arcs(), 2);
            detect(&path).unwrap();
        }
        let path = folder.path().join("b.el.gz");
        std::fs::write(&path, [&one[..], &zeros, &other].concat()).unwrap();
        let said = read_graph(&path, &ReadOptions::default()).unwrap_err().to_string();
        assert!(said.contains("broken gzip compression, after 4 decompressed bytes"), "{said}");
        assert_eq!(detect(&path).unwrap_err().to_string(), said);
        std::fs::write(&path, [&one[..], b"\n"].concat()).unwrap();
        let said = read_graph(&path, &ReadOptions::default()).unwrap_err().to_string();
        let expected = "after 4 decompressed bytes: what follows is not gzip";
        assert!(said.ends_with(expected), "{said}");
        assert_eq!(detect(&path).unwrap_err().to_string(), said);
    }

    #[test]
    fn files_that_cannot_be_read_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let fail = |path: &Path| {
            let from_head = detect(path).unwrap_err();
            let error = read_graph(path, &ReadOptions::default()).unwrap_err();
            assert!(matches!(error, ReadError::Io { .. } | ReadError::Content { .. }), "{error:?}");
            assert_eq!(error.to_string(), from_head.to_string());
            let message = error.to_string();
            message.strip_prefix(&path.display().to_string()).unwrap().to_string()
        };
        assert!(fail(folder.path()).starts_with(": is a directory"));
        assert!(fail(&folder.path().join("none.el")).starts_with(": No such file"));
        #[cfg(unix)]
        assert_eq!(fail("/dev/zero".as_ref()), ": it is a device, not a file");
        let path = folder.path().join("a.el.gz");
        let packed = gzip("0 1\n".repeat(1000).as_bytes());
        for end in [packed.len() - 9, packed.len() - 1, 12, 3] {
            std::fs::write(&path, &packed[..end]).unwrap();
            let bytes = if end > 12 { 4000 } else { 0 };
            let said = fail(&path);
            let expected = format!(": broken gzip compression, after {bytes} decompressed bytes: ");
            assert!(said.starts_with(&expected), "{said}");
        }
        std::fs::write(&path, gzip(b"")).unwrap();
        assert_eq!(fail(&path), ": the file is empty");
        let packed = zstd::encode_all("0 1\n".repeat(1000).as_bytes(), 3).unwrap();
        for end in [packed.len() - 1, 5] {
            std::fs::write(&path, &packed[..end]).unwrap();
            let said = fail(&path);
            assert!(said.starts_with(": broken Zstandard compression, after "), "{said}");
            assert!(said.contains(" decompressed bytes: "), "{said}");
        }
    }
}
