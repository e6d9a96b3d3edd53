//! The ledger from within: kinds that are to come, tombstones, topics and groups that come and go, a panic of its upkeep.

use std::sync::mpsc;
use std::time::Duration;

use super::*;
use crate::format::ledger::{kind, put_key};
use crate::log::{Log, Maintenance, Topic};
use crate::partition::agenda::Chore;

const GROUP: &str = "kitchen";

fn topic(log: &Log, name: &str, partitions: u32) -> Topic {
    let config = TopicConfig::new().partitions(partitions);
    log.topic_or_create(name, config).unwrap()
}

fn commit_to(partition: &Partition, next: u64) -> Commit<'_> {
    Commit {
        partition,
        next: Offset::new(next),
    }
}

/// What a group has committed for the first partition of a topic.
fn row(topic: &Topic, next: u64) -> (PartitionKey, Offset) {
    ((topic.uuid(), 0), Offset::new(next))
}

/// Commits until the last segment is worth rewriting.
fn fill(log: &Log) {
    let partitions = topic(log, "filler", 500).partitions();
    let rows: Vec<Commit<'_>> = partitions.iter().map(|of| commit_to(of, 1)).collect();
    while log.ledger().partition().last_segment_len() < 1 << 20 {
        log.ledger()
            .commit("filler", rows.iter().copied(), || Ok(()))
            .unwrap();
    }
}

/// Keys and values of the ledger, as they are stored.
fn stored(ledger: &Ledger) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let entries = ledger.partition().entries(..).map(|entry| entry.unwrap());
    let row = |entry: crate::entry::Entry| {
        let key = entry.key().unwrap_or_default().to_vec();
        (key, entry.value().map(<[u8]>::to_vec))
    };
    entries.map(row).collect()
}

#[test]
fn a_pass_keeps_kinds_to_come_and_leaves_nothing_of_what_a_tombstone_ended() {
    let log = Log::in_memory();
    let ledger = log.ledger();
    let mut unknown = Vec::new();
    put_key(&mut unknown, kind::LAST + 5, 3, b"of a later version");
    let rows = [(unknown.clone(), "old"), (unknown.clone(), "new")];
    ledger.partition().append_all(rows).unwrap();
    let (seven, eight) = (topic(&log, "seven", 1), topic(&log, "eight", 1));
    let (in_seven, in_eight) = (seven.partition(0).unwrap(), eight.partition(0).unwrap());
    let both = [commit_to(&in_seven, 1), commit_to(&in_eight, 1)];
    ledger.commit(GROUP, both.into_iter(), || Ok(())).unwrap();
    let again = [commit_to(&in_seven, 2)];
    ledger.commit(GROUP, again.into_iter(), || Ok(())).unwrap();
    ledger.forget_topics(&[eight.uuid()]).unwrap();
    fill(&log);
    let report = log.maintain().unwrap();
    assert_eq!(report.segments_compacted, 1);
    let left = stored(ledger);
    assert_eq!(left.len(), 1 + 1 + 500);
    assert!(left.contains(&(unknown, Some(b"new".to_vec()))));
    assert!(left.iter().all(|(_, value)| value.is_some()));
    assert_eq!(ledger.committed_by(GROUP).unwrap(), [row(&seven, 2)]);
}

#[test]
fn f124_groups_and_topics_that_come_and_go_leave_nothing() {
    let log = Log::in_memory();
    let ledger = log.ledger();
    let mut most = 0;
    for round in 0..200 {
        let orders = topic(&log, "orders", 1);
        let partition = orders.partition(0).unwrap();
        for group in 0..50 {
            let name = format!("group-{round}-{group}-{}", "x".repeat(60));
            let of_group = [commit_to(&partition, 0)];
            ledger
                .commit(&name, of_group.into_iter(), || Ok(()))
                .unwrap();
        }
        log.delete_topic("orders").unwrap();
        assert!(ledger.live.lock().keys_of_topic(orders.uuid()).is_empty());
        log.maintain().unwrap();
        let sealed = ledger.partition().sealed().unwrap();
        let sealed: u64 = sealed
            .iter()
            .map(|s| crate::partition::pass::file_len(s))
            .sum();
        most = most.max(sealed + ledger.partition().last_segment_len());
    }
    assert!(most < 3 << 20, "{most}");
    assert!(ledger.live.lock().is_empty());
    let mut report = RecoveryReport::default();
    ledger.replay(&mut report).unwrap();
    assert!(report.is_empty() && ledger.live.lock().is_empty());
}

