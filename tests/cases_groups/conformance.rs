//! B104 with everything that a listener is told: one story on a real disk, in memory and on the log of the test kit.

use std::sync::{Arc, Mutex};

use thalweg::testing::TestLog;
use thalweg::{
    BoxError, Consumer, ConsumerBuilder, Error, Log, Offset, Positions, Rebalance,
    RebalanceListener, StartFrom, TopicPartition,
};

use super::{NOW, append, t, topic};

/// What happened, line by line.
#[derive(Clone, Default)]
struct Trace(Arc<Mutex<Vec<String>>>);

impl Trace {
    fn say(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    fn listener(&self, who: &'static str) -> Listener {
        let trace = self.clone();
        Listener { who, trace }
    }

    /// One poll: what was told in it, and what it gave.
    fn poll(&self, who: &str, consumer: &mut Consumer) {
        self.say(format!("{who} polls"));
        let line = match consumer.poll(NOW) {
            Ok(batch) => {
                let entries = batch.iter();
                let seen: Vec<String> = entries.map(|of| of.position().to_string()).collect();
                format!("{who} read {} {:?}", seen.join(" "), batch.resets())
            }
            Err(e) => format!("{who} failed: {e}, about {:?}", e.partition()),
        };
        self.say(line);
    }
}

struct Listener {
    who: &'static str,
    trace: Trace,
}

impl Listener {
    fn say(&self, callback: &str, partitions: &[TopicPartition], more: &str) {
        let names: Vec<String> = partitions.iter().map(ToString::to_string).collect();
        let names = names.join(" ");
        let line = format!("{} {callback} [{names}] {more}", self.who);
        self.trace.say(line);
    }
}

impl RebalanceListener for Listener {
    fn assigned(
        &mut self,
        rebalance: &mut Rebalance<'_>,
        added: &[TopicPartition],
    ) -> Result<(), BoxError> {
        let owned = rebalance.assignment();
        let more = format!("{owned:?} {:?}", rebalance.membership());
        self.say("assigned", added, &more);
        Ok(())
    }

    fn revoked(
        &mut self,
        rebalance: &mut Rebalance<'_>,
        going: &[TopicPartition],
    ) -> Result<(), BoxError> {
        let committed = rebalance.commit();
        let more = format!("{committed:?} {:?}", rebalance.membership());
        self.say("revoked", going, &more);
        Ok(())
    }

