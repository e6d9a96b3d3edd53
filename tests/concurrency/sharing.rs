//! Sixteen threads on one group: they join, poll, commit, pause and go as dice say, and a plain record of it knows what is right.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Barrier, Mutex, RwLock, mpsc};
use std::thread;
use std::time::Duration;

use thalweg::{
    Batch, BoxError, Consumer, Durability, Error, FencedBy, Log, Rebalance, RebalanceListener,
    TopicConfig, TopicPartition,
};

use super::logs::{Dice, scale, seed};

const MEMBERS: u64 = 14;
const WRITERS: u64 = 2;
const PARTITIONS: u32 = 6;
const NOW: Duration = Duration::ZERO;
const LIMIT: Duration = Duration::from_secs(120);

/// What is right of one partition.
#[derive(Default)]
struct Line {
    /// The next offset that somebody stored.
    committed: u64,
    /// Everything below was handled at least once.
    handled: u64,
    /// Who reads it: a member's id.
    owner: Option<String>,
    /// How often a member began to read it.
    begun: u64,
}

/// What all threads write down, in the callbacks and after each call.
#[derive(Default)]
struct Record {
    lines: Mutex<BTreeMap<TopicPartition, Line>>,
    /// Members that were shut out, or are being. Written under the write lock, so that a commit that is under way is either
    /// before or after it.
    gone: RwLock<BTreeSet<String>>,
}

/// One thread's member, as it knows itself.
struct Lane<'r> {
    record: &'r Record,
    id: String,
    /// Where it reads on.
    next: BTreeMap<TopicPartition, u64>,
    paused: BTreeSet<TopicPartition>,
}

impl RebalanceListener for Lane<'_> {
    fn assigned(
        &mut self,
        rebalance: &mut Rebalance<'_>,
        added: &[TopicPartition],
    ) -> Result<(), BoxError> {
        rebalance.membership().member().clone_into(&mut self.id);
        for at in added {
            let begins = rebalance.position(at).unwrap().get();
            self.next.insert(at.clone(), begins);
            self.record.begins(at, &self.id, begins);
        }
        Ok(())
    }

    fn revoked(
        &mut self,
        rebalance: &mut Rebalance<'_>,
        going: &[TopicPartition],
    ) -> Result<(), BoxError> {
        if going.len().is_multiple_of(2) {
            self.commit(going, || rebalance.commit());
        }
        self.let_go(going);
        Ok(())
    }

    fn lost(&mut self, gone: &[TopicPartition]) -> Result<(), BoxError> {
        assert!(self.record.gone.read().unwrap().contains(&self.id));
        assert_eq!(gone, self.owned());
        self.forget(gone);
        Ok(())
    }
}

impl Record {
    fn begins(&self, at: &TopicPartition, id: &str, begins: u64) {
        let gone = self.gone.read().unwrap();
        let mut lines = self.lines.lock().unwrap();
        let line = lines.entry(at.clone()).or_default();
        if gone.contains(id) {
            return; // it took the partition, and was shut out before it could be told so
        }
        if let Some(owner) = &line.owner {
            assert!(gone.contains(owner), "{at} is read by {owner} and by {id}");
        }
        assert_eq!(begins, line.committed, "{at}: where {id} begins");
        line.owner = Some(id.to_owned());
        line.begun += 1;
    }
}

