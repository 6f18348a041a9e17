//! Answers that were asked for: what callers make of them is for tests to see.

use std::io::Write;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use cudarc::driver::sys::CUresult;

use super::status::Answer;

/// Those that can be asked for.
const ANSWERS: [CUresult; 12] = [
    CUresult::CUDA_ERROR_OUT_OF_MEMORY,
    CUresult::CUDA_ERROR_STUB_LIBRARY,
    CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE,
    CUresult::CUDA_ERROR_NO_DEVICE,
    CUresult::CUDA_ERROR_INVALID_DEVICE,
    CUresult::CUDA_ERROR_CONTAINED,
    CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED,
    CUresult::CUDA_ERROR_SYSTEM_NOT_READY,
    CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
    CUresult::CUDA_ERROR_MPS_RPC_FAILURE,
    CUresult::CUDA_ERROR_EXTERNAL_DEVICE,
    CUresult::CUDA_ERROR_TOO_MANY_PEERS,
];

/// What a function answers from a certain call on.
#[derive(Debug)]
struct Asked {
    function: String,
    answer: CUresult,
    first: u64,
    calls: AtomicU64,
}

impl Asked {
    /// As in `cuInit=CUDA_ERROR_NO_DEVICE`, or from the hundredth call on `=CUDA_ERROR_CONTAINED@100`.
    fn read(text: &str) -> Option<Asked> {
        let (function, answer) = text.split_once('=')?;
        let (answer, first) = answer.split_once('@').unwrap_or((answer, "1"));
        let answer = ANSWERS.into_iter().find(|known| format!("{known:?}") == answer)?;
        let function = function.to_string();
        Some(Asked { function, answer, first: first.parse().ok()?, calls: AtomicU64::new(0) })
    }

    fn next(&self) -> Answer<()> {
        // Relaxed: only a number is needed.
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        if call < self.first { Ok(()) } else { Err(self.answer) }
    }
}

/// What `MILLSTREAM_EMULATOR_ANSWERS` asks for.
///
/// # Errors
/// What of it cannot be read.
fn read(list: &str) -> Result<Vec<Asked>, String> {
    let entries = list.split(',').filter(|entry| !entry.is_empty());
    entries.map(|entry| Asked::read(entry).ok_or_else(|| entry.to_string())).collect()
}

/// The answer that a function was asked to give to this call.
pub(super) fn asked(function: &str) -> Answer<()> {
    static ASKED: LazyLock<Result<Vec<Asked>, String>> = LazyLock::new(|| {
        let list = std::env::var("MILLSTREAM_EMULATOR_ANSWERS").unwrap_or_default();
        read(&list).inspect_err(|entry| {
            // Nobody may be left to read it.
            let _ = writeln!(
                std::io::stderr(),
                "MILLSTREAM_EMULATOR_ANSWERS: {entry:?} cannot be read"
            );
        })
    });
    match &*ASKED {
        Ok(all) => all.iter().filter(|it| it.function == function).try_for_each(Asked::next),
        // So that nobody takes what was not tested for tested.
        Err(_) => Err(CUresult::CUDA_ERROR_NOT_SUPPORTED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_from_the_call_that_is_named() {
        let asked = read("cuInit=CUDA_ERROR_NO_DEVICE,cuStreamQuery=CUDA_ERROR_CONTAINED@3");
        let [init, query] = &asked.unwrap()[..] else { panic!("two") };
        assert_eq!(init.next(), Err(CUresult::CUDA_ERROR_NO_DEVICE));
        let contained = Err(CUresult::CUDA_ERROR_CONTAINED);
        assert_eq!([0; 4].map(|_| query.next()), [Ok(()), Ok(()), contained, contained]);
        assert!(read("").unwrap().is_empty());
        assert_eq!(read("cuInit").unwrap_err(), "cuInit");
        assert_eq!(read("cuInit=NO").unwrap_err(), "cuInit=NO");
    }
}
