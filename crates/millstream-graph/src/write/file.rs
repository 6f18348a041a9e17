//! Files that appear only once they are complete.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use tempfile::NamedTempFile;

/// Temporary files that are not complete yet, each in the folder of its final place.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A file being written. It appears under its name only when it is complete, and then replaces an
/// existing file, taking over its permissions. If it is dropped earlier, nothing is left of it. If
/// the name is a link, the link's target is replaced. A device, a pipe or anything else that is not
/// a regular file is opened and written to directly, and so are standard output and error, such as
/// `/dev/stdout`.
///
/// ```
/// use std::io::Write;
///
/// use millstream_graph::write::OutputFile;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("answer");
/// let mut file = OutputFile::create(&path)?;
/// file.write_all(b"42")?;
/// assert!(!path.exists());
/// file.finish()?;
/// assert_eq!(std::fs::read(&path)?, b"42");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct OutputFile(Output);

#[derive(Debug)]
enum Output {
    Replacing { file: NamedTempFile, place: PathBuf, _listed: Listed },
    Special(File),
}

impl OutputFile {
    /// Begins a file.
    ///
    /// # Errors
    /// A directory, or what the operating system says.
    pub fn create(path: &Path) -> io::Result<OutputFile> {
        Ok(OutputFile(match final_place(path)? {
            Some(place) => {
                let folder = place.parent().unwrap_or(Path::new("."));
                let (file, _listed) = temporary_file(folder)?;
                // Before the file contains anything that others must not read.
                copy_permissions(&place, file.as_file())?;
                Output::Replacing { file, place, _listed }
            }
            None => Output::Special(open_special(path)?),
        }))
    }

    /// The file that a path leads to, following links, and that would be replaced if it exists;
    /// `None` if the path would be written to directly. Checks whether a file could be created
    /// there.
    ///
    /// # Errors
    /// Those of [`OutputFile::create`].
    pub fn check(path: &Path) -> io::Result<Option<PathBuf>> {
        let place = final_place(path)?;
        if let Some(folder) = place.as_deref().and_then(Path::parent) {
            temporary_file(folder)?;
        }
        Ok(place)
    }

    /// Puts the complete file in its place.
    ///
    /// # Errors
    /// What the operating system says; the file that was there is as before then.
    pub fn finish(self) -> io::Result<()> {
        if let Output::Replacing { file, place, _listed } = self.0 {
            // A disk that is full or remote may report an error only now.
            file.as_file().sync_data()?;
            let _not_discarded = UNFINISHED.lock();
            file.persist(&place).map_err(|error| error.error)?;
        }
        Ok(())
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}

impl OutputFile {
    fn file(&mut self) -> &mut File {
        match &mut self.0 {
            // The temporary file's own writer would mention its name in errors.
            Output::Replacing { file, .. } => file.as_file_mut(),
            Output::Special(file) => file,
        }
    }
}

/// Deletes all files that are not complete, and calls `then`. Until that returns, no file is begun
/// or put in its place. For a process that ends without dropping its files.
///
/// ```
/// use millstream_graph::write::{OutputFile, discard_unfinished};
///
/// let folder = tempfile::tempdir()?;
/// let file = OutputFile::create(&folder.path().join("answer"))?;
/// let left = discard_unfinished(|| folder.path().read_dir().map(Iterator::count))?;
/// assert_eq!(left, 0);
/// assert!(file.finish().is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn discard_unfinished<R>(then: impl FnOnce() -> R) -> R {
    let unfinished = UNFINISHED.lock();
    for path in unfinished.iter() {
        // The file may be gone already.
        let _ = fs::remove_file(path);
    }
    then()
}

/// A path listed among the incomplete files until this is dropped.
#[derive(Debug)]
struct Listed(PathBuf);

impl Drop for Listed {
    fn drop(&mut self) {
        UNFINISHED.lock().retain(|path| *path != self.0);
    }
}

