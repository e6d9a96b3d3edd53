//! Who is a member of which group: in this version, one member each.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Membership;
use crate::error::{Error, Result};

/// The members of all groups of one open log.
#[derive(Default)]
pub(super) struct Seats {
    groups: Mutex<HashMap<Box<str>, Group>>,
}

/// Kept after its member left, so that generations grow.
#[derive(Default)]
struct Group {
    generation: u64,
    taken: bool,
}

/// The place of one member. Dropped: the next may join.
pub(super) struct Seat {
    seats: Arc<Seats>,
    membership: Membership,
}

impl Seats {
    /// Takes the place in `group`.
    ///
    /// # Errors
    ///
    /// `LimitExceeded` if the group has a member.
    pub(super) fn join(self: &Arc<Self>, group: &str, client: &str) -> Result<Seat> {
        let mut groups = self.groups.lock();
        let state = groups.entry(group.into()).or_default();
        if state.taken {
            return Err(Error::LimitExceeded {
                setting: "member of a group",
                limit: 1,
            });
        }
        state.taken = true;
        state.generation += 1;
        let generation = state.generation;
        let membership = Membership::new(group, &format!("{client}-{generation}"), generation);
        Ok(Seat {
            seats: Arc::clone(self),
            membership,
        })
    }
}

impl Seat {
    pub(super) fn membership(&self) -> &Membership {
        &self.membership
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(state) = self.seats.groups.lock().get_mut(self.membership.group()) {
            state.taken = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_member_is_refused_until_the_first_one_left() {
        let seats = Arc::new(Seats::default());
        let first = seats.join("kitchen", "a").unwrap();
        assert!(matches!(
            seats.join("kitchen", "b"),
            Err(Error::LimitExceeded { limit: 1, .. })
        ));
        seats.join("bar", "b").unwrap();
        drop(first);
        let second = seats.join("kitchen", "b").unwrap();
        assert_eq!(second.membership().member(), "b-2");
        assert_eq!(second.membership().generation(), 2);
    }
}
