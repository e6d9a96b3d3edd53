//! A sync that fails: nothing more is acknowledged on the strength of that file, and nobody is told otherwise.

use thalweg::testing::{CrashModel, Disk, DiskCall, DiskError, FailedSync, Fault};
use thalweg::{Durability, Error, FindingKind, Log, Offset, Outcome, Partition, TopicConfig};

use crate::common::{Dice, scale, seed};
use crate::story::{
    INTERVAL, LEVELS, Story, again, create, kinds, open, read, refusal, reopened, segments, small,
    unplugged,
};

const WAYS: [FailedSync; 3] = [FailedSync::Keep, FailedSync::Revert, FailedSync::Late];

fn failing(how: FailedSync) -> Fault {
    Fault::sync(DiskCall::SyncData, how, DiskError::Io).on(".log")
}

fn is_poisoned(error: &Error) -> bool {
    matches!(error, Error::Poisoned { at: Some(_), .. })
}

/// Three durable records, in a process that goes on.
fn three(level: Durability) -> (Disk, Log, Partition, Story) {
    let disk = Disk::new();
    let log = open(&disk).unwrap();
    let config = small(level).segment_bytes(1 << 20);
    let partition = log.create_topic("t", config).unwrap().partition(0).unwrap();
    let mut story = Story::new(level);
    for _ in 0..3 {
        story.append(&disk, &partition, 1, 40).unwrap();
    }
    log.sync().unwrap();
    story.synced(&disk);
    (disk, log, partition, story)
}

#[test]
fn f21_a_failed_sync_makes_its_append_indeterminate_and_stops_the_partition() {
    for how in WAYS {
        let (disk, log, partition, mut story) = three(Durability::Power);
        disk.fail(failing(how));
        if how == FailedSync::Late {
            story.append(&disk, &partition, 1, 40).unwrap(); // the error comes with the next sync
        }
        let visible = partition.offsets().end;
        disk.mark();
        let error = refusal(story.append(&disk, &partition, 2, 40));
        assert_eq!(
            error.outcome(),
            Outcome::Indeterminate,
            "{how:?}: {error:?}"
        );
        assert_eq!(
            disk.calls()[&DiskCall::SyncData],
            1,
            "{how:?}: it is not tried again"
        );
        // From here on: refused, and certain to be so.
        for _ in 0..2 {
            let error = refusal(story.append(&disk, &partition, 1, 40));
            assert!(is_poisoned(&error), "{how:?}: {error:?}");
            assert_eq!(error.outcome(), Outcome::Rejected);
        }
        assert!(is_poisoned(&refusal(
            partition.append_at(visible, [("k", "v")])
        )));
        assert!(is_poisoned(&refusal(partition.roll())));
        assert!(is_poisoned(&refusal(log.sync())));
        assert_eq!(
            disk.calls()[&DiskCall::SyncData],
            1,
            "{how:?}: nor by anything else"
        );
        // Reads up to the visible end go on, and the end has not moved.
        assert_eq!(partition.offsets().end, visible, "{how:?}");
        assert_eq!(read(&partition).unwrap().len() as u64, visible.get());
    }
}

#[test]
fn f21_a_sync_in_the_background_stops_the_partition_too() {
    for how in [FailedSync::Keep, FailedSync::Revert] {
        // The bytes of the interval are full: the append syncs inline where there is no thread.
        let (disk, _log, partition, mut story) = three(INTERVAL);
        disk.fail(failing(how));
        let failed = (0..40).find_map(|_| story.append(&disk, &partition, 1, 40).err());
        let error = failed.expect("the interval comes");
        assert_eq!(error.outcome(), Outcome::Indeterminate, "{error:?}");
        assert!(is_poisoned(&refusal(
            story.append(&disk, &partition, 1, 40)
        )));
        // `sync` and `close` of the whole log find it as well.
        for closes in [false, true] {
            let (disk, log, partition, mut story) = three(Durability::Process);
            story.append(&disk, &partition, 1, 40).unwrap();
            disk.fail(failing(how));
            if closes {
                assert!(is_poisoned(&refusal(log.close())));
                let (log, _) = reopened(&disk);
                assert!(log.close().is_ok());
            } else {
                assert!(is_poisoned(&refusal(log.sync())));
                assert!(is_poisoned(&refusal(
                    story.append(&disk, &partition, 1, 40)
                )));
                assert!(
                    is_poisoned(&refusal(log.close())),
                    "not everything is synced"
                );
            }
            assert_eq!(disk.struck(), 1);
        }
    }
}

