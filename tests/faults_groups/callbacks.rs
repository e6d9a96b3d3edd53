//! F107: a callback that calls back. What a listener, an assignor and a predicate may do works; an assignor that asks about its
//! own group is told so at once; nothing hangs.

use std::sync::{Arc, Mutex};

use thalweg::assignor::{Assignor, Member, TopicSize};
use thalweg::testing::TestLog;
use thalweg::{
    BoxError, Consumer, Error, Log, Rebalance, RebalanceListener, StartFrom, TopicPartition,
};

use super::{NOW, in_time, make, next, settle, t, usual};

/// From where it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    Assigned,
    Revoked,
    Lost,
    Assign,
    Predicate,
}

const PLACES: [From; 5] = [
    From::Assigned,
    From::Revoked,
    From::Lost,
    From::Assign,
    From::Predicate,
];

/// What is called, in its words.
const DEEDS: [&str; 18] = [
    "append",
    "create a topic",
    "delete a topic",
    "delete its own topic",
    "join its group",
    "join another group",
    "poll another member",
    "poll a member of another group",
    "commit through another member",
    "close another member",
    "describe",
    "look around",
    "remove another member",
    "remove the member itself",
    "set positions",
    "delete its group",
    "wake itself",
    "close the log",
];

/// What a callback has at hand.
#[derive(Default)]
struct World {
    log: Option<Log>,
    /// A member of the same group.
    other: Option<Consumer>,
    /// A member of another group.
    stranger: Option<Consumer>,
    /// The one whose callback it is.
    own_id: String,
    wake: Option<thalweg::WakeHandle>,
    /// What to do, once.
    deed: Option<&'static str>,
    outcome: Option<Result<(), Error>>,
}

#[derive(Clone)]
struct Caller {
    place: From,
    world: Arc<Mutex<World>>,
}

impl Caller {
    /// Does the deed if this is the place for it. Only one callback is on its way at a time, or the one that another's poll needs:
    /// for those the world is locked, and they do nothing.
    fn called(&self, place: From) {
        let Ok(mut world) = self.world.try_lock() else {
            return;
        };
        if place == self.place
            && let Some(deed) = world.deed.take()
        {
            world.outcome = Some(world.act(deed));
        }
    }
}

impl World {
    fn act(&mut self, deed: &str) -> Result<(), Error> {
        let log = self.log.clone().unwrap();
        let group = log.group("g");
        match deed {
            "append" => log.topic("t")?.append(("", "x")).map(drop),
            "create a topic" => log
                .create_topic("new", thalweg::TopicConfig::new())
                .map(drop),
            "delete a topic" => log.delete_topic("u"),
            "delete its own topic" => log.delete_topic("t"),
            "join its group" => {
                let builder = group.subscribe(["t"]);
                builder.assignor(Calling(None)).join().map(drop)
            }
            "join another group" => {
                let mut member = log.group("h").subscribe(["t"]).join()?;
                let _ = member.poll(NOW)?;
                member.commit()
            }
            "poll another member" => self.other.as_mut().unwrap().poll(NOW).map(drop),
            "poll a member of another group" => self.stranger.as_mut().unwrap().poll(NOW).map(drop),
            "commit through another member" => {
                let other = self.other.as_mut().unwrap();
                let at = other.assignment().pop().expect("it owns something");
                other.commit_at(&next(at.partition().get(), 1))
            }
            "close another member" => self.other.take().unwrap().close(),
            "describe" => group.describe().map(drop),
            "look around" => {
                log.groups()?;
                group.lag()?;
                group.committed().map(drop)
            }
            "remove another member" => {
                let other = self.other.as_ref().unwrap().membership();
                group.remove_member(other.member())
            }
            "remove the member itself" => group.remove_member(&self.own_id),
            "set positions" => group.reset(StartFrom::Earliest).map(drop),
            "delete its group" => log.delete_group("g"),
            "wake itself" => {
                self.wake.as_ref().unwrap().wake();
                Ok(())
            }
            "close the log" => log.close(),
            other => unreachable!("{other}"),
        }
    }
}

/// Calls while it is asked; without a caller it only shares.
struct Calling(Option<Caller>);

impl Assignor for Calling {
    fn name(&self) -> &'static str {
        "calling"
    }

    fn assign(&self, members: &[Member<'_>], topics: &[TopicSize<'_>]) -> Vec<Vec<TopicPartition>> {
        if let Some(caller) = &self.0 {
            caller.called(From::Assign);
        }
        usual().assign(members, topics)
    }
}

impl RebalanceListener for Caller {
    fn assigned(&mut self, _: &mut Rebalance<'_>, _: &[TopicPartition]) -> Result<(), BoxError> {
        self.called(From::Assigned);
        Ok(())
    }

