//! NVRTC's functions: CUDA C++ is compiled by the host's C++ compiler, `g++` or what
//! `MILLSTREAM_EMULATOR_COMPILER` names.

use std::ffi::{CStr, OsString, c_char, c_int};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::{Command, Output};

use cudarc::nvrtc::sys::{nvrtcProgram, nvrtcResult};

use crate::image::pack;
use crate::ptx::translate;

/// What kernels are compiled with: the last includes the others.
const HEADERS: [(&str, &str); 5] = [
    ("threads.hpp", include_str!("threads.hpp")),
    ("words.hpp", include_str!("words.hpp")),
    ("halves.hpp", include_str!("halves.hpp")),
    ("module.hpp", include_str!("module.hpp")),
    (EMULATED, include_str!("emulated.hpp")),
];
const EMULATED: &str = "emulated.hpp";

/// A source with its headers, and what became of it.
struct Program {
    name: String,
    text: String,
    headers: Vec<(String, String)>,
    code: Vec<u8>,
    log: Vec<u8>,
}

/// A minor version that none of NVIDIA's has, another one when what compiles changes: callers
/// keep compiled code.
///
/// # Safety
/// As the function of NVRTC that it stands for; so below.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcVersion(major: *mut c_int, minor: *mut c_int) -> nvrtcResult {
    let mut hasher = DefaultHasher::new();
    (HEADERS, include_str!("ptx.rs"), include_str!("compiler.rs")).hash(&mut hasher);
    // SAFETY: the caller's numbers.
    unsafe { (*major, *minor) = (13, (hasher.finish() >> 40) as c_int) };
    nvrtcResult::NVRTC_SUCCESS
}

/// What code is said to be for changes nothing.
const ARCHITECTURES: [c_int; 3] = [80, 90, 100];

/// # Safety
/// See [`nvrtcVersion`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetNumSupportedArchs(count: *mut c_int) -> nvrtcResult {
    // SAFETY: the caller's number.
    unsafe { *count = ARCHITECTURES.len() as c_int };
    nvrtcResult::NVRTC_SUCCESS
}

/// # Safety
/// See [`nvrtcVersion`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetSupportedArchs(known: *mut c_int) -> nvrtcResult {
    // SAFETY: the caller has room for so many.
    unsafe { known.copy_from_nonoverlapping(ARCHITECTURES.as_ptr(), ARCHITECTURES.len()) };
    nvrtcResult::NVRTC_SUCCESS
}

/// # Safety
/// See [`nvrtcVersion`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcCreateProgram(
    program: *mut nvrtcProgram,
    text: *const c_char,
    name: *const c_char,
    header_count: c_int,
    header_texts: *const *const c_char,
    header_names: *const *const c_char,
) -> nvrtcResult {
    let string = |pointer: *const c_char| {
        // SAFETY: the caller's strings end in NUL.
        unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
    };
    let headers = (0..header_count as usize).map(|at| {
        // SAFETY: the caller's arrays have that many strings.
        unsafe { (string(*header_names.add(at)), string(*header_texts.add(at))) }
    });
    let created = Program {
        name: string(name),
        text: string(text),
        headers: headers.collect(),
        code: Vec::new(),
        log: Vec::new(),
    };
    // SAFETY: the caller's place; destroyed by `nvrtcDestroyProgram`.
    unsafe { *program = Box::into_raw(Box::new(created)).cast() };
    nvrtcResult::NVRTC_SUCCESS
}

/// # Safety
/// See [`nvrtcVersion`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcDestroyProgram(program: *mut nvrtcProgram) -> nvrtcResult {
    // SAFETY: made by `nvrtcCreateProgram`.
    drop(unsafe { Box::from_raw((*program).cast::<Program>()) });
    nvrtcResult::NVRTC_SUCCESS
}

/// The program behind a handle.
///
/// # Safety
/// Made by `nvrtcCreateProgram`, and used by one thread.
unsafe fn program<'a>(handle: nvrtcProgram) -> &'a mut Program {
    // SAFETY: the caller's promise.
    unsafe { &mut *handle.cast() }
}

/// # Safety
/// See [`nvrtcVersion`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcCompileProgram(
    handle: nvrtcProgram,
    _option_count: c_int,
    _options: *const *const c_char,
) -> nvrtcResult {
    // SAFETY: the caller's promise.
    let program = unsafe { program(handle) };
    let (answer, log) = match program.compile() {
        Ok((code, log)) => {
            program.code = code;
            (nvrtcResult::NVRTC_SUCCESS, log)
        }
        Err(log) => (nvrtcResult::NVRTC_ERROR_COMPILATION, log),
    };
    program.log = log.into_bytes();
    answer
}

/// # Safety
/// See [`nvrtcVersion`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetProgramLogSize(
    handle: nvrtcProgram,
    size: *mut usize,
) -> nvrtcResult {
    // SAFETY: the caller's promise.
    unsafe { *size = program(handle).log.len() + 1 };
    nvrtcResult::NVRTC_SUCCESS
}

