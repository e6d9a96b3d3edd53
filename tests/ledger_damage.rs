//! Rows F119, F121 and F123 for what the other suites leave: every bound of a commit, commit records that are torn, and a ledger
//! that lost files. What cannot be read is an error, never "nothing was committed".

use std::path::PathBuf;
use std::time::Duration;

use thalweg::testing::{CrashModel, Disk, Variants};
use thalweg::{
    Consumer, Error, Log, Maintenance, Offset, Outcome, Positions, StartFrom, TopicConfig,
    TopicPartition,
};

const NOW: Duration = Duration::ZERO;

fn open(disk: &Disk) -> thalweg::Result<Log> {
    Log::builder()
        .maintenance(Maintenance::Manual)
        .open_on(disk)
}

fn t(n: u32) -> TopicPartition {
    TopicPartition::new("t", n)
}

fn fill(log: &Log, records: u64) {
    let topic = log
        .create_topic("t", TopicConfig::new().partitions(2))
        .unwrap();
    for n in 0..records {
        topic
            .partition(0)
            .unwrap()
            .append(("k", &n.to_string()))
            .unwrap();
    }
}

fn commit(consumer: &mut Consumer, next: u64) -> thalweg::Result<()> {
    consumer.commit_at(&Positions::from_iter([t(0).at(Offset::new(next))]))
}

#[test]
fn f119_a_commit_out_of_bounds_is_refused_with_the_bounds_and_stores_nothing() {
    let disk = Disk::new();
    let log = open(&disk).unwrap();
    fill(&log, 10);
    let mut consumer = log.group("g").subscribe(["t"]).join().unwrap();
    let _ = consumer.poll(NOW).unwrap();
    commit(&mut consumer, 4).unwrap();
    let before = disk.points();
    for next in [11, 12, 1 << 40, u64::MAX] {
        let refused = commit(&mut consumer, next).unwrap_err();
        assert_eq!(refused.outcome(), Outcome::Rejected);
        let Error::OutOfRange {
            requested, valid, ..
        } = refused
        else {
            panic!("{next}: {refused:?}");
        };
        assert_eq!(*requested, t(0).at(Offset::new(next)));
        assert_eq!(valid, Offset::ZERO..Offset::new(10));
    }
    // One wrong position among right ones, in either order.
    for wrong in [
        t(0).at(Offset::new(11)),
        t(1).at(Offset::new(1)),
        t(7).at(Offset::ZERO),
    ] {
        for right in [t(0).at(Offset::new(6)), t(1).at(Offset::ZERO)] {
            if wrong.topic_partition() != right.topic_partition() {
                let both = Positions::from_iter([right, wrong.clone()]);
                assert!(consumer.commit_at(&both).is_err(), "{both:?}");
            }
        }
    }
    let foreign = TopicPartition::new("elsewhere", 0).at(Offset::ZERO);
    let refused = consumer.commit_at(&Positions::from_iter([foreign]));
    assert!(matches!(refused, Err(Error::NotAssigned { .. })));
    assert_eq!(disk.points(), before, "nothing was written");
    assert_eq!(consumer.committed(&t(0)).unwrap(), Some(Offset::new(4)));
    for legal in [0, 10, 3] {
        commit(&mut consumer, legal).unwrap();
        assert_eq!(consumer.committed(&t(0)).unwrap(), Some(Offset::new(legal)));
    }
}

