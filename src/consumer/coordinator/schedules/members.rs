//! Members that come, go, share and are shut out, at the same time.

use super::*;

#[test]
fn two_that_join_at_once_share() {
    in_many_orders(|| {
        let ground = Ground::new(3);
        let other = ground.clone();
        let joined = thread::spawn(move || {
            let mut reader = other.join(How::default());
            reader.poll();
            reader
        });
        let mut a = ground.join(How::default());
        a.poll();
        let mut b = joined.join().unwrap();
        assert_ne!(a.id, b.id);
        ground.is_settled_by(&mut [&mut a, &mut b]);
        a.leave();
        b.leave();
        assert_eq!(ground.coordinator.groups(), 0);
    });
}

#[test]
fn what_is_released_while_another_one_takes_is_taken_or_told() {
    in_many_orders(|| {
        let ground = Ground::new(2);
        let mut a = ground.join(How::default());
        a.poll();
        let mut b = ground.join(How::default());
        let giving = thread::spawn(move || {
            a.poll();
            a
        });
        b.poll();
        let seen = b.seen;
        let mut a = giving.join().unwrap();
        assert!(
            b.owned.len() == 1 || seen != Some(b.place.version()),
            "it is free, and nobody has told it"
        );
        ground.is_settled_by(&mut [&mut a, &mut b]);
    });
}

/// A commit is stored while the gate is held; whoever takes over stores after it was shut out.
#[test]
fn what_the_old_owner_stores_never_comes_after_what_the_new_one_does() {
    in_many_orders(|| {
        let ground = Ground::new(1);
        let mut old = ground.join(How::default());
        old.poll();
        let mut new = ground.join(How::default());
        let stored = Arc::new(Plain::new(Vec::new()));
        let (by_old, id) = (Arc::clone(&stored), Arc::clone(&old.id));
        let committing = thread::spawn(move || {
            for _ in 0..2 {
                if let Ok(gate) = old.place.hold(NOW, INTERVAL) {
                    thread::yield_now(); // the disk takes its time
                    by_old.lock().unwrap().push("old");
                    drop(gate);
                }
            }
            assert_eq!(old.fenced().unwrap_or(FencedBy::Removed), FencedBy::Removed);
        });
        ground.readers.lock().unwrap().clear(); // it is about to lose it
        ground.coordinator.remove("g", &id, NOW).unwrap();
        new.poll();
        assert_eq!(new.owned.len(), 1);
        let gate = new.place.hold(NOW, INTERVAL).ok().expect("a member");
        stored.lock().unwrap().push("new");
        drop(gate);
        committing.join().unwrap();
        let stored = stored.lock().unwrap();
        assert_eq!(stored.last(), Some(&"new"), "{stored:?}");
    });
}

#[test]
fn one_that_polls_as_its_time_runs_out_is_a_member_or_is_told() {
    in_many_orders(|| {
        let ground = Ground::new(1);
        let mut slow = ground.join(How::default());
        slow.poll();
        let polling = thread::spawn(move || {
            let alive = slow
                .place
                .beat(INTERVAL - Duration::from_nanos(1), INTERVAL);
            (alive.is_ok(), slow)
        });
        let seen = ground.coordinator.describe("g", INTERVAL).unwrap();
        let (alive, slow) = polling.join().unwrap();
        let is_member = seen.is_some_and(|seen| seen.members.iter().any(|of| of.id == slow.id));
        assert_eq!(alive, is_member);
        let later = slow.place.hold(INTERVAL, INTERVAL).map(drop);
        assert_eq!(later.is_ok(), alive);
    });
}