/// # Safety
/// See [`nvrtcVersion`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetProgramLog(handle: nvrtcProgram, log: *mut c_char) -> nvrtcResult {
    // SAFETY: the caller has room for the log and a NUL.
    unsafe {
        let bytes = &program(handle).log;
        std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), log, bytes.len());
        *log.add(bytes.len()) = 0;
    }
    nvrtcResult::NVRTC_SUCCESS
}

/// # Safety
/// See [`nvrtcVersion`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetCUBINSize(handle: nvrtcProgram, size: *mut usize) -> nvrtcResult {
    // SAFETY: the caller's promise.
    unsafe { *size = program(handle).code.len() };
    nvrtcResult::NVRTC_SUCCESS
}

/// # Safety
/// See [`nvrtcVersion`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetCUBIN(handle: nvrtcProgram, code: *mut c_char) -> nvrtcResult {
    // SAFETY: the caller has room for the code.
    unsafe {
        let bytes = &program(handle).code;
        std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), code, bytes.len());
    }
    nvrtcResult::NVRTC_SUCCESS
}

/// # Safety
/// See [`nvrtcVersion`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetErrorString(_result: nvrtcResult) -> *const c_char {
    c"the emulator's compiler failed".as_ptr()
}

impl Program {
    /// The code and the log, or the log of a failure.
    fn compile(&self) -> Result<(Vec<u8>, String), String> {
        let text = |error: std::io::Error| error.to_string();
        let folder = tempfile::tempdir().map_err(text)?;
        let given = self.headers.iter().map(|(name, content)| (&**name, &**content));
        for (name, content) in given.chain(HEADERS) {
            write(folder.path(), name, content).map_err(text)?;
        }
        write(folder.path(), &self.name, &self.text).map_err(text)?;
        let language = ["-std=c++17", "-x", "c++"];
        let preprocessed = run(folder.path(), &["-E", "-I.", "-include", EMULATED], |command| {
            command.args(language).arg(&self.name)
        })?;
        let preprocessed = String::from_utf8_lossy(&preprocessed.stdout).into_owned();
        let (translated, kernels) = translate(&preprocessed);
        write(folder.path(), "translated.ii", &translated).map_err(text)?;
        let options = [
            "-shared",
            "-fPIC",
            "-O1",
            "-w",
            "-mcx16",
            "-fpreprocessed",
            "-fno-gnu-unique",
            "-fno-strict-aliasing",
            "-fno-exceptions",
            "-ffp-contract=off",
            "-fvisibility=hidden",
            "-Wl,-z,defs",
            "-fsanitize=kernel-address",
            "--param=asan-instrumentation-with-call-threshold=0",
            "--param=asan-globals=0",
            "--param=asan-stack=0",
            "-o",
            "code.so",
        ];
        run(folder.path(), &options, |command| command.args(language).arg("translated.ii"))?;
        let code = std::fs::read(folder.path().join("code.so")).map_err(text)?;
        let entries = kernels.iter().map(|name| format!("Compiling entry function '{name}'\n"));
        Ok((pack(code), entries.collect()))
    }
}

fn write(folder: &Path, name: &str, content: &str) -> std::io::Result<()> {
    let file = folder.join(name.trim_start_matches('/'));
    if let Some(parent) = file.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::write(file, content)
}

/// Runs the compiler in a folder; its complaints, as NVRTC writes them, if it fails.
fn run(
    folder: &Path,
    options: &[&str],
    more: impl FnOnce(&mut Command) -> &mut Command,
) -> Result<Output, String> {
    let compiler = std::env::var_os("MILLSTREAM_EMULATOR_COMPILER");
    let compiler = compiler.unwrap_or_else(|| OsString::from("g++"));
    let mut command = Command::new(&compiler);
    let output = more(command.current_dir(folder).args(options)).output();
    let output = output.map_err(|error| format!("{}: {error}", compiler.display()))?;
    if output.status.success() {
        return Ok(output);
    }
    Err(String::from_utf8_lossy(&output.stderr).lines().map(|line| as_nvrtc(line) + "\n").collect())
}

/// `file:3:14: error: ...` as `file(3): error: ...`.
fn as_nvrtc(line: &str) -> String {
    let mut parts = line.splitn(4, ':');
    let parts = (parts.next(), parts.next(), parts.next(), parts.next());
    match parts {
        (Some(file), Some(number), Some(column), Some(message))
            if number.parse::<u32>().is_ok() && column.parse::<u32>().is_ok() =>
        {
            format!("{file}({number}):{message}")
        }
        _ => line.to_string(),
    }
}

/// Compiles a text that includes nothing.
#[cfg(test)]
pub(crate) fn compile(text: &str) -> Result<Vec<u8>, String> {
    let (name, text) = ("kernel.cu".to_string(), text.to_string());
    let program = Program { name, text, headers: Vec::new(), code: Vec::new(), log: Vec::new() };
    program.compile().map(|(code, _)| code)
}