/// The name of the group makes each commit's record longer than a page, so that it can be torn in many ways.
#[test]
fn f121_a_torn_commit_leaves_the_one_before_it() {
    let disk = Disk::new();
    disk.set_torn_pages(true);
    let log = open(&disk).unwrap();
    fill(&log, 6);
    let group = "g".repeat(3000);
    let mut consumer = log.group(&group).subscribe(["t"]).join().unwrap();
    let _ = consumer.poll(NOW).unwrap();
    let mut points = vec![disk.points()];
    for next in 1..=6 {
        commit(&mut consumer, next).unwrap();
        if next == 3 {
            log.sync().unwrap();
        }
        points.push(disk.points());
    }
    let mut states = 0;
    for model in [
        CrashModel::LostPages,
        CrashModel::GarbagePages,
        CrashModel::LostSuffix,
    ] {
        for after in points[0]..=disk.points() {
            let count = match disk.variants(after, model) {
                Variants::All(count) => count.min(40),
                _ => 40,
            };
            for seed in 0..count {
                let state = format!("{model:?} after {after}, seed {seed}");
                let crashed = disk.crash(after, model, seed);
                let log = open(&crashed).unwrap_or_else(|e| panic!("{state}: {e:?}"));
                let committed = log.group(&group).committed();
                let committed = committed.unwrap_or_else(|e| panic!("{state}: {e:?}"));
                let next = committed.next(&t(0)).map_or(0, Offset::get);
                let begun = points.iter().filter(|&&at| at < after).count() as u64;
                let synced = if after >= points[3] { 3 } else { 0 };
                assert!((synced..=begun).contains(&next), "{state}: {next}");
                // It is led on: the next commit is there after the next crash.
                let mut consumer = log.group(&group).subscribe(["t"]).join().unwrap();
                let _ = consumer.poll(NOW).unwrap();
                commit(&mut consumer, 5).unwrap();
                let killed = crashed.crash(crashed.points(), CrashModel::ProcessKill, 0);
                let again = open(&killed).unwrap().group(&group).committed().unwrap();
                assert_eq!(again.next(&t(0)), Some(Offset::new(5)), "{state}");
                states += 1;
            }
        }
    }
    println!("{states} states");
}

/// Neither the opening, nor the group, nor a member takes it for a group that has not begun.
fn is_told(disk: &Disk, what: &str) {
    let log = match open(disk) {
        Ok(log) => log,
        Err(e) => {
            assert!(e.is_corruption(), "{what}: {e:?}");
            return;
        }
    };
    let group = log.group("g");
    let committed = group.committed();
    assert!(
        committed.as_ref().is_err_and(Error::is_corruption),
        "{what}: {committed:?}"
    );
    for start in [StartFrom::Earliest, StartFrom::Latest, StartFrom::Fail] {
        let joined = group.subscribe(["t"]).start_from(start).join();
        let read = joined.and_then(|mut consumer| consumer.poll(NOW).map(|batch| batch.len()));
        assert!(
            read.as_ref().is_err_and(Error::is_corruption),
            "{what}: {start:?}: {read:?}"
        );
    }
}

#[test]
fn f123_a_ledger_that_lost_its_files_is_an_error_and_no_group_begins_anew() {
    let disk = Disk::new();
    let log = open(&disk).unwrap();
    fill(&log, 8);
    let mut consumer = log.group("g").subscribe(["t"]).join().unwrap();
    let _ = consumer.poll(NOW).unwrap();
    commit(&mut consumer, 5).unwrap();
    drop(consumer);
    log.close().unwrap();
    let files = disk.files().into_iter();
    let ours: Vec<(PathBuf, u64)> = files
        .filter(|(path, _)| path.starts_with("/log/ledger"))
        .collect();
    let segment = |path: &PathBuf| path.extension().is_some_and(|end| end == "log");
    assert!(ours.iter().any(|(path, _)| segment(path)), "{ours:?}");
    let copy = || disk.crash(disk.points(), CrashModel::ProcessKill, 0);
    for (path, len) in &ours {
        if path.extension().is_some_and(|end| end == "idx") {
            continue; // a cache
        }
        let what = path.display();
        let lost = copy();
        lost.remove(path).unwrap();
        is_told(&lost, &format!("{what} removed"));
        let zeroed = copy();
        zeroed.zero(path, 0..*len).unwrap();
        is_told(&zeroed, &format!("{what} zeroed"));
        for keep in [0, 1, 100, len / 2, len - 1] {
            let cut = copy();
            let bytes = cut.read_file(path).unwrap();
            cut.write_file(path, &bytes[..keep as usize]).unwrap();
            let what = format!("{what} cut to {keep} of {len}");
            if segment(path) {
                is_told(&cut, &what);
            } else if let Ok(log) = open(&cut) {
                // One of the two slots of the description is enough.
                let committed = log.group("g").committed();
                assert!(
                    committed.is_ok_and(|c| c.next(&t(0)) == Some(Offset::new(5))),
                    "{what}"
                );
            }
        }
    }
}
