//! Errors at every call of a round: it is told what happened, nothing is lost, the partition goes on, and nothing is left lying about.

use thalweg::testing::{DiskCall, DiskError, FailedSync, Fault, Short};
use thalweg::{Error, MaintenanceReport, Result, TopicConfig};

use super::common::{Dice, scale, seed};
use super::world::{End, Opening, World, assert_tidy, eager};

/// A partition that was compacted once, and of which several segments are new; they make two swaps and a merge.
fn due(opening: Opening) -> World {
    let mut dice = Dice::new(7);
    let config = TopicConfig::new().segment_bytes(1200).compacted(eager());
    let mut world = World::with(config, opening);
    world.fill(6, 6, &mut dice);
    world.roll();
    world.compact();
    world.fill(8, 40, &mut dice);
    world.roll();
    world.clock.advance(2 * super::HOUR);
    world
}

/// Is this what somebody may be told whose disk fails?
fn is_typed(e: &Error) -> bool {
    matches!(
        e,
        Error::Io { .. }
            | Error::NoSpace { .. }
            | Error::ReadOnly { .. }
            | Error::Poisoned { .. }
            | Error::Indeterminate { .. }
    )
}

/// One run under a fault. `false`: it was not met.
fn run(opening: Opening, by_hand: bool, fault: Fault) -> bool {
    run_on(opening, by_hand, fault, false)
}

/// As [`run`]; `lies`: what the fault did may be told by a later call, and may be undone by a power loss whatever is synced later.
fn run_on(opening: Opening, by_hand: bool, fault: Fault, lies: bool) -> bool {
    let state = format!("{fault:?}, by hand: {by_hand}");
    let mut world = due(opening);
    world.disk.fail(fault);
    let struck = world.disk.struck();
    let done: Result<MaintenanceReport> = if by_hand {
        world.topic().compact()
    } else {
        world.log.maintain()
    };
    let struck = world.disk.struck() > struck;
    world.disk.heal();
    if let Err(e) = &done {
        assert!(is_typed(e), "{state}: {e:?}");
    }
    let state = format!("{state}: {done:?}");
    let judge = |world: &World, what: &str| {
        let judged = world.book.judge(&world.partition());
        judged.unwrap_or_else(|why| panic!("{state}, {what}: {why}"))
    };
    judge(&world, "then");
    // It goes on at once, unless a sync has failed; then when it is recovered.
    let record = super::common::Rec::numbered(1, 10);
    let (partition, clock) = (world.partition(), world.clock.clone());
    match world
        .book
        .append(&partition, &clock, std::slice::from_ref(&record))
    {
        Ok(()) => {}
        Err(Error::Poisoned { .. }) => {
            let found = partition.recover();
            found.unwrap_or_else(|e| panic!("{state}: {e:?}"));
            judge(&world, "recovered");
            world.append(&[record]);
        }
        Err(e) => panic!("{state}: {e:?}"),
    }
    // What was held back is told by the next sync.
    let again = partition.roll().and_then(|()| world.topic().compact());
    if again.is_err() && lies {
        let found = partition.recover();
        found.unwrap_or_else(|e| panic!("{state}: {e:?}"));
    }
    partition.roll().unwrap();
    drop(partition);
    world.compact();
    let left = judge(&world, "compacted");
    let may_stay = world.segments().len();
    assert_tidy(&world.disk, may_stay, &state);
    assert!(may_stay <= 4, "{state}: {:?}", world.segments());
    world.reopen(End::Close);
    assert_eq!(judge(&world, "reopened"), left, "{state}");
    if !lies {
        world.reopen(End::PowerLoss);
        assert_eq!(judge(&world, "unplugged"), left, "{state}");
    }
    struck
}

#[test]
fn f24_whichever_call_of_a_round_fails_nothing_is_lost_and_the_next_round_is_sound() {
    let mut dice = Dice::new(seed());
    let (mut runs, stride) = (0, if scale() >= 10 { 1 } else { 6 });
    for error in DiskError::ALL {
        for lasting in [false, true] {
            let mut call = dice.below(stride);
            loop {
                let fault = Fault::any(error).after(call);
                let fault = if lasting { fault.lasting() } else { fault };
                let opening = [Opening::default(), Opening::forgetful()][dice.below(2) as usize];
                if !run(opening, dice.once_in(2), fault) {
                    break;
                }
                runs += 1;
                call += 1 + dice.below(2 * stride - 1);
            }
        }
    }
    println!("{runs} runs");
    assert!(runs > 100, "{runs}");
}