    fn lost(&mut self, gone: &[TopicPartition]) -> Result<(), BoxError> {
        self.say("lost", gone, "");
        Ok(())
    }
}

fn builder(log: &Log) -> ConsumerBuilder {
    log.group("g").subscribe(["t"]).max_poll_records(3)
}

fn next(partition: u32, offset: u64) -> Positions {
    [t(partition).at(Offset::new(offset))].into_iter().collect()
}

/// Members come and go.
fn joins_and_leaves(log: &Log, trace: &Trace) {
    let member = |who| builder(log).listener(trace.listener(who)).join().unwrap();
    let mut a = member("a");
    trace.poll("a", &mut a);
    a.commit().unwrap();
    let mut b = member("b");
    for _ in 0..2 {
        trace.poll("b", &mut b);
        trace.poll("a", &mut a);
    }
    // A pause lasts while the partition is owned.
    let own = a.assignment();
    a.pause(&own).unwrap();
    trace.poll("a", &mut a);
    let c = member("c");
    trace.say(format!("paused {:?}", a.paused()));
    trace.poll("a", &mut a);
    drop(c);
    trace.say(format!("paused {:?}", a.paused()));
    a.resume(&a.paused()).unwrap();
    trace.poll("a", &mut a);
    // Who is shut out.
    let id = b.membership().member().to_owned();
    log.group("g").remove_member(&id).unwrap();
    trace.say(format!("{:?}", b.commit()));
    trace.say(format!("{:?}", b.commit_at(&next(1, 0))));
    trace.poll("a", &mut a);
    trace.poll("b", &mut b);
    trace.poll("a", &mut a);
    trace.poll("b", &mut b);
    // What is not one's own, and what is out of range.
    for partition in 0..3 {
        trace.say(format!("{:?}", a.commit_at(&next(partition, 2))));
        trace.say(format!("{:?}", a.commit_at(&next(partition, 99))));
    }
    let described = log.group("g").describe().unwrap();
    trace.say(format!("{described:?}"));
    b.leave().unwrap();
    trace.poll("a", &mut a);
    trace.say(format!("{:?} {:?}", a.positions(), a.lag(&t(1))));
    a.close().unwrap();
    trace.say(format!("{:?}", log.group("g").committed().unwrap()));
}

/// Where each begins that has nothing committed, and what a static member finds again.
fn starts(log: &Log, trace: &Trace) {
    let starts = [
        StartFrom::Earliest,
        StartFrom::Latest,
        StartFrom::Fail,
        StartFrom::Time(thalweg::Timestamp::from_millis(0)),
    ];
    for start in starts {
        let group = log.group(&format!("{start:?}").replace(['(', ')'], "-"));
        let builder = group.subscribe(["t"]).start_from(start);
        let mut member = builder.listener(trace.listener("s")).join().unwrap();
        for _ in 0..3 {
            trace.poll("s", &mut member);
        }
        trace.say(format!("{:?} {:?}", member.positions(), member.halted()));
    }
    let named = |who| {
        let builder = builder(log).instance_id("i");
        builder.listener(trace.listener(who)).join().unwrap()
    };
    let mut old = named("old");
    trace.poll("old", &mut old);
    old.close().unwrap();
    let mut new = named("new");
    trace.poll("new", &mut new);
    let mut newer = named("newer");
    trace.poll("newer", &mut newer);
    trace.poll("new", &mut new);
    let refused = new.commit();
    assert!(matches!(refused, Err(Error::Fenced { .. })));
    trace.say(format!("{refused:?}"));
    newer.leave().unwrap();
}

/// The whole story. `restart` gives the log as it is when it was closed and opened again, where there is such a thing.
fn trace(log: Log, restart: impl FnOnce(Log) -> Log) -> Vec<String> {
    let trace = Trace::default();
    let partitions = topic(&log, 2);
    append(&partitions[0], 0..7);
    append(&partitions[1], 10..15);
    drop(partitions);
    joins_and_leaves(&log, &trace);
    starts(&log, &trace);
    let log = restart(log);
    trace.say(format!("{:?}", log.group("g").committed().unwrap()));
    // (Members are numbered from 1 again in a log that was opened again, so that from here on no names are told.)
    let mut after = builder(&log).join().unwrap();
    trace.poll("after", &mut after);
    trace.say(format!("{:?}", log.group("g").lag().unwrap()));
    let lines = trace.0.lock().unwrap();
    lines.clone()
}

#[test]
fn b104_listeners_resets_pauses_and_stale_commits_are_the_same_on_every_backend() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("log");
    let on_disk = trace(Log::open(&place).unwrap(), |log| {
        log.close().unwrap();
        Log::open(&place).unwrap()
    });
    let told = |what: &str| on_disk.iter().filter(|line| line.contains(what)).count();
    for what in [
        "assigned",
        "revoked",
        "lost",
        "shut out",
        "is not assigned",
        "is out of range",
    ] {
        assert!(told(what) > 0, "{what} is missing: {on_disk:#?}");
    }
    let same = |name: &str, lines: &[String]| {
        for (n, (ours, theirs)) in on_disk.iter().zip(lines).enumerate() {
            assert_eq!(ours, theirs, "{name}, line {n}");
        }
        assert_eq!(on_disk.len(), lines.len(), "{name}");
    };
    same("in memory", &trace(Log::in_memory(), |log| log));
    let test = TestLog::new();
    same("test log", &trace(test.log(), |log| log));
    let test = TestLog::seeded(7);
    let crashed = trace(test.log(), |_| {
        let everything = thalweg::testing::Survives::Everything;
        test.crash(everything).unwrap();
        test.log()
    });
    same("test log that crashed", &crashed);
}

/// What a member is told comes within its own polls and its own end, and nowhere else.
#[test]
fn b104_callbacks_run_within_calls_of_their_own_member() {
    let log = Log::in_memory();
    topic(&log, 4);
    let (of_a, of_b) = (Trace::default(), Trace::default());
    let mut a = builder(&log).listener(of_a.listener("a")).join().unwrap();
    let quiet = |trace: &Trace| assert!(trace.0.lock().unwrap().is_empty());
    let told = |trace: &Trace| std::mem::take(&mut *trace.0.lock().unwrap()).len();
    quiet(&of_a);
    let _ = a.poll(NOW).unwrap();
    assert_eq!(told(&of_a), 1);
    let mut b = builder(&log).listener(of_b.listener("b")).join().unwrap();
    let _ = b.poll(NOW).unwrap();
    log.group("g").describe().unwrap();
    quiet(&of_a);
    assert_eq!(told(&of_b), 1);
    let _ = a.poll(NOW).unwrap();
    assert_eq!(told(&of_a), 2);
    quiet(&of_b);
    a.close().unwrap();
    assert_eq!(told(&of_a), 1);
    quiet(&of_b);
    drop(b);
    quiet(&of_b);
}
