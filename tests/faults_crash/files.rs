//! The small files and the names: a topic, a segment, a description is there as a whole or not at all.

use thalweg::testing::{CrashModel, Disk};
use thalweg::{Durability, Error, FindingKind, Log, TopicConfig};

use crate::common::{Dice, scale, seed};
use crate::story::{
    LEVELS, POWER_LOSSES, Story, again, create, every_crash, killed, kinds, open, read, reopened,
    segments, segments_of, small, unplugged,
};

const ALL: [CrashModel; 4] = [
    CrashModel::ProcessKill,
    POWER_LOSSES[0],
    POWER_LOSSES[1],
    POWER_LOSSES[2],
];

#[test]
fn f10_a_topic_is_there_as_a_whole_once_it_was_created_and_else_not_at_all() {
    let mut dice = Dice::new(seed());
    let disk = Disk::new();
    let log = open(&disk).unwrap();
    let opened = disk.points();
    let config = || TopicConfig::new().partitions(2);
    let topic = log.create_topic("t", config()).unwrap();
    let created = disk.points();
    topic.partition(0).unwrap().append(("k", "v")).unwrap();
    let appended = disk.points();
    log.create_topic("u", config()).unwrap();
    for model in ALL {
        every_crash(
            &disk,
            0,
            model,
            24 * scale(),
            &mut dice,
            |after, crashed, state| {
                let log = open(crashed).unwrap_or_else(|e| panic!("{state}: {e:?}"));
                match log.topic("t") {
                    Ok(topic) => {
                        assert!(after > opened, "{state}");
                        assert_eq!(topic.settings().partitions, 2);
                        let found = read(&topic.partition(0).unwrap()).unwrap();
                        assert!(
                            found.len() <= 1 && (found.len() == 1 || after < appended),
                            "{state}"
                        );
                    }
                    Err(Error::NotFound { .. }) => assert!(after < created, "{state}"),
                    Err(e) => panic!("{state}: {e:?}"),
                }
                // In every state the name can be had and used.
                for name in ["t", "u"] {
                    let topic = log.topic_or_create(name, config()).unwrap();
                    topic.partition(1).unwrap().append(("k", "v")).unwrap();
                }
                log.close().unwrap();
                let log = open(crashed).unwrap();
                assert!(log.recovery().is_empty(), "{state}: {:?}", log.recovery());
                assert_eq!(log.topics().len(), 2);
            },
        );
    }
}

#[test]
fn f11_no_state_has_a_segment_whose_predecessor_is_not_whole() {
    let mut dice = Dice::new(seed());
    for level in [Durability::Process, Durability::Power] {
        let disk = Disk::new();
        let log = open(&disk).unwrap();
        let partition = create(&log, level);
        for n in 0..40 {
            partition.append(("k", format!("{n:030}"))).unwrap();
        }
        let files = segments(&disk);
        assert!(files.len() > 2);
        let whole = |at: usize| disk.read_file(&files[at].0).unwrap();
        let mut pairs = 0;
        for model in POWER_LOSSES {
            every_crash(
                &disk,
                0,
                model,
                12 * scale(),
                &mut dice,
                |_, crashed, state| {
                    let found = segments(crashed);
                    for (at, (path, len)) in found.iter().enumerate().skip(1) {
                        if *len > 128 && crashed.read_file(path).unwrap()[..128] == whole(at)[..128]
                        {
                            let before = crashed.read_file(&found[at - 1].0).unwrap();
                            assert_eq!(before, whole(at - 1), "{state}");
                            pairs += 1;
                        }
                    }
                },
            );
        }
        assert!(pairs > 10, "{pairs} pairs were seen");
    }
}

#[test]
fn f11_a_predecessor_that_is_not_whole_all_the_same_is_damage_and_not_a_skip() {
    for level in LEVELS {
        let disk = Disk::new();
        let log = open(&disk).unwrap();
        let partition = create(&log, level);
        for n in 0..40 {
            partition.append(("k", format!("{n:030}"))).unwrap();
        }
        let count = segments(&disk).len();
        for lost in [1, 60, 300] {
            for at in 0..count - 1 {
                let crashed = unplugged(&disk);
                let (path, len) = segments(&crashed).swap_remove(at);
                crashed.resize(path, len - lost).unwrap();
                let (_log, partition) = reopened(&crashed);
                let entries: Vec<_> = partition.entries(..).collect();
                let state = format!("{level:?}, segment {at} short of {lost} bytes");
                let errors = entries.iter().filter(|entry| entry.is_err()).count();
                assert!(errors > 0, "{state}: the loss was passed over in silence");
                for entry in &entries {
                    match entry {
                        Ok(entry) => {
                            let value = format!("{:030}", entry.offset().get());
                            assert_eq!(entry.value_str().unwrap(), value);
                        }
                        Err(e) => assert!(e.is_corruption(), "{state}: {e:?}"),
                    }
                }
            }
        }
    }
}

