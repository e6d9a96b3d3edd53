//! What the coordinator does with members that come and go, without a log.

use super::*;
use crate::consumer::assignor::CooperativeSticky;
use crate::log::PartitionKey;
use crate::offset::Offset;

const NOW: Duration = Duration::ZERO;

fn look(at: u64, uuid: u128, partitions: u32) -> Look {
    Look {
        at: Offset::new(at),
        topics: vec![Looked {
            name: "orders".to_owned(),
            info: Some(TopicInfo { uuid, partitions }),
            starts: (0..partitions)
                .map(|n| Start {
                    key: (uuid, n),
                    wanted: Some(Offset::new(at)),
                    first: Offset::ZERO,
                })
                .collect(),
        }],
    }
}

fn join(coordinator: &Arc<Coordinator>, group: &str, look: Look) -> Option<Place> {
    let protocol = Protocol {
        assignor: Arc::new(CooperativeSticky),
        name: "cooperative-sticky".into(),
        eager: false,
    };
    let joining = Joining {
        group,
        client: "a",
        instance: None,
        instead_of: None,
        topics: &["orders".to_owned()],
        protocol: &protocol,
        limits: Limits {
            poll_interval: Duration::from_secs(300),
            session_timeout: Duration::from_secs(45),
            rebalance_delay: Duration::ZERO,
        },
        parker: &Arc::default(),
    };
    coordinator.join(&joining, look, NOW).unwrap()
}

fn target(place: &Place) -> Target {
    match place.target(NOW).unwrap() {
        Found::Target(target) => target,
        Found::PutOff { .. } | Found::ShutOut => panic!("a member has a target"),
    }
}

fn keys(owned: &[Owned]) -> Vec<PartitionKey> {
    owned.iter().map(|of| of.key).collect()
}

#[test]
fn groups_without_members_leave_nothing_behind() {
    let coordinator = Arc::new(Coordinator::default());
    for n in 0..1_000 {
        let group = format!("g{n}");
        let places = [1, 2].map(|uuid| join(&coordinator, &group, look(0, uuid, 3)).unwrap());
        assert_eq!(coordinator.groups(), 1);
        for place in &places {
            place.leave(NOW);
        }
        assert_eq!(coordinator.groups(), 0);
    }
}

#[test]
fn an_older_look_at_the_topics_never_overrules_a_newer_one() {
    let coordinator = Arc::new(Coordinator::default());
    let first = join(&coordinator, "g", look(5, 7, 1)).unwrap();
    assert!(join(&coordinator, "g", look(4, 6, 1)).is_none());
    first.changed(look(4, 6, 1));
    assert_eq!(keys(&target(&first).owned), [(7, 0)]);
    first.changed(look(6, 8, 2));
    assert_eq!(target(&first).owned.len(), 2);
}

#[test]
fn a_topic_that_was_replaced_is_nobodys_and_begins_anew() {
    let coordinator = Arc::new(Coordinator::default());
    let first = join(&coordinator, "g", look(5, 7, 1)).unwrap();
    let generation = target(&first).generation;
    assert_eq!(first.take(generation).unwrap().len(), 1);
    assert!(
        first.take(generation).unwrap().is_empty(),
        "it owns it already"
    );
    first.changed(look(6, 8, 1));
    let taken = first.take(target(&first).generation).unwrap();
    assert_eq!(taken.len(), 1);
    assert_eq!(taken[0].of.key, (8, 0));
    assert!(matches!(taken[0].begins, Begins::At(Offset::ZERO)));
}

#[test]
fn only_what_is_free_is_taken_and_only_what_one_owns_is_given_up() {
    let coordinator = Arc::new(Coordinator::default());
    let first = join(&coordinator, "g", look(0, 7, 2)).unwrap();
    assert_eq!(first.take(target(&first).generation).unwrap().len(), 2);
    let second = join(&coordinator, "g", look(0, 7, 2)).unwrap();
    let generation = target(&second).generation;
    assert!(second.take(generation).unwrap().is_empty());
    second.release(&[(7, 1)]);
    assert!(
        second.take(generation).unwrap().is_empty(),
        "it was not its own to give up"
    );
    let before = second.version();
    first.release(&[(7, 1)]);
    assert!(second.version() > before);
    assert_eq!(second.take(generation).unwrap()[0].of.key, (7, 1));
    first.leave(NOW);
    let taken = second.take(target(&second).generation).unwrap();
    assert_eq!(taken[0].of.key, (7, 0));
}