#[test]
fn topics_that_are_forgotten_stay_so_and_the_others_stay() {
    let log = Log::in_memory();
    let ledger = log.ledger();
    let (one, two) = (topic(&log, "one", 1), topic(&log, "two", 1));
    let (in_one, in_two) = (one.partition(0).unwrap(), two.partition(0).unwrap());
    for group in ["a", "b"] {
        let both = [commit_to(&in_one, 3), commit_to(&in_two, 4)];
        ledger.commit(group, both.into_iter(), || Ok(())).unwrap();
    }
    ledger.forget_topics(&[one.uuid()]).unwrap();
    ledger.forget_topics(&[one.uuid()]).unwrap();
    for replayed in [false, true] {
        if replayed {
            ledger.replay(&mut RecoveryReport::default()).unwrap();
        }
        for group in ["a", "b"] {
            assert_eq!(ledger.committed_by(group).unwrap(), [row(&two, 4)]);
        }
    }
}

/// Panics once it was let go, and says that it ran.
struct Panics(mpsc::Sender<&'static str>);

impl Chore for Panics {
    fn run(&self) -> Result<()> {
        self.0.send("about to panic").unwrap();
        panic!("planted");
    }

    fn whose(&self) -> String {
        "a planted chore".to_owned()
    }
}

struct Tells(mpsc::Sender<&'static str>);

impl Chore for Tells {
    fn run(&self) -> Result<()> {
        self.0.send("went on").unwrap();
        Ok(())
    }

    fn whose(&self) -> String {
        "a chore that goes on".to_owned()
    }
}

#[test]
fn f76_the_thread_survives_a_panic_appends_go_on_and_the_next_call_is_told() {
    let every = Duration::from_secs(60);
    let builder = Log::builder().maintenance(Maintenance::Background { every });
    let log = builder.in_memory().unwrap();
    let topic = log
        .create_topic("t", TopicConfig::new().durability(Durability::Process))
        .unwrap(); // needs the thread
    let agenda = &log.ledger().home.agenda;
    let (said, heard) = mpsc::channel();
    let (panics, tells) = (Arc::new(Panics(said.clone())), Arc::new(Tells(said)));
    let (panics_too, tells_too) = (Arc::clone(&panics), Arc::clone(&tells));
    let (panics_too, tells_too): (Arc<dyn Chore>, Arc<dyn Chore>) = (panics_too, tells_too);
    for call in ["maintain", "sync", "close"] {
        assert!(agenda.ask_thread(&Arc::downgrade(&panics_too)));
        assert_eq!(heard.recv().unwrap(), "about to panic");
        assert!(agenda.ask_thread(&Arc::downgrade(&tells_too)));
        assert_eq!(heard.recv().unwrap(), "went on");
        topic.append(("k", "appends go on")).unwrap();
        let told = match call {
            "maintain" => log.maintain().map(drop),
            "sync" => log.sync(),
            _ => log.clone().close(),
        };
        assert!(
            matches!(told, Err(Error::Panicked { .. })),
            "{call}: {told:?}"
        );
        if call != "close" {
            log.maintain().unwrap();
            log.sync().unwrap();
        }
    }
    assert!(
        heard.try_recv().is_err(),
        "it was not tried again and again"
    );
}

/// Goes on when it is let.
struct Waits(Mutex<mpsc::Receiver<()>>, mpsc::Sender<&'static str>);

impl Chore for Waits {
    fn run(&self) -> Result<()> {
        self.1.send("begun").unwrap();
        let _ = self.0.lock().recv();
        Ok(())
    }

    fn whose(&self) -> String {
        "a chore that takes long".to_owned()
    }
}

#[test]
fn while_something_long_is_done_syncs_are_done_in_time() {
    let every = Duration::from_secs(60);
    let builder = Log::builder().maintenance(Maintenance::Background { every });
    let log = builder.in_memory().unwrap();
    let topic = TopicConfig::new().durability(Durability::Process); // needs the threads
    log.create_topic("t", topic).unwrap();
    let home = &log.ledger().home;
    let ((let_go, waits), (said, heard)) = (mpsc::channel(), mpsc::channel());
    let long: Arc<dyn Chore> = Arc::new(Waits(Mutex::new(waits), said.clone()));
    assert!(home.upkeep.ask_thread(&Arc::downgrade(&long)));
    assert_eq!(heard.recv().unwrap(), "begun");
    let short: Arc<dyn Chore> = Arc::new(Tells(said));
    assert!(home.agenda.ask_thread(&Arc::downgrade(&short)));
    assert_eq!(heard.recv().unwrap(), "went on");
    assert!(log.maintenance_failure().is_none(), "and who asks is told");
    let_go.send(()).unwrap();
    log.close().unwrap();
}
