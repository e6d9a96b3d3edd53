//! Two lives of a golden log that was tampered with, and what must hold of all that is read in them.

use super::golden::{Known, died, open};
use crate::testing::Disk;
use crate::{Error, Log, Offset, Partition, Record, Timestamp};

/// What an input may have harmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Harm {
    /// Records too: those that come out are right, and what is missing is an error that says so.
    Anything,
    /// Only what can be made again, or costs time: every record is there, and nothing is an error.
    NoRecord,
}

/// Opens, reads everything, appends, reads again, dies; opens again, closes.
///
/// # Panics
///
/// If a record comes out that is not the one that was appended there, or an error is none that the harm can cause.
pub(super) fn live(mut disk: Disk, known: Known, harm: Harm) {
    let mut witness = Witness { known, harm };
    for life in 0..2 {
        let log = match open(&disk) {
            Ok(log) => log,
            Err(e) => return witness.judge(&e),
        };
        witness.go_through(&log, life);
        if life == 0 {
            disk = died(&disk);
        } else if let Err(e) = log.close() {
            witness.judge(&e);
        }
    }
}

struct Witness {
    known: Known,
    harm: Harm,
}

impl Witness {
    fn go_through(&mut self, log: &Log, life: u32) {
        let partitions: Vec<_> = log
            .topics()
            .iter()
            .flat_map(crate::Topic::partitions)
            .collect();
        for partition in &partitions {
            self.read_all(partition);
        }
        for partition in &partitions {
            let value = format!("life {life}");
            let appended = self
                .known
                .append(partition, &[Record::keyless(value.as_str())]);
            if let Err(e) = appended {
                self.judge(&e);
            }
            self.read_all(partition);
        }
    }

    fn read_all(&self, partition: &Partition) {
        let counts = [
            self.forwards(partition),
            self.backwards(partition),
            self.one_by_one(partition),
        ];
        if self.harm == Harm::NoRecord {
            assert_eq!(
                counts,
                [self.known.of(partition); 3],
                "every record is there"
            );
        }
        let time = Timestamp::from_millis(1_577_836_800_010);
        let _ = partition.offset_for_time(time);
    }

    /// Over everything that is damaged.
    fn forwards(&self, partition: &Partition) -> usize {
        let offsets = partition.offsets();
        let mut from = offsets.start;
        let mut count = 0;
        while from < offsets.end {
            let mut on = None;
            for entry in partition.entries(from..) {
                match entry {
                    Ok(entry) => {
                        assert!(entry.offset() >= from, "forwards");
                        from = entry.offset().next();
                        self.known.check(&entry);
                        count += 1;
                    }
                    Err(e) => {
                        self.judge(&e);
                        on = e.resume_at().map(|at| at.offset());
                        break;
                    }
                }
            }
            let Some(on) = on else { break };
            assert!(on > from, "an error says where to go on: behind {from:?}");
            from = on;
        }
        count
    }

    fn backwards(&self, partition: &Partition) -> usize {
        let mut count = 0;
        for entry in partition.entries(..).rev() {
            match entry {
                Ok(entry) => {
                    self.known.check(&entry);
                    count += 1;
                }
                Err(e) => {
                    self.judge(&e);
                    break;
                }
            }
        }
        count
    }

    fn one_by_one(&self, partition: &Partition) -> usize {
        let offsets = partition.offsets();
        let mut count = 0;
        // A recovery point that lies may put the end far away.
        for offset in (offsets.start.get()..offsets.end.get()).take(1000) {
            match partition.get(Offset::new(offset)) {
                Ok(Some(entry)) => {
                    assert_eq!(entry.offset().get(), offset);
                    self.known.check(&entry);
                    count += 1;
                }
                Ok(None) => {}
                Err(e) => self.judge(&e),
            }
        }
        count
    }

    /// A disk that does not fail gives no I/O error, whatever is on it.
    fn judge(&self, error: &Error) {
        match error {
            Error::Corruption { .. } | Error::Incompatible { .. } | Error::NotFound { .. }
                if self.harm == Harm::Anything => {}
            other => panic!("no error of {:?}: {other:?}", self.harm),
        }
    }
}
