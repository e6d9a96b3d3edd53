//! F19: an offset that was given out is never given to another record, whatever a power loss took.

use thalweg::testing::{CrashModel, Disk};
use thalweg::{Durability, FindingKind, Log, Offset, Partition, TopicConfig};

use crate::story::{
    INTERVAL, POWER_LOSSES, Story, again, create, kinds, open, read, reopened, segments,
};

/// Offsets that one segment may cover unless set.
const SPAN: u64 = 1 << 24;

/// Below `Power`: records 0 to 3 are synced, 4 to 9 acknowledged and lost.
fn lost_six(level: Durability) -> (Disk, Story) {
    let disk = Disk::new();
    let log = open(&disk).unwrap();
    let partition = create(&log, level);
    let mut story = Story::new(level);
    for n in 0..10 {
        if n == 4 {
            log.sync().unwrap();
            story.synced(&disk);
        }
        story.append(&disk, &partition, 1, 20).unwrap();
    }
    let crashed = disk.crash(disk.points(), CrashModel::LostSuffix, 0);
    let (_log, found) = reopened(&crashed);
    let survived = story.check(&found, "first loss");
    assert_eq!(
        survived, 4,
        "{level:?}: the crash takes what was not synced"
    );
    story.go_on_with(survived);
    // The look at it has changed nothing that matters: the disk of the crash is taken again.
    (disk.crash(disk.points(), CrashModel::LostSuffix, 0), story)
}

/// An interval that does not come by bytes here.
fn levels() -> [Durability; 2] {
    let Durability::Interval { time, .. } = INTERVAL else {
        unreachable!()
    };
    let bytes = 1 << 20;
    [Durability::Process, Durability::Interval { time, bytes }]
}

#[test]
fn f19_after_a_loss_the_partition_goes_on_behind_every_offset_it_may_have_given_out() {
    for level in levels() {
        let (disk, mut story) = lost_six(level);
        let log = open(&disk).unwrap();
        assert_eq!(kinds(log.recovery()), [FindingKind::Gap]);
        let gap = log.recovery().findings()[0].offsets.clone();
        assert_eq!(gap, Some(Offset::new(4)..Offset::new(SPAN)));
        let partition = again(&log).unwrap();
        assert_eq!(partition.offsets(), Offset::new(0)..Offset::new(SPAN));
        let first = story.append(&disk, &partition, 1, 20).unwrap();
        assert_eq!(first, SPAN);
        // A position that was stored outside, in the gap, reads the next record and not an error.
        for at in [4, 7, 10, SPAN - 1, SPAN] {
            let mut entries = partition.entries(Offset::new(at)..);
            assert_eq!(entries.next().unwrap().unwrap().offset(), Offset::new(SPAN));
            assert!(entries.next().is_none());
        }
        for at in [4, 9, SPAN - 1] {
            assert!(partition.get(Offset::new(at)).unwrap().is_none());
        }
        let backwards: Vec<u64> = partition
            .entries(..)
            .rev()
            .map(|entry| entry.unwrap().offset().get())
            .collect();
        assert_eq!(backwards, [SPAN, 3, 2, 1, 0]);
        story.live_on(&disk, log, &partition, "after the gap");
    }
}

#[test]
fn f19_the_loss_repeated_leaves_gap_after_gap_and_reuses_nothing() {
    for level in levels() {
        let (mut disk, mut story) = lost_six(level);
        for loss in 1..=3_u64 {
            let log = open(&disk).unwrap();
            let partition = again(&log).unwrap();
            let first = story.append(&disk, &partition, 2, 20).unwrap();
            assert_eq!(first, loss * SPAN, "{level:?}");
            let crashed = disk.crash(disk.points(), CrashModel::LostSuffix, 0);
            let (_log, found) = reopened(&crashed);
            story.go_on_with(story.check(&found, "a loss repeated"));
            disk = disk.crash(disk.points(), CrashModel::LostSuffix, 0);
        }
        let log = open(&disk).unwrap();
        let partition = again(&log).unwrap();
        story.live_on(&disk, log, &partition, "after three losses");
    }
}

#[test]
fn f19_with_nothing_left_of_the_segment_no_two_files_share_a_base() {
    for level in levels() {
        let disk = Disk::new();
        let log = open(&disk).unwrap();
        let partition = create(&log, level);
        let mut story = Story::new(level);
        story.append(&disk, &partition, 10, 20).unwrap();
        let mut lost = disk.crash(disk.points(), CrashModel::LostSuffix, 0);
        for loss in 1..=3_u64 {
            story.go_on_with(0);
            let (_log, partition) = reopened(&lost);
            assert_eq!(read(&partition).unwrap(), []);
            let first = story.append(&lost, &partition, 10, 20).unwrap();
            assert_eq!(first, loss * SPAN);
            let names = segments(&lost);
            assert_eq!(names.len(), 1, "the empty one is gone: {names:?}");
            lost = lost.crash(lost.points(), CrashModel::LostSuffix, 0);
        }
    }
}

#[test]
fn f19_a_sealed_end_goes_on_where_its_footer_says() {
    let disk = Disk::new();
    let log = open(&disk).unwrap();
    let partition = create(&log, Durability::Process);
    partition
        .append_all((0..5).map(|n| ("k", format!("{n}"))))
        .unwrap();
    let before = disk.points();
    partition.roll().unwrap();
    // Between the sync of the old segment and the name of the new one.
    let mut sealed = 0;
    for after in before..=disk.points() {
        let crashed = disk.crash(after, CrashModel::LostSuffix, 0);
        if segments(&crashed)[0].1 <= segments(&disk.crash(before, CrashModel::ProcessKill, 0))[0].1
        {
            continue; // the footer was lost
        }
        let log = open(&crashed).unwrap();
        let partition = again(&log).unwrap();
        assert_eq!(read(&partition).unwrap().len(), 5);
        let names = segments(&crashed).len();
        let end = partition.offsets().end;
        if names == 1 {
            assert_eq!(end, Offset::new(5), "after {after}");
            sealed += 1;
        }
        assert!(
            end == Offset::new(5) || end == Offset::new(5 + SPAN),
            "{end}"
        );
    }
    assert!(sealed > 0);
}

