//! The `millstream` command on these devices: verified answers, exit codes, Ctrl-C.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use millstream::flow::Gang;
use millstream::traversal::internals::can_meet;

use super::child::{command, run};
use super::{Needs, context, list, scaled, skip, steps};

const LIMIT: Duration = Duration::from_secs(60);
/// From Ctrl-C to the end, GPUs stopped.
const STOP_LIMIT: Duration = Duration::from_secs(2);
/// The same where a machine's few cores are the devices, and others use them too.
const HOST_STOP_LIMIT: Duration = Duration::from_secs(20);

const NO_COMMAND: &str = "no millstream command; build it, or set MILLSTREAM_COMMAND";

/// The command, if there is one, with these devices.
fn millstream(arguments: &[&str]) -> Option<Command> {
    let Some(path) = command() else {
        skip(Needs::More, NO_COMMAND);
        return None;
    };
    let mut command = Command::new(path);
    command.args(arguments).args(["--devices", &list().to_string()]);
    Some(command)
}

fn code_and_text(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A file that goes when it is dropped.
struct Edges(PathBuf);

impl Edges {
    /// A path of so many arcs, from vertex 0 on: a level for each of them.
    fn chain(name: &str, arcs: u32) -> Edges {
        Edges::write(name, (0..arcs).map(|vertex| (vertex, vertex + 1)))
    }

    /// Arcs from each of so many vertices to each other one.
    fn dense(name: &str, vertices: u32) -> Edges {
        let ends = (0..vertices * vertices).map(|arc| (arc / vertices, arc % vertices));
        Edges::write(name, ends.filter(|(from, to)| from != to))
    }

    fn write(name: &str, arcs: impl Iterator<Item = (u32, u32)>) -> Edges {
        let path =
            std::env::temp_dir().join(format!("millstream-{}-{name}.el", std::process::id()));
        let mut file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
        arcs.for_each(|(from, to)| writeln!(file, "{from} {to}").unwrap());
        file.flush().unwrap();
        Edges(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Edges {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn verified_answers() {
    let chain = Edges::chain("short", scaled(300, 60));
    let slow = format!("{}=4", context().devices()[0].name());
    for arguments in [
        &["bfs", chain.path(), "--source", "0", "--verify", "--routing", "ring"][..],
        &["bfs", chain.path(), "--source", "0", "--verify", "--routing", "direct"],
        &["filter", "--items", "1000000", "--verify"],
        &[
            "filter",
            "--items",
            "1000000",
            "--verify",
            "--schedule",
            "static",
            "--cost",
            "3",
            "--slow",
            &slow,
        ],
    ] {
        let Some(mut command) = millstream(arguments) else { return };
        let (output, _) = run(command.arg("--json"), LIMIT, |_| {});
        let (code, text) = code_and_text(&output);
        assert_eq!(code, Some(0), "{arguments:?}: {text}");
        let answer = String::from_utf8_lossy(&output.stdout);
        assert!(answer.contains("\"verified\":true"), "{arguments:?}: {answer}");
    }
}

/// No more work is useful than was done, whichever way it is.
#[test]
fn useful_work() {
    if !steps::can(&context()) {
        return;
    }
    let dense = Edges::dense("steps", 40);
    let sssp = ["sssp", dense.path(), "--weights", "random:64"];
    for algorithm in ["stepping", "asynchronous"] {
        let Some(mut command) = millstream(&sssp) else { return };
        command.args(["--algorithm", algorithm]);
        let (table, _) = run(&mut command, LIMIT, |_| {});
        assert!(String::from_utf8_lossy(&table.stdout).contains("% useful"), "{algorithm}");
        let (output, _) = run(command.arg("--json"), LIMIT, |_| {});
        let answer = String::from_utf8_lossy(&output.stdout);
        assert!(answer.contains("\"useful_work_items\":40,"), "{algorithm}: {answer}");
    }
}

/// A GPU too many is a mistake in the list, which is told which there are.
#[test]
fn a_gpu_that_is_not_here() {
    let gpus = millstream::device::gpu_count();
    if gpus == 0 {
        return skip(Needs::Peers, "without a driver nobody knows of GPUs");
    }
    let Some(path) = command() else { return skip(Needs::More, NO_COMMAND) };
    let list = format!("cuda:0,cuda:{gpus}");
    let (output, _) = run(Command::new(path).args(["topology", "--devices", &list]), LIMIT, |_| {});
    let here = match gpus {
        1 => "the only GPU here is cuda:0; virtual devices of it are cuda:0x2".to_string(),
        _ => format!("the GPUs here are cuda:0-{}", gpus - 1),
    };
    let (code, text) = code_and_text(&output);
    assert_eq!((code, output.stdout.len()), (Some(2), 0), "{text}");
    assert!(text.contains(&format!("there is no cuda:{gpus}: {here}")), "{text}");
}

/// It warns of a driver that was not told, and tells it first.
#[test]
fn the_driver_is_told_how_many_queues() {
    const NAME: &str = "CUDA_DEVICE_MAX_CONNECTIONS";
    let Some(mut command) = millstream(&["topology"]) else { return };
    let (output, _) = run(command.env_remove(NAME), LIMIT, |_| {});
    let (code, text) = code_and_text(&output);
    assert_eq!((code, text.contains(NAME)), (Some(0), false), "{text}");
}

/// A driver without a compiler: what is missing is named, and where it was looked for.
#[test]
fn a_compiler_that_is_not_here() {
    let driver = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let driver = driver.split(':').map(|folder| PathBuf::from(folder).join("libcuda.so"));
    let Some(driver) = driver.into_iter().find(|file| scaled(false, true) && file.exists()) else {
        return skip(Needs::Emulation, "a real compiler may be in the system's own folders");
    };
    let folder = std::env::temp_dir().join(format!("millstream-{}-driver", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(driver, folder.join("libcuda.so")).unwrap();
    let fails = |named: &str, reason: &str| {
        let Some(mut command) = millstream(&["filter", "--items", "1000"]) else { return };
        for name in ["LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH"] {
            command.env(name, &folder);
        }
        // Nothing is compiled there already.
        command.env("MILLSTREAM_CACHE", folder.join("cache")).env("MILLSTREAM_NVRTC", named);
        let (output, _) = run(&mut command, LIMIT, |_| {});
        let (code, text) = code_and_text(&output);
        if !list().to_string().contains("cuda") {
            return assert_eq!(code, Some(0), "host devices compile nothing: {text}");
        }
        assert_eq!((code, output.stdout.len()), (Some(1), 0), "{text}");
        for part in [reason, &folder.display().to_string(), "MILLSTREAM_NVRTC"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    };
    fails("", "needs NVRTC: neither libnvrtc.so.13 nor libnvrtc.so.12 is in ");
    fails(&folder.display().to_string(), "needs NVRTC: MILLSTREAM_NVRTC is ");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// GPUs that are too small for their part of a gang: the host drives the worklist there, unless
/// the fused worker is asked for. Emulated GPUs alone are of any size.
#[test]
fn gpus_too_small_for_a_gang() {
    if !scaled(false, true) {
        return skip(Needs::Emulation, "real GPUs are as large as they are");
    }
    let context = context();
    if context.devices().len() < 3 || !Gang::is_possible(&context) {
        return skip(Needs::Peers, "a gang of three needs more blocks than one of two");
    }
    let chain = Edges::chain("small", 60);
    let search = ["sssp", chain.path(), "--weights", "unit", "--algorithm", "asynchronous"];
    let direct = ["--routing", "direct", "--verify"];
    let small = |worker: &[&str]| {
        let mut command = millstream(&[&search[..], &direct, worker].concat())?;
        // Two of each GPU stay free.
        command.env("MILLSTREAM_EMULATED_MULTIPROCESSORS", "4");
        Some(run(&mut command, LIMIT, |_| {}).0)
    };
    for (worker, expected) in [(&[][..], 0), (&["--worker", "fused"], 2)] {
        let Some(output) = small(worker) else { return };
        let (code, text) = code_and_text(&output);
        assert_eq!(code, Some(expected), "{worker:?}: {text}");
        assert_eq!(text.contains("too few multiprocessors"), expected == 2, "{worker:?}: {text}");
    }
}

/// The kernel of one rank of a gang traps: the command ends soon, with the exit code of a
/// failure. Emulated GPUs alone trap in kernels that have no trap.
#[test]
fn a_trap_on_one_rank() {
    if !scaled(false, true) {
        return skip(Needs::Emulation, "real GPUs do not trap in kernels that have no trap");
    }
    let gpus = context().devices().len();
    if list().to_string() != format!("cuda:0-{}", gpus - 1) {
        return skip(Needs::SeveralGpus, "the last of several GPUs traps");
    }
    let (chain, dense) = (Edges::chain("trap", 100), Edges::dense("dense", 12));
    for (kernel, arguments) in [
        ("levels", &["bfs", chain.path(), "--algorithm", "level-synchronous"][..]),
        ("fused", &["bfs", chain.path(), "--algorithm", "asynchronous"]),
        ("steps", &["sssp", chain.path(), "--weights", "unit", "--algorithm", "stepping"]),
        ("near_far", &["bfs", chain.path(), "--symmetrize", "--algorithm", "near-far"]),
        ("sweeps", &["pagerank", chain.path(), "--precision", "f32"]),
        ("sweeps", &["pagerank", chain.path(), "--precision", "f64"]),
        ("components_merged", &["cc", chain.path()]),
        ("components_outside_hub", &["cc", dense.path()]),
    ] {
        let Some(mut command) = millstream(arguments) else { return };
        let trap = format!("{kernel}@{}", gpus - 1);
        let (output, time) = run(command.env("MILLSTREAM_EMULATOR_TRAP", trap), LIMIT, |_| {});
        let (code, text) = code_and_text(&output);
        println!("{kernel}, after {time:?}: {text}");
        assert_eq!((code, output.stdout.len()), (Some(1), 0), "{kernel}: {text}");
        assert!(text.contains("CUDA_ERROR_") && !text.contains("panicked"), "{kernel}: {text}");
        // No call is blamed that only heard of it.
        for part in ["a kernel or a copy failed", "compute-sanitizer"] {
            assert!(text.contains(part), "{kernel}: {part}: {text}");
        }
        // Before those who wait lose their patience.
        assert!(time < Duration::from_secs(9), "{kernel}: {time:?}");
    }
}

/// Ctrl-C during a long search stops the devices, and then the command, whichever algorithm
/// searches: also one whose rounds are so short that nobody waits long in any.
#[test]
fn an_interrupted_search() {
    let long = Edges::chain("long", scaled(2_000_000, 500_000));
    let parts = ["--partitioner", "edges"];
    let Some(mut command) = millstream(&["bfs", long.path(), "--source", "0"]) else { return };
    // How long it takes until a search runs, and to end.
    command.args(parts).args(["--symmetrize", "--depth-limit", "1"]);
    let (output, startup) = run(&mut command, LIMIT, |_| {});
    assert_eq!(output.status.code(), Some(0));
    let search = ["bfs", long.path(), "--source", "0", "--symmetrize"];
    let paths = ["sssp", long.path(), "--source", "0", "--symmetrize", "--weights", "unit"];
    let sweeps = ["pagerank", long.path(), "--tolerance", "0", "--max-iterations", "4000000000"];
    let all = [
        ("asynchronous", &search[..], &["--algorithm", "asynchronous"][..]),
        ("levels", &search, &["--algorithm", "level-synchronous"]),
        ("near and far", &search, &["--algorithm", "near-far"]),
        ("steps", &paths, &["--algorithm", "stepping"]),
        ("sweeps in f32", &sweeps, &["--precision", "f32"]),
        ("sweeps in f64", &sweeps, &["--precision", "f64"]),
        ("push", &sweeps, &["--algorithm", "push"]),
        ("components", &["cc", long.path()], &[]),
    ];
    let can_meet = can_meet(&context());
    for (what, arguments, more) in all {
        if !can_meet && ["levels", "near and far", "steps"].contains(&what) {
            skip(Needs::Peers, "devices that do not meet refuse some searches");
            continue;
        }
        // Level by level a GPU would be through by then, and a fast host may be through with one.
        let Some(mut command) = millstream(arguments) else { return };
        command.args(more).args(parts).args(["--repeat", "100000"]);
        interrupt(what, &mut command, startup + Duration::from_millis(500));
    }
}

/// Runs a command, and presses Ctrl-C after a while.
fn interrupt(what: &str, command: &mut Command, after: Duration) {
    let mut pressed = None;
    let (output, time) = run(command, LIMIT, |process| {
        std::thread::sleep(after);
        pressed = Some(Instant::now());
        // It has failed where the search has ended before.
        let _ = Command::new("kill").args(["-INT", &process.to_string()]).status();
    });
    let stopped = pressed.unwrap().elapsed();
    let (code, text) = code_and_text(&output);
    println!("{what}: stopped {stopped:?} after Ctrl-C, {time:?} after the start: {text}");
    assert_eq!((code, output.stdout.len()), (Some(130), 0), "{what}: {text}");
    assert!(text.contains("interrupted"), "{what}: {text}");
    let has_gpu = list().to_string().contains("cuda");
    let limit = if has_gpu { STOP_LIMIT } else { HOST_STOP_LIMIT };
    assert!(stopped < limit, "{what}: {stopped:?}: {text}");
}
