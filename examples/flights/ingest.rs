//! The writing child: appends the flights of the CSV, and after a crash goes on exactly where the log ends.

use std::collections::HashSet;

use thalweg::{BoxError, Durability, Log, Result, Topic, TopicConfig};

use crate::child::{Job, log_dir, report};
use crate::flight::{Flight, read_csv, row_of};

/// The topic that all of this is about.
pub(crate) const TOPIC: &str = "flights";

/// `Process` is enough here: the operating system has the bytes of every append that returned, so a killed process loses none of
/// them. What must survive a power cut too is appended at `Durability::Power`, the default.
fn config() -> TopicConfig {
    TopicConfig::new()
        .partitions(12)
        .durability(Durability::Process)
}

/// Appends every flight that the log does not hold yet, `job.step()` rows at a time.
pub(crate) fn run(job: &Job) -> Result<(), BoxError> {
    let log = Log::open(log_dir(&job.dir))?;
    let topic = log.topic_or_create(TOPIC, config())?;
    let resume = Resume::find(&topic, job.step())?;
    report("present", resume.from + resume.beyond.len())?;

    let mut step = Vec::with_capacity(job.step());
    for flight in read_csv(&job.csv)?.skip(resume.from) {
        let flight = flight?;
        let row = flight.row;
        if !resume.beyond.contains(&row) {
            step.push(flight);
        }
        if (row + 1).is_multiple_of(job.step()) {
            append(&topic, &mut step)?;
        }
    }
    append(&topic, &mut step)?;
    report("ingest", job.rows)?;
    Ok(log.close()?)
}

/// The report goes out before the append, so that the kill which may answer it tends to land in the middle of one.
fn append(topic: &Topic, step: &mut Vec<Flight>) -> Result<(), BoxError> {
    let Some(first) = step.first() else {
        return Ok(());
    };
    report("ingest", first.row)?;
    topic.append_all(step.iter().map(Flight::record))?;
    step.clear();
    Ok(())
}

/// What is in the log already.
struct Resume {
    /// All rows before this one are there; it is the first row of a step.
    from: usize,
    /// Those of the step that begins there, and of no later one, which are there too.
    beyond: HashSet<usize>,
}

impl Resume {
    /// Steps are appended one after the other, so all steps before the last one that left a trace are complete. `append_all` is
    /// atomic in each partition but not over all twelve, so of that last step some partitions may hold their part and others not:
    /// its rows are read back, newest first, to see which.
    fn find(topic: &Topic, step: usize) -> Result<Self, BoxError> {
        let mut newest = None;
        for partition in topic.partitions() {
            if let Some(entry) = partition.entries(..).next_back() {
                newest = newest.max(Some(row_of(entry?.as_ref())?));
            }
        }
        let from = newest.map_or(0, |row| row - row % step);
        let mut beyond = HashSet::new();
        for partition in topic.partitions() {
            for entry in partition.entries(..).rev() {
                let row = row_of(entry?.as_ref())?;
                if row < from {
                    break;
                }
                beyond.insert(row);
            }
        }
        Ok(Resume { from, beyond })
    }
}
