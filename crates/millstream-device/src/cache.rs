//! The folder on disk for what can be made again: kernels' code, transfer
//! tables.

use std::io::Write;
use std::path::{Path, PathBuf};

/// The folder: `MILLSTREAM_CACHE`, else `millstream` in the user's cache folder;
/// `None` if the user has none.
pub(crate) fn folder() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("MILLSTREAM_CACHE") {
        return Some(PathBuf::from(folder));
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    Some(cache.or_else(home)?.join("millstream"))
}

/// Writes `parts` one after the other into `file`: all of them or nothing.
pub(crate) fn write(file: &Path, parts: &[&[u8]]) -> std::io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
    parts.iter().try_for_each(|part| temporary.write_all(part))?;
    temporary.persist(file)?;
    Ok(())
}
