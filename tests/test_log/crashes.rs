//! What each way of crashing leaves, by seed, and that a test repeats.

use thalweg::testing::{Survives, TestLog};
use thalweg::{Durability, Error};

use crate::{EVERY_WAY, SECOND, append, orders, topic, values};

#[test]
fn what_was_acknowledged_at_power_survives_every_crash() {
    for survives in EVERY_WAY {
        for seed in 0..20 {
            let test = TestLog::seeded(seed);
            append(&topic(&test, Durability::Power), 0..10);
            let report = test.crash(survives).unwrap();
            assert!(report.is_empty(), "{survives:?}, seed {seed}: {report:?}");
            assert_eq!(
                values(&test),
                (0..10).collect::<Vec<_>>(),
                "{survives:?}, seed {seed}"
            );
        }
    }
}

#[test]
fn what_the_operating_system_has_survives_the_process_and_a_prefix_of_it_a_power_cut() {
    for survives in EVERY_WAY {
        for seed in 0..20 {
            let test = TestLog::seeded(seed);
            append(&topic(&test, Durability::Process), 0..10);
            test.crash(survives).unwrap();
            let (found, all) = (values(&test), (0..10).collect::<Vec<_>>());
            match survives {
                Survives::Everything => assert_eq!(found, all, "seed {seed}"),
                Survives::SyncedOnly => assert_eq!(found, [0; 0], "seed {seed}"),
                _ => assert_eq!(found, all[..found.len()], "{survives:?}, seed {seed}"),
            }
        }
    }
}

#[test]
fn what_was_synced_survives_a_power_cut_at_every_level() {
    for level in [
        Durability::Process,
        Durability::Interval {
            time: SECOND,
            bytes: 1 << 20,
        },
    ] {
        for survives in EVERY_WAY {
            let test = TestLog::new();
            let topic = topic(&test, level);
            append(&topic, 0..5);
            test.log().sync().unwrap();
            append(&topic, 5..10);
            test.crash(survives).unwrap();
            let found = values(&test);
            assert!(found.len() >= 5, "{level:?}, {survives:?}: {found:?}");
            assert_eq!(found, (0..found.len() as u32).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_power_cut_can_tear_a_record_which_recovery_cuts_and_reports() {
    let torn = (0..200).find(|&seed| {
        let test = TestLog::seeded(seed);
        let topic = topic(&test, Durability::Process);
        let long = "7".repeat(5000);
        for _ in 0..3 {
            topic.append(("customer-7", &long)).unwrap();
        }
        let report = test.crash(Survives::RandomPages).unwrap();
        for entry in orders(&test).entries(..) {
            assert_eq!(entry.unwrap().value_str().unwrap(), long, "seed {seed}");
        }
        assert_eq!(
            report.findings().len(),
            test.log().recovery().findings().len()
        );
        report.findings().iter().any(|finding| finding.bytes > 0)
    });
    assert!(torn.is_some());
}

/// How many of ten records at `Process` a crash leaves.
fn left_by(seed: u64, survives: Survives) -> usize {
    let test = TestLog::seeded(seed);
    append(&topic(&test, Durability::Process), 0..10);
    test.crash(survives).unwrap();
    values(&test).len()
}

#[test]
fn the_same_seed_repeats_and_other_seeds_leave_other_states() {
    for survives in [Survives::Prefix, Survives::RandomPages] {
        let first: Vec<usize> = (0..30).map(|seed| left_by(seed, survives)).collect();
        let again: Vec<usize> = (0..30).map(|seed| left_by(seed, survives)).collect();
        assert_eq!(first, again, "{survives:?}");
        let distinct: std::collections::BTreeSet<_> = first.iter().collect();
        assert!(distinct.len() > 1, "{survives:?}: {first:?}");
    }
}

#[test]
fn new_and_default_are_seed_0() {
    let findings = |test: TestLog| {
        append(&topic(&test, Durability::Process), 0..10);
        let report = test.crash(Survives::RandomPages).unwrap();
        (format!("{report:?}"), values(&test))
    };
    let expected = findings(TestLog::seeded(0));
    assert_eq!(findings(TestLog::new()), expected);
    assert_eq!(findings(TestLog::default()), expected);
}

#[test]
fn several_crashes_in_a_row_lose_nothing_that_was_acknowledged() {
    for seed in 0..10 {
        let test = TestLog::seeded(seed);
        topic(&test, Durability::Power);
        for round in 0..8 {
            append(
                &test.log().topic("orders").unwrap(),
                round * 3..round * 3 + 3,
            );
            test.crash(EVERY_WAY[round as usize % 4]).unwrap();
            assert_eq!(values(&test), (0..round * 3 + 3).collect::<Vec<_>>());
        }
    }
}

#[test]
fn each_crash_of_one_test_is_another_chance() {
    let left = |test: &TestLog| {
        let before = orders(test).offsets().end.get() as usize;
        append(&test.log().topic("orders").unwrap(), 0..10);
        test.crash(Survives::Prefix).unwrap();
        orders(test).entries(..).count().saturating_sub(before)
    };
    let test = TestLog::seeded(3);
    topic(&test, Durability::Process);
    let lefts: std::collections::BTreeSet<usize> = (0..10).map(|_| left(&test)).collect();
    assert!(lefts.len() > 1, "{lefts:?}");
}

#[test]
fn a_log_that_was_closed_is_opened_again_by_a_crash_and_ended_in_order() {
    let test = TestLog::new();
    append(&topic(&test, Durability::Process), 0..3);
    test.log().close().unwrap();
    assert!(matches!(test.log().topic("orders"), Err(Error::Closed)));
    assert!(test.crash(Survives::SyncedOnly).unwrap().is_empty()); // closing synced
    assert_eq!(values(&test), [0, 1, 2]);
}

#[test]
fn an_empty_log_may_crash_too() {
    for survives in EVERY_WAY {
        let test = TestLog::new();
        assert!(test.crash(survives).unwrap().is_empty());
        assert_eq!(test.log().topics().len(), 0);
    }
}
