//! Kafka's rules, one by one: whose offsets stay, and from when on the time of the others counts.

use std::time::Duration;

use thalweg::{Error, Log, StartFrom, TopicConfig, TopicPartition};

use super::{
    DAY, NOW, TICK, WEEK, begin, committed, expired, groups, just_under, make, member, next, pass,
};

#[test]
fn what_a_member_subscribes_to_never_expires_however_idle_it_is() {
    let (_disk, clock, log) = begin();
    let group = log.group("g");
    let mut idle = member(&group, &["orders"]);
    idle.commit_at(&next(&[("orders", 0, 4)])).unwrap();
    assert_eq!(pass(&log, &clock, 100 * WEEK), 0);
    assert_eq!(committed(&group), ["orders-0@4"]);
    idle.commit().unwrap();
    assert_eq!(committed(&group).len(), 2, "it still is a member");
}

#[test]
fn a_group_that_is_left_keeps_all_for_its_time_from_then_on() {
    let (_disk, clock, log) = begin();
    let group = log.group("g");
    let mut first = member(&group, &["orders"]);
    first.commit().unwrap();
    clock.advance(DAY);
    let second = member(&group, &["orders"]);
    first.close().unwrap();
    assert_eq!(pass(&log, &clock, 2 * WEEK), 0);
    drop(second);
    assert_eq!(pass(&log, &clock, just_under(WEEK)), 0);
    assert_eq!(committed(&group), ["orders-0@10", "orders-1@10"]);
    assert_eq!(groups(&log), ["g"]);
    clock.advance(TICK);
    assert_eq!(expired(&log), 2);
    assert!(groups(&log).is_empty() && committed(&group).is_empty());
    assert!(group.describe().unwrap().partitions.is_empty());
    assert!(group.lag().unwrap().is_empty());
    let gone = log.delete_group("g");
    assert!(matches!(gone, Err(Error::NotFound { .. })), "{gone:?}");
    assert_eq!(expired(&log), 0);
}

#[test]
fn who_joins_and_leaves_again_begins_its_time_anew() {
    let (_disk, clock, log) = begin();
    let group = log.group("g");
    let mut first = member(&group, &["orders"]);
    first.commit().unwrap();
    drop(first);
    for _ in 0..5 {
        assert_eq!(pass(&log, &clock, just_under(WEEK)), 0);
        drop(member(&group, &["orders"]));
    }
    assert_eq!(pass(&log, &clock, WEEK), 2);
}

#[test]
fn of_a_topic_that_no_member_wants_any_more_the_last_commit_counts() {
    let (_disk, clock, log) = begin();
    let group = log.group("g");
    let mut of = member(&group, &["orders", "bills"]);
    of.commit().unwrap();
    assert_eq!(pass(&log, &clock, 3 * DAY), 0);
    of.commit_at(&next(&[("bills", 1, 5)])).unwrap();
    of.subscribe(["orders"]).unwrap();
    let _ = of.poll(NOW).unwrap();
    assert_eq!(pass(&log, &clock, just_under(4 * DAY)), 0);
    clock.advance(TICK);
    assert_eq!(expired(&log), 1);
    let left = ["bills-1@5", "orders-0@10", "orders-1@10"];
    assert_eq!(committed(&group), left);
    // Wanted again, in time.
    clock.advance(just_under(3 * DAY));
    of.subscribe(["orders", "bills"]).unwrap();
    assert_eq!(pass(&log, &clock, 10 * WEEK), 0);
    let batch = of.poll(NOW).unwrap();
    let mut bills = batch.iter().filter(|entry| entry.topic() == "bills");
    let first = bills.find(|entry| entry.partition().get() == 1).unwrap();
    assert_eq!(first.offset().get(), 5);
    of.subscribe(["orders"]).unwrap();
    assert_eq!(expired(&log), 1, "long ago");
}

#[test]
fn what_another_member_wants_stays_until_that_one_leaves() {
    let (_disk, clock, log) = begin();
    let group = log.group("g");
    let mut cook = member(&group, &["orders"]);
    let mut clerk = member(&group, &["bills"]);
    cook.commit().unwrap();
    clerk.commit().unwrap();
    assert_eq!(pass(&log, &clock, 2 * WEEK), 0);
    clerk.close().unwrap();
    assert_eq!(
        expired(&log),
        2,
        "the group has a member, so the last commit counts"
    );
    assert_eq!(committed(&group), ["orders-0@10", "orders-1@10"]);
}

