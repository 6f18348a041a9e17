//! NVRTC, NVIDIA's compiler of CUDA C++: which library is used, and its calls.
//!
//! A machine may have several of them, and the one that the loader finds first may be of no use,
//! since the driver must be able to load its code. So functions are looked up in the very file that
//! was chosen.

use std::ffi::{CStr, CString, OsString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use millstream_kernels::HEADERS;

use crate::environment::variable;

/// Possible file names of the compiler's library, the newest first.
const LIBRARIES: [&str; 3] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];
/// Beginning of the file names of the library that the compiler needs; the rest is the whole version.
const BUILTINS: &str = "libnvrtc-builtins.so";

/// An answer of the compiler; 0 is success.
type Answer = c_int;
/// A program, as the compiler knows it.
type Handle = *mut c_void;

/// A compiler's functions, as declared in `nvrtc.h`.
#[derive(Debug)]
struct Functions {
    version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> Answer,
    architecture_count: unsafe extern "C" fn(*mut c_int) -> Answer,
    architectures: unsafe extern "C" fn(*mut c_int) -> Answer,
    create: unsafe extern "C" fn(
        *mut Handle,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> Answer,
    destroy: unsafe extern "C" fn(*mut Handle) -> Answer,
    compile: unsafe extern "C" fn(Handle, c_int, *const *const c_char) -> Answer,
    log_size: unsafe extern "C" fn(Handle, *mut usize) -> Answer,
    log: unsafe extern "C" fn(Handle, *mut c_char) -> Answer,
    code_size: unsafe extern "C" fn(Handle, *mut usize) -> Answer,
    code: unsafe extern "C" fn(Handle, *mut c_char) -> Answer,
    error: unsafe extern "C" fn(Answer) -> *const c_char,
}

/// A compiler.
#[derive(Debug)]
pub(super) struct Nvrtc {
    pub(super) version: (i32, i32),
    /// The architectures that it compiles for, such as 90 for `sm_90`.
    architectures: Vec<i32>,
    functions: Functions,
    /// The libraries with the functions and with what these need.
    _libraries: Vec<Library>,
}

impl Nvrtc {
    /// The compiler that `MILLSTREAM_NVRTC` names, a toolkit's, or else the one that the loader
    /// finds. One that is not too new for a driver of this CUDA version (major in thousands) takes
    /// precedence over the others.
    ///
    /// # Errors
    /// There is none, or none where `MILLSTREAM_NVRTC` says; it does not load, or is too old. The
    /// text says what to do about it.
    pub(super) fn load(driver: Option<i32>) -> Result<Nvrtc, String> {
        let named = variable("MILLSTREAM_NVRTC").map(PathBuf::from);
        if let Some(folder) = named.filter(|folder| find(folder, &LIBRARIES).is_none()) {
            let folder = folder.display();
            return Err(format!(
                "MILLSTREAM_NVRTC is {folder}, which has neither libnvrtc.so.13 nor libnvrtc.so.12; set it to a folder that has, or to nothing"
            ));
        }
        let folders = folders();
        for names in [usable(driver), &LIBRARIES] {
            if let Some(file) = folders.iter().find_map(|folder| find(folder, names)) {
                return Nvrtc::open(&file);
            }
            let found = names.iter().find_map(|name| open(Path::new(name)).ok().zip(Some(name)));
            if let Some((library, name)) = found {
                return Nvrtc::of(vec![library], name);
            }
        }
        let places: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
        Err(format!(
            "neither libnvrtc.so.13 nor libnvrtc.so.12 is in {}; install CUDA's NVRTC or set MILLSTREAM_NVRTC to its folder",
            places.join(", ")
        ))
    }

    /// The compiler in this file.
    fn open(file: &Path) -> Result<Nvrtc, String> {
        // Files beside it that do not load may belong to another compiler.
        let beside = builtins_beside(file).into_iter().filter_map(|file| open(&file).ok());
        let libraries = beside.map(Ok).chain([open(file)]).collect::<Result<Vec<_>, _>>()?;
        Nvrtc::of(libraries, &file.display().to_string())
    }

