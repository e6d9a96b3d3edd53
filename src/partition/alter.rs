//! Other settings for a partition that is written and read meanwhile.
//!
//! Under the writer's lock every append goes by one level: what `Ok` means is what counts when its batch is written. What is visible
//! stays visible. Where the level falls, what waits for a sync to be seen is seen at once; its caller waits for that sync all the same.
//! Where it rises, what is seen may be un-synced until the next sync: see to that one. The segment at the end is left as it is, and
//! the first append at another level rolls it.

use std::sync::Arc;
use std::time::Duration;

use super::Partition;
use super::settings::{Durability, Settings};
use super::writer::Health;

impl Partition {
    /// Works by these from the next append on. Who sleeps here may have something to see: wake them when nothing is locked.
    pub(crate) fn alter(&self, settings: &Arc<Settings>) {
        let inner = &*self.inner;
        let mut office = inner.writer.lock();
        office.settings = Arc::clone(settings);
        *inner.settings.write() = Arc::clone(settings);
        if settings.below_power() && matches!(office.health, Health::Sound) {
            inner.progress.publish(office.next);
        }
        if let Durability::Interval { time, bytes } = settings.durability {
            // What was written before is as safe from now on as what comes.
            match office.unsynced() {
                0 => {}
                much if much >= bytes => _ = inner.ask(Some(Duration::ZERO)),
                _ => _ = inner.ask(Some(time)),
            }
        }
    }
}
