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
    match text {
        [b'c', b' ' | b'\r' | b'\n', ..] => Some(Format::Dimacs),
        // Before a tab it may as well be the name of a column.
        [b'c' | b'p', b' ' | b'\t', ..] if has_problem(text) => Some(Format::Dimacs),
        _ => None,
    }
}

/// Whether the first line that is no comment of DIMACS is its `p sp`.
fn has_problem(text: &[u8]) -> bool {
    let mut lines = text.split(|&byte| byte == b'\n').map(words);
    let first =
        lines.find_map(|mut words| words.next().filter(|&word| word != b"c").zip(words.next()));
    first.is_some_and(|(line, problem)| line == b"p" && problem == b"sp")
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// The format that the name promises; content of another format causes an error later.
fn by_name(content: &[u8], path: &Path) -> Format {
    match Format::from_path(path) {
        Some(Format::Dimacs) if content.iter().take(8).any(|&byte| byte == 0) => Format::Galois,
        Some(format) => format,
        None => Format::EdgeList,
    }
}
