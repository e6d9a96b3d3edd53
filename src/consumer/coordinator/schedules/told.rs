//! A member that reconciles while others come and go: what it misses then it is told, and finds when it looks again.

use super::*;

/// The one who leaves may be the last of the group, which is then forgotten, or not.
#[test]
fn one_that_joins_while_another_leaves_has_everything() {
    in_many_orders(|| {
        let ground = Ground::new(2);
        let mut old = ground.join(How::default());
        old.poll();
        let leaving = thread::spawn(move || old.leave());
        let mut new = ground.join(How::default());
        new.poll();
        leaving.join().unwrap();
        ground.is_settled_by(&mut [&mut new]);
        new.leave();
        assert_eq!(ground.coordinator.groups(), 0);
    });
}

#[test]
fn one_that_joins_while_the_target_is_made_is_part_of_the_next() {
    in_many_orders(|| {
        let ground = Ground::new(4);
        let (mut a, other) = (ground.join(How::default()), ground.clone());
        let joining = thread::spawn(move || other.join(How::default()));
        a.poll();
        let seen = a.seen;
        let mut b = joining.join().unwrap();
        let told = seen != Some(a.place.version());
        assert!(told || a.owned.len() == 2, "it was not told of the other");
        ground.is_settled_by(&mut [&mut a, &mut b]);
    });
}