#[test]
fn who_commits_by_hand_has_for_each_partition_the_time_since_its_last_commit() {
    let (_disk, clock, log) = begin();
    let group = log.group("g");
    let partitions = [0, 1].map(|n| TopicPartition::new("orders", n));
    let mut by_hand = group.assign(partitions.clone()).join().unwrap();
    by_hand
        .commit_at(&next(&[("orders", 0, 1), ("orders", 1, 1)]))
        .unwrap();
    clock.advance(3 * DAY);
    by_hand.commit_at(&next(&[("orders", 1, 2)])).unwrap();
    assert_eq!(pass(&log, &clock, just_under(4 * DAY)), 0);
    clock.advance(TICK);
    assert_eq!(expired(&log), 1, "though it lives: nobody sees it");
    assert_eq!(committed(&group), ["orders-1@2"]);
    assert_eq!(pass(&log, &clock, 3 * DAY), 1);
    assert!(groups(&log).is_empty());
    // It reads on where it is, and what it commits is there again.
    assert_eq!(by_hand.poll(NOW).unwrap().len(), 20);
    by_hand.commit().unwrap();
    assert_eq!(committed(&group), ["orders-0@10", "orders-1@10"]);
    assert_eq!(
        by_hand.committed(&partitions[0]).unwrap().unwrap().get(),
        10
    );
}

#[test]
fn who_commits_by_hand_again_and_again_keeps_its_place_though_nothing_new_comes() {
    let (_disk, clock, log) = begin();
    let group = log.group("g");
    let partitions = [TopicPartition::new("orders", 0)];
    let mut by_hand = group.assign(partitions).join().unwrap();
    assert_eq!(by_hand.poll(NOW).unwrap().len(), 10);
    by_hand.commit().unwrap();
    for day in 0..16 {
        assert_eq!(pass(&log, &clock, DAY), 0, "{day}");
        assert_eq!(by_hand.poll(NOW).unwrap().len(), 0);
        let done = [by_hand.commit_durable(), by_hand.commit()];
        assert!(matches!(done, [Ok(()), Ok(())]), "{done:?}");
    }
    // And who does so too late has committed.
    assert_eq!(pass(&log, &clock, WEEK), 1);
    by_hand.commit().unwrap();
    assert_eq!(committed(&group), ["orders-0@10"]);
    assert_eq!(pass(&log, &clock, just_under(WEEK)), 0);
    // What is set from outside is not taken back by who has nothing new to commit.
    group.set_positions(&next(&[("orders", 0, 4)])).unwrap();
    by_hand.commit().unwrap();
    assert_eq!(committed(&group), ["orders-0@4"]);
}

#[test]
fn what_is_set_from_outside_has_its_own_time_even_in_a_group_that_was_left_long_ago() {
    let (_disk, clock, log) = begin();
    let group = log.group("g");
    let mut of = member(&group, &["orders"]);
    of.commit().unwrap();
    drop(of);
    clock.advance(6 * DAY);
    group.set_positions(&next(&[("orders", 1, 3)])).unwrap();
    assert_eq!(pass(&log, &clock, DAY), 1);
    assert_eq!(committed(&group), ["orders-1@3"]);
    clock.advance(just_under(6 * DAY));
    assert_eq!(expired(&log), 0);
    group.reset(StartFrom::Earliest).unwrap();
    assert_eq!(pass(&log, &clock, just_under(WEEK)), 0);
    assert_eq!(committed(&group), ["orders-0@0", "orders-1@0"]);
    clock.advance(TICK);
    assert_eq!(expired(&log), 2);
}

#[test]
fn who_is_silent_for_too_long_is_no_member_and_its_group_is_left_then() {
    let (_disk, clock, log) = begin();
    let group = log.group("g");
    let mut silent = group.subscribe(["orders"]).join().unwrap();
    let _ = silent.poll(NOW).unwrap();
    silent.commit().unwrap();
    clock.advance(Duration::from_secs(300));
    assert_eq!(expired(&log), 0, "from now on it counts");
    assert_eq!(pass(&log, &clock, just_under(WEEK)), 0);
    clock.advance(TICK);
    assert_eq!(expired(&log), 2);
    let fenced = silent.commit();
    assert!(matches!(fenced, Err(Error::Fenced { .. })), "{fenced:?}");
    assert_eq!(
        silent.poll(NOW).unwrap().len(),
        20,
        "a member again, from the start"
    );
}