#[test]
fn f21_other_partitions_go_on() {
    let disk = Disk::new();
    let log = open(&disk).unwrap();
    let topic = log
        .create_topic("t", TopicConfig::new().partitions(2))
        .unwrap();
    let [one, other] = [0, 1].map(|n| topic.partition(n).unwrap());
    for partition in [&one, &other] {
        partition.append(("k", "v")).unwrap();
    }
    disk.fail(failing(FailedSync::Keep));
    let error = one.append(("k", "v")).unwrap_err();
    assert_eq!(error.partition(), Some(&one.topic_partition()));
    other.append(("k", "v")).unwrap();
    assert!(
        is_poisoned(&refusal(log.sync())),
        "the one that failed is told"
    );
    assert_eq!(read(&other).unwrap().len(), 2);
}

#[test]
fn f22_a_later_sync_that_succeeds_proves_nothing() {
    for how in WAYS {
        for level in LEVELS {
            let (disk, log, partition, mut story) = three(level);
            story.append(&disk, &partition, 1, 40).unwrap();
            disk.fail(failing(how)); // once: every later sync succeeds
            let mut first = log.sync().err();
            if how == FailedSync::Late {
                // This sync said yes; nothing else may.
                assert!(first.is_none() || level == Durability::Power);
            }
            for _ in 0..3 {
                let unknown = story.append(&disk, &partition, 1, 40).err();
                first = first.or(unknown);
                first = first.or(log.sync().err());
            }
            let first = first.unwrap_or_else(|| panic!("{level:?}, {how:?}: it failed unseen"));
            assert!(is_poisoned(&first) || first.outcome() == Outcome::Indeterminate);
            for _ in 0..3 {
                assert!(is_poisoned(&refusal(
                    story.append(&disk, &partition, 1, 40)
                )));
                assert!(is_poisoned(&refusal(log.sync())));
                assert!(is_poisoned(&refusal(partition.roll())));
            }
        }
    }
}

/// The one that syncs for all who wait meets the error; meanwhile another one seals the segment, and syncs the same file.
#[test]
fn f22_a_roll_beside_the_failed_sync_proves_nothing_either() {
    let mut dice = Dice::new(seed());
    for round in 0..300 * scale() {
        let disk = Disk::seeded(round);
        let log = open(&disk).unwrap();
        // Larger than pages, so that the footer does not bring back what the failed sync marked clean.
        let config = small(Durability::Power).segment_bytes(32 << 10);
        let topic = log.create_topic("t", config).unwrap();
        let partition = topic.partition(0).unwrap();
        partition.append(("k", "before")).unwrap();
        let after = dice.below(15);
        disk.fail(failing(FailedSync::Keep).after(after));
        let acknowledged = std::sync::Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (partition, acknowledged) = (&partition, &acknowledged);
                scope.spawn(move || {
                    for n in 0..12 {
                        let value = format!("{thread}/{n} {:9000}", "");
                        if let Ok(at) = partition.append(("k", value.as_str())) {
                            acknowledged
                                .lock()
                                .unwrap()
                                .push((at.offset().get(), value));
                        }
                    }
                });
            }
        });
        let crashed = disk.crash(disk.points(), CrashModel::LostSuffix, 0);
        let (_log, found) = reopened(&crashed);
        let found = read(&found).unwrap_or_else(|e| panic!("round {round}: {e:?}"));
        for record in acknowledged.into_inner().unwrap() {
            assert!(
                found.contains(&record),
                "round {round}: {} was acknowledged",
                record.0
            );
        }
    }
}

/// A fourth batch whose sync failed.
fn failed_fourth(level: Durability, how: FailedSync) -> (Disk, Log, Partition, Story) {
    let (disk, log, partition, mut story) = three(level);
    if level == Durability::Power {
        disk.fail(failing(how));
        refusal(story.append(&disk, &partition, 2, 40));
    } else {
        story.append(&disk, &partition, 2, 40).unwrap();
        disk.fail(failing(how));
        refusal(log.sync());
    }
    (disk, log, partition, story)
}

