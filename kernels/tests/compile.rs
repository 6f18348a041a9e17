//! Compiles every header with NVRTC, which needs no GPU, for each architecture
//! that Millstream runs on; no kernel may spill registers.
//!
//! NVRTC is looked for in `MILLSTREAM_NVRTC` (a folder), `$CUDA_HOME/lib64` and
//! `/usr/local/cuda/lib64`. Without it the test is skipped and says so, unless
//! `MILLSTREAM_REQUIRE_NVRTC` is 1.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::ffi::{CString, OsString, c_char};
use std::path::{Path, PathBuf};

use cudarc::nvrtc::{result, sys};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use millstream_kernels::{HEADERS, spills};

const ARCHITECTURES: [&str; 3] = ["sm_80", "sm_90", "sm_100"];
const LIBRARY: &str = "libnvrtc.so.13";
/// How the name of the library begins that it needs, which has the whole version in its name.
const BUILTINS: &str = "libnvrtc-builtins.so";

fn folders() -> Vec<PathBuf> {
    let named = std::env::var_os("MILLSTREAM_NVRTC").map(PathBuf::from);
    let toolkit = std::env::var_os("CUDA_HOME").map(|home| Path::new(&home).join("lib64"));
    [named, toolkit, Some("/usr/local/cuda/lib64".into())].into_iter().flatten().collect()
}

/// The compiler's libraries, which must stay open, or none on this machine.
fn open_nvrtc() -> Option<Vec<Library>> {
    let folder = folders().into_iter().find(|folder| folder.join(LIBRARY).exists())?;
    let files = folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name());
    let is_builtins = |name: &OsString| name.to_str().is_some_and(|it| it.starts_with(BUILTINS));
    // The loader inside cudarc then finds them by name.
    let open = |name: OsString| {
        // SAFETY: NVIDIA's libraries run nothing of consequence when loaded.
        unsafe { Library::open(Some(folder.join(name)), RTLD_NOW | RTLD_GLOBAL) }.unwrap()
    };
    Some(files.filter(is_builtins).chain([LIBRARY.into()]).map(open).collect())
}

/// What the compiler said, and the size of the device code.
fn compile(program: &str, architecture: &str) -> Result<(String, usize), String> {
    let text = |text: &str| CString::new(text).unwrap();
    let names: Vec<CString> = HEADERS.iter().map(|header| text(header.name)).collect();
    let texts: Vec<CString> = HEADERS.iter().map(|header| text(header.text)).collect();
    let pointers = |strings: &[CString]| -> Vec<*const c_char> {
        strings.iter().map(|string| string.as_ptr()).collect()
    };
    let (program, file) = (text(program), text("every_header.cu"));
    let mut handle = std::ptr::null_mut();
    // SAFETY: all strings end in NUL and outlive the call, which copies them.
    unsafe {
        sys::nvrtcCreateProgram(
            &mut handle,
            program.as_ptr(),
            file.as_ptr(),
            HEADERS.len() as i32,
            pointers(&texts).as_ptr(),
            pointers(&names).as_ptr(),
        )
    }
    .result()
    .unwrap();
    let options = [
        format!("--gpu-architecture={architecture}"),
        "--std=c++17".into(),
        "--ptxas-options=-v".into(),
        "--ptxas-options=--warn-on-spills".into(),
    ];
    // SAFETY: the handle is a program until it is destroyed.
    let compiled = unsafe { result::compile_program(handle, &options) };
    // SAFETY: as above.
    let log = unsafe { result::get_program_log(handle) }.unwrap();
    let log: String = log.iter().take_while(|c| **c != 0).map(|c| *c as u8 as char).collect();
    let mut size = 0;
    if compiled.is_ok() {
        // SAFETY: as above.
        unsafe { sys::nvrtcGetCUBINSize(handle, &mut size) }.result().unwrap();
    }
    // SAFETY: as above, and nothing uses the handle any more.
    unsafe { result::destroy_program(handle) }.unwrap();
    compiled.map(|()| (log.clone(), size)).map_err(|error| format!("{error:?}\n{log}"))
}

#[test]
fn every_kernel_compiles_without_spills() {
    let Some(_libraries) = open_nvrtc() else {
        let required = std::env::var("MILLSTREAM_REQUIRE_NVRTC").is_ok_and(|value| value == "1");
        assert!(!required, "no {} in {:?}", LIBRARY, folders());
        return println!("skipped: no {} in {:?}", LIBRARY, folders());
    };
    let program = include_str!("every_header.cu");
    // The macro of the atomics makes two kernels, that of collectives twelve of its
    // four, and the worklist's five.
    let kernels = program.matches("extern \"C\" __global__").count() + 1 + 8 + 5;
    let compiled = std::thread::scope(|scope| {
        let start = |architecture| scope.spawn(move || compile(program, architecture));
        ARCHITECTURES.map(start).map(|thread| thread.join().unwrap())
    });
    for (architecture, compiled) in ARCHITECTURES.into_iter().zip(compiled) {
        let (log, size) = compiled.unwrap_or_else(|error| panic!("{error}"));
        println!("{architecture}: {size} bytes of device code\n{log}");
        assert!(size > 0);
        assert_eq!(log.matches("Compiling entry function").count(), kernels);
        // And functions that are not inlined.
        assert!(log.matches("bytes spill stores").count() >= kernels);
        assert_eq!(spills(&log), [""; 0]);
    }
    let broken = program.replace("ring.try_send", "ring.try_sned");
    let error = compile(&broken, "sm_90").unwrap_err();
    assert!(error.contains("every_header.cu(") && error.contains("try_sned"), "{error}");
}
