//! Logs that are closed and opened: whoever was off finds its place, and what was forgotten stays so.

use thalweg::testing::CrashModel;
use thalweg::{Log, Maintenance, TopicPartition};

use super::{DAY, NOW, WEEK, begin, committed, groups, just_under, member, next, open, pass};

#[test]
fn an_application_that_was_off_for_weeks_finds_its_place_if_it_joins_within_the_time() {
    for joins_after in [NOW, DAY, just_under(WEEK)] {
        let (disk, clock, log) = begin();
        let mut cook = member(&log.group("g"), &["orders"]);
        cook.commit_at(&next(&[("orders", 0, 4)])).unwrap();
        cook.close().unwrap();
        let hand = log.group("by hand");
        hand.set_positions(&next(&[("orders", 1, 7)])).unwrap();
        log.close().unwrap();
        clock.advance(2 * WEEK);
        let log = open(&disk, &clock);
        assert_eq!(pass(&log, &clock, joins_after), 0);
        let hand = log.group("by hand");
        assert_eq!(committed(&hand), ["orders-1@7"]);
        let cook = member(&log.group("g"), &["orders"]);
        let position = cook.position(&TopicPartition::new("orders", 0));
        assert!(position.unwrap().get() >= 4);
        assert_eq!(pass(&log, &clock, WEEK), 1, "by hand, and nobody came");
        assert_eq!(groups(&log), ["g"]);
    }
}

/// Two applications of one group that are started one after the other: the second one's topics are nobody's until then.
#[test]
fn the_members_of_a_group_that_come_back_one_by_one_each_find_their_place() {
    let (disk, clock, log) = begin();
    let group = log.group("g");
    member(&group, &["orders"]).commit().unwrap();
    member(&group, &["bills"]).commit().unwrap();
    log.close().unwrap();
    clock.advance(2 * WEEK);
    let log = open(&disk, &clock);
    let group = log.group("g");
    let _cook = member(&group, &["orders"]);
    assert_eq!(pass(&log, &clock, just_under(WEEK)), 0);
    let _clerk = member(&group, &["bills"]);
    assert_eq!(pass(&log, &clock, 3 * WEEK), 0);
    assert_eq!(committed(&group).len(), 4);
}

#[test]
fn nothing_counts_while_nobody_knows_so_a_log_that_is_opened_daily_forgets_nothing() {
    let (disk, clock, mut log) = begin();
    let group = log.group("g");
    group.set_positions(&next(&[("orders", 0, 5)])).unwrap();
    for day in 0..30 {
        assert_eq!(pass(&log, &clock, DAY), 0, "{day}");
        log.close().unwrap();
        log = open(&disk, &clock);
    }
    assert_eq!(pass(&log, &clock, just_under(WEEK)), 0);
    assert_eq!(pass(&log, &clock, DAY), 1);
}

#[test]
fn what_was_forgotten_stays_so_after_a_close_a_kill_and_a_power_loss() {
    for end in 0..4 {
        let (mut disk, clock, log) = begin();
        for name in ["g", "h"] {
            let group = log.group(name);
            group
                .set_positions(&next(&[("orders", 0, 5), ("bills", 1, 2)]))
                .unwrap();
        }
        clock.advance(DAY);
        log.group("h")
            .set_positions(&next(&[("bills", 1, 3)]))
            .unwrap();
        assert_eq!(pass(&log, &clock, 6 * DAY), 3);
        let model = [
            CrashModel::ProcessKill,
            CrashModel::LostSuffix,
            CrashModel::LostPages,
        ];
        match model.get(end) {
            Some(model) => disk = disk.crash(disk.points(), *model, 0),
            None => log.close().unwrap(),
        }
        let log = open(&disk, &clock);
        assert_eq!(groups(&log), ["h"], "{end}");
        assert_eq!(committed(&log.group("h")), ["bills-1@3"]);
        assert_eq!(pass(&log, &clock, WEEK), 1);
        // And where nothing expires.
        log.close().unwrap();
        let builder = Log::builder().maintenance(Maintenance::Manual);
        assert!(groups(&builder.open_on(&disk).unwrap()).is_empty());
    }
}

#[test]
fn a_commit_after_it_was_forgotten_survives() {
    let (disk, clock, log) = begin();
    let group = log.group("g");
    group.set_positions(&next(&[("orders", 0, 5)])).unwrap();
    assert_eq!(pass(&log, &clock, WEEK), 1);
    group.set_positions(&next(&[("orders", 0, 6)])).unwrap();
    let killed = disk.crash(disk.points(), CrashModel::ProcessKill, 0);
    let log = open(&killed, &clock);
    assert_eq!(committed(&log.group("g")), ["orders-0@6"]);
}