#[test]
fn two_that_make_the_target_at_once_make_one() {
    in_many_orders(|| {
        let ground = Ground::new(4);
        let (mut a, mut b) = (ground.join(How::default()), ground.join(How::default()));
        ground.is_settled_by(&mut [&mut a, &mut b]);
        a.place.rebalance();
        let settling = thread::spawn(move || {
            b.poll();
            b
        });
        a.poll();
        let mut b = settling.join().unwrap();
        let of = |reader: &Reader| match reader.place.target(NOW).unwrap() {
            Found::Target(target) => target.generation,
            Found::PutOff { .. } | Found::ShutOut => panic!("a member has a target"),
        };
        assert_eq!(of(&a), of(&b));
        ground.is_settled_by(&mut [&mut a, &mut b]);
    });
}

/// Of two that describe, subscribe and are asked at once, none gets in the other's way.
#[test]
fn topics_that_change_while_a_target_is_made_are_in_the_next() {
    in_many_orders(|| {
        let ground = Ground::new(2);
        let (mut a, b) = (ground.join(How::default()), ground.join(How::default()));
        let subscribing = thread::spawn(move || {
            let topics = ["t".to_owned(), "u".to_owned()];
            let looks = vec![look("t", UUID, 2), look("u", 8, 2)];
            let at = Offset::new(1);
            assert!(b.place.subscribe(&topics, Look { at, topics: looks }));
            b
        });
        a.poll();
        let mut b = subscribing.join().unwrap();
        for _ in 0..2 {
            a.poll();
            b.poll();
        }
        assert_eq!((a.owned.len(), b.owned.len()), (2, 2));
        assert!(a.owned.iter().all(|(uuid, _)| *uuid == UUID));
        assert!(b.owned.iter().all(|(uuid, _)| *uuid == 8));
    });
}

#[test]
fn a_static_member_that_polls_while_it_is_replaced_reads_nothing_in_the_end() {
    in_many_orders(|| {
        let ground = Ground::new(2);
        let mut old = ground.join(STATIC);
        old.poll();
        assert_eq!(old.owned.len(), 2);
        ground.readers.lock().unwrap().clear(); // it loses them at a time of its own
        let polling = thread::spawn(move || {
            let was_member = old.poll();
            (was_member, old)
        });
        let mut new = ground.join(STATIC);
        new.poll();
        let (_, mut old) = polling.join().unwrap();
        assert_eq!(old.fenced(), Some(FencedBy::NewerInstance));
        assert!(!old.poll(), "for good");
        old.place.step_out(NOW); // dropped at last: that is no matter of the new one
        assert_eq!(new.fenced(), None);
        ground.is_settled_by(&mut [&mut new]);
    });
}

/// Both come in the place of one that is away, and each is shut out by the other or is the last.
#[test]
fn of_two_that_come_back_for_one_place_the_last_one_has_it() {
    in_many_orders(|| {
        let ground = Ground::new(2);
        ground.join(STATIC).place.step_out(NOW);
        let other = ground.clone();
        let coming = thread::spawn(move || other.join(STATIC));
        let mut a = ground.join(STATIC);
        let mut b = coming.join().unwrap();
        let (last, first) = match a.id > b.id {
            true => (&mut a, &mut b),
            false => (&mut b, &mut a),
        };
        assert_eq!(first.fenced(), Some(FencedBy::NewerInstance));
        ground.is_settled_by(&mut [last]);
    });
}

/// Positions are set from outside only while there is no member, and none comes meanwhile.
#[test]
fn nobody_joins_while_the_group_is_held_empty() {
    in_many_orders(|| {
        let ground = Ground::new(1);
        let held = Arc::new(Plain::new(false));
        let (other, outside) = (ground.clone(), Arc::clone(&held));
        let setting = thread::spawn(move || {
            if let Ok(groups) = other.coordinator.without_members("g", NOW) {
                *outside.lock().unwrap() = true;
                thread::yield_now();
                *outside.lock().unwrap() = false;
                drop(groups);
                return true;
            }
            false
        });
        let member = ground.join(How::default());
        assert!(!*held.lock().unwrap(), "it joined meanwhile");
        setting.join().unwrap();
        assert_eq!(ground.coordinator.without_members("g", NOW).err(), Some(1));
        member.leave();
        assert!(ground.coordinator.without_members("g", NOW).is_ok());
    });
}