#[test]
fn f24_a_sync_of_a_round_that_fails_loses_nothing_and_the_partition_can_be_recovered() {
    let mut runs = 0;
    for call in [DiskCall::SyncData, DiskCall::SyncAll, DiskCall::SyncDir] {
        for failed in [FailedSync::Keep, FailedSync::Late] {
            for error in [DiskError::Io, DiskError::NoSpace] {
                for skip in 0.. {
                    let fault = Fault::sync(call, failed, error).after(skip);
                    let lies = failed == FailedSync::Late || call == DiskCall::SyncDir;
                    if !run_on(Opening::default(), true, fault, lies) {
                        break;
                    }
                    runs += 1;
                }
            }
        }
    }
    println!("{runs} runs");
    assert!(runs > 30, "{runs}");
}

/// A file that is larger than what is synced at once: the syncs on the way, too.
#[test]
fn f24_a_sync_on_the_way_that_fails_takes_the_new_file_away_and_keeps_the_old() {
    let fault = |skip| Fault::sync(DiskCall::SyncData, FailedSync::Keep, DiskError::Io).after(skip);
    let mut on_the_way = 0;
    for skip in 0.. {
        let mut world = World::with(TopicConfig::new().compacted(eager()), Opening::default());
        let value = "v".repeat(900 << 10);
        for key in (0..12).chain(0..1) {
            world.put(&key.to_string(), Some(&value));
        }
        world.roll();
        let before = world.segments();
        let struck = world.disk.struck();
        world.disk.fail(fault(skip));
        let done = world.topic().compact();
        world.disk.heal();
        if world.disk.struck() == struck {
            break;
        }
        if world.partition().append(("after", "v")).is_ok() {
            assert!(matches!(done, Err(Error::Io { .. })), "{skip}: {done:?}");
            assert_eq!(world.segments(), before, "{skip}");
            assert_tidy(&world.disk, before.len(), "struck");
            assert_eq!(world.compact().segments_compacted, 1, "{skip}");
            on_the_way += 1;
        } else {
            world.partition().recover().expect("a disk that is well"); // it was the manifest's
            world.compact();
        }
        let keys = world.partition().entries(..);
        let keys = keys.map(|entry| entry.unwrap().key().unwrap().to_vec());
        let left: Vec<_> = keys.filter(|key| key != b"after").collect();
        assert_eq!(left.len(), 12, "{skip}");
        assert_eq!(left.last().unwrap(), b"0", "{skip}");
    }
    assert_eq!(on_the_way, 2);
}

#[test]
fn f26_a_write_of_a_round_that_is_cut_short_is_finished_or_leaves_nothing() {
    for short in [Short::Bytes(1), Short::Half, Short::PageEdge] {
        for skip in 0.. {
            let faults = [
                Fault::short(DiskCall::Write, short).after(skip),
                Fault::short_write_then(short, DiskError::NoSpace).after(skip),
            ];
            if !faults
                .map(|fault| run(Opening::default(), true, fault))
                .contains(&true)
            {
                break;
            }
        }
    }
}

#[test]
fn f28_a_full_disk_keeps_the_old_files_and_takes_the_new_one_away() {
    for room in [0, 1, 100, 300, 500] {
        let mut world = due(Opening::default());
        world.log.sync().unwrap();
        let before = world.segments();
        world.disk.set_capacity(Some(world.disk.used() + room));
        for _ in 0..3 {
            match world.log.maintain() {
                Err(Error::NoSpace { .. }) => {}
                other => panic!("{room}: {other:?}"),
            }
            assert_eq!(world.segments(), before, "{room}");
            assert_tidy(&world.disk, before.len(), "full");
            world.offsets();
        }
        world.disk.set_capacity(None);
        // What failed for lack of room is tried again by the next pass.
        assert!(world.maintain().segments_compacted > 0, "{room}");
        world.offsets_every_way();
        world.reopen(End::Close);
        world.offsets();
    }
}

/// Only damage is remembered: an error may be gone by the next pass, and is asked for again until it is.
#[test]
fn f24_a_pass_that_met_an_error_is_tried_again_by_the_next_one() {
    for (call, name) in [
        (DiskCall::Read, ".log"),
        (DiskCall::Write, ".log"),
        (DiskCall::Open, ".log"),
    ] {
        let mut world = due(Opening::default());
        world.reopen(End::Close);
        let fault = Fault::error(call, DiskError::Io).on(name).lasting();
        world.disk.fail(fault);
        for pass in 0..3 {
            let failed = world.log.maintain();
            let met = world.disk.struck();
            assert!(
                matches!(failed, Err(Error::Io { .. })),
                "{call:?}, pass {pass}: {failed:?}"
            );
            assert!(met > pass, "{call:?}: it was tried {met} times");
        }
        world.disk.heal();
        assert!(world.maintain().segments_compacted > 0, "{call:?}");
        world.offsets_every_way();
    }
}
