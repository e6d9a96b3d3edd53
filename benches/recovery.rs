//! How long does it take to open a log whose process was killed, and does that grow with the log?
//!
//! A child fills a log at `Process`, goes on appending, and is killed with SIGKILL in the middle of it; then this process opens
//! the log (`ms`: until the topic is there to be read) and appends a record (`first_append_ms`: only here the bytes that were
//! not synced are made durable). That is done again and again with the same log. `reopen_clean` opens what was closed in order.

mod common;

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use common::raw::{Plain, crc_of};
use common::{Dice, Line, Run, Spread, Values, bytes_below, millis};
use thalweg::{Durability, Log, Record, TopicConfig};

const MIB: u64 = 1 << 20;
const VALUE: usize = 100;
/// What the child appends after the log is filled, at the least.
const MORE: u64 = 24 * MIB;
/// Bytes that can lie above the last `CHECKED`, so that opening has to look at them.
const UNCHECKED: u64 = 4 * MIB;

fn main() {
    let args: Vec<String> = env::args().collect();
    if let [_, mark, dir, bytes] = args.as_slice()
        && mark == CHILD
    {
        child(Path::new(dir), bytes.parse().expect("a number of bytes"));
    }
    let run = Run::from_args();
    for mib in [256, 1024] {
        reopen(&run, mib);
    }
}

const CHILD: &str = "append-until-killed";

/// Appends batches until so much is in the log, says so, and then single records until it is killed.
fn child(dir: &Path, bytes: u64) -> ! {
    let values = Values::new();
    let log = Log::open(dir).expect("a log");
    let config = TopicConfig::new()
        .partitions(1)
        .durability(Durability::Process);
    let topic = log.topic_or_create("bench", config).expect("a topic");
    let partition = topic.partition(0).unwrap();
    let mut left = bytes.saturating_sub(bytes_below(dir)) / VALUE as u64;
    while left > 0 {
        let records = (0..left.min(500)).map(|i| Record::keyless(values.get(i, VALUE)));
        partition.append_all(records).unwrap();
        left = left.saturating_sub(500);
    }
    for i in 0.. {
        partition
            .append(Record::keyless(values.get(i, VALUE)))
            .unwrap();
        if i == MORE / VALUE as u64 {
            println!("full");
            std::io::stdout().flush().unwrap();
        }
    }
    unreachable!("killed before")
}

/// Runs the child until it has filled the log and somewhat longer, and kills it.
fn fill_and_kill(dir: &Path, bytes: u64, dice: &mut Dice) {
    let mut child = Command::new(env::current_exe().expect("this program"))
        .args([CHILD, &dir.to_string_lossy(), &bytes.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("a second process");
    let mut said = String::new();
    let stdout = child.stdout.take().expect("a pipe");
    BufReader::new(stdout).read_line(&mut said).unwrap();
    assert_eq!(said, "full\n", "the child failed");
    // Not always at the same place between two entries of `STATE`.
    let (began, longer) = (Instant::now(), u128::from(dice.roll() % 50));
    while began.elapsed().as_millis() < longer {
        std::thread::yield_now();
    }
    child.kill().expect("SIGKILL"); // it is SIGKILL on Unix
    child.wait().expect("its end");
}

fn reopen(run: &Run, mib: u64) {
    if !run.wants("reopen") && !run.wants("reopen_clean") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory for the bench");
    let log_dir = dir.path().join("log");
    let raw_path = dir.path().join("raw");
    let mut raw = Plain::create(&raw_path);
    raw.write(&Values::new().block(UNCHECKED as usize));
    let mut dice = Dice(88_172_645_463_325_252);
    let (mut killed, mut appended, mut clean, mut raws) = (vec![], vec![], vec![], vec![]);
    for _ in 0..run.rounds(9) {
        fill_and_kill(&log_dir, run.size(mib * MIB), &mut dice);
        let (open, first) = open_and_append(&log_dir);
        killed.push(open);
        appended.push(first);
        let began = Instant::now();
        std::hint::black_box(crc_of(&raw_path, 0..UNCHECKED));
        raws.push(millis(began.elapsed()));
        clean.push(open_and_append(&log_dir).0);
    }
    let log_mib = bytes_below(&log_dir) / MIB;
    let line = |name: &str, ms: Vec<f64>| {
        Line::new(name)
            .count("value_bytes", VALUE as u64)
            .count("log_mib", log_mib)
            .text("durability", "process")
            .spread("ms", Spread::of(ms))
            .text("raw", "crc_of_4_mib")
            .number("raw_ms", Spread::of(raws.iter().copied()).median)
            .count("rounds", raws.len() as u64)
    };
    line("reopen", killed)
        .spread("first_append_ms", Spread::of(appended))
        .number("ceiling_ms", 20.0)
        .print();
    line("reopen_clean", clean).print();
}

/// Milliseconds until the topic is there, and those that the first append takes; then the log is closed in order.
fn open_and_append(dir: &Path) -> (f64, f64) {
    let began = Instant::now();
    let log = Log::open(dir).expect("a log that can be opened");
    let partition = log.topic("bench").unwrap().partition(0).unwrap();
    let end = partition.offsets().end;
    let open = millis(began.elapsed());
    let began = Instant::now();
    let at = partition.append(Record::keyless("after")).unwrap();
    let first = millis(began.elapsed());
    assert_eq!(
        at.offset(),
        end,
        "nothing was lost, so no offset is passed over"
    );
    drop(partition);
    log.close().unwrap();
    (open, first)
}
