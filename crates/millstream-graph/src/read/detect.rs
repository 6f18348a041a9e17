//! Tells formats apart.

use std::path::Path;

use super::ReadError;
use crate::Format;
use crate::mill::MAGIC;

/// The format of content, by its beginning first and by the file's name second.
pub(super) fn detect_content(content: &[u8], path: &Path) -> Result<Format, ReadError> {
    let text = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
    if text.trim_ascii().is_empty() {
        let reason = if content.is_empty() { "the file is empty" } else { "nothing but blanks" };
        return Err(ReadError::Content { path: path.to_path_buf(), reason: reason.to_string() });
    }
    Ok(by_content(text).unwrap_or_else(|| by_name(text, path)))
}

fn by_content(content: &[u8]) -> Option<Format> {
    const BANNER: &[u8] = b"%%MatrixMarket";
    if content.starts_with(&MAGIC) {
        return Some(Format::Millstream);
    }
    // A version from 1 to 8 as an integer of 64 bits; no text begins like this.
    if let [1..=8, 0, 0, 0, 0, 0, 0, 0, ..] = content {
        return Some(Format::Galois);
    }
    let text = content.trim_ascii_start();
    if text.get(..BANNER.len()).is_some_and(|start| start.eq_ignore_ascii_case(BANNER)) {
        return Some(Format::MatrixMarket);
    }
    // Before a tab, it may also be the name of a column.
    match text {
        [b'c', b' ' | b'\r' | b'\n', ..] => Some(Format::Dimacs),
        [b'p', b' ' | b'\t', rest @ ..] if rest.trim_ascii_start().starts_with(b"sp") => {
            Some(Format::Dimacs)
        }
        _ => None,
    }
}

/// The format that the name promises; content of another format causes an error later.
fn by_name(content: &[u8], path: &Path) -> Format {
    match Format::from_path(path) {
        Some(Format::Dimacs) if content.iter().take(8).any(|&byte| byte == 0) => Format::Galois,
        Some(format) => format,
        None => Format::EdgeList,
    }
}
