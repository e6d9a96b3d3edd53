//! The reading child: three services, a consumer group each, which read the same topic side by side.
//!
//! `analytics` has three members, a thread each, which share the partitions. One of them leaves half-way, and its partitions go to
//! the two that stay. It leaves without a last commit, as a member that fails would: so the new owners handle some flights again.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use thalweg::{
    Batch, BoxError, Consumer, ConsumerGroup, EntryRef, Log, Offset, Result, StartFrom, Topic,
    TopicPartition,
};

use crate::child::{Job, log_dir, report, tally_path};
use crate::flight::{Flight, row_of};
use crate::ingest::TOPIC;
use crate::journal::Journal;
use crate::tally::{Group, Tally};

/// How long a poll waits before the member looks whether the group is done.
const PATIENCE: Duration = Duration::from_millis(100);

/// The one of several members that leaves.
const LEAVER: usize = 1;

/// Runs all three until each has read everything.
pub(crate) fn run(job: &Job) -> Result<(), BoxError> {
    let log = Log::open(log_dir(&job.dir))?;
    let services = Group::ALL.map(|group| {
        let log = &log;
        move || serve(log, group, job)
    });
    side_by_side(services)?;
    Ok(log.close()?)
}

/// One service: its members read side by side, and what they counted adds up.
fn serve(log: &Log, group: Group, job: &Job) -> Result<(), BoxError> {
    let done = AtomicUsize::new(0);
    // All have joined before the first one polls, so each has its share from the beginning.
    let members = (0..group.members()).map(|number| Member::join(log, group, job, number, &done));
    let members = members.collect::<Result<Vec<_>, _>>()?;
    let tables = side_by_side(members.into_iter().map(|member| || member.read_all()))?;
    // Who finishes first leaves its partitions to the others: two may have read one to its end, and counted the same.
    let tables: BTreeMap<TopicPartition, Tally> = tables.into_iter().flatten().collect();
    let mut total = Tally::new(group);
    for table in tables.into_values() {
        total.join(table);
    }
    Ok(fs::write(
        tally_path(&job.dir, group.name()),
        total.to_string(),
    )?)
}

/// Runs each on a thread of its own, and waits for all of them.
fn side_by_side<T: Send, F: FnOnce() -> Result<T, BoxError> + Send>(
    all: impl IntoIterator<Item = F>,
) -> Result<Vec<T>, BoxError> {
    thread::scope(|scope| {
        let threads: Vec<_> = all.into_iter().map(|one| scope.spawn(one)).collect();
        let ends = threads.into_iter().map(|thread| {
            let end = thread.join();
            end.unwrap_or_else(|_| Err("a thread panicked".into()))
        });
        ends.collect()
    })
}

/// One member of a group.
struct Member<'j> {
    number: usize,
    group: Group,
    job: &'j Job,
    topic: Topic,
    consumers: ConsumerGroup,
    consumer: Consumer,
    journal: Journal<'j>,
    /// What was counted of each partition that it owns.
    tables: BTreeMap<TopicPartition, Tally>,
    /// The first and the last row that it has seen.
    rows: Option<(usize, usize)>,
    /// How many records the members of the group have handled.
    done: &'j AtomicUsize,
}

impl<'j> Member<'j> {
    fn join(
        log: &Log,
        group: Group,
        job: &'j Job,
        number: usize,
        done: &'j AtomicUsize,
    ) -> Result<Self, BoxError> {
        let (max_poll_records, _) = group.pace(job.step());
        let consumers = log.group(group.name());
        let consumer = consumers
            .subscribe([TOPIC])
            .start_from(StartFrom::Earliest)
            .max_poll_records(max_poll_records)
            .join()?;
        Ok(Member {
            number,
            group,
            job,
            topic: log.topic(TOPIC)?,
            consumers,
            consumer,
            journal: Journal::new(job, group.name(), number),
            tables: BTreeMap::new(),
            rows: None,
            done,
        })
    }

    /// Polls, handles, commits, until the group has read everything. What it counted, unless it left before that.
    fn read_all(mut self) -> Result<BTreeMap<TopicPartition, Tally>, BoxError> {
        let (_, commit_every) = self.group.pace(self.job.step());
        for polls in 1_usize.. {
            let batch = self.consumer.poll(PATIENCE)?;
            self.take_over()?;
            self.handle(&batch)?;
            if self.leaves(&batch) {
                report("leaving", self.number + 1)?;
                self.tables.clear(); // the new owners make them again
                break;
            }
            if batch.is_empty() || polls.is_multiple_of(commit_every) {
                self.consumer.commit()?;
                self.journal.committed(&self.consumer.positions())?;
            }
            if batch.is_empty() && lag(&self.consumers)? == 0 {
                break;
            }
        }
        self.consumer.close()?;
        Ok(self.tables)
    }

    /// Partitions come and go within `poll`. For one that came the state is made that its owner had at the last commit: from the
    /// log itself, by reading again what lies before. (A service with a large state saves it together with its positions from
    /// time to time, and reads again only from there.)
    ///
    /// Members of this group leave and do not come back, so no partition goes and comes back between two polls.
    fn take_over(&mut self) -> Result<(), BoxError> {
        let owned = self.consumer.assignment();
        self.tables.retain(|at, _| owned.contains(at));
        for at in owned {
            if !self.tables.contains_key(&at) {
                let mut table = Tally::new(self.group);
                let begin = self.consumer.committed(&at)?.unwrap_or(Offset::ZERO);
                let before = self.topic.partition(at.partition())?.entries(..begin);
                before.try_for_each_ref(|entry| count(&mut table, entry))?;
                self.tables.insert(at, table);
            }
        }
        Ok(())
    }

    fn handle(&mut self, batch: &Batch) -> Result<(), BoxError> {
        for at in batch.partitions() {
            let table = self.tables.get_mut(&at);
            let table = table.ok_or("a record of a partition that is not owned")?;
            for entry in batch.partition(&at) {
                let row = row_of(entry)?;
                count(table, entry)?;
                self.journal.handled(entry, row)?;
                let (first, last) = self.rows.unwrap_or((row, row));
                self.rows = Some((first, last.max(row)));
            }
        }
        self.journal.write()?; // the effect first, then the commit: a crash in between repeats work, and loses none
        if !batch.is_empty() {
            let before = self.done.fetch_add(batch.len(), Ordering::Relaxed);
            report(self.group.name(), before + batch.len())?;
        }
        Ok(())
    }

    /// Is it time for this member to go? It is for one of several, half-way from its first row to the last one of all.
    fn leaves(&self, batch: &Batch) -> bool {
        let half_way = |(first, last)| last >= usize::midpoint(first, self.job.rows);
        let one_of_several = self.group.members() > 1 && self.number == LEAVER;
        one_of_several && (batch.is_empty() || self.rows.is_some_and(half_way))
    }
}

fn count(table: &mut Tally, entry: EntryRef<'_>) -> Result<(), BoxError> {
    table.add(&Flight::of(entry)?);
    Ok(())
}

/// How far a group is behind, over all partitions; 0 once it has handled and committed everything. That is what tells a member to
/// stop, for a poll with nothing in it does not: others may still hold flights, and leave before they have handled them.
pub(crate) fn lag(group: &ConsumerGroup) -> Result<u64, BoxError> {
    Ok(group.lag()?.iter().map(|(_, behind)| behind).sum())
}
