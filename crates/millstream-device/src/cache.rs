//! The folder on disk for what can be made again: kernels' code and transfer tables.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
#[cfg(feature = "cuda")]
use std::time::SystemTime;

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

/// Writes `parts`, one after the other, into `file`: either all or nothing, even if the machine goes down.
pub(crate) fn write(file: &Path, parts: &[&[u8]]) -> std::io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    // Created like any other file, so that the umask decides who may read it: temporary files are
    // otherwise private.
    let create = |path: &Path| OpenOptions::new().write(true).create_new(true).open(path);
    let mut temporary = tempfile::Builder::new().make_in(folder, create)?;
    parts.iter().try_for_each(|part| temporary.write_all(part))?;
    // Otherwise the new name could reach the disk before the contents.
    temporary.as_file().sync_data()?;
    temporary.persist(file)?;
    Ok(())
}

/// A lock, for all processes, to be held while `file` is changed according to its contents.
///
/// # Errors
/// A folder that nobody may write to.
pub(crate) fn lock(file: &Path) -> std::io::Result<File> {
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    // A separate file, since `file` itself gets replaced.
    let lock = File::create(file.with_extension("lock"))?;
    // If files cannot be locked, one of two simultaneous changes is lost, which costs only time.
    let _ = lock.lock();
    Ok(lock)
}

/// Marks a file as just used: [`shrink`] keeps the most recently used ones.
#[cfg(feature = "cuda")]
pub(crate) fn touch(file: &Path) {
    // A file that cannot be marked is removed earlier, which costs only time.
    let _ = File::open(file).and_then(|file| file.set_modified(SystemTime::now()));
}

/// Removes files of `folder` for which `is_one` is true, the least recently used first, until they
/// have at most `most` bytes in all.
///
/// # Errors
/// A folder that cannot be read. Files that cannot be removed stay.
#[cfg(feature = "cuda")]
pub(crate) fn shrink(
    folder: &Path,
    is_one: impl Fn(&Path) -> bool,
    most: u64,
) -> std::io::Result<()> {
    // `None` also if somebody has removed the file meanwhile.
    let used = |entry: std::fs::DirEntry| -> Option<(SystemTime, u64, PathBuf)> {
        let (file, about) = (entry.path(), entry.metadata().ok()?);
        let is_one = about.is_file() && is_one(&file);
        is_one.then_some((about.modified().ok()?, about.len(), file))
    };
    let mut files: Vec<_> = std::fs::read_dir(folder)?.flatten().filter_map(used).collect();
    files.sort_unstable_by(|one, other| other.cmp(one));
    let mut kept = 0;
    for (_, bytes, file) in files {
        kept += bytes;
        if kept > most {
            let _ = std::fs::remove_file(file);
        }
    }
    Ok(())
}

#[cfg(all(test, feature = "cuda"))]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_was_used_last_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let names = ["a.code", "b.code", "c.code", "other"];
        for (age, name) in names.into_iter().enumerate() {
            write(&file(name), &[&[0; 100]]).unwrap();
            let time = SystemTime::now() - Duration::from_secs(100 + age as u64);
            File::open(file(name)).unwrap().set_modified(time).unwrap();
        }
        let is_code = |file: &Path| file.extension().is_some_and(|its| its == "code");
        let left = || names.map(|name| file(name).exists());
        shrink(folder.path(), is_code, 300).unwrap();
        assert_eq!(left(), [true; 4]);
        touch(&file("c.code"));
        shrink(folder.path(), is_code, 299).unwrap();
        assert_eq!(left(), [true, false, true, true]);
        shrink(folder.path(), is_code, 0).unwrap();
        assert_eq!(left(), [false, false, false, true]);
        assert!(shrink(&file("none"), is_code, 0).is_err());
    }
}
