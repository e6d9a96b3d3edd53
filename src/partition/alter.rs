//! Other settings for a partition that is written and read meanwhile.
//!
//! Under the writer's lock every append goes by one level: what `Ok` means is what counts when its batch is written. What is visible
//! stays visible. Where the level falls, what waits for a sync to be seen is seen at once; its caller waits for that sync all the same.
//! Where it rises, what is seen may be un-synced until the next sync: see to that one. The segment at the end is left as it is, and
//! the first append at another level rolls it.

use std::sync::Arc;
use std::time::Duration;

use super::Partition;
use super::ages::Young;
use super::settings::{Durability, Settings};
use super::writer::Health;

impl Partition {
    /// Works by these from the next append on. Who sleeps here may have something to see: wake them when nothing is locked.
    pub(crate) fn alter(&self, settings: &Arc<Settings>) {
        let inner = &*self.inner;
        let mut office = inner.writer.lock();
        office.settings = Arc::clone(settings);
        office.young = Young::default(); // the next append looks how old the last segment may become now
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

#[cfg(test)]
mod tests {
    use super::super::tests::{Bench, small};
    use super::super::writer::After;
    use super::*;
    use crate::record::Record;

    fn at(durability: Durability) -> Settings {
        Settings {
            durability,
            ..small()
        }
    }

    /// Appends one record and does not wait for its level yet.
    fn write(partition: &Partition) -> After {
        let mut encoder = partition.inner.home.encoder();
        encoder.push(&Record::new("k", "v"));
        assert!(encoder.finish(small().compression.codec()).is_ok());
        let written = partition.inner.append(&mut encoder, None);
        partition.inner.home.give_back(encoder);
        written.unwrap().1
    }

    fn ends(partition: &Partition) -> (u64, u64) {
        let progress = &partition.inner.progress;
        (progress.end().get(), progress.durable())
    }

    #[test]
    fn what_waits_for_its_sync_is_seen_when_the_level_falls_and_waits_on() {
        let (partition, _) = Bench::new(at(Durability::Power)).open();
        let After::Wait(mark) = write(&partition) else {
            panic!("it waits")
        };
        assert_eq!(ends(&partition), (0, 0));
        partition.alter(&Arc::new(at(Durability::Process)));
        assert_eq!(ends(&partition), (1, 0));
        partition.inner.acknowledge(mark).unwrap();
        assert_eq!(ends(&partition), (1, 1));
    }

    #[test]
    fn what_is_seen_stays_so_when_the_level_rises_and_the_next_waits() {
        let (partition, _) = Bench::new(at(Durability::Process)).open();
        assert!(matches!(write(&partition), After::Nothing));
        partition.alter(&Arc::new(at(Durability::Power)));
        assert_eq!(ends(&partition), (1, 0));
        assert!(matches!(write(&partition), After::Wait(_)));
        assert_eq!(ends(&partition), (1, 1), "the segment was rolled first");
        partition.sync().unwrap();
        assert_eq!(ends(&partition), (2, 2));
    }

    /// It was encoded by the settings before; what its `Ok` means is said by those that count when it is written.
    #[test]
    fn a_batch_that_was_begun_before_the_level_rose_waits_for_its_sync() {
        for (begun, written) in [
            (Durability::Process, Durability::Power),
            (Durability::Power, Durability::Process),
        ] {
            let (partition, _) = Bench::new(at(begun)).open();
            let meanwhile = (0..2).map(|n| {
                if n == 1 {
                    partition.alter(&Arc::new(at(written)));
                }
                ("k", "v")
            });
            partition.append_all(meanwhile).unwrap();
            let durable = if written == Durability::Power { 2 } else { 0 };
            assert_eq!(ends(&partition), (2, durable), "{written:?}");
        }
    }
}