#[test]
fn f19_with_a_short_span_no_segment_reaches_beyond_it() {
    let disk = Disk::new();
    let log = open(&disk).unwrap();
    let config = TopicConfig::new()
        .durability(Durability::Process)
        .offset_span(8);
    let partition = log.create_topic("t", config).unwrap().partition(0).unwrap();
    let mut story = Story::new(Durability::Process);
    for count in [3, 3, 3, 8, 1, 7] {
        story.append(&disk, &partition, count, 10).unwrap();
    }
    for after in 0..=disk.points() {
        for model in POWER_LOSSES {
            let crashed = disk.crash(after, model, 0);
            let log = open(&crashed).unwrap();
            let Ok(partition) = again(&log) else { continue };
            let state = format!("{model:?} after {after}");
            let mut story = story.as_of(after);
            let survived = story.check(&partition, &state);
            story.go_on_with(survived);
            story.live_on(&crashed, log, &partition, &state);
        }
    }
}

/// Two partitions below `Power` with ten records each, of which none is synced, after a power loss.
fn two_lost(level: Durability) -> Disk {
    let disk = Disk::new();
    let log = open(&disk).unwrap();
    let config = TopicConfig::new().partitions(2).durability(level);
    let topic = log.create_topic("t", config).unwrap();
    for partition in topic.partitions() {
        partition.append(("k", "synced")).unwrap();
    }
    log.sync().unwrap();
    for partition in topic.partitions() {
        partition
            .append_all((1..10).map(|_| ("k", "lost")))
            .unwrap();
    }
    disk.crash(disk.points(), CrashModel::LostSuffix, 0)
}

/// The next life appends to partition 0 alone, and is killed.
fn one_touched(lost: &Disk) -> Disk {
    let log = open(lost).unwrap();
    let touched = log.topic("t").unwrap().partition(0).unwrap();
    assert_eq!(
        touched.append(("k", "v")).unwrap().offset(),
        Offset::new(SPAN)
    );
    lost.crash(lost.points(), CrashModel::ProcessKill, 0)
}

/// What becomes of `STATE`, and how.
type Spoil = (&'static str, fn(&Disk));

fn untouched(log: &Log) -> Partition {
    log.topic("t").unwrap().partition(1).unwrap()
}

#[test]
fn f19b_a_partition_that_the_next_life_did_not_touch_still_knows_of_the_loss() {
    for level in levels() {
        let mut disk = one_touched(&two_lost(level));
        for life in 0..3 {
            let log = open(&disk).unwrap();
            let state = format!("{level:?}, life {life}");
            assert_eq!(kinds(log.recovery()), [FindingKind::Gap], "{state}");
            assert_eq!(untouched(&log).offsets().end, Offset::new(SPAN), "{state}");
            let touched = log.topic("t").unwrap().partition(0).unwrap();
            touched.append(("k", "v")).unwrap();
            disk = disk.crash(disk.points(), CrashModel::ProcessKill, 0);
        }
        let log = open(&disk).unwrap();
        let at = untouched(&log).append(("k", "v")).unwrap();
        assert_eq!(at.offset(), Offset::new(SPAN));
    }
}

#[test]
fn f19b_without_state_or_with_an_opening_zeroed_the_weaker_rule_is_kept() {
    let spoil: [Spoil; 4] = [
        ("lost", |disk| disk.remove("/log/STATE").unwrap()),
        ("torn", |disk| {
            let len = disk.read_file("/log/STATE").unwrap().len() as u64;
            disk.resize("/log/STATE", len - 5).unwrap();
        }),
        ("empty", |disk| disk.resize("/log/STATE", 0).unwrap()),
        ("an opening zeroed", |disk| {
            // The second opening stands behind the entries of the first; its sync word is the last but one kind of entry.
            let state = disk.read_file("/log/STATE").unwrap();
            let starts: Vec<usize> = (24..state.len() - 3)
                .filter(|&at| state[at..at + 2] == [0x9E, 0x37] && state[at + 2] == 1)
                .collect();
            assert!(starts.len() >= 2, "two openings: {starts:?}");
            let at = starts[1] as u64;
            disk.zero("/log/STATE", at..at + 20).unwrap();
        }),
    ];
    for level in levels() {
        for (name, spoil) in spoil {
            let disk = one_touched(&two_lost(level));
            spoil(&disk);
            let state = format!("{level:?}, STATE {name}");
            let log = open(&disk).unwrap_or_else(|e| panic!("{state}: {e:?}"));
            let partition = untouched(&log);
            assert_eq!(read(&partition).unwrap().len(), 1, "{state}");
            assert_eq!(partition.offsets().end, Offset::new(SPAN), "{state}");
            // A life that writes elsewhere and is killed, and the one that appends at last.
            log.create_topic("other", TopicConfig::new()).unwrap();
            let killed = disk.crash(disk.points(), CrashModel::ProcessKill, 0);
            let log = open(&killed).unwrap();
            let at = untouched(&log).append(("k", "v")).unwrap();
            assert_eq!(at.offset(), Offset::new(SPAN), "{state}");
        }
    }
}