#[test]
fn f23_what_recover_or_reopening_shows_after_a_failed_sync_survives_the_next_power_loss() {
    for level in LEVELS {
        for reopening in [false, true] {
            let (disk, log, partition, mut story) = failed_fourth(level, FailedSync::Keep);
            let state = format!("{level:?}, reopening {reopening}");
            let (log, partition) = if reopening {
                drop((log, partition));
                reopened(&disk)
            } else {
                assert!(partition.recover().unwrap().is_empty(), "{state}");
                (log, partition)
            };
            // The cache has it all; the medium must have it before anything rests on it.
            let survived = story.check(&partition, &state);
            assert_eq!(survived, 4, "{state}");
            story.go_on_with(survived);
            if level != Durability::Power {
                log.sync().unwrap();
            }
            for model in [CrashModel::LostSuffix, CrashModel::LostPages] {
                let crashed = disk.crash(disk.points(), model, 0);
                let (_log, found) = reopened(&crashed);
                assert_eq!(story.check(&found, &state), 4, "{state}, {model:?}");
            }
            story.append(&disk, &partition, 1, 40).unwrap();
            log.sync().unwrap();
            let crashed = disk.crash(disk.points(), CrashModel::LostSuffix, 0);
            let (log, found) = reopened(&crashed);
            let mut story = story.clone();
            story.go_on_with(story.check(&found, &state));
            assert_eq!(story.batches(), 5, "{state}");
            story.live_on(&crashed, log, &found, &state);
        }
    }
}

#[test]
fn f23_what_a_failed_write_back_took_away_is_not_replaced_under_its_offsets() {
    for level in LEVELS {
        let (disk, log, partition, mut story) = failed_fourth(level, FailedSync::Revert);
        let state = format!("{level:?}");
        let visible = partition.offsets().end;
        partition.recover().unwrap();
        let survived = story.check(&partition, &state);
        assert_eq!(survived, 3, "{state}: the fourth is gone from the cache");
        assert!(
            partition.offsets().end >= visible,
            "{state}: the end never goes back"
        );
        story.go_on_with(survived);
        story.live_on(&disk, log, &partition, &state);
    }
}

#[test]
fn f23_pages_that_went_back_below_the_end_are_a_suspect_tail() {
    // The size was synced by a later batch before; the pages of the tail went back to zeros.
    for level in LEVELS {
        let (disk, _log, partition, mut story) = three(level);
        let (path, synced) = segments(&disk).remove(0);
        disk.fail(failing(FailedSync::Keep));
        let _ = story.append(&disk, &partition, 2, 40);
        let crashed = disk.crash(disk.points(), CrashModel::ProcessKill, 0);
        let len = segments(&crashed).remove(0).1;
        crashed.zero(&path, synced..len).unwrap();
        let log = open(&crashed).unwrap();
        // A failed sync takes the proof from this boot, so the tail is judged as after a power loss. (Below `Power` none has
        // failed here: nobody asked for one.)
        let expected: &[FindingKind] = match level {
            Durability::Power => &[FindingKind::TornTail],
            _ => &[FindingKind::SuspectTail, FindingKind::Gap],
        };
        assert_eq!(kinds(log.recovery()), expected, "{level:?}");
        let cut = &log.recovery().findings()[0];
        assert_eq!((cut.byte, cut.bytes), (Some(synced), len - synced));
        let kept = crashed.read_file(cut.quarantine.as_ref().unwrap());
        let partition = again(&log).unwrap();
        let survived = story.check(&partition, "a suspect tail");
        assert_eq!(survived, 3);
        story.go_on_with(survived);
        story.live_on(&crashed, log, &partition, "a suspect tail");
        if level == Durability::Power {
            assert_eq!(kept.unwrap(), vec![0; (len - synced) as usize]);
        }
    }
}

#[test]
fn f23_if_the_tail_cannot_be_written_again_the_log_opens_for_reading() {
    for level in LEVELS {
        for call in [DiskCall::Write, DiskCall::SyncAll, DiskCall::SyncData] {
            let (disk, log, partition, mut story) = failed_fourth(level, FailedSync::Keep);
            let killed = disk.crash(disk.points(), CrashModel::ProcessKill, 0);
            drop((log, partition));
            killed.fail(Fault::error(call, DiskError::Io).on(".log").lasting());
            let state = format!("{level:?}, {call:?}");
            let log = open(&killed).unwrap_or_else(|e| panic!("{state}: {e:?}"));
            let partition = again(&log).unwrap();
            let survived = story.check(&partition, &state);
            assert!(survived >= 3, "{state}");
            let refused = log.sync().err();
            let refused = refused.or(story.append(&killed, &partition, 1, 40).err());
            assert!(refused.is_some() || killed.struck() == 0, "{state}");
            killed.heal();
            drop((log, partition));
            let (log, partition) = reopened(&killed);
            story.go_on_with(story.check(&partition, &state));
            story.live_on(&killed, log, &partition, &state);
        }
    }
}