/// Gives `file` the permissions of the one in its place, if there is one and they differ.
fn copy_permissions(place: &Path, file: &File) -> io::Result<()> {
    let permissions = match fs::metadata(place) {
        Ok(metadata) => metadata.permissions(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    match file.metadata()?.permissions() == permissions {
        true => Ok(()),
        false => file.set_permissions(permissions),
    }
}

/// A temporary file, deleted when dropped. It has the permissions of any other new file: by
/// default, temporary files are private.
fn temporary_file(folder: &Path) -> io::Result<(NamedTempFile, Listed)> {
    let mut unfinished = UNFINISHED.lock();
    let create = |path: &Path| OpenOptions::new().write(true).create_new(true).open(path);
    let file = tempfile::Builder::new().prefix(".millstream-").make_in(folder, create)?;
    let listed = Listed(file.path().to_path_buf());
    unfinished.push(listed.0.clone());
    Ok((file, listed))
}

/// The file to be replaced or created: the target of a link, not the link. `None` if the path is to
/// be written to directly.
fn final_place(path: &Path) -> io::Result<Option<PathBuf>> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(metadata) if !metadata.is_file() || standard(&metadata).is_some() => Ok(None),
        Ok(_) => fs::canonicalize(path).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => new_place(path, error).map(Some),
        Err(error) => Err(error),
    }
}

/// The place of a missing file, perhaps behind a link.
fn new_place(path: &Path, is_missing: io::Error) -> io::Result<PathBuf> {
    let Some((parent, name)) = path.parent().zip(path.file_name()) else { return Err(is_missing) };
    if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    match fs::read_link(path) {
        Ok(target) => new_place(&parent.join(target), is_missing),
        Err(_) => Ok(fs::canonicalize(parent)?.join(name)),
    }
}

fn open_special(path: &Path) -> io::Result<File> {
    match standard(&fs::metadata(path)?) {
        Some(file) => Ok(file),
        None => OpenOptions::new().write(true).open(path),
    }
}

/// The standard output or error, if it is this file: then writing continues at its current position.
#[cfg(unix)]
fn standard(metadata: &Metadata) -> Option<File> {
    use std::os::fd::AsFd;
    use std::os::unix::fs::MetadataExt;
    let is_same = |file: &File| {
        let same = |of: Metadata| (of.dev(), of.ino()) == (metadata.dev(), metadata.ino());
        file.metadata().is_ok_and(same)
    };
    let (output, error) = (io::stdout(), io::stderr());
    let handles = [output.as_fd(), error.as_fd()].map(|handle| handle.try_clone_to_owned());
    handles.into_iter().flatten().map(File::from).find(is_same)
}

#[cfg(not(unix))]
fn standard(_: &Metadata) -> Option<File> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::symlink;

    use super::*;

    fn write(path: &Path, text: &str) {
        let mut file = OutputFile::create(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file.finish().unwrap();
    }

    #[test]
    fn what_a_link_leads_to_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("folder")).unwrap();
        symlink("folder/target", path("link")).unwrap();
        symlink("link", path("link to it")).unwrap();
        for text in ["new", "replaced"] {
            write(&path("link to it"), text);
            assert_eq!(fs::read_to_string(path("folder/target")).unwrap(), text);
        }
        assert!(["link", "link to it"].iter().all(|name| path(name).is_symlink()));
        assert_eq!(fs::read_dir(path("folder")).unwrap().count(), 1);
        let place = |name: &str| OutputFile::check(&path(name)).unwrap().unwrap();
        assert_eq!(place("link"), place("folder/../folder/target"));
        assert_ne!(place("link"), place("another"));
    }

    #[test]
    fn a_file_that_is_replaced_keeps_its_permissions() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("answer");
        write(&path, "old");
        for mode in [0o600, 0o640, 0o400, 0o666] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let begun = OutputFile::create(&path).unwrap();
            let temporary = UNFINISHED.lock().iter().find(|it| it.starts_with(&folder)).cloned();
            let found = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
            assert_eq!(found(&temporary.unwrap()), mode, "while it is written");
            drop(begun);
            write(&path, "new");
            assert_eq!((found(&path), &*fs::read_to_string(&path).unwrap()), (mode, "new"));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn devices_are_written_to_and_stay() {
        write(Path::new("/dev/null"), "nothing");
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        assert_eq!(OutputFile::check(Path::new("/dev/null")).unwrap(), None);
        let mut full = OutputFile::create(Path::new("/dev/full")).unwrap();
        assert_eq!(full.write_all(b"1").unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn folders_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().to_path_buf(), folder.path().join("folder/")] {
            let error = OutputFile::check(&path).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::IsADirectory, "{}", path.display());
        }
        for path in [Path::new(""), &folder.path().join("missing/file")] {
            let error = OutputFile::create(path).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{}", path.display());
        }
    }
}
