//! What the ledger is told of groups, so that it can let offsets expire: who reads now, and when a group is left.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::aftermath::Aftermath;
use super::{Coordinator, Group, Groups};
use crate::log::{Ledger, Readers, Reading};

impl Coordinator {
    /// To be called before anybody joins: the ledger knows the groups of this log from now on, if it wants to.
    pub(in crate::consumer) fn be_known_to(self: &Arc<Self>, ledger: &Ledger) {
        let this: Arc<dyn Readers> = Arc::clone(self) as Arc<dyn Readers>;
        if let Some(ledger) = ledger.ask(Arc::downgrade(&this)) {
            self.groups.lock().ledger = Some(ledger);
        }
    }
}

impl Groups {
    /// The last member of a group has gone; the lock of all groups is held.
    pub(super) fn tell_emptied(&self, group: &Group, now: Duration) {
        if let Some(ledger) = self.ledger.as_ref().and_then(Weak::upgrade) {
            ledger.emptied(&group.name, now);
        }
    }
}

impl Readers for Coordinator {
    fn sweep(&self, now: Duration) {
        let mut after = Aftermath::default(); // before the lock, so dropped after it
        self.groups.lock().sweep_all(now, &mut after);
    }

    fn hold(&self, group: &str, then: &mut dyn FnMut(Reading<'_>)) {
        let groups = self.groups.lock(); // nobody comes or goes
        let Some(group) = groups.by_name.get(group) else {
            return then(Reading::Nobody);
        };
        let state = group.state.lock(); // nor wants something else
        then(Reading::Members(&|topic| {
            state.subscribers.contains_key(topic)
        }));
    }
}