/// A directory's sync fails; what the append then needs is not on the medium, and a later sync will not bring it there.
fn directory_fails(error: DiskError, level: Durability, rolls: bool) {
    let disk = Disk::new();
    let log = open(&disk).unwrap();
    let partition = create(&log, level);
    let mut story = Story::new(level);
    if rolls {
        story.append(&disk, &partition, 2, 40).unwrap();
        log.sync().unwrap();
        story.synced(&disk);
    }
    disk.fail(Fault::sync(DiskCall::SyncDir, FailedSync::Keep, error).on("/topics/"));
    let failed = (0..30).find_map(|_| story.append(&disk, &partition, 3, 60).err());
    let failed = failed.expect("a directory is synced");
    let state = format!("{error:?}, {level:?}, rolls {rolls}: {failed:?}");
    assert_eq!(disk.struck(), 1, "{state}");
    for _ in 0..3 {
        if story.append(&disk, &partition, 1, 20).is_ok() {
            let durable = log.sync().is_ok() || level == Durability::Power;
            let crashed = disk.crash(disk.points(), CrashModel::LostSuffix, 0);
            let (_log, found) = reopened(&crashed);
            let survived = story.check(&found, &state);
            assert!(
                !durable || survived == story.batches(),
                "{state}: acknowledged and lost"
            );
        }
    }
    let crashed = disk.crash(disk.points(), CrashModel::LostSuffix, 0);
    let (_log, found) = reopened(&crashed);
    story.check_crash(&found, disk.points(), CrashModel::LostSuffix, &state);
}

#[test]
fn f24_nothing_is_acknowledged_on_the_strength_of_a_directory_that_was_not_synced() {
    for error in [DiskError::Io, DiskError::NoSpace, DiskError::Quota] {
        for level in LEVELS {
            for rolls in [false, true] {
                directory_fails(error, level, rolls);
            }
        }
    }
}

#[test]
fn f24_a_topic_whose_creation_was_not_synced_is_not_acknowledged() {
    // Each sync of a creation in turn, until one is left alone.
    for call in [DiskCall::SyncDir, DiskCall::SyncAll, DiskCall::SyncData] {
        for number in 0.. {
            let disk = Disk::new();
            let log = open(&disk).unwrap();
            log.create_topic("before", TopicConfig::new()).unwrap();
            disk.fail(Fault::sync(call, FailedSync::Keep, DiskError::Io).after(number));
            let result = log.create_topic("t", TopicConfig::new());
            if disk.struck() == 0 {
                assert!(result.is_ok());
                break;
            }
            let state = format!("{call:?} {number}: {result:?}");
            assert!(result.is_err(), "{state}");
            disk.heal();
            // Whatever became of it, the log goes on, and the name can be had in the end.
            let topic = log.topic_or_create("t", TopicConfig::new());
            if let Ok(topic) = &topic {
                topic.partition(0).unwrap().append(("k", "v")).unwrap();
            }
            let crashed = disk.crash(disk.points(), CrashModel::LostSuffix, 0);
            let log = open(&crashed).unwrap_or_else(|e| panic!("{state}: {e:?}"));
            log.topic("before").unwrap();
            if topic.is_ok() {
                let partition = log.topic("t").unwrap_or_else(|e| panic!("{state}: {e:?}"));
                let found = read(&partition.partition(0).unwrap()).unwrap();
                assert_eq!(found.len(), 1, "{state}");
            }
            let topic = log.topic_or_create("t", TopicConfig::new()).unwrap();
            topic.partition(0).unwrap().append(("k", "v")).unwrap();
        }
    }
}

#[test]
fn f24_an_opening_that_could_not_be_recorded_writes_nothing() {
    for (call, number) in [
        (DiskCall::SyncData, 0),
        (DiskCall::SyncAll, 0),
        (DiskCall::SyncDir, 0),
    ] {
        let disk = Disk::new();
        let log = open(&disk).unwrap();
        let partition = create(&log, Durability::Process);
        partition.append(("k", "v")).unwrap();
        log.close().unwrap();
        let disk = unplugged(&disk);
        let (_log, partition) = reopened(&disk);
        disk.fail(
            Fault::sync(call, FailedSync::Keep, DiskError::Io)
                .on("STATE")
                .after(number),
        );
        let first = partition.append(("k", "w"));
        if disk.struck() > 0 {
            assert!(first.is_err(), "{call:?}");
            assert_eq!(partition.offsets().end, Offset::new(1));
            // The next one records the opening anew.
            partition.append(("k", "w")).unwrap();
        }
        assert_eq!(read(&partition).unwrap().len(), 2);
        let crashed = disk.crash(disk.points(), CrashModel::ProcessKill, 0);
        let (_log, found) = reopened(&crashed);
        assert_eq!(read(&found).unwrap().len(), 2);
        assert_eq!(found.append(("k", "x")).unwrap().offset(), Offset::new(2));
    }
}
