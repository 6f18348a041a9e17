//! CUDA C++ to a GPU's code: NVRTC, and a cache on disk.
//!
//! A cached file holds the compiler's version and the whole key (source, headers, options)
//! before the code, and is used only if the key is equal, and the version, if there is a compiler.

use std::ffi::{CString, c_char};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use cudarc::nvrtc::{result, sys};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use millstream_kernels::HEADERS;

use super::driver;
use crate::cuda_source::CudaSource;
use crate::{Error, Result, cache};

/// What the compiler's library may be called; an older driver needs an older one.
const LIBRARIES: [&str; 3] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];
/// How the names of the library begin that the compiler needs, which has the whole version in its
/// name.
const BUILTINS: &str = "libnvrtc-builtins.so";

/// The code of `source` for an architecture such as 90, compiled or cached.
///
/// # Errors
/// No compiler, or one whose code the driver does not load; source that does not compile, with
/// the compiler's log.
pub(super) fn compile(source: &CudaSource, architecture: u32) -> Result<Vec<u8>> {
    let compiler = compiler().and_then(|version| {
        mismatch(version, driver::version()).map_or(Ok(version), |reason| Err(unavailable(reason)))
    });
    let options = options(architecture);
    let key = key(source, &options);
    let cached = cache_file(&key);
    let version = compiler.as_ref().ok().copied();
    if let Some(code) = cached.as_deref().and_then(|file| read_cached(file, version, &key)) {
        return Ok(code);
    }
    let version = compiler?;
    let (code, _) = run_compiler(source, &options)?;
    if let Some(file) = cached {
        // A cache that cannot be written costs time only.
        let _ = write_cached(&file, version, &key, &code);
    }
    Ok(code)
}

/// Why a driver, for so many thousands of CUDA's version, does not load a compiler's code.
fn mismatch((major, minor): (i32, i32), driver: i32) -> Option<String> {
    let (its_major, its_minor) = (driver / 1000, driver % 1000 / 10);
    (major > its_major).then(|| {
        format!(
            "the driver is for CUDA {its_major}.{its_minor}, and does not load what NVRTC {major}.{minor} compiles; \
             install a driver for CUDA {major}, or set MILLSTREAM_NVRTC to the folder of an older NVRTC"
        )
    })
}

fn unavailable(reason: String) -> Error {
    Error::DriverUnavailable { device: "a kernel".to_string(), driver: "NVRTC", reason }
}

/// The code of `source` and what the compiler says of its registers.
///
/// # Errors
/// As [`compile`].
pub(crate) fn compile_with_log(
    source: &CudaSource,
    architecture: u32,
) -> Result<(Vec<u8>, String)> {
    compiler()?;
    let report = ["--ptxas-options=-v", "--ptxas-options=--warn-on-spills"];
    let options: Vec<String> =
        options(architecture).into_iter().chain(report.map(String::from)).collect();
    run_compiler(source, &options)
}

fn options(architecture: u32) -> [String; 2] {
    [format!("--gpu-architecture=sm_{architecture}"), "--std=c++17".to_string()]
}

/// The compiler's version, once it is loaded.
fn compiler() -> Result<(i32, i32)> {
    static LOADED: OnceLock<std::result::Result<(i32, i32), String>> = OnceLock::new();
    LOADED.get_or_init(load).clone().map_err(unavailable)
}

fn load() -> std::result::Result<(i32, i32), String> {
    if let Some(compiler) = folders().iter().find_map(|folder| find(folder)) {
        for file in builtins_beside(&compiler).into_iter().chain([compiler]) {
            // SAFETY: NVIDIA's libraries run nothing of consequence when loaded.
            let library = unsafe { Library::open(Some(file), RTLD_NOW | RTLD_GLOBAL) };
            // Stays open: the loader below then finds it by its name.
            std::mem::forget(library.map_err(|error| error.to_string())?);
        }
    }
    // SAFETY: only looks for the library.
    if !unsafe { sys::is_culib_present() } {
        let places: Vec<String> =
            folders().iter().map(|folder| folder.display().to_string()).collect();
        return Err(format!(
            "neither libnvrtc.so.13 nor libnvrtc.so.12 is in {}; install CUDA's NVRTC or set MILLSTREAM_NVRTC to its folder",
            places.join(", ")
        ));
    }
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the library is there, and stores two numbers.
    let answer = unsafe { sys::nvrtcVersion(&mut major, &mut minor) };
    answer.result().map(|()| (major, minor)).map_err(|error| format!("nvrtcVersion: {error}"))
}

fn folders() -> Vec<PathBuf> {
    let named = std::env::var_os("MILLSTREAM_NVRTC").map(PathBuf::from);
    let toolkit = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os);
    let toolkits = toolkit.map(|home| Path::new(&home).join("lib64"));
    named.into_iter().chain(toolkits).chain([PathBuf::from("/usr/local/cuda/lib64")]).collect()
}

/// The compiler's library in a folder.
fn find(folder: &Path) -> Option<PathBuf> {
    LIBRARIES.iter().map(|name| folder.join(name)).find(|file| file.exists())
}

/// What must be loaded before the compiler.
fn builtins_beside(compiler: &Path) -> Vec<PathBuf> {
    let entries = compiler.parent().and_then(|folder| folder.read_dir().ok());
    let names = entries.into_iter().flatten().flatten().map(|entry| entry.path());
    let is_builtins = |file: &PathBuf| {
        file.file_name().and_then(|name| name.to_str()).is_some_and(|it| it.starts_with(BUILTINS))
    };
    names.filter(is_builtins).collect()
}

fn key(source: &CudaSource, options: &[String]) -> String {
    let mut key = options.join(" ") + "\n";
    for header in HEADERS {
        key.extend([header.name, "\n", header.text, "\n"]);
    }
    key.extend([source.file(), "\n", source.text()]);
    key
}

