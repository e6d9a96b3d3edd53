//! What the record batches of a segment add up to: kept in footers and recovery points, so that recovery need not read again
//! what stands below them.

use super::wire::{Reader, crc_onward, put_i64, put_u32, put_u64};

/// What all record batches of a segment, up to some place, add up to; so that recovery need not read below that place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accumulator {
    pub(crate) records: u64,
    /// Over header and body checksum of each batch, in order.
    pub(crate) crc: u32,
    /// Append time of the first batch; `i64::MIN` while there is none. All times are milliseconds since the epoch.
    pub(crate) first_append: i64,
    pub(crate) last_append: i64,
    /// The greatest record time: event time, or append time of a record that has none.
    pub(crate) max_event: i64,
    /// The greatest of: the smaller of a record's time and its append time.
    pub(crate) max_smaller: i64,
}

/// Header and body checksum of a batch, as they are summed.
fn both(header_crc: u32, body_crc: u32) -> [u8; BOTH_LEN] {
    (u64::from(body_crc) << 32 | u64::from(header_crc)).to_le_bytes()
}

const BOTH_LEN: usize = 8;

/// Bytes of an accumulator.
pub(crate) const ACCUMULATOR_LEN: usize = 8 + 4 + 4 * 8;

impl Default for Accumulator {
    fn default() -> Accumulator {
        Accumulator {
            records: 0,
            crc: 0,
            first_append: i64::MIN,
            last_append: i64::MIN,
            max_event: i64::MIN,
            max_smaller: i64::MIN,
        }
    }
}

impl Accumulator {
    /// Counts one batch in. `append_times`: some of its records have no event time.
    pub(crate) fn add(
        &mut self,
        records: u64,
        body_crc: u32,
        header_crc: u32,
        append_ms: i64,
        max_event: Option<i64>,
        append_times: bool,
    ) {
        self.crc = crc_onward(self.crc, &both(header_crc, body_crc));
        self.count(records, append_ms, max_event, append_times);
    }

    /// All but the checksums.
    fn count(&mut self, records: u64, append_ms: i64, max_event: Option<i64>, append_times: bool) {
        if self.records == 0 {
            self.first_append = append_ms;
        }
        self.records = self.records.saturating_add(records);
        self.last_append = append_ms;
        let time = match max_event {
            Some(event) if append_times => event.max(append_ms),
            Some(event) => event,
            None => append_ms,
        };
        self.max_event = self.max_event.max(time);
        self.max_smaller = self.max_smaller.max(time.min(append_ms));
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_u64(out, self.records);
        put_u32(out, self.crc);
        put_i64(out, self.first_append);
        put_i64(out, self.last_append);
        put_i64(out, self.max_event);
        put_i64(out, self.max_smaller);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Option<Accumulator> {
        Some(Accumulator {
            records: reader.u64()?,
            crc: reader.u32()?,
            first_append: reader.i64()?,
            last_append: reader.i64()?,
            max_event: reader.i64()?,
            max_smaller: reader.i64()?,
        })
    }
}

/// An accumulator that a writer adds to batch by batch: the checksums are summed many at a time, since summing eight bytes takes
/// as long as summing a hundred.
#[derive(Debug)]
pub(crate) struct Running {
    /// All but the checksums that wait.
    through: Accumulator,
    waiting: [[u8; BOTH_LEN]; WAITING],
    /// How many of them there are.
    used: usize,
}

/// How many batches wait to be summed, at most.
const WAITING: usize = 16;

impl Running {
    pub(crate) fn from(through: Accumulator) -> Running {
        Running {
            through,
            waiting: [[0; BOTH_LEN]; WAITING],
            used: 0,
        }
    }

    /// As [`Accumulator::add`].
    pub(crate) fn add(
        &mut self,
        records: u64,
        body_crc: u32,
        header_crc: u32,
        append_ms: i64,
        max_event: Option<i64>,
        append_times: bool,
    ) {
        self.through
            .count(records, append_ms, max_event, append_times);
        if let Some(place) = self.waiting.get_mut(self.used) {
            *place = both(header_crc, body_crc);
        }
        self.used = self.used.saturating_add(1);
        if self.used == WAITING {
            self.sum_waiting();
        }
    }

    #[inline(never)]
    fn sum_waiting(&mut self) {
        self.through = self.sum();
        self.used = 0;
    }

    /// What all batches so far add up to.
    pub(crate) fn sum(&self) -> Accumulator {
        let waiting = self.waiting.get(..self.used).unwrap_or_default();
        Accumulator {
            crc: crc_onward(self.through.crc, waiting.as_flattened()),
            ..self.through
        }
    }

    /// The times alone are those of all batches so far.
    pub(crate) fn times(&self) -> &Accumulator {
        &self.through
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_accumulator_depends_on_every_batch_and_their_order() {
        let sum = |batches: &[(u32, u32)]| {
            let mut sum = Accumulator::default();
            for (body, header) in batches {
                sum.add(1, *body, *header, 5, None, true);
            }
            sum
        };
        let all = sum(&[(1, 2), (3, 4)]);
        assert_ne!(all, sum(&[(3, 4), (1, 2)]));
        assert_ne!(all, sum(&[(2, 1), (3, 4)]));
        let mut bytes = Vec::new();
        all.encode(&mut bytes);
        assert_eq!(bytes.len(), ACCUMULATOR_LEN);
        assert_eq!(Accumulator::read(&mut Reader::new(&bytes)), Some(all));
    }

    #[test]
    fn a_record_without_event_time_counts_with_its_append_time() {
        let times = |max_event, append_times| {
            let mut sum = Accumulator::default();
            sum.add(2, 0, 0, 100, max_event, append_times);
            (sum.max_event, sum.max_smaller)
        };
        assert_eq!(times(None, true), (100, 100));
        assert_eq!(times(Some(7), false), (7, 7));
        assert_eq!(times(Some(7), true), (100, 100));
        assert_eq!(times(Some(i64::MAX), false), (i64::MAX, 100));
        assert_eq!(times(Some(i64::MAX), true), (i64::MAX, 100));
    }

    #[test]
    fn first_and_last_append_are_those_of_the_first_and_the_last_batch() {
        let mut sum = Accumulator::default();
        assert_eq!(sum.first_append, i64::MIN);
        sum.add(2, 0, 0, 100, None, true);
        sum.add(3, 0, 0, 101, Some(5), false);
        assert_eq!(
            (sum.first_append, sum.last_append, sum.records),
            (100, 101, 5)
        );
    }

    #[test]
    fn summed_many_at_a_time_it_is_the_same() {
        let (mut running, mut plain) = (
            Running::from(Accumulator::default()),
            Accumulator::default(),
        );
        for n in 0..100 {
            assert_eq!(running.sum(), plain, "after {n}");
            running.add(n, n as u32, !n as u32, n as i64, Some(7), n % 2 == 0);
            plain.add(n, n as u32, !n as u32, n as i64, Some(7), n % 2 == 0);
        }
        assert_eq!(Running::from(plain).sum(), plain);
    }
}
