//! Groups from outside: what there are, how far they are, and moving them while nobody reads.

#[path = "common/groups.rs"]
mod groups;

use std::time::Duration;

use thalweg::testing::{Survives, TestLog};
use thalweg::{Consumer, Error, Offset, Position, StartFrom};

use groups::{at, group, log_with, next, poll};

fn join(test: &TestLog) -> Consumer {
    group(test).subscribe(["orders"]).join().unwrap()
}

/// The group's commits, as partition and offset.
fn committed(test: &TestLog) -> Vec<(u32, u64)> {
    let committed = group(test).committed().unwrap();
    let shown = |position: &Position| (position.partition().get(), position.offset().get());
    committed.iter().map(shown).collect()
}

#[test]
fn a_description_says_who_owns_what_and_who_should() {
    let test = log_with(4, 8);
    let mut a = join(&test);
    poll(&mut a);
    a.commit_at(&next(&[(0, 1)])).unwrap();
    let builder = group(&test).subscribe(["orders"]).instance_id("b");
    let mut b = builder.join().unwrap();
    let seen = group(&test).describe().unwrap();
    assert_eq!((seen.name.as_str(), seen.generation), ("g", 2));
    let ids: Vec<&str> = seen.members.iter().map(|of| of.id.as_str()).collect();
    assert_eq!(ids, ["b-0000000002", "g-0000000001"]);
    assert_eq!(seen.members[0].instance_id.as_deref(), Some("b"));
    assert_eq!(seen.members[1].instance_id, None);
    assert!(seen.members[0].owned.is_empty());
    assert_eq!(seen.members[0].target, [at(2), at(3)]);
    assert_eq!(seen.members[1].owned, [at(0), at(1), at(2), at(3)]);
    assert_eq!(seen.members[1].target, [at(0), at(1)]);
    let first = &seen.partitions[0];
    assert_eq!((&first.at, first.committed), (&at(0), Some(Offset::new(1))));
    assert_eq!((first.end, first.lag), (Offset::new(2), 1));
    assert_eq!(first.owner.as_deref(), Some("g-0000000001"));
    assert!(!first.halted);
    assert_eq!(
        (seen.partitions[1].committed, seen.partitions[1].lag),
        (None, 2)
    );

    poll(&mut a);
    poll(&mut b);
    let seen = group(&test).describe().unwrap();
    let owners = seen.partitions.iter().map(|of| of.owner.clone().unwrap());
    let owners: Vec<String> = owners.collect();
    let (a_id, b_id) = ("g-0000000001", "b-0000000002");
    assert_eq!(owners, [a_id, a_id, b_id, b_id]);
    assert!(seen.members.iter().all(|of| of.owned == of.target));

    a.close().unwrap();
    assert!(seen.members.iter().all(|of| !of.away));
    b.close().unwrap();
    let seen = group(&test).describe().unwrap();
    assert_eq!((seen.members.len(), seen.members[0].away), (1, true));
    assert_eq!(
        seen.members[0].target.len(),
        4,
        "the other left, and nobody came"
    );
    group(&test).remove_member("b").unwrap();
    let seen = group(&test).describe().unwrap();
    assert_eq!(
        (seen.generation, seen.members.len(), seen.partitions.len()),
        (0, 0, 4)
    );
    assert_eq!(seen.partitions[0].owner, None);
}

#[test]
fn groups_are_those_that_committed_and_those_with_members() {
    let test = log_with(1, 1);
    assert!(test.log().groups().unwrap().is_empty());
    let names = || -> Vec<String> {
        let groups = test.log().groups().unwrap();
        groups.iter().map(|of| of.name().to_owned()).collect()
    };
    let live = test
        .log()
        .group("live")
        .subscribe(["orders"])
        .join()
        .unwrap();
    test.log()
        .group("moved")
        .set_positions(&next(&[(0, 1)]))
        .unwrap();
    assert_eq!(names(), ["live", "moved"]);
    drop(live);
    assert_eq!(names(), ["moved"]);
}

#[test]
fn positions_are_set_and_reset_only_while_nobody_is_a_member() {
    let test = log_with(2, 10);
    group(&test)
        .set_positions(&next(&[(0, 3), (1, 5)]))
        .unwrap();
    assert_eq!(committed(&test), [(0, 3), (1, 5)]);
    for bad in [(0, 6), (0, u64::MAX)] {
        let refused = group(&test).set_positions(&next(&[(1, 1), bad]));
        assert!(matches!(refused, Err(Error::OutOfRange { .. })));
    }
    let refused = group(&test).set_positions(&next(&[(7, 0)]));
    assert!(matches!(refused, Err(Error::NotFound { .. })));
    assert_eq!(committed(&test), [(0, 3), (1, 5)], "all or none");

    let mut member = join(&test);
    assert_eq!(poll(&mut member).len(), 2);
    let refused = group(&test).reset(StartFrom::Earliest);
    assert!(matches!(
        refused,
        Err(Error::GroupNotEmpty { members: 1, .. })
    ));
    let refused = group(&test).set_positions(&next(&[(0, 0)]));
    assert!(matches!(
        refused,
        Err(Error::GroupNotEmpty { members: 1, .. })
    ));
    member.commit().unwrap();
    drop(member);
    let moved = group(&test).reset(StartFrom::Earliest).unwrap();
    assert_eq!(moved, next(&[(0, 0), (1, 0)]));
    assert_eq!(committed(&test), [(0, 0), (1, 0)]);
    assert_eq!(
        group(&test).reset(StartFrom::Latest).unwrap(),
        next(&[(0, 5), (1, 5)])
    );
    let refused = group(&test).reset(StartFrom::Fail);
    assert!(matches!(
        refused,
        Err(Error::InvalidSetting {
            setting: "reset",
            ..
        })
    ));
    assert!(
        test.log()
            .group("new")
            .reset(StartFrom::Earliest)
            .unwrap()
            .is_empty()
    );
}

#[test]
fn a_group_of_closed_static_members_is_not_empty_until_their_time_is_over() {
    let test = log_with(1, 1);
    let builder = group(&test).subscribe(["orders"]).instance_id("a");
    builder.join().unwrap().close().unwrap();
    let refused = group(&test).set_positions(&next(&[(0, 0)]));
    assert!(matches!(
        refused,
        Err(Error::GroupNotEmpty { members: 1, .. })
    ));
    test.advance(Duration::from_secs(45));
    group(&test).set_positions(&next(&[(0, 0)])).unwrap();
}

#[test]
fn a_deleted_group_is_forgotten_for_good() {
    let test = log_with(2, 4);
    let mut member = join(&test);
    assert_eq!(poll(&mut member).len(), 4);
    member.commit().unwrap();
    let refused = test.log().delete_group("g");
    assert!(matches!(
        refused,
        Err(Error::GroupNotEmpty { members: 1, .. })
    ));
    drop(member);
    test.log()
        .group("other")
        .set_positions(&next(&[(0, 1)]))
        .unwrap();
    test.log().delete_group("g").unwrap();
    assert!(matches!(
        test.log().delete_group("g"),
        Err(Error::NotFound { what: "group", .. })
    ));
    assert!(committed(&test).is_empty());
    assert_eq!(test.log().groups().unwrap().len(), 1);
    test.crash(Survives::SyncedOnly).unwrap();
    assert!(committed(&test).is_empty());
    assert_eq!(poll(&mut join(&test)).len(), 4, "it begins anew");
}
