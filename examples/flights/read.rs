//! The reading child: three services, a thread and a consumer group each, which read the same topic side by side.

use std::fs;
use std::time::Duration;

use thalweg::{BoxError, Consumer, ConsumerGroup, Log, Result, StartFrom, Topic};

use crate::child::{Job, log_dir, report};
use crate::flight::{Flight, row_of};
use crate::ingest::TOPIC;
use crate::journal::Journal;
use crate::tally::{Group, Tally};

/// How long a poll waits. Nobody writes any more, so a poll that comes back with nothing has reached the end.
const PATIENCE: Duration = Duration::from_millis(100);

/// Runs all three until each has read everything.
pub(crate) fn run(job: &Job) -> Result<(), BoxError> {
    let log = Log::open(log_dir(&job.dir))?;
    std::thread::scope(|scope| {
        let services = Group::ALL.map(|group| {
            let log = log.clone();
            scope.spawn(move || serve(&log, group, job))
        });
        for service in services {
            service.join().map_err(|_| "a service panicked")??;
        }
        Ok::<(), BoxError>(())
    })?;
    Ok(log.close()?)
}

/// One service: make its state again, then poll, handle, commit, until nothing is left.
fn serve(log: &Log, group: Group, job: &Job) -> Result<(), BoxError> {
    let (max_poll_records, commit_every) = group.pace(job.step());
    let members = log.group(group.name());
    let (mut tally, mut done) = rebuild(&log.topic(TOPIC)?, &members, group)?;
    let mut journal = Journal::create(&job.dir, group.name(), job.life)?;
    let mut consumer = members
        .subscribe([TOPIC])
        .start_from(StartFrom::Earliest)
        .max_poll_records(max_poll_records)
        .join()?;

    let mut batches = 0;
    loop {
        let batch = consumer.poll(PATIENCE)?;
        if batch.is_empty() {
            break;
        }
        for entry in &batch {
            tally.add(&Flight::of(entry)?);
            journal.handled(entry, row_of(entry)?);
        }
        journal.write()?; // the effect first, then the commit: a crash in between repeats work, and loses none
        done += batch.len();
        batches += 1;
        if batches % commit_every == 0 {
            commit(&mut consumer, &mut journal)?;
        }
        report(group.name(), done)?;
    }
    commit(&mut consumer, &mut journal)?;
    fs::write(
        job.dir.join(format!("{}.tally", group.name())),
        tally.to_string(),
    )?;
    Ok(consumer.close()?)
}

fn commit(consumer: &mut Consumer, journal: &mut Journal) -> Result<(), BoxError> {
    consumer.commit()?;
    journal.committed()
}

/// The state that this group had at its last commit, and of how many records: made from the log itself, by reading again what lies
/// before the committed offsets. (A service with a large state saves it together with its positions from time to time, and reads
/// again only from there.)
fn rebuild(
    topic: &Topic,
    members: &ConsumerGroup,
    group: Group,
) -> Result<(Tally, usize), BoxError> {
    let (mut tally, mut done) = (Tally::new(group), 0);
    let committed = members.committed()?;
    for partition in topic.partitions() {
        if let Some(next) = committed.next(&partition.topic_partition()) {
            partition.entries(..next).try_for_each_ref(|entry| {
                tally.add(&Flight::of(entry)?);
                done += 1;
                Ok::<(), BoxError>(())
            })?;
        }
    }
    Ok((tally, done))
}
