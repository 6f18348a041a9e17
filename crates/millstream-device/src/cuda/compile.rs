//! CUDA C++ to a GPU's code: NVRTC, and a cache on disk.
//!
//! A cached file holds the compiler's version, the whole key (source, headers, options), the code's
//! length and checksum, and the code. It is used only if the key is equal and the code is whole
//! (the driver reads as far as the code itself says). The version must also be equal; or, if there
//! is no compiler, the driver must load what a compiler of that version makes.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use millstream_kernels::HEADERS;

use super::driver;
use super::nvrtc::Nvrtc;
use crate::cuda_source::CudaSource;
use crate::{Error, Result, cache};

/// The extension of files that hold code.
const EXTENSION: &str = "cubin";

/// The most bytes of code on disk: some thousands of kernels.
const MOST_CACHED: u64 = 1 << 30;

/// A compiler's version, major and minor.
type Version = (i32, i32);

/// The code of `source` for an architecture such as 90, compiled or cached.
///
/// # Errors
/// No compiler, one whose code the driver does not load, or one that does not know the architecture;
/// source that does not compile, with the compiler's log.
pub(super) fn compile(source: &CudaSource, architecture: u32) -> Result<Vec<u8>> {
    let compiler = compiler().and_then(|compiler| {
        let refusal = mismatch(compiler.version, driver::version());
        refusal.map_or(Ok(compiler), |reason| Err(unavailable(reason)))
    });
    let options = options(architecture);
    let key = key(source, &options);
    let is_usable = |version| match &compiler {
        Ok(compiler) => compiler.version == version,
        Err(_) => mismatch(version, driver::version()).is_none(),
    };
    if let Some(code) = cache_file(&key).and_then(|file| read_cached(&file, is_usable, &key)) {
        return Ok(code);
    }
    let compiler = compiler?;
    let (code, _) = run_compiler(compiler, source, architecture, &options)?;
    keep(compiler, &key, &code);
    Ok(code)
}

/// Why a driver for this version of CUDA (major in thousands) does not load a compiler's code, if so.
fn mismatch((major, minor): Version, driver: i32) -> Option<String> {
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

/// The code of `source`, which is put into the cache, and the compiler's report on registers.
///
/// # Errors
/// As [`compile`].
pub(crate) fn compile_with_log(
    source: &CudaSource,
    architecture: u32,
) -> Result<(Vec<u8>, String)> {
    let (compiler, options) = (compiler()?, options(architecture));
    let report = ["--ptxas-options=-v", "--ptxas-options=--warn-on-spills"].map(String::from);
    // Without this, the compiler's own cache may answer, which has no reports.
    let anew = (compiler.version >= (12, 9)).then(|| "--no-cache".to_string());
    let all = [&options[..], &report, anew.as_slice()].concat();
    let compiled = run_compiler(compiler, source, architecture, &all)?;
    // Asking for reports does not change the code.
    keep(compiler, &key(source, &options), &compiled.0);
    Ok(compiled)
}

fn options(architecture: u32) -> [String; 2] {
    [format!("--gpu-architecture=sm_{architecture}"), "--std=c++17".to_string()]
}

/// The compiler, loaded once.
fn compiler() -> Result<&'static Nvrtc> {
    static LOADED: OnceLock<std::result::Result<Nvrtc, String>> = OnceLock::new();
    let load = || Nvrtc::load(driver::version_if_any());
    LOADED.get_or_init(load).as_ref().map_err(|reason| unavailable(reason.clone()))
}

fn run_compiler(
    compiler: &Nvrtc,
    source: &CudaSource,
    architecture: u32,
    options: &[String],
) -> Result<(Vec<u8>, String)> {
    if let Some(reason) = compiler.refusal(architecture) {
        return Err(unavailable(reason));
    }
    compiler.compile((source.file(), source.text()), options).map_err(|log| Error::Compile {
        file: source.file().to_string(),
        architecture: format!("sm_{architecture}"),
        log: log.into(),
    })
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
    Some(cache::folder()?.join(format!("{:016x}.{EXTENSION}", hasher.finish())))
}

