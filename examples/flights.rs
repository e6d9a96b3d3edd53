//! Does it keep its word when the process is killed? Flights, three groups of readers, and two kills in the middle.
//!
//! `cargo run --release --example flights [flights.csv]`, without a path on the excerpt in `examples/data`.
//!
//! This process is the parent. It starts itself again as a child that appends every flight of the CSV to a topic of twelve
//! partitions ([`ingest`]), kills that child half-way, and starts another, which goes on where the log ends. Then it does the same
//! with a child in which three services read the topic, each as a group of its own ([`read`]): one of them with three members that
//! share the partitions, of which one leaves half-way. At last it checks what the groups did against the CSV ([`check`]), prints
//! a table, and fails if anything is wrong.

#[path = "flights/check.rs"]
mod check;
#[path = "flights/child.rs"]
mod child;
#[path = "flights/flight.rs"]
mod flight;
#[path = "flights/ingest.rs"]
mod ingest;
#[path = "flights/journal.rs"]
mod journal;
#[path = "flights/read.rs"]
mod read;
#[path = "flights/tally.rs"]
mod tally;

use std::collections::HashMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use thalweg::{BoxError, Log, Result};

use crate::check::{Truth, Verdict, judge};
use crate::child::{End, Job, Next, Work, parse_report};
use crate::tally::Group;

const EXCERPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/flights.csv");

fn main() -> Result<ExitCode, BoxError> {
    if let Some(job) = Job::from_args()? {
        match job.work {
            Work::Ingest => ingest::run(&job)?,
            Work::Read => read::run(&job)?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let csv = env::args_os()
        .nth(1)
        .map_or_else(|| EXCERPT.into(), PathBuf::from);
    let verdicts = parent(&csv)?;
    let all_is_well = verdicts.iter().all(|verdict| verdict.faults.is_empty());
    Ok(if all_is_well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn parent(csv: &Path) -> Result<Vec<Verdict>, BoxError> {
    let started = Instant::now();
    let truth = Truth::count(csv)?;
    println!(
        "{}: {} flights, {} tail numbers",
        csv.display(),
        truth.rows(),
        truth.aircraft()
    );

    let dir = tempfile::tempdir()?;
    let dir = dir.path();
    for work in [Work::Ingest, Work::Read] {
        let begun = Instant::now();
        let csv = csv.to_path_buf();
        crash_and_resume(Job {
            work,
            dir: dir.to_path_buf(),
            csv,
            rows: truth.rows(),
            life: 1,
        })?;
        println!("  {:.2} s for both lives", begun.elapsed().as_secs_f64());
    }

    let log = Log::open(child::log_dir(dir))?;
    let topic = log.topic(ingest::TOPIC)?;
    let partitions = topic.settings().partitions;
    let verdicts = Group::ALL.map(|group| {
        let lag = read::lag(&log.group(group.name()))?;
        judge(group, &truth, dir, partitions, lag)
    });
    let verdicts = verdicts.into_iter().collect::<Result<Vec<_>, _>>()?;
    log.close()?;
    print_table(&verdicts);
    println!("{:.2} s in all", started.elapsed().as_secs_f64());
    Ok(verdicts)
}

/// One child to be killed in the middle of its work, and one that does the rest.
fn crash_and_resume(mut job: Job) -> Result<(), BoxError> {
    let mut progress = Progress::new(&job);
    let end = job.start()?.watch(|line| {
        progress.show(line);
        if progress.is_half_way() {
            Next::Kill
        } else {
            Next::GoOn
        }
    })?;
    if end != End::Killed {
        return Err("the child had finished before it could be killed".into());
    }
    println!("  killed; a new process opens the log");

    job.life = 2;
    let mut progress = Progress::new(&job);
    job.start()?.watch(|line| {
        progress.show(line);
        Next::GoOn
    })?;
    Ok(())
}

/// How far a child is, by its own word.
struct Progress {
    work: Work,
    rows: usize,
    /// Of the ingest, or of each of the groups.
    done: HashMap<String, usize>,
    /// A member has left its group.
    has_left: bool,
}

impl Progress {
    fn new(job: &Job) -> Self {
        Progress {
            work: job.work,
            rows: job.rows,
            done: HashMap::new(),
            has_left: false,
        }
    }

    /// Takes in a line of the child, and prints one whenever another fifth is done.
    fn show(&mut self, line: &str) {
        match parse_report(line) {
            Some(("present", done)) => println!("  {done} flights are in the log"),
            Some(("leaving", member)) => {
                self.has_left = true;
                println!("  analytics: member {member} leaves");
            }
            Some((what, done)) => {
                let fifth = self.rows / 5 + usize::from(self.rows < 5);
                let most = self.done.entry(what.to_owned()).or_insert(0);
                if done / fifth > *most / fifth {
                    println!("  {what}: {done} of {}", self.rows);
                }
                *most = done.max(*most); // the members of a group speak in any order
            }
            None => println!("  {line}"),
        }
    }

    /// Is the child in the middle of its work? When reading: nobody has yet to begin, and the group with several members has been
    /// left by one and has handled three quarters, so that what it left is with the others.
    fn is_half_way(&self) -> bool {
        let done = |what| self.done.get(what).copied().unwrap_or(0);
        match self.work {
            Work::Ingest => done("ingest") >= self.rows / 2,
            Work::Read => {
                let all_begun = self.done.len() == Group::ALL.len();
                all_begun && self.has_left && done(Group::Analytics.name()) >= self.rows / 4 * 3
            }
        }
    }
}

fn print_table(verdicts: &[Verdict]) {
    for verdict in verdicts
        .iter()
        .filter(|verdict| verdict.group == Group::Analytics)
    {
        println!("\nwhat {} counted:", verdict.group.name());
        verdict.tally.lines().for_each(|line| println!("  {line}"));
    }
    println!(
        "\n{:<12} {:>7} {:>8} {:>8} {:>6} {:>4}  check against the CSV",
        "group", "members", "read", "repeats", "moves", "lag"
    );
    for verdict in verdicts {
        let Verdict {
            group,
            read,
            repeats,
            moves,
            lag,
            faults,
            ..
        } = verdict;
        let result = if faults.is_empty() {
            "all there, in order, totals equal".into()
        } else {
            faults.join("; ")
        };
        println!(
            "{:<12} {:>7} {read:>8} {repeats:>8} {moves:>6} {lag:>4}  {result}",
            group.name(),
            group.members(),
        );
    }
    println!(
        "(read: records handled in both lives; repeats: those of them handled before, none of which was committed;\n\
         moves: how often a partition went from one member to another)\n"
    );
}
