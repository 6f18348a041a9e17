//! Cases in a process of their own: a fault of a GPU ends what the process can do
//! with it, and a kernel that never ends must not hold up the others.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Names the case that a child runs.
const CASE: &str = "MILLSTREAM_CHILD_CASE";

/// Runs `body` in a child process, which must succeed within `limit`; how long it
/// took. `case` is the test's path in this binary.
pub(crate) fn in_child(case: &str, limit: Duration, body: impl FnOnce()) -> Duration {
    in_child_with(case, limit, &[], body)
}

/// The same, with these environment variables.
pub(crate) fn in_child_with(
    case: &str,
    limit: Duration,
    variables: &[(&str, &str)],
    body: impl FnOnce(),
) -> Duration {
    let case = case.trim_start_matches("whole::");
    if std::env::var(CASE).is_ok_and(|running| running == case) {
        body();
        return Duration::ZERO;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", case, "--nocapture", "--test-threads=1"]).env(CASE, case);
    command.envs(variables.iter().copied());
    let (output, time) = run(&mut command, limit, |_| {});
    println!("{}", String::from_utf8_lossy(&output.stdout));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{case} in a child: {}\n{said}", output.status);
    let ran = String::from_utf8_lossy(&output.stdout).contains("1 passed");
    assert!(ran, "no case is named {case}");
    time
}

/// Runs a command, which must end within `limit`; `meanwhile` gets its process
/// id.
pub(crate) fn run(
    command: &mut Command,
    limit: Duration,
    meanwhile: impl FnOnce(u32),
) -> (Output, Duration) {
    let start = Instant::now();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    meanwhile(child.id());
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > limit {
            child.kill().unwrap();
            let output = child.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            panic!("{command:?} goes on after {limit:?}\n{said}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let time = start.elapsed();
    (child.wait_with_output().unwrap(), time)
}

/// The `millstream` command: what `MILLSTREAM_COMMAND` names, or what was built
/// beside this binary.
pub(crate) fn command() -> Option<PathBuf> {
    let named = std::env::var_os("MILLSTREAM_COMMAND").map(PathBuf::from);
    let binary = std::env::current_exe().unwrap();
    let built = binary.parent().unwrap().parent().unwrap().join("millstream");
    named.or(Some(built)).filter(|path| path.exists())
}
