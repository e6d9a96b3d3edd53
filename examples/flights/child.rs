//! The child process and the rope it runs on: started from this same program, watched, and killed in the middle of its work.
//!
//! A child prints one line per step and then takes one line from its input before it goes on. The parent hands out [`SLACK`] lines
//! beforehand and one for each line it sees. So the child works at full speed, yet never gets further ahead of the parent than a
//! few steps: a kill half-way always finds it in the middle, on a fast machine and with a small file too. The moment of the kill
//! is drawn by lot from the length of a step, so that run by run it meets the child in another line of its code.

use std::collections::hash_map::RandomState;
use std::env;
use std::ffi::OsString;
use std::hash::{BuildHasher, Hasher};
use std::io::{BufRead, BufReader, Write, stdin};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use thalweg::{BoxError, Result};

/// How many steps a child may be ahead of its parent.
const SLACK: usize = 3;

/// What a child is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Ingest,
    Read,
}

/// One child's life: what it does, where, and for the how-manieth time.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) work: Work,
    /// The directory that the log and the journals are in.
    pub(crate) dir: PathBuf,
    pub(crate) csv: PathBuf,
    /// How many rows the CSV has.
    pub(crate) rows: usize,
    /// 1 before the crash, 2 after it.
    pub(crate) life: u32,
}

impl Job {
    /// The job that the command line asks for, if this process is a child.
    pub(crate) fn from_args() -> Result<Option<Job>, BoxError> {
        let args: Vec<OsString> = env::args_os().skip(1).collect();
        let [flag, work, dir, csv, rows, life] = args.as_slice() else {
            return Ok(None);
        };
        if flag != "--child" {
            return Ok(None);
        }
        let number = |text: &OsString| {
            text.to_str()
                .ok_or("a number is expected")
                .map(str::to_owned)
        };
        Ok(Some(Job {
            work: if work == "ingest" {
                Work::Ingest
            } else {
                Work::Read
            },
            dir: dir.into(),
            csv: csv.into(),
            rows: number(rows)?.parse()?,
            life: number(life)?.parse()?,
        }))
    }

    /// Starts a child on this job.
    pub(crate) fn start(&self) -> Result<Running, BoxError> {
        let work = if self.work == Work::Ingest {
            "ingest"
        } else {
            "read"
        };
        let mut child = Command::new(env::current_exe()?)
            .args(["--child", work])
            .args([&self.dir, &self.csv])
            .args([self.rows.to_string(), self.life.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let rope = child.stdin.take().ok_or("the child has no input")?;
        Ok(Running { child, rope })
    }

    /// Rows that are appended at once: a fortieth of the file.
    pub(crate) fn step(&self) -> usize {
        self.rows / 40 + 1
    }
}

/// What the parent does after a line of the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    GoOn,
    Kill,
}

/// How a child's life ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Finished,
    Killed,
}

/// A child at work.
pub(crate) struct Running {
    child: Child,
    rope: ChildStdin,
}

impl Running {
    /// Shows every line of the child to `watch`, until the child ends by itself or `watch` wants it dead; says which.
    pub(crate) fn watch(mut self, mut watch: impl FnMut(&str) -> Next) -> Result<End, BoxError> {
        let lines = self.child.stdout.take().ok_or("the child has no output")?;
        self.pay_out(SLACK)?;
        let mut previous = Instant::now();
        for line in BufReader::new(lines).lines() {
            if watch(&line?) == Next::Kill {
                let moment = previous.elapsed().mul_f64(random_fraction());
                spin(moment);
                self.child.kill()?; // SIGKILL: the child gets no chance to tidy up
                self.child.wait()?;
                return Ok(End::Killed);
            }
            previous = Instant::now();
            self.pay_out(1)?;
        }
        let status = self.child.wait()?;
        if status.success() {
            Ok(End::Finished)
        } else {
            Err(format!("the child ended with {status}").into())
        }
    }

    fn pay_out(&mut self, steps: usize) -> Result<(), BoxError> {
        match self.rope.write_all("\n".repeat(steps).as_bytes()) {
            // The child has ended, and its last lines are still to be read.
            Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            other => Ok(other?),
        }
    }
}

/// Waits without giving up the processor: a step may be shorter than any sleep.
fn spin(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Between 0 and 1, another one each time: the standard library seeds its hashers at random.
fn random_fraction() -> f64 {
    let random = RandomState::new().build_hasher().finish() >> 32;
    f64::from(random as u32) / f64::from(u32::MAX)
}

/// In the child: says how far it is, and waits if that is too far ahead. Any thread may call it.
pub(crate) fn report(what: &str, done: usize) -> Result<(), BoxError> {
    println!("{what} {done}");
    let mut permission = String::new();
    if stdin().read_line(&mut permission)? == 0 {
        return Err("the parent is gone".into());
    }
    Ok(())
}

/// In the parent: what [`report`] said.
pub(crate) fn parse_report(line: &str) -> Option<(&str, usize)> {
    let (what, done) = line.split_once(' ')?;
    Some((what, done.parse().ok()?))
}

/// Where the log is, beside the journals.
pub(crate) fn log_dir(dir: &Path) -> PathBuf {
    dir.join("log")
}

/// Where one group notes what it did with one partition in one life.
pub(crate) fn journal_path(dir: &Path, group: &str, partition: u32, life: u32) -> PathBuf {
    dir.join(format!("{group}-{partition}-{life}.journal"))
}

/// Where one group writes what it counted.
pub(crate) fn tally_path(dir: &Path, group: &str) -> PathBuf {
    dir.join(format!("{group}.tally"))
}