    fn revoked(&mut self, _: &mut Rebalance<'_>, _: &[TopicPartition]) -> Result<(), BoxError> {
        self.called(From::Revoked);
        Ok(())
    }

    fn lost(&mut self, _: &[TopicPartition]) -> Result<(), BoxError> {
        self.called(From::Lost);
        Ok(())
    }
}

/// A member whose callbacks call, and a world with another member and a stranger in it: all have come to their partitions, and the
/// group has committed something.
fn begin(test: &TestLog, place: From) -> (Consumer, Caller) {
    let log = test.log();
    make(&log, "t", 4, 4);
    make(&log, "u", 1, 1);
    let world = Arc::new(Mutex::new(World::default()));
    let caller = Caller { place, world };
    let asks = caller.clone();
    let wanted = move |name: &str| {
        asks.called(From::Predicate);
        name.starts_with('t')
    };
    let builder = log.group("g").subscribe_where(wanted);
    let builder = builder.assignor(Calling(Some(caller.clone())));
    let mut own = builder.listener(caller.clone()).join().unwrap();
    let builder = log.group("g").subscribe(["t"]);
    let mut other = builder.assignor(Calling(None)).join().unwrap();
    settle(&mut [&mut own, &mut other], 4);
    own.commit().unwrap();
    let stranger = log.group("h").subscribe(["t"]).join().unwrap();
    let mut world = caller.world.lock().unwrap();
    world.log = Some(log);
    own.membership().member().clone_into(&mut world.own_id);
    world.wake = Some(own.wake_handle());
    (world.other, world.stranger) = (Some(other), Some(stranger));
    drop(world);
    (own, caller)
}

/// Something that makes the next poll call the callback.
fn provoke(test: &TestLog, own: &mut Consumer, place: From) -> Vec<Consumer> {
    let log = test.log();
    match place {
        From::Lost => test.fence(own),
        From::Predicate => drop(make(&log, "x", 1, 0)),
        From::Assign | From::Assigned => own.rebalance().unwrap(),
        From::Revoked => {
            let builder = || log.group("g").subscribe(["t"]).assignor(Calling(None));
            let two = [builder(), builder()]; // so that each of the first gives up one
            return two.map(|builder| builder.join().unwrap()).into();
        }
    }
    Vec::new()
}

fn check(place: From, deed: &str, outcome: &Result<(), Error>) {
    let as_it_should = match (place, deed) {
        (From::Assign, "describe" | "poll another member") => {
            matches!(outcome, Err(Error::Reentrant { .. }))
        }
        (_, "set positions" | "delete its group") => {
            matches!(outcome, Err(Error::GroupNotEmpty { .. }))
        }
        (From::Lost, "remove the member itself") => {
            matches!(outcome, Err(Error::NotFound { .. })) // it is none
        }
        _ => outcome.is_ok(),
    };
    assert!(as_it_should, "{deed} in {place:?}: {outcome:?}");
}

fn story(place: From, deed: &'static str) {
    let test = TestLog::new();
    let (mut own, caller) = begin(&test, place);
    let more = provoke(&test, &mut own, place);
    caller.world.lock().unwrap().deed = Some(deed);
    let polled = own.poll(NOW);
    let mut world = caller.world.lock().unwrap();
    let outcome = world.outcome.take();
    check(place, deed, &outcome.expect("it was called"));
    if deed == "close the log" {
        assert!(matches!(polled, Err(Error::Closed) | Ok(_)), "{polled:?}");
        assert!(matches!(own.poll(NOW), Err(Error::Closed)));
        return;
    }
    assert!(polled.is_ok(), "{deed} in {place:?}: {polled:?}");
    // It goes on, whatever was done.
    let mut members = vec![own];
    members.extend(world.other.take());
    members.extend(more);
    drop(world);
    let polls = |members: &mut Vec<Consumer>| {
        for member in members {
            match member.poll(NOW) {
                Ok(_) => {}
                Err(Error::Woken) => assert_eq!(deed, "wake itself"),
                Err(e) => panic!("{deed} in {place:?}: {e:?}"),
            }
        }
    };
    for _ in 0..=members.len() {
        polls(&mut members);
    }
    let mut owned: Vec<_> = members.iter().flat_map(Consumer::assignment).collect();
    owned.retain(|at| at.topic() == "t");
    owned.sort();
    let all: Vec<_> = (0..4).map(t).collect();
    let left = if deed == "delete its own topic" {
        &all[..0]
    } else {
        &all[..]
    };
    assert_eq!(owned, left, "{deed} in {place:?}");
}

#[test]
fn f107_a_callback_may_call_whatever_it_likes_and_nothing_hangs() {
    for place in PLACES {
        for deed in DEEDS {
            in_time(&format!("{deed} in {place:?}"), move || story(place, deed));
        }
    }
}