impl Lane<'_> {
    fn owned(&self) -> Vec<TopicPartition> {
        self.next.keys().cloned().collect()
    }

    /// It reads these no longer; said before anybody else can have them.
    fn let_go(&mut self, going: &[TopicPartition]) {
        let mut lines = self.record.lines.lock().unwrap();
        for at in going {
            let line = lines.get_mut(at).unwrap();
            line.owner.take_if(|owner| *owner == self.id);
        }
        drop(lines);
        self.forget(going);
    }

    fn forget(&mut self, gone: &[TopicPartition]) {
        self.next.retain(|at, _| !gone.contains(at));
        self.paused.retain(|at| !gone.contains(at));
    }

    fn handle(&mut self, batch: &Batch) {
        let mut lines = self.record.lines.lock().unwrap();
        for entry in batch {
            let at = entry.topic_partition();
            assert!(!self.paused.contains(at), "{at} is paused");
            let next = self.next.get_mut(at).expect("it is told of what it reads");
            assert_eq!(entry.offset().get(), *next, "{at}, in order");
            assert_eq!(entry.value_str().unwrap(), next.to_string());
            *next += 1;
            let line = lines.get_mut(at).unwrap();
            line.handled = line.handled.max(*next);
        }
    }

    /// Everything that it handled of these. Accepted unless it was shut out.
    fn commit(&mut self, of: &[TopicPartition], commit: impl FnOnce() -> thalweg::Result<()>) {
        let gone = self.record.gone.read().unwrap();
        let committed = commit();
        if gone.contains(&self.id) {
            let fenced = matches!(committed, Err(Error::Fenced { .. }));
            assert!(fenced || self.next.is_empty(), "{}: {committed:?}", self.id);
            return;
        }
        committed.unwrap();
        let mut lines = self.record.lines.lock().unwrap();
        for at in of {
            let line = lines.get_mut(at).unwrap();
            let next = self.next[at];
            assert!(line.owner.as_ref() == Some(&self.id), "{at} is not its own");
            assert!(next <= line.handled, "{at}: beyond what was handled");
            assert!(next >= line.committed, "{at}: an older commit");
            line.committed = next;
        }
    }
}

fn join(log: &Log, n: u64, eager: bool) -> Consumer {
    let builder = log.group("g").subscribe(["t"]).eager(eager);
    let builder = builder.max_poll_records(5 + n as usize);
    let builder = match n % 3 {
        0 => builder.instance_id(format!("static-{n}")),
        _ => builder,
    };
    builder.join().unwrap()
}

/// Goes in one of four ways.
fn go(mut member: Consumer, lane: &mut Lane<'_>, dice: &mut Dice) {
    match dice.below(4) {
        0 => member.close_with(lane).unwrap(),
        1 => {
            lane.let_go(&lane.owned());
            member.leave().unwrap();
        }
        2 => {
            lane.let_go(&lane.owned());
            member.unsubscribe().unwrap();
            let refused = member.poll(NOW).map(drop);
            let why = FencedBy::Left;
            assert!(matches!(refused, Err(Error::Fenced { why: of, .. }) if of == why));
        }
        _ => {
            lane.let_go(&lane.owned());
            drop(member);
        }
    }
}

/// One thing that a member may do, other than to come and to go.
fn act(log: &Log, member: &mut Consumer, lane: &mut Lane<'_>, dice: &mut Dice) {
    let gone = |id: &str| lane.record.gone.read().unwrap().contains(id);
    match dice.below(12) {
        0..=5 => {
            let wait = Duration::from_millis(dice.below(2));
            let batch = member.poll_with(wait, lane).unwrap();
            assert_eq!(member.assignment(), lane.owned());
            lane.handle(&batch);
        }
        6..=8 => lane.commit(&lane.owned(), || member.commit()),
        9 => {
            let owned = lane.owned();
            if let Some(at) = owned.first() {
                member.pause(std::slice::from_ref(at)).unwrap();
                lane.paused.insert(at.clone());
            }
        }
        10 => {
            let paused = std::mem::take(&mut lane.paused);
            member.resume(&Vec::from_iter(paused)).unwrap();
        }
        _ if dice.below(4) == 0 => {
            // Somebody is shut out, and it may be itself.
            let described = log.group("g").describe().unwrap();
            let members = described.members;
            if let Some(one) = members.get(dice.below(1 + members.len() as u64) as usize)
                && !gone(&one.id)
            {
                let mut gone = lane.record.gone.write().unwrap();
                if log.group("g").remove_member(&one.id).is_ok() {
                    gone.insert(one.id.clone());
                }
            }
        }
        _ => drop(log.group("g").lag().unwrap()),
    }
}