    /// The compiler in the last of these libraries.
    fn of(libraries: Vec<Library>, name: &str) -> Result<Nvrtc, String> {
        let library = libraries.last().ok_or("there is no library")?;
        let functions = functions(library).map_err(|missing| {
            format!(
                "{name} is too old: it has no {missing}; install CUDA 12.4's NVRTC or a later one, or set MILLSTREAM_NVRTC to its folder"
            )
        })?;
        let (mut major, mut minor, mut count) = (0, 0, 0);
        // SAFETY: the compiler stores two numbers.
        functions.check(unsafe { (functions.version)(&mut major, &mut minor) }, "nvrtcVersion")?;
        // SAFETY: the compiler stores a number.
        let counted = unsafe { (functions.architecture_count)(&mut count) };
        functions.check(counted, "nvrtcGetNumSupportedArchs")?;
        let mut architectures = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: there is room for as many numbers as were counted.
        let listed = unsafe { (functions.architectures)(architectures.as_mut_ptr()) };
        functions.check(listed, "nvrtcGetSupportedArchs")?;
        Ok(Nvrtc { version: (major, minor), architectures, functions, _libraries: libraries })
    }

    /// Why it does not compile for an architecture.
    pub(super) fn refusal(&self, architecture: u32) -> Option<String> {
        refusal(self.version, &self.architectures, i32::try_from(architecture).ok()?)
    }

    /// Compiles a source, which may include our headers. Returns its code, and what the compiler says.
    ///
    /// # Errors
    /// What the compiler says.
    pub(super) fn compile(
        &self,
        (file, text): (&str, &str),
        options: &[String],
    ) -> Result<(Vec<u8>, String), String> {
        let program = Program::new(self, file, text)?;
        let options = strings(options.iter().map(String::as_str))?;
        let pointers = pointers(&options);
        // SAFETY: the strings end in NUL and outlive the call; the program lives, here and below.
        let compiled = unsafe {
            (self.functions.compile)(program.handle, options.len() as c_int, pointers.as_ptr())
        };
        let (log_size, log) = (self.functions.log_size, self.functions.log);
        let log = program.bytes("nvrtcGetProgramLog", log_size, log).unwrap_or_default();
        let log = log.split(|byte| *byte == 0).next().unwrap_or_default();
        let log = String::from_utf8_lossy(log).into_owned();
        self.functions
            .check(compiled, "nvrtcCompileProgram")
            .map_err(|error| format!("{error}\n{log}"))?;
        let (code_size, code) = (self.functions.code_size, self.functions.code);
        Ok((program.bytes("nvrtcGetCUBIN", code_size, code)?, log))
    }
}

fn refusal((major, minor): (i32, i32), known: &[i32], architecture: i32) -> Option<String> {
    let is_known = known.is_empty() || known.contains(&architecture);
    let (age, other) = match known.iter().any(|it| *it > architecture) {
        true => ("new", "an older"),
        false => ("old", "a newer"),
    };
    (!is_known).then(|| {
        format!(
            "NVRTC {major}.{minor} is too {age} for sm_{architecture}; install {other} one, or set MILLSTREAM_NVRTC to its folder"
        )
    })
}

impl Functions {
    fn check(&self, answer: Answer, call: &str) -> Result<(), String> {
        if answer == 0 {
            return Ok(());
        }
        // SAFETY: any number is allowed; the text is static and ends in NUL.
        let text = unsafe { CStr::from_ptr((self.error)(answer)) };
        Err(format!("{call}: {}", text.to_string_lossy()))
    }
}

/// The functions of a compiler's library, or the name of the first one that it lacks.
fn functions(library: &Library) -> Result<Functions, &'static str> {
    macro_rules! function {
        ($name:literal) => {
            // SAFETY: the functions have had these types in all versions.
            *unsafe { library.get($name) }.map_err(|_| $name)?
        };
    }
    Ok(Functions {
        version: function!("nvrtcVersion"),
        architecture_count: function!("nvrtcGetNumSupportedArchs"),
        architectures: function!("nvrtcGetSupportedArchs"),
        create: function!("nvrtcCreateProgram"),
        destroy: function!("nvrtcDestroyProgram"),
        compile: function!("nvrtcCompileProgram"),
        log_size: function!("nvrtcGetProgramLogSize"),
        log: function!("nvrtcGetProgramLog"),
        code_size: function!("nvrtcGetCUBINSize"),
        code: function!("nvrtcGetCUBIN"),
        error: function!("nvrtcGetErrorString"),
    })
}

