//! The part of NCCL's C API that a bench needs, loaded from a file.
//!
//! `cudarc` binds it, too, but panics if the library or a function is missing, and never looks for
//! `libnccl.so.2`, the name under which NCCL is installed.

use std::error::Error as _;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;

use cudarc::driver::sys::CUstream;
use libloading::Library as File;

use super::{Error, Result};
use crate::collective::{Collective, Element};

/// A rank's communicator.
pub(super) type Communicator = *mut c_void;

/// `ncclResult_t`, of which 0 is success. It is not an enumeration, since other versions have other values.
type Answer = c_int;

type Sends = *const c_void;
type Receives = *mut c_void;

/// `ncclSum` of `ncclRedOp_t`.
const SUM: c_int = 0;
const ROOT: c_int = 0;

/// As `ncclGetVersion` counts; earlier versions count differently.
const OLDEST: c_int = 20_900;

/// Functions of a library that is never unloaded. What they expect is in `nccl.h`.
pub(super) struct Library {
    get_error_string: unsafe extern "C" fn(Answer) -> *const c_char,
    get_version: unsafe extern "C" fn(*mut c_int) -> Answer,
    comm_init_all: unsafe extern "C" fn(*mut Communicator, c_int, *const c_int) -> Answer,
    comm_destroy: unsafe extern "C" fn(Communicator) -> Answer,
    group_start: unsafe extern "C" fn() -> Answer,
    group_end: unsafe extern "C" fn() -> Answer,
    broadcast: unsafe extern "C" fn(
        Sends,
        Receives,
        usize,
        c_int,
        c_int,
        Communicator,
        CUstream,
    ) -> Answer,
    reduce: unsafe extern "C" fn(
        Sends,
        Receives,
        usize,
        c_int,
        c_int,
        c_int,
        Communicator,
        CUstream,
    ) -> Answer,
    all_reduce: Reduction,
    reduce_scatter: Reduction,
    all_gather: Exchange,
    /// From 2.28 on.
    all_to_all: Option<Exchange>,
    send: unsafe extern "C" fn(Sends, usize, c_int, c_int, Communicator, CUstream) -> Answer,
    receive: unsafe extern "C" fn(Receives, usize, c_int, c_int, Communicator, CUstream) -> Answer,
}

type Reduction =
    unsafe extern "C" fn(Sends, Receives, usize, c_int, c_int, Communicator, CUstream) -> Answer;
type Exchange =
    unsafe extern "C" fn(Sends, Receives, usize, c_int, Communicator, CUstream) -> Answer;

