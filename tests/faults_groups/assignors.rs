//! F107 for the rest of an assignor: its name is asked for, and its drop runs, where nothing is locked.

use std::time::Duration;

use thalweg::assignor::{Assignor, Member, TopicSize};
use thalweg::testing::TestLog;
use thalweg::{Consumer, Error, Log, TopicPartition};

use super::{in_time, join, log_with, make, settle, usual};

/// An assignor of which everything looks at the group: its name, and its drop.
struct Curious(Log);

impl Assignor for Curious {
    fn name(&self) -> &'static str {
        self.0.groups().unwrap();
        "curious"
    }

    fn assign(&self, members: &[Member<'_>], topics: &[TopicSize<'_>]) -> Vec<Vec<TopicPartition>> {
        usual().assign(members, topics)
    }
}

#[test]
fn f107_an_assignors_name_may_look_at_the_groups() {
    in_time("name", || {
        let log = log_with(2, 0);
        let join = || {
            let builder = log.group("g").subscribe(["t"]);
            builder.assignor(Curious(log.clone())).join().unwrap()
        };
        let (mut a, mut b) = (join(), join());
        settle(&mut [&mut a, &mut b], 2);
        let refused = log.group("g").subscribe(["t"]).join();
        assert!(matches!(refused, Err(Error::InvalidSetting { .. })));
    });
}

/// Looks at the groups when it is dropped.
struct Parting(Log);

impl Assignor for Parting {
    fn name(&self) -> &'static str {
        "parting"
    }

    fn assign(&self, members: &[Member<'_>], topics: &[TopicSize<'_>]) -> Vec<Vec<TopicPartition>> {
        usual().assign(members, topics)
    }
}

impl Drop for Parting {
    fn drop(&mut self) {
        let _ = self.0.groups();
    }
}

fn parting(log: &Log) -> Consumer {
    let builder = log.group("g").subscribe(["t"]).instance_id("i");
    builder.assignor(Parting(log.clone())).join().unwrap()
}

#[test]
fn f107_an_assignor_that_is_replaced_may_look_at_the_groups_as_it_goes() {
    in_time("replaced", || {
        let log = log_with(2, 0);
        parting(&log).close().unwrap(); // its place is kept, and how it shared
        let builder = log.group("g").subscribe(["t"]).instance_id("i");
        let mut alone = builder.join().unwrap(); // names another way, being alone
        settle(&mut [&mut alone], 2);
    });
}

#[test]
fn f107_an_assignor_whose_group_is_forgotten_may_look_at_the_groups_as_it_goes() {
    in_time("forgotten", || {
        let test = TestLog::new();
        make(&test.log(), "t", 2, 0);
        parting(&test.log()).close().unwrap();
        test.advance(Duration::from_secs(3600));
        assert!(test.log().group("g").describe().unwrap().members.is_empty());
        let mut next = join(&test.log());
        settle(&mut [&mut next], 2);
    });
}