/// A log whose newest segment is empty, after a roll.
fn rolled(level: Durability) -> (Disk, Log, Story) {
    let disk = Disk::new();
    let log = open(&disk).unwrap();
    let partition = create(&log, level);
    let mut story = Story::new(level);
    story.append(&disk, &partition, 3, 30).unwrap();
    partition.roll().unwrap();
    (disk, log, story)
}

#[test]
fn f12_a_last_segment_no_longer_than_its_header_is_made_anew() {
    for level in LEVELS {
        for len in [0, 1, 8, 64, 127, 128] {
            for garbage in [false, true] {
                let (disk, _log, mut story) = rolled(level);
                let crashed = unplugged(&disk);
                let (path, whole) = segments(&crashed).pop().unwrap();
                assert_eq!(whole, 128);
                crashed.resize(&path, len).unwrap();
                if garbage {
                    crashed
                        .replace(&path, 0, &vec![0x5A; len as usize])
                        .unwrap();
                }
                let state = format!("{level:?}, {len} bytes, garbage {garbage}");
                let log = open(&crashed).unwrap_or_else(|e| panic!("{state}: {e:?}"));
                let damaged = kinds(log.recovery()).contains(&FindingKind::Damaged);
                assert!(!damaged, "{state}: {:?}", log.recovery());
                let partition = again(&log).unwrap();
                assert_eq!(story.check(&partition, &state), 1, "{state}");
                story.go_on_with(1);
                story.live_on(&crashed, log, &partition, &state);
            }
        }
    }
}

#[test]
fn f12_a_longer_one_whose_header_is_not_valid_is_damaged() {
    for level in LEVELS {
        let (disk, log, _) = rolled(level);
        let partition = again(&log).unwrap();
        partition.append(("k", "behind the header")).unwrap();
        for bit in [0, 8 * 20, 8 * 100] {
            for crash in [killed, unplugged] {
                let crashed = crash(&disk);
                let (path, _) = segments(&crashed).pop().unwrap();
                crashed.flip_bit(&path, bit).unwrap();
                let before = crashed.hash();
                let (log, partition) = reopened(&crashed);
                assert!(kinds(log.recovery()).contains(&FindingKind::Damaged));
                assert!(partition.append(("k", "v")).unwrap_err().is_corruption());
                let first: Vec<_> = partition.entries(..).take(3).map(Result::unwrap).collect();
                assert_eq!(first.len(), 3, "the segment before it is read");
                assert_eq!(crashed.hash(), before);
            }
        }
    }
}

#[test]
fn f12_a_header_that_did_not_arrive_held_nothing() {
    let mut dice = Dice::new(seed());
    let disk = Disk::new();
    let log = open(&disk).unwrap();
    let partition = create(&log, Durability::Process);
    let mut story = Story::new(Durability::Process);
    story.append(&disk, &partition, 3, 30).unwrap();
    let begun = disk.points();
    partition.roll().unwrap();
    story.append(&disk, &partition, 1, 30).unwrap();
    disk.set_torn_pages(true);
    for model in ALL {
        every_crash(
            &disk,
            begun,
            model,
            30 * scale(),
            &mut dice,
            |after, crashed, state| {
                let log = open(crashed).unwrap();
                let partition = again(&log).unwrap();
                let survived = story.check_crash(&partition, after, model, state);
                let mut story = story.as_of(after);
                story.go_on_with(survived);
                story.live_on(crashed, log, &partition, state);
            },
        );
    }
}