/// The loader's text, which names the file or function; the error itself only says which call failed.
fn loader_said(error: &libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

/// What one rank gives to a collective.
#[derive(Clone, Copy)]
pub(super) struct Operands<T> {
    pub(super) communicator: Communicator,
    pub(super) stream: CUstream,
    pub(super) vector: *mut T,
    /// Equally long: where all-to-all puts its results.
    pub(super) other: *mut T,
    pub(super) len: usize,
    pub(super) rank: usize,
    pub(super) ranks: usize,
}

impl Library {
    pub(super) fn load(path: &Path) -> Result<Library> {
        let unavailable =
            |reason| Error::Unavailable { library: path.display().to_string(), reason };
        // SAFETY: loading NCCL starts nothing; the caller vouches that the file is NCCL.
        let file = unsafe { File::new(path) }.map_err(|error| unavailable(loader_said(&error)))?;
        // SAFETY: the types in `Library` are those of `nccl.h`.
        let library =
            unsafe { Library::find(&file) }.map_err(|error| unavailable(loader_said(&error)))?;
        let version = library.version()?;
        if version < OLDEST {
            return Err(unavailable(format!(
                "NCCL 2.9 is the oldest that is known, not {version}"
            )));
        }
        // Never unloaded: NCCL may have threads that outlive its last communicator.
        std::mem::forget(file);
        Ok(library)
    }

    /// # Safety
    /// The functions have these types.
    unsafe fn find(file: &File) -> std::result::Result<Library, libloading::Error> {
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the caller's promise.
                *unsafe { file.get($name) }?
            };
        }
        Ok(Library {
            get_error_string: function!(b"ncclGetErrorString\0"),
            get_version: function!(b"ncclGetVersion\0"),
            comm_init_all: function!(b"ncclCommInitAll\0"),
            comm_destroy: function!(b"ncclCommDestroy\0"),
            group_start: function!(b"ncclGroupStart\0"),
            group_end: function!(b"ncclGroupEnd\0"),
            broadcast: function!(b"ncclBroadcast\0"),
            reduce: function!(b"ncclReduce\0"),
            all_reduce: function!(b"ncclAllReduce\0"),
            reduce_scatter: function!(b"ncclReduceScatter\0"),
            all_gather: function!(b"ncclAllGather\0"),
            // SAFETY: the caller's promise.
            all_to_all: unsafe { file.get(b"ncclAlltoAll\0") }.ok().map(|function| *function),
            send: function!(b"ncclSend\0"),
            receive: function!(b"ncclRecv\0"),
        })
    }

    fn check(&self, answer: Answer, call: &'static str) -> Result<()> {
        if answer == 0 {
            return Ok(());
        }
        // SAFETY: takes any number, and gives a static string.
        let reason = unsafe { CStr::from_ptr((self.get_error_string)(answer)) };
        Err(Error::Call { call, reason: reason.to_string_lossy().into_owned() })
    }

    /// The version, such as 22809 for 2.28.9.
    pub(super) fn version(&self) -> Result<c_int> {
        let mut version = 0;
        // SAFETY: stores a number.
        let answer = unsafe { (self.get_version)(&mut version) };
        self.check(answer, "ncclGetVersion").map(|()| version)
    }

    /// A communicator for each GPU, in the primary contexts of these ordinals.
    pub(super) fn communicators(&self, ordinals: &[c_int]) -> Result<Vec<Communicator>> {
        let mut communicators = vec![std::ptr::null_mut(); ordinals.len()];
        let count = c_int::try_from(ordinals.len()).unwrap_or(c_int::MAX);
        // SAFETY: both have as many elements as the call is told.
        let answer =
            unsafe { (self.comm_init_all)(communicators.as_mut_ptr(), count, ordinals.as_ptr()) };
        self.check(answer, "ncclCommInitAll").map(|()| communicators)
    }

    /// # Safety
    /// One of `communicators`, which nothing uses any more.
    pub(super) unsafe fn destroy(&self, communicator: Communicator) -> Result<()> {
        // SAFETY: the caller's promise.
        self.check(unsafe { (self.comm_destroy)(communicator) }, "ncclCommDestroy")
    }

    /// Merges what `calls` submits into one launch on each GPU.
    pub(super) fn group(&self, calls: impl FnOnce() -> Result<()>) -> Result<()> {
        // SAFETY: without arguments; ended below.
        self.check(unsafe { (self.group_start)() }, "ncclGroupStart")?;
        let result = calls();
        // SAFETY: started above, by this thread.
        let ended = self.check(unsafe { (self.group_end)() }, "ncclGroupEnd");
        result.and(ended)
    }

    /// Submits one rank's part of a collective.
    ///
    /// # Safety
    /// The vectors must be the rank's own and have `len` items, until its stream has come here.
    pub(super) unsafe fn submit<T: Element>(
        &self,
        collective: Collective,
        operands: &Operands<T>,
    ) -> Result<()> {
        let Operands { communicator, stream, vector, other, len, rank, ranks } = *operands;
        let part = len / ranks;
        let own = vector.wrapping_add(rank * part).cast();
        let vector = vector.cast();
        // SAFETY: `own` is the rank's part of the vector; the rest is the caller's promise.
        let answer = unsafe {
            match collective {
                Collective::Broadcast => {
                    (self.broadcast)(vector, vector, len, T::NCCL, ROOT, communicator, stream)
                }
                Collective::Reduce => {
                    (self.reduce)(vector, vector, len, T::NCCL, SUM, ROOT, communicator, stream)
                }
                Collective::AllReduce => {
                    (self.all_reduce)(vector, vector, len, T::NCCL, SUM, communicator, stream)
                }
                Collective::ReduceScatter => {
                    (self.reduce_scatter)(vector, own, part, T::NCCL, SUM, communicator, stream)
                }
                Collective::AllGather => {
                    (self.all_gather)(own, vector, part, T::NCCL, communicator, stream)
                }
                Collective::AllToAll => match self.all_to_all {
                    Some(all_to_all) => {
                        all_to_all(vector, other.cast(), part, T::NCCL, communicator, stream)
                    }
                    None => return self.send_to_all(operands),
                },
            }
        };
        self.check(answer, collective.name())
    }

    /// All-to-all out of single messages, as NCCL's documentation shows.
    ///
    /// # Safety
    /// As for `submit`.
    unsafe fn send_to_all<T: Element>(&self, operands: &Operands<T>) -> Result<()> {
        let Operands { communicator, stream, vector, other, len, ranks, .. } = *operands;
        let part = len / ranks;
        self.group(|| {
            for (peer, start) in (0..).zip((0..len).step_by(part.max(1))) {
                let [from, to] = [vector, other].map(|vector| vector.wrapping_add(start).cast());
                // SAFETY: parts of both vectors; the rest is the caller's promise.
                let sent = unsafe { (self.send)(from, part, T::NCCL, peer, communicator, stream) };
                self.check(sent, "ncclSend")?;
                // SAFETY: as above.
                let received =
                    unsafe { (self.receive)(to, part, T::NCCL, peer, communicator, stream) };
                self.check(received, "ncclRecv")?;
            }
            Ok(())
        })
    }
}
