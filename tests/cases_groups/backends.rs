//! B104 and B105: a log in memory is the real thing, so a test that passes on it says something.

use thalweg::testing::Disk;
use thalweg::{Error, Log, Offset, Positions, StartFrom, TopicConfig};

use super::{NOW, append, at, drain, join, open, poll, t, topic};

/// One story of a group: joins, resets, limits, commits, hand-overs, refusals. What it met, line by line.
fn trace(log: &Log) -> Vec<String> {
    let mut lines = Vec::new();
    let mut say = |line: String| lines.push(line);
    let partitions = topic(log, 2);
    append(&partitions[0], 0..5);
    append(&partitions[1], 10..13);
    for start in [StartFrom::Earliest, StartFrom::Latest, StartFrom::Fail] {
        let group = format!("{start:?}");
        let mut consumer = log
            .group(&group)
            .subscribe(["t"])
            .start_from(start)
            .join()
            .unwrap();
        for _ in 0..3 {
            match consumer.poll(NOW) {
                Ok(batch) => say(format!("{start:?}: {} records", batch.len())),
                Err(e) => say(format!("{start:?}: {e}, about {:?}", e.partition())),
            }
        }
        say(format!(
            "{start:?}: {:?} {:?}",
            consumer.positions(),
            consumer.halted()
        ));
    }
    let mut first = log
        .group("g")
        .subscribe(["t"])
        .max_poll_records(3)
        .join()
        .unwrap();
    say(format!("{:?}", poll(&mut first)));
    first.commit().unwrap();
    say(format!("{:?}", first.positions()));
    let mut second = join(log, "g");
    for turn in 0..3 {
        say(format!(
            "{turn} first {:?} {:?}",
            poll(&mut first),
            first.assignment()
        ));
        say(format!(
            "{turn} second {:?} {:?}",
            poll(&mut second),
            second.assignment()
        ));
    }
    let mut stale = Positions::new();
    stale.set(t(1).at(Offset::new(2)));
    say(format!("{:?}", first.commit_at(&stale)));
    say(format!(
        "{:?}",
        second.commit_at(&Positions::from_iter([t(1).at(Offset::new(9))]))
    ));
    second.commit().unwrap();
    say(format!(
        "{:?} {:?}",
        first.membership(),
        second.membership()
    ));
    drop(first);
    say(format!(
        "{:?} {:?}",
        drain(&mut second),
        second.assignment()
    ));
    second.close().unwrap();
    say(format!("{:?}", log.group("g").committed().unwrap()));
    say(format!("{:?}", log.group("g").lag().unwrap()));
    log.delete_topic("t").unwrap();
    say(format!("{:?}", log.group("g").committed().unwrap()));
    say(format!(
        "{:?}",
        log.create_topic("../x", TopicConfig::new()).map(drop)
    ));
    lines
}

#[test]
fn b104_every_backend_tells_the_same_story() {
    let dir = tempfile::tempdir().unwrap();
    let on_disk = trace(&Log::open(dir.path().join("log")).unwrap());
    assert!(on_disk.len() > 20, "{on_disk:#?}");
    assert_eq!(trace(&Log::in_memory()), on_disk);
    assert_eq!(trace(&open(&Disk::new())), on_disk);
    assert_eq!(trace(&open(&Disk::seeded(7))), on_disk);
}

#[test]
fn b105_a_log_in_memory_keeps_offsets_and_commits() {
    let log = Log::in_memory();
    let partition = &topic(&log, 1)[0];
    for n in 0..3 {
        let told = partition.append(("key", "value")).unwrap();
        assert_eq!(told, at(n));
    }
    let read: Vec<_> = partition
        .entries(..)
        .map(|e| e.unwrap().position())
        .collect();
    assert_eq!(read, [at(0), at(1), at(2)]);
    let mut consumer = join(&log, "g");
    assert_eq!(poll(&mut consumer), [0, 1, 2]);
    consumer.commit_at(&Positions::from_iter([at(2)])).unwrap();
    drop(consumer);
    assert_eq!(poll(&mut join(&log, "g")), [2]);
    let other = |start| {
        log.group("other")
            .subscribe(["t"])
            .start_from(start)
            .join()
            .unwrap()
    };
    assert_eq!(poll(&mut other(StartFrom::Latest)), [0; 0]);
    assert_eq!(poll(&mut other(StartFrom::Earliest)), [0, 1, 2]);
    let halted = other(StartFrom::Fail).poll(NOW);
    assert!(
        matches!(halted, Err(Error::NoPosition { .. })),
        "{halted:?}"
    );
}