fn cache_file(key: &str) -> Option<PathBuf> {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    Some(cache::folder()?.join(format!("{:016x}.cubin", hasher.finish())))
}

/// What `version` of the compiler made of a source, or, without one, any.
fn read_cached(file: &Path, version: Option<(i32, i32)>, key: &str) -> Option<Vec<u8>> {
    let mut bytes = std::fs::read(file).ok()?;
    let (its_version, rest) = bytes.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let is_ours = version.is_none_or(|version| *its_version == version_bytes(version))
        && u64::from_le_bytes(*length) == key.len() as u64
        && rest.get(..key.len())? == key.as_bytes();
    let code = bytes.len() - rest.len() + key.len();
    is_ours.then(|| bytes.split_off(code))
}

fn write_cached(file: &Path, version: (i32, i32), key: &str, code: &[u8]) -> std::io::Result<()> {
    let length = (key.len() as u64).to_le_bytes();
    cache::write(file, &[&version_bytes(version), &length, key.as_bytes(), code])
}

fn version_bytes((major, minor): (i32, i32)) -> [u8; 8] {
    (i64::from(major) << 32 | i64::from(minor)).to_le_bytes()
}

/// A program of the compiler, destroyed when dropped.
struct Program(sys::nvrtcProgram);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: made by the compiler, and not used any more.
        let _ = unsafe { result::destroy_program(self.0) };
    }
}

fn run_compiler(source: &CudaSource, options: &[String]) -> Result<(Vec<u8>, String)> {
    let failed = |log: String| Error::Compile {
        file: source.file().to_string(),
        architecture: options[0].trim_start_matches("--gpu-architecture=").to_string(),
        log: log.into(),
    };
    let string = |text: &str| CString::new(text).map_err(|error| failed(error.to_string()));
    let names = HEADERS.iter().map(|header| string(header.name)).collect::<Result<Vec<_>>>()?;
    let texts = HEADERS.iter().map(|header| string(header.text)).collect::<Result<Vec<_>>>()?;
    let pointers = |strings: &[CString]| -> Vec<*const c_char> {
        strings.iter().map(|string| string.as_ptr()).collect()
    };
    let (text, file) = (string(source.text())?, string(source.file())?);
    let mut program = std::ptr::null_mut();
    // SAFETY: all strings end in NUL and outlive the call, which copies them.
    let created = unsafe {
        sys::nvrtcCreateProgram(
            &mut program,
            text.as_ptr(),
            file.as_ptr(),
            HEADERS.len() as i32,
            pointers(&texts).as_ptr(),
            pointers(&names).as_ptr(),
        )
    };
    created.result().map_err(|error| failed(error.to_string()))?;
    let program = Program(program);
    // SAFETY: the program lives, here and below.
    let compiled = unsafe { result::compile_program(program.0, options) };
    // SAFETY: as above.
    let log = unsafe { result::get_program_log(program.0) }.unwrap_or_default();
    let log: Vec<u8> = log.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect();
    let log = String::from_utf8_lossy(&log).into_owned();
    if let Err(error) = compiled {
        return Err(failed(format!("{error}\n{log}")));
    }
    let mut bytes = 0;
    // SAFETY: as above.
    let sized = unsafe { sys::nvrtcGetCUBINSize(program.0, &mut bytes) };
    sized.result().map_err(|error| failed(error.to_string()))?;
    let mut code = vec![0u8; bytes];
    // SAFETY: as above, and the code has this size.
    let copied = unsafe { sys::nvrtcGetCUBIN(program.0, code.as_mut_ptr().cast()) };
    copied.result().map_err(|error| failed(error.to_string()))?;
    Ok((code, log))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_code_is_used_for_an_equal_key_only() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new").join("code");
        let version = Some((13, 0));
        write_cached(&file, (13, 0), "key", b"code").unwrap();
        assert_eq!(read_cached(&file, version, "key").as_deref(), Some(&b"code"[..]));
        assert_eq!(read_cached(&file, version, "kez"), None);
        assert_eq!(read_cached(&file, version, "keyc"), None);
        assert_eq!(read_cached(&file, Some((13, 1)), "key"), None);
        // Without a compiler nothing newer can be had.
        assert_eq!(read_cached(&file, None, "key").as_deref(), Some(&b"code"[..]));
        assert_eq!(read_cached(&file, None, "kez"), None);
        std::fs::write(&file, b"short").unwrap();
        assert_eq!(read_cached(&file, version, "key"), None);
    }

    #[test]
    fn the_newest_compiler_of_a_folder_is_found_with_its_builtins() {
        let folder = tempfile::tempdir().unwrap();
        let add = |name: &str| {
            let file = folder.path().join(name);
            std::fs::write(&file, "").unwrap();
            file
        };
        assert_eq!(find(folder.path()), None);
        let older = add("libnvrtc.so.12");
        assert_eq!(find(folder.path()).as_ref(), Some(&older));
        assert_eq!(builtins_beside(&older), [] as [PathBuf; 0]);
        let builtins = add("libnvrtc-builtins.so.12.9");
        let newer = add("libnvrtc.so.13");
        assert_eq!(find(folder.path()).as_ref(), Some(&newer));
        assert_eq!(builtins_beside(&newer), [builtins]);
    }

    #[test]
    fn an_older_driver_does_not_load_what_a_newer_compiler_makes() {
        let reason = mismatch((13, 0), 12_040).unwrap();
        assert!(reason.contains("CUDA 12.4") && reason.contains("NVRTC 13.0"), "{reason}");
        assert_eq!(mismatch((13, 1), 13_000), None);
        assert_eq!(mismatch((12, 9), 13_000), None);
    }
}