#[test]
fn a_place_that_is_kept_for_a_static_member_is_a_member() {
    let (_disk, clock, log) = begin();
    let group = log.group("g");
    let mut of = group
        .subscribe(["orders"])
        .instance_id("stove")
        .session_timeout(2 * WEEK)
        .join()
        .unwrap();
    let _ = of.poll(NOW).unwrap();
    of.commit().unwrap();
    of.close().unwrap();
    assert_eq!(pass(&log, &clock, just_under(2 * WEEK)), 0);
    clock.advance(TICK);
    assert_eq!(expired(&log), 0, "given up now");
    assert_eq!(pass(&log, &clock, WEEK), 2);
}

#[test]
fn who_is_removed_from_outside_leaves_its_group_then() {
    let (_disk, clock, log) = begin();
    let group = log.group("g");
    let mut of = member(&group, &["orders"]);
    of.commit().unwrap();
    clock.advance(10 * WEEK);
    group.remove_member(of.membership().member()).unwrap();
    assert_eq!(pass(&log, &clock, just_under(WEEK)), 0);
    assert_eq!(pass(&log, &clock, DAY), 2);
}

#[test]
fn who_subscribes_by_a_pattern_keeps_what_it_matches() {
    let (_disk, clock, log) = begin();
    let group = log.group("g");
    group
        .set_positions(&next(&[("orders", 0, 1), ("bills", 0, 1)]))
        .unwrap();
    let all = group.subscribe_where(|name| name.starts_with('o'));
    let mut all = all.max_poll_interval(Duration::MAX).join().unwrap();
    assert_eq!(pass(&log, &clock, WEEK), 1);
    assert_eq!(committed(&group), ["orders-0@1"]);
    make(&log, "olives");
    let _ = all.poll(NOW).unwrap();
    all.commit().unwrap();
    assert_eq!(pass(&log, &clock, 3 * WEEK), 0);
    assert_eq!(committed(&group).len(), 4);
}

#[test]
fn groups_are_decided_on_one_by_one_and_topics_that_go_take_theirs_along() {
    let (_disk, clock, log) = begin();
    for n in 0..20 {
        let group = log.group(&format!("g{n:02}"));
        let of = next(&[("orders", 0, n % 10), ("bills", 1, n % 10)]);
        group.set_positions(&of).unwrap();
        clock.advance(DAY / 10);
    }
    let kept = member(&log.group("g00"), &["orders", "bills"]);
    log.delete_topic("bills").unwrap();
    make(&log, "bills"); // another one
    clock.advance(6 * DAY);
    assert_eq!(expired(&log), 10, "g01 to g10");
    assert_eq!(groups(&log)[..2], ["g00", "g11"]);
    assert_eq!(pass(&log, &clock, 2 * WEEK), 9);
    assert_eq!(groups(&log), ["g00"]);
    assert_eq!(committed(&log.group("g00")), ["orders-0@0"]);
    drop(kept);
}

#[test]
fn after_it_was_forgotten_a_group_begins_as_its_next_member_says() {
    let (_disk, clock, log) = begin();
    let group = log.group("g");
    group.set_positions(&next(&[("orders", 0, 5)])).unwrap();
    assert_eq!(pass(&log, &clock, WEEK), 1);
    for (from, records) in [(StartFrom::Earliest, 20), (StartFrom::Latest, 0)] {
        let mut of = group.subscribe(["orders"]).start_from(from).join().unwrap();
        assert_eq!(of.poll(NOW).unwrap().len(), records, "{from:?}");
    }
    let fails = group.subscribe(["orders"]).start_from(StartFrom::Fail);
    let told = fails.join().unwrap().poll(NOW);
    assert!(matches!(told, Err(Error::NoPosition { .. })), "{told:?}");
}

#[test]
fn nothing_expires_unless_that_is_asked_for_and_zero_is_no_time() {
    let (disk, clock, log) = begin();
    log.close().unwrap();
    let builder = || Log::builder().clock(&clock);
    for builder in [builder(), builder().offsets_retention(Duration::MAX)] {
        let log = builder.open_on(&disk).unwrap();
        log.group("g")
            .set_positions(&next(&[("orders", 0, 5)]))
            .unwrap();
        assert_eq!(pass(&log, &clock, 10_000 * WEEK), 0);
        assert_eq!(committed(&log.group("g")), ["orders-0@5"]);
        log.close().unwrap();
    }
    let refused = builder().offsets_retention(Duration::ZERO).open_on(&disk);
    let named = matches!(
        refused,
        Err(Error::InvalidSetting { setting, .. }) if setting == "offsets_retention"
    );
    assert!(named);
    let log = Log::builder().offsets_retention(TICK).in_memory().unwrap();
    log.create_topic("t", TopicConfig::new()).unwrap();
    log.maintain().unwrap();
}