#[test]
fn f14_state_that_is_being_rewritten_is_the_old_one_or_the_new() {
    let mut dice = Dice::new(seed());
    for level in LEVELS {
        let disk = Disk::new();
        let log = open(&disk).unwrap();
        let partition = create(&log, level);
        let mut story = Story::new(level);
        story.append(&disk, &partition, 3, 30).unwrap();
        log.close().unwrap();
        // A bit of rot: the entry that the next life has to write comes with a rewrite.
        let disk = unplugged(&disk);
        disk.flip_bit("/log/STATE", 8 * 60).unwrap();
        let (log, partition) = reopened(&disk);
        story.go_on_with(story.check(&partition, "before the rewrite"));
        story.append(&disk, &partition, 2, 30).unwrap();
        drop(log);
        for model in ALL {
            every_crash(
                &disk,
                0,
                model,
                24 * scale(),
                &mut dice,
                |after, crashed, state| {
                    let log = open(crashed).unwrap_or_else(|e| panic!("{state}: {e:?}"));
                    let partition = again(&log).unwrap();
                    let survived = story.check_crash(&partition, after, model, state);
                    let mut story = story.as_of(after);
                    story.go_on_with(survived);
                    story.live_on(crashed, log, &partition, state);
                },
            );
        }
    }
}

#[test]
fn f14_the_newest_slot_of_a_small_file_may_rot_and_is_missed_where_a_generation_says_so() {
    // What the newest slot of each file says was seen by an entry of STATE, or is known from the files themselves.
    let disk = Disk::new();
    let log = open(&disk).unwrap();
    for name in ["a", "b", "c"] {
        let topic = log
            .create_topic(name, TopicConfig::new().partitions(2))
            .unwrap();
        for partition in topic.partitions() {
            partition.append(("k", "v")).unwrap();
        }
    }
    log.close().unwrap();
    let names = disk.files().into_iter().map(|(path, _)| path);
    let slotted: Vec<_> = names
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            ["FORMAT", "CATALOGUE", "config"].contains(&&*name)
        })
        .collect();
    assert!(slotted.len() >= 6, "{slotted:?}");
    for path in slotted {
        let len = disk.read_file(&path).unwrap().len() as u64;
        let second = len.midpoint(64); // where the second slot begins
        for byte in [64 + 3, 64 + 20, second + 3, second + 20] {
            let rotten = unplugged(&disk);
            rotten.flip_bit(&path, 8 * byte).unwrap();
            let state = format!("byte {byte} of {}", path.display());
            // An error that is typed, a finding, or bytes that say nothing: a slot never used. Never defaults.
            let log = match open(&rotten) {
                Err(e) => {
                    assert!(e.is_corruption(), "{state}: {e:?}");
                    continue;
                }
                Ok(log) => log,
            };
            for name in ["a", "b", "c"] {
                let topic = match log.topic(name) {
                    Ok(topic) => topic,
                    Err(e) => {
                        assert!(e.is_corruption(), "{state}: {e:?}");
                        continue;
                    }
                };
                assert_eq!(topic.settings().partitions, 2, "{state}");
                for partition in topic.partitions() {
                    match read(&partition) {
                        Ok(found) => assert_eq!(found, [(0, "v".to_owned())], "{state}"),
                        Err(e) => assert!(e.is_corruption(), "{state}: {e:?}"),
                    }
                }
            }
            assert!(!log.recovery().is_empty(), "{state}: rot is reported");
        }
    }
}

#[test]
fn f15_what_was_left_unfinished_is_removed_and_is_in_nobodys_way() {
    let disk = Disk::new();
    let log = open(&disk).unwrap();
    let partition = create(&log, Durability::Power);
    partition.append(("k", "v")).unwrap();
    log.close().unwrap();
    let disk = unplugged(&disk);
    let (path, _) = segments(&disk).remove(0);
    let topic = path.rsplit('/').nth(2).unwrap().to_owned();
    let left = [
        "/log/FORMAT.tmp".to_owned(),
        "/log/STATE.tmp".to_owned(),
        "/log/CATALOGUE.tmp".to_owned(),
        format!("/log/topics/{topic}/config.tmp"),
        "/log/topics/u-0123abcd.tmp/config".to_owned(),
        "/log/topics/u-0123abcd.tmp/config.tmp".to_owned(),
    ];
    for path in &left {
        disk.write_file(path, b"half of somethi").unwrap();
    }
    let log = open(&disk).unwrap();
    assert!(log.recovery().is_empty(), "{:?}", log.recovery());
    assert_eq!(read(&again(&log).unwrap()).unwrap().len(), 1);
    for path in &left {
        assert!(disk.read_file(path).is_err(), "{path} is still there");
    }
    // The next replacement of each works: a new topic, and its first append.
    let topic = log
        .create_topic("u", small(Durability::Power).partitions(3))
        .unwrap();
    topic.partition(2).unwrap().append(("k", "v")).unwrap();
    assert_eq!(segments_of(&disk, 2).len(), 1);
    log.close().unwrap();
    assert!(open(&disk).unwrap().recovery().is_empty());
}
