//! Child processes for tests: the test's own executable, started again with a role to play.
#![allow(dead_code, reason = "each suite uses a part of it")]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// The test of each suite that is the child's `main`, and does nothing where no role is set.
pub(crate) const CHILD: &str = "the_child_process";
const ROLE: &str = "THALWEG_TEST_ROLE";

/// The role of this process, if it is a child.
pub(crate) fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// A value that the parent gave.
pub(crate) fn given(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("the parent gives {name}"))
}

/// The directory that the parent gave.
pub(crate) fn given_dir() -> PathBuf {
    std::env::var_os("THALWEG_TEST_DIR").unwrap().into()
}

/// What has to be called to play a role in `dir`.
pub(crate) fn arguments() -> Vec<std::ffi::OsString> {
    let program = std::env::current_exe().unwrap();
    let rest = [CHILD, "--exact", "--nocapture", "--test-threads=1"];
    [program.into_os_string()]
        .into_iter()
        .chain(rest.map(Into::into))
        .collect()
}

/// A command that plays a role in `dir`.
pub(crate) fn play(role: &str, dir: &Path) -> Command {
    through(&[], role, dir)
}

/// As [`play`], started by another program and its arguments.
pub(crate) fn through(starter: &[&str], role: &str, dir: &Path) -> Command {
    let mut words: Vec<std::ffi::OsString> = starter.iter().map(Into::into).collect();
    words.extend(arguments());
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .env(ROLE, role)
        .env("THALWEG_TEST_DIR", dir)
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}

/// Says a line to the parent, at once.
pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // One write, so that a killed child leaves whole lines; a parent that is gone is no matter.
    let _ = out.write_all(format!("@{line}\n").as_bytes());
    let _ = out.flush();
}

/// Waits until the parent says something, or is gone.
pub(crate) fn hear() {
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line);
}

/// A running child and what it says. Killed when dropped.
pub(crate) struct Running {
    pub(crate) child: Child,
    lines: BufReader<ChildStdout>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Running {
        let mut child = command
            .spawn()
            .unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let lines = BufReader::new(child.stdout.take().unwrap());
        Running { child, lines }
    }

    /// The next line that the child said; `None` when it is gone. (The test harness writes lines of its own.)
    pub(crate) fn line(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap() == 0 || !line.ends_with('\n') {
                return None;
            }
            // The harness does not end its own line before the child speaks.
            if let Some((_, said)) = line.trim_end().split_once('@') {
                return Some(said.to_owned());
            }
        }
    }

    pub(crate) fn tell(&mut self) {
        let stdin = self.child.stdin.as_mut().unwrap();
        let _ = stdin.write_all(b"\n");
    }

    /// SIGKILL; then what it had still said.
    pub(crate) fn kill(&mut self) -> Vec<String> {
        let _ = self.child.kill();
        self.child.wait().unwrap();
        std::iter::from_fn(|| self.line()).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Is this program here? Else the test says so and does nothing.
pub(crate) fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    if !found {
        println!("skipped: {program} is not on this machine");
    }
    found
}

/// A temporary directory on a file system in memory, where there is one.
pub(crate) fn in_memory_dir() -> Option<tempfile::TempDir> {
    let shm = Path::new("/dev/shm");
    if !shm.is_dir() {
        println!("skipped: no file system in memory");
        return None;
    }
    tempfile::tempdir_in(shm).ok()
}
