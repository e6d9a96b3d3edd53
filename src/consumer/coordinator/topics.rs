//! The topics of a group: which its members want, which of them there are, and where they begin.

use std::sync::Arc;

use super::state::{Look, Looked, Start, State};
use crate::log::PartitionKey;

impl State {
    /// Topics as they are now. `true`: the group knew one of them otherwise.
    pub(super) fn take_in(&mut self, look: Look) -> bool {
        self.looked_at = Some(look.at);
        let mut new = false;
        for topic in look.topics {
            new |= self.take_topic(topic);
        }
        new
    }

    pub(super) fn is_outdated(&self, look: &Look) -> bool {
        Some(look.at) < self.looked_at
    }

    fn take_topic(&mut self, topic: Looked) -> bool {
        if self.topics.get(topic.name.as_str()).copied() == topic.info {
            return false;
        }
        let awaited = self.subscribers.contains_key(&topic.name);
        let name: Arc<str> = topic.name.into();
        if let Some(old) = self.topics.remove(&name)
            && topic.info.is_none_or(|new| new.uuid != old.uuid)
        {
            // Nobody reads what is no more.
            let gone = |key: &PartitionKey| key.0 == old.uuid;
            self.owners.retain(|key, _| !gone(key));
            self.starts.retain(|key, _| !gone(key));
        }
        if let Some(info) = topic.info {
            self.topics.insert(name, info);
            for Start { key, wanted, first } in topic.starts {
                let start = if awaited { Some(first) } else { wanted };
                self.starts.entry(key).or_insert(start);
            }
        }
        true
    }

    /// One more member wants these.
    pub(super) fn want(&mut self, topics: &[String]) {
        for name in topics {
            *self.subscribers.entry(name.clone()).or_default() += 1;
        }
    }

    /// One member wants these no longer. What nobody wants is forgotten; who still reads it does so until its next poll.
    pub(super) fn want_no_longer(&mut self, topics: &[String]) {
        for name in topics {
            let left = self.subscribers.get_mut(name).map(|count| {
                *count -= 1;
                *count
            });
            if left == Some(0) {
                self.subscribers.remove(name);
                if let Some(gone) = self.topics.remove(name.as_str()) {
                    self.starts.retain(|(uuid, _), _| *uuid != gone.uuid);
                }
            }
        }
    }
}
