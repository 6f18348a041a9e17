//! The folder on disk for what can be made again: kernels' code, transfer
//! tables.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::environment::variable;

/// The folder: `MILLSTREAM_CACHE`, else `millstream` in the user's cache folder;
/// `None` if the user has none.
pub(crate) fn folder() -> Option<PathBuf> {
    if let Some(folder) = variable("MILLSTREAM_CACHE") {
        return Some(PathBuf::from(folder));
    }
    let cache = variable("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || variable("HOME").map(|home| Path::new(&home).join(".cache"));
    Some(cache.or_else(home)?.join("millstream"))
}

/// Writes `parts` one after the other into `file`: all of them or nothing, also if the machine
/// goes down.
pub(crate) fn write(file: &Path, parts: &[&[u8]]) -> std::io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    // As any other file, which the mask lets others read: temporary ones are private otherwise.
    let create = |path: &Path| OpenOptions::new().write(true).create_new(true).open(path);
    let mut temporary = tempfile::Builder::new().make_in(folder, create)?;
    parts.iter().try_for_each(|part| temporary.write_all(part))?;
    // The name may come to the disk before what is not there yet.
    temporary.as_file().sync_data()?;
    temporary.persist(file)?;
    Ok(())
}

/// Held by whoever changes `file` according to what is in it, in all processes.
///
/// # Errors
/// A folder that nobody may write to.
pub(crate) fn lock(file: &Path) -> std::io::Result<File> {
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    // Not the file itself, which a new one replaces.
    let lock = File::create(file.with_extension("lock"))?;
    // Where files cannot be locked, of two at once one is lost, which costs time only.
    let _ = lock.lock();
    Ok(lock)
}