/// A program of the compiler, destroyed when dropped.
struct Program<'a> {
    compiler: &'a Nvrtc,
    handle: Handle,
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // SAFETY: made by the compiler, and not used any more.
        let _ = unsafe { (self.compiler.functions.destroy)(&mut self.handle) };
    }
}

impl<'a> Program<'a> {
    fn new(compiler: &'a Nvrtc, file: &str, text: &str) -> Result<Program<'a>, String> {
        let names = strings(HEADERS.iter().map(|header| header.name))?;
        let texts = strings(HEADERS.iter().map(|header| header.text))?;
        let (file, text) = (string(file)?, string(text)?);
        let mut handle = null_mut();
        // SAFETY: all strings end in NUL and outlive the call, which copies them.
        let created = unsafe {
            (compiler.functions.create)(
                &mut handle,
                text.as_ptr(),
                file.as_ptr(),
                HEADERS.len() as c_int,
                pointers(&texts).as_ptr(),
                pointers(&names).as_ptr(),
            )
        };
        compiler.functions.check(created, "nvrtcCreateProgram")?;
        Ok(Program { compiler, handle })
    }

    /// What a pair of functions gives: one tells the size of what the other stores.
    fn bytes(
        &self,
        call: &str,
        size: unsafe extern "C" fn(Handle, *mut usize) -> Answer,
        store: unsafe extern "C" fn(Handle, *mut c_char) -> Answer,
    ) -> Result<Vec<u8>, String> {
        let mut count = 0;
        // SAFETY: the program lives, here and below; the compiler stores a number.
        self.compiler.functions.check(unsafe { size(self.handle, &mut count) }, call)?;
        let mut bytes = vec![0_u8; count];
        // SAFETY: as above, and there is room for this many bytes.
        let stored = unsafe { store(self.handle, bytes.as_mut_ptr().cast()) };
        self.compiler.functions.check(stored, call).map(|()| bytes)
    }
}

fn string(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|error| error.to_string())
}

fn strings<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Vec<CString>, String> {
    texts.map(string).collect()
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).collect()
}

fn open(file: &Path) -> Result<Library, String> {
    // SAFETY: NVIDIA's libraries run nothing harmful when they are loaded.
    unsafe { Library::open(Some(file), RTLD_NOW | RTLD_LOCAL) }.map_err(|error| error.to_string())
}

fn folders() -> Vec<PathBuf> {
    let named = variable("MILLSTREAM_NVRTC").map(PathBuf::from);
    let toolkit = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(variable);
    let toolkits = toolkit.map(|home: OsString| Path::new(&home).join("lib64"));
    named.into_iter().chain(toolkits).chain([PathBuf::from("/usr/local/cuda/lib64")]).collect()
}

/// File names of compilers whose code this driver loads.
fn usable(driver: Option<i32>) -> &'static [&'static str] {
    match driver {
        // The name without a version could be any version.
        Some(version) if version < 13_000 => &LIBRARIES[1..2],
        _ => &LIBRARIES,
    }
}

/// The first of these libraries in a folder.
fn find(folder: &Path, names: &[&str]) -> Option<PathBuf> {
    names.iter().map(|name| folder.join(name)).find(|file| file.exists())
}