/// Whether this file has a name of [`cache_file`]'s form: the folder may hold other files.
fn is_cached(file: &Path) -> bool {
    let digits = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    file.extension().is_some_and(|its| its == EXTENSION)
        && digits.len() == 16
        && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// Puts what the compiler made of a source into the cache.
fn keep(compiler: &Nvrtc, key: &str, code: &[u8]) {
    let Some(file) = cache_file(key) else { return };
    let shrink = |folder| cache::shrink(folder, is_cached, MOST_CACHED);
    // A cache that cannot be written costs only time.
    let _ = write_cached(&file, compiler.version, key, code)
        .and_then(|()| file.parent().map_or(Ok(()), shrink));
}

/// The cached code of a source, if the compiler's version is usable.
fn read_cached(file: &Path, is_usable: impl FnOnce(Version) -> bool, key: &str) -> Option<Vec<u8>> {
    let mut bytes = std::fs::read(file).ok()?;
    let (minor, rest) = bytes.split_first_chunk()?;
    let (major, rest) = rest.split_first_chunk()?;
    let (key_length, rest) = rest.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (checksum, rest) = rest.split_first_chunk()?;
    let (its_key, code) = rest.split_at_checked(key.len())?;
    let is_ours = is_usable((i32::from_le_bytes(*major), i32::from_le_bytes(*minor)))
        && u64::from_le_bytes(*key_length) == key.len() as u64
        && its_key == key.as_bytes()
        && u64::from_le_bytes(*length) == code.len() as u64
        && u32::from_le_bytes(*checksum) == crc32fast::hash(code);
    let start = bytes.len() - code.len();
    is_ours.then(|| {
        cache::touch(file);
        bytes.split_off(start)
    })
}

fn write_cached(
    file: &Path,
    (major, minor): Version,
    key: &str,
    code: &[u8],
) -> std::io::Result<()> {
    let (minor, major) = (minor.to_le_bytes(), major.to_le_bytes());
    let [key_length, length] = [key.len(), code.len()].map(|length| (length as u64).to_le_bytes());
    let checksum = crc32fast::hash(code).to_le_bytes();
    let header: [&[u8]; 5] = [&minor, &major, &key_length, &length, &checksum];
    cache::write(file, &[&header.concat(), key.as_bytes(), code])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_code_is_used_for_an_equal_key_only() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new").join("code");
        let is_ours = |version| version == (13, 0);
        write_cached(&file, (13, 0), "key", b"code").unwrap();
        assert_eq!(read_cached(&file, is_ours, "key").as_deref(), Some(&b"code"[..]));
        assert_eq!(read_cached(&file, is_ours, "kez"), None);
        assert_eq!(read_cached(&file, is_ours, "keyc"), None);
        assert_eq!(read_cached(&file, |version| version == (13, 1), "key"), None);
        std::fs::write(&file, b"short").unwrap();
        assert_eq!(read_cached(&file, is_ours, "key"), None);
    }

    #[test]
    fn code_that_is_not_whole_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("code");
        write_cached(&file, (13, 0), "key", b"code").unwrap();
        let whole = std::fs::read(&file).unwrap();
        let zeroed = [&whole[..whole.len() - 1], &[0]].concat();
        let longer = [&whole[..], b"e"].concat();
        let prefixes = (0..whole.len()).map(|length| whole[..length].to_vec());
        for damaged in prefixes.chain([zeroed, longer]) {
            std::fs::write(&file, &damaged).unwrap();
            assert_eq!(read_cached(&file, |_| true, "key"), None, "{damaged:?}");
        }
        std::fs::write(&file, whole).unwrap();
        assert_eq!(read_cached(&file, |_| true, "key").as_deref(), Some(&b"code"[..]));
    }

    #[test]
    fn an_older_driver_does_not_load_what_a_newer_compiler_makes() {
        let reason = mismatch((13, 0), 12_040).unwrap();
        assert!(reason.contains("CUDA 12.4") && reason.contains("NVRTC 13.0"), "{reason}");
        assert_eq!(mismatch((13, 1), 13_000), None);
        assert_eq!(mismatch((12, 9), 13_000), None);
    }
}
