//! What is left to do when nothing is locked any more: a waker, and what a user wrote, is foreign code.

use std::sync::Arc;

use super::Protocol;
use super::state::State;
use crate::consumer::wake::Parker;

/// Who has something to look at, and what is to be dropped. Both happen when this is dropped, so it goes after the locks.
#[derive(Default)]
#[must_use = "it is dropped when nothing is locked"]
pub(super) struct Aftermath {
    parkers: Vec<Arc<Parker>>,
    protocols: Vec<Protocol>,
}

impl Aftermath {
    pub(super) fn ring(&mut self, parker: &Arc<Parker>) {
        self.parkers.push(Arc::clone(parker));
    }

    /// What is left to do of `state`, whose lock is held.
    pub(super) fn take(&mut self, state: &mut State) {
        self.parkers.append(&mut state.after.parkers);
        self.protocols.append(&mut state.after.protocols);
    }

    pub(super) fn outlive(&mut self, protocol: Option<Protocol>) {
        self.protocols.extend(protocol);
    }
}

impl Drop for Aftermath {
    fn drop(&mut self) {
        // Taken one by one: where the waker of one panics, the others are woken all the same.
        struct Rest<'a>(&'a mut Vec<Arc<Parker>>);
        impl Drop for Rest<'_> {
            fn drop(&mut self) {
                while let Some(parker) = self.0.pop() {
                    parker.ring();
                }
            }
        }
        let rest = Rest(&mut self.parkers);
        while let Some(parker) = rest.0.pop() {
            parker.ring();
        }
    }
}