/// Libraries that must be loaded before the compiler, which then finds them by name.
fn builtins_beside(compiler: &Path) -> Vec<PathBuf> {
    let entries = compiler.parent().and_then(|folder| folder.read_dir().ok());
    let names = entries.into_iter().flatten().flatten().map(|entry| entry.path());
    let is_builtins = |file: &PathBuf| {
        file.file_name().and_then(|name| name.to_str()).is_some_and(|it| it.starts_with(BUILTINS))
    };
    names.filter(is_builtins).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_newest_compiler_of_a_folder_is_found_with_its_builtins() {
        let folder = tempfile::tempdir().unwrap();
        let add = |name: &str| {
            let file = folder.path().join(name);
            std::fs::write(&file, "").unwrap();
            file
        };
        let find = |driver| find(folder.path(), usable(driver));
        assert_eq!(find(None), None);
        let older = add("libnvrtc.so.12");
        assert_eq!(find(None).as_ref(), Some(&older));
        assert_eq!(builtins_beside(&older), [] as [PathBuf; 0]);
        let builtins = add("libnvrtc-builtins.so.12.9");
        let newer = add("libnvrtc.so.13");
        add("libnvrtc.so");
        assert_eq!([None, Some(13_000)].map(find), [Some(newer.clone()), Some(newer.clone())]);
        assert_eq!(find(Some(12_090)), Some(older.clone()), "an older driver");
        assert_eq!(builtins_beside(&newer), [builtins]);
        std::fs::remove_file(older).unwrap();
        assert_eq!(find(Some(12_090)), None, "another folder may have one");
    }

    /// Makes a library with these functions, which only return 0, and with a version.
    fn library(folder: &Path, functions: &[&str]) -> PathBuf {
        let mut text = "int nvrtcVersion(int* major, int* minor) { *major = 11; *minor = 3; return 0; }\n\
                        int nvrtcGetNumSupportedArchs(int* count) { *count = 2; return 0; }\n\
                        int nvrtcGetSupportedArchs(int* known) { known[0] = 80; known[1] = 86; return 0; }\n"
            .to_string();
        functions.iter().for_each(|name| text += &format!("int {name}(void) {{ return 0; }}\n"));
        let (source, file) = (folder.join("nvrtc.c"), folder.join("libnvrtc.so"));
        std::fs::write(&source, text).unwrap();
        let mut compiler = Command::new("cc");
        let built = compiler.args(["-shared", "-fPIC", "-o"]).arg(&file).arg(&source).status();
        assert!(built.unwrap().success());
        file
    }

    const SOME: [&str; 6] = [
        "nvrtcCreateProgram",
        "nvrtcDestroyProgram",
        "nvrtcCompileProgram",
        "nvrtcGetProgramLogSize",
        "nvrtcGetProgramLog",
        "nvrtcGetErrorString",
    ];

    /// Whichever other compilers this process has loaded.
    #[test]
    fn functions_are_those_of_the_file() {
        let _other = Nvrtc::load(None);
        let folder = tempfile::tempdir().unwrap();
        let functions = [&SOME[..], &["nvrtcGetCUBINSize", "nvrtcGetCUBIN"]].concat();
        std::fs::write(folder.path().join("libnvrtc-builtins.so.9"), "broken").unwrap();
        let compiler = Nvrtc::open(&library(folder.path(), &functions)).unwrap();
        assert_eq!((compiler.version, &compiler.architectures[..]), ((11, 3), &[80, 86][..]));
        let (code, log) = compiler.compile(("any.cu", "nothing"), &[]).unwrap();
        assert_eq!((&code[..], &*log), (&[][..], ""));
    }

    #[test]
    fn a_library_that_lacks_a_function_is_too_old() {
        let folder = tempfile::tempdir().unwrap();
        let error = Nvrtc::open(&library(folder.path(), &SOME)).unwrap_err();
        let expected = "libnvrtc.so is too old: it has no nvrtcGetCUBINSize; install CUDA 12.4";
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn an_architecture_that_is_not_known_is_refused() {
        let known = [75, 80, 86, 90];
        assert_eq!(refusal((12, 4), &known, 90), None);
        let newer = refusal((12, 4), &known, 100).unwrap();
        assert!(newer.contains("NVRTC 12.4 is too old for sm_100; install a newer one"), "{newer}");
        let older = refusal((13, 0), &known, 70).unwrap();
        assert!(older.contains("too new for sm_70; install an older one"), "{older}");
    }
}