fn live(log: &Log, record: &Record, n: u64, eager: bool, ops: u64) {
    let mut dice = Dice(seed() + n);
    let mut current: Option<(Consumer, Lane<'_>)> = None;
    for _ in 0..ops {
        if let Some((mut member, mut lane)) = current.take() {
            if dice.below(12) == 0 {
                go(member, &mut lane, &mut dice);
            } else {
                act(log, &mut member, &mut lane, &mut dice);
                current = Some((member, lane));
            }
        } else {
            let member = join(log, n, eager);
            let id = member.membership().member().to_owned();
            let (next, paused) = Default::default();
            let lane = Lane {
                record,
                id,
                next,
                paused,
            };
            current = Some((member, lane));
        }
    }
    if let Some((member, mut lane)) = current {
        go(member, &mut lane, &mut dice);
    }
}

/// Appends the numbers of their offsets to its half of the partitions.
fn write(log: &Log, n: u64, records: u64) {
    let topic = log.topic("t").unwrap();
    let own = topic.partitions().into_iter().skip(n as usize);
    let own: Vec<_> = own.step_by(WRITERS as usize).collect();
    for _ in 0..records {
        for partition in &own {
            let next = partition.offsets().end.get();
            partition.append(("", next.to_string())).unwrap();
        }
        thread::yield_now();
    }
}

fn all_at_once(log: &Log, eager: bool) {
    let config = TopicConfig::new().partitions(PARTITIONS);
    let config = config.durability(Durability::Process).segment_bytes(4096);
    log.create_topic("t", config).unwrap();
    let record = Record::default();
    let barrier = Barrier::new((MEMBERS + WRITERS) as usize);
    let records = 800 * scale();
    thread::scope(|scope| {
        for n in 0..MEMBERS {
            let (record, barrier) = (&record, &barrier);
            scope.spawn(move || {
                barrier.wait();
                live(log, record, n, eager, 1200 * scale());
            });
        }
        for n in 0..WRITERS {
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                write(log, n, records);
            });
        }
    });
    finish(log, &record, eager, records);
}

/// Who comes last gets everything that was not committed, and then all was handled.
fn finish(log: &Log, record: &Record, eager: bool, records: u64) {
    let last = join(log, 1, eager);
    for away in log.group("g").describe().unwrap().members {
        if let Some(name) = away.instance_id {
            log.group("g").remove_member(&name).unwrap();
        }
    }
    let mut last = last;
    let id = last.membership().member().to_owned();
    let (next, paused) = Default::default();
    let mut lane = Lane {
        record,
        id,
        next,
        paused,
    };
    loop {
        let batch = last.poll_with(NOW, &mut lane).unwrap();
        if batch.is_empty() {
            break;
        }
        lane.handle(&batch);
        lane.commit(&lane.owned(), || last.commit());
    }
    assert_eq!(lane.owned().len(), PARTITIONS as usize);
    let committed = log.group("g").committed().unwrap();
    let lines = record.lines.lock().unwrap();
    for (at, line) in &*lines {
        assert_eq!((line.handled, line.committed), (records, records), "{at}");
        assert_eq!(committed.next(at).unwrap().get(), records, "{at}");
    }
    let begun: u64 = lines.values().map(|line| line.begun).sum();
    let gone = record.gone.read().unwrap().len();
    println!("eager: {eager}; {begun} hand-overs, {gone} were shut out");
}

fn in_time(story: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let thread = thread::spawn(move || {
        story();
        let _ = done.send(());
    });
    match ended.recv_timeout(LIMIT * scale() as u32) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it never came back"),
        _ => thread.join().unwrap(),
    }
}

#[test]
fn sixteen_threads_that_share_a_group_in_memory_skip_and_disorder_nothing() {
    for eager in [false, true] {
        in_time(move || all_at_once(&Log::in_memory(), eager));
    }
}

#[test]
fn sixteen_threads_that_share_a_group_on_disk_skip_and_disorder_nothing() {
    for eager in [false, true] {
        in_time(move || {
            let dir = tempfile::tempdir().unwrap();
            let log = Log::open(dir.path().join("log")).unwrap();
            all_at_once(&log, eager);
            log.close().unwrap();
        });
    }
}
