//! Transfer tables kept on disk, one for each machine.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cache;
use crate::transfer_table::{Transfer, TransferTable};

/// Changed whenever older files no longer fit what this expects.
const VERSION: u32 = 2;

/// What a file holds.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    version: u32,
    /// The driver and the GPUs on which it was measured.
    machine: String,
    transfers: Vec<Transfer>,
}

/// The file of a machine in a folder.
fn file(folder: &Path, machine: &str) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    machine.hash(&mut hasher);
    folder.join(format!("transfers-{:016x}.json", hasher.finish()))
}

/// The table of a machine; `None` if there is none.
///
/// # Errors
/// What is wrong with a file that cannot be used.
pub(crate) fn load(folder: &Path, machine: &str) -> Result<Option<TransferTable>, String> {
    let file = file(folder, machine);
    let unusable = |reason: &str| {
        Err(format!(
            "{}: {reason}; measure again with millstream topology --calibrate",
            file.display()
        ))
    };
    let text = match std::fs::read(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        // A new table that is measured could not be kept, either.
        Err(error) => return Err(format!("{}: {error}", file.display())),
    };
    let value: serde_json::Value = match serde_json::from_slice(&text) {
        Ok(value) => value,
        Err(error) => return unusable(&format!("no transfer table: {error}")),
    };
    // Checked first: the rest may look different in other versions.
    if value.get("version").and_then(serde_json::Value::as_u64) != Some(u64::from(VERSION)) {
        return unusable("a transfer table of another version");
    }
    match serde_json::from_value::<Stored>(value) {
        Err(error) => unusable(&format!("no transfer table: {error}")),
        Ok(stored) if stored.machine != machine => unusable("measured on another machine"),
        Ok(stored) if !stored.transfers.iter().all(Transfer::is_sane) => {
            unusable("a transfer table with times that are not positive")
        }
        Ok(stored) => Ok(Some(TransferTable::new(stored.transfers))),
    }
}

/// Keeps a table, together with what is known about other pairs of the machine. Returns the file.
///
/// # Errors
/// The system's error; nothing is changed then.
pub(crate) fn store(
    folder: &Path,
    machine: &str,
    table: &TransferTable,
) -> std::io::Result<PathBuf> {
    let file = file(folder, machine);
    let _alone = cache::lock(&file)?;
    let known = load(folder, machine).ok().flatten().unwrap_or_default();
    let all = known.transfers().iter().chain(table.transfers()).cloned();
    let transfers = TransferTable::new(all).transfers().to_vec();
    let stored = Stored { version: VERSION, machine: machine.to_string(), transfers };
    cache::write(&file, &[&serde_json::to_vec_pretty(&stored)?])?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer_way::TransferWay;

    fn transfer(to: &str, time_us: f64) -> Transfer {
        let (from, to) = ("host".to_string(), to.to_string());
        let way = TransferWay::Copy;
        Transfer { from, to, way, bytes: 4096, time_us, latency_us: 9.0 }
    }

    #[test]
    fn tables_of_one_machine_are_kept_together() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("new");
        assert_eq!(load(&folder, "one"), Ok(None));
        let first = TransferTable::new([transfer("cuda:0", 1.0), transfer("cuda:1", 2.0)]);
        let file = store(&folder, "one", &first).unwrap();
        assert_eq!(load(&folder, "one"), Ok(Some(first)));
        assert_eq!(load(&folder, "other"), Ok(None));
        let again = TransferTable::new([transfer("cuda:1", 3.0)]);
        assert_eq!(store(&folder, "one", &again).unwrap(), file);
        let both = TransferTable::new([transfer("cuda:0", 1.0), transfer("cuda:1", 3.0)]);
        assert_eq!(load(&folder, "one"), Ok(Some(both)));
    }

    #[test]
    fn pairs_that_are_kept_at_once_are_all_kept() {
        let folder = tempfile::tempdir().unwrap();
        let name = |gpu: usize| format!("cuda:{gpu}");
        std::thread::scope(|scope| {
            for gpu in 0..8 {
                let (folder, table) =
                    (folder.path(), TransferTable::new([transfer(&name(gpu), 1.0)]));
                scope.spawn(move || store(folder, "here", &table).unwrap());
            }
        });
        let table = load(folder.path(), "here").unwrap().unwrap();
        let has = |gpu: usize| table.transfers().iter().any(|transfer| transfer.to == name(gpu));
        assert!((0..8).all(has), "{table:?}");
    }

    #[test]
    fn files_that_cannot_be_used_say_why_and_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let table = TransferTable::new([transfer("cuda:0", 1.5)]);
        let file = store(folder.path(), "here", &table).unwrap();
        let good = std::fs::read_to_string(&file).unwrap();
        for (bad, reason) in [
            (good[..good.len() / 2].to_string(), "no transfer table"),
            (String::new(), "no transfer table"),
            (good.replace("\"version\": 2", "\"version\": 1"), "another version"),
            ("{}".to_string(), "another version"),
            (good.replace("\"here\"", "\"there\""), "another machine"),
            (good.replace("1.5", "-1.5"), "not positive"),
            (good.replace("1.5", "null"), "no transfer table"),
        ] {
            std::fs::write(&file, &bad).unwrap();
            let warning = load(folder.path(), "here").unwrap_err();
            assert!(warning.contains(reason) && warning.contains("--calibrate"), "{warning}");
        }
        store(folder.path(), "here", &table).unwrap();
        assert_eq!(load(folder.path(), "here"), Ok(Some(table)));
    }

    #[test]
    fn a_folder_that_is_none_is_not_measured_for() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let warning = load(file.path(), "here").unwrap_err();
        assert!(warning.contains("Not a directory") && !warning.contains("--calibrate"));
    }
}
