//! Runs the command and looks at what it leaves.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// Options that nothing but a worklist has a use for.
pub(crate) const WORKLIST_OPTIONS: [[&str; 2]; 5] = [
    ["--routing", "ring"],
    ["--worker", "host"],
    ["--packet-bytes", "4096"],
    ["--buffers", "1"],
    ["--queue-entries", "16"],
];

/// The command, yet to be started; on four host devices unless told otherwise,
/// and with a cache of its own.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
    command.args(arguments).env("MILLSTREAM_DEVICES", "host:4");
    command.env("MILLSTREAM_CACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/no cache"));
    command
}

/// What a command ended with.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Answer {
    fn from(output: Output) -> Answer {
        Answer {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

pub(crate) fn run(arguments: &[&str]) -> Answer {
    command(arguments).output().unwrap().into()
}

/// The answer of a command that succeeds and has nothing else to say.
pub(crate) fn succeed(arguments: &[&str]) -> String {
    let answer = run(arguments);
    assert_eq!(answer.code, Some(0), "{arguments:?}: {answer:?}");
    assert_eq!(remarks(&answer.stderr), "", "{arguments:?}");
    answer.stdout
}

/// The JSON object that a command prints, and nothing beside it.
pub(crate) fn json(arguments: &[&str]) -> Value {
    let stdout = succeed(&[arguments, &["--json"]].concat());
    assert_eq!(stdout.lines().count(), 1, "{stdout}");
    let value: Value = serde_json::from_str(&stdout).unwrap();
    assert!(value.is_object(), "{stdout}");
    value
}

/// What the command refuses with: one line on standard error, none on standard
/// output.
pub(crate) fn refused(arguments: &[&str], code: i32) -> String {
    let answer = run(arguments);
    assert_eq!(answer.code, Some(code), "{arguments:?}: {answer:?}");
    assert_eq!(answer.stdout, "", "{arguments:?}");
    let said = remarks(&answer.stderr);
    assert!(!said.is_empty() && !said.contains("panicked"), "{arguments:?}: {said}");
    said
}

/// Standard error without the remark on a machine that has a GPU.
pub(crate) fn remarks(stderr: &str) -> String {
    let lines = stderr.lines().filter(|line| !line.contains("no GPU support"));
    lines.collect::<Vec<_>>().join("\n")
}

/// A file of `datasets/`.
pub(crate) fn dataset(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../datasets");
    folder.join(name).to_str().unwrap().to_string()
}

/// A folder of its own for each test, gone at its end.
#[derive(Debug)]
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    /// The path of a file in it, which need not exist.
    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_string()
    }

    /// Writes a file.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// The names of its files, in order.
    pub(crate) fn names(&self) -> Vec<PathBuf> {
        let entries = self.0.path().read_dir().unwrap();
        let mut names: Vec<PathBuf> =
            entries.map(|entry| entry.unwrap().file_name().into()).collect();
        names.sort();
        names
    }
}

/// A NumPy file of format 1.0: its description, and the bytes after the header.
pub(crate) fn numpy(path: &str) -> (String, Vec<u8>) {
    let bytes = std::fs::read(path).unwrap();
    assert_eq!(bytes[..8], *b"\x93NUMPY\x01\x00");
    let end = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    assert!(end.is_multiple_of(64) && bytes[end - 1] == b'\n');
    let description = std::str::from_utf8(&bytes[10..end]).unwrap().trim().to_string();
    (description, bytes[end..].to_vec())
}

/// Little-endian numbers of 32 bits.
pub(crate) fn words(bytes: &[u8]) -> Vec<u32> {
    assert!(bytes.len().is_multiple_of(4));
    bytes.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
}
