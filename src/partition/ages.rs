//! How old segments are, where the clock was not always right.
//!
//! Append times never go back within a partition, so that nothing looks older than what came before it. The price: what is appended after
//! the clock was ahead, be it once, or while it is behind, gets a time that is *held up*: it says nothing. So the header of a segment
//! says when it was begun, as the clock said then, whatever was said before; and a segment takes held-up times only if its header says that
//! too. (By less than an hour is not held up.)
//!
//! 1. A segment is as old as the newest append in it, unless that is to come, or held up.
//! 2. Else it is as old as the next segment, which is younger than all in it: the first behind it that was begun at a time that is
//!    *believed*. It has come, and no earlier time that has come stands before it; a clock that was behind proves nothing.
//! 3. If there is none, nobody knows how old it is, and it is young.
//!
//! For rule 2 there must be a next one. The last segment is ended at its age, which counts from when it was begun if its first
//! append is to come; at once, if that is to come too; and where rule 3 holds, when all in it may have become too old to be kept. (An
//! empty one is begun anew.)
//!
//! So nothing goes before its time by a clock that is right now, whether it was ahead or behind before; by one that is behind now,
//! nothing goes before that clock has counted its whole age; and one that was ahead pins nothing for long. What nobody can know: that a clock was behind where no time that was right is left from before; or so long that it has passed them all.

use std::sync::Arc;
use std::time::Duration;

use super::policy::RetentionTime;
use super::writer::Last;
use crate::clock::Timestamp;
use crate::error::Result;
use crate::format::accumulator::Accumulator;
use crate::format::segment::SegmentHeader;
use crate::segment::Segment;

/// A clock that is wrong by less is taken for right.
pub(crate) const JUMP: Duration = Duration::from_secs(60 * 60);

/// What a segment with records is as old as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Newest {
    At(Timestamp),
    /// Nobody knows; for now it is young.
    Unknown,
}

impl Newest {
    pub(super) fn is_before(self, time: Timestamp) -> bool {
        matches!(self, Newest::At(newest) if newest < time)
    }
}

/// What the header of a segment says of when it was begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begin {
    pub(super) created: Timestamp,
    pub(super) held_up: bool,
}

impl Begin {
    pub(super) fn of(header: &SegmentHeader) -> Begin {
        Begin {
            created: Timestamp::from_millis(header.created_ms),
            held_up: header.held_up,
        }
    }
}

/// Is an append held up now, where another one came at `last`?
pub(super) fn holds_up(last: u64, now: Timestamp) -> bool {
    Timestamp::from_millis(i64::try_from(last).unwrap_or(i64::MAX)) > now.plus(JUMP)
}

/// Tells how old the segments of a partition are, one by one from the oldest on.
pub(super) struct Ages {
    by: RetentionTime,
    pub(super) now: Timestamp,
    /// The latest time that has come, of all that the segments so far say.
    known: Timestamp,
}

impl Ages {
    pub(super) fn new(by: RetentionTime, now: Timestamp) -> Ages {
        Ages {
            by,
            now,
            known: Timestamp::MIN,
        }
    }

    /// What the next segment is as old as; `None` if it holds no record. `behind`: when the segments behind it were begun, in order.
    pub(super) fn newest(
        &mut self,
        begin: Begin,
        totals: &Accumulator,
        behind: impl IntoIterator<Item = Result<Begin>>,
    ) -> Result<Option<Newest>> {
        let appends = [totals.first_append, totals.last_append].map(Timestamp::from_millis);
        for time in [begin.created, appends[0], appends[1]] {
            if time <= self.now {
                self.known = self.known.max(time);
            }
        }
        let Some(newest) = self.by.newest(totals) else {
            return Ok(None);
        };
        // An event time that is to count for itself does, whatever it says.
        let own = self.by == RetentionTime::RecordTime && newest != appends[1];
        let soon = self.now.plus(JUMP); // so soon that it does not matter
        if own || newest <= soon && !begin.held_up {
            return Ok(Some(Newest::At(newest))); // 1
        }
        for next in behind {
            let begun = next?.created;
            if (self.known..=self.now).contains(&begun) {
                return Ok(Some(Newest::At(begun))); // 2
            }
        }
        Ok(Some(Newest::Unknown)) // 3
    }

    /// How many of these segments, from the oldest on, end at `anyway` or before it, or hold nothing of this time or a later one; and
    /// whether nobody knows how old the next one is. `last` is behind them.
    pub(super) fn older(
        mut self,
        sealed: &[Arc<Segment>],
        last: Begin,
        time: Timestamp,
        anyway: u64,
    ) -> Result<(usize, bool)> {
        for (segment, behind) in sealed.iter().zip(1..) {
            let footer = segment.seal().map(|seal| seal.footer);
            let totals = footer.map(|footer| footer.accumulator).unwrap_or_default();
            let begins = sealed[behind..]
                .iter()
                .map(|segment| Begin::of(&segment.header));
            let begins = begins.chain([last]).map(Ok);
            let newest = self.newest(Begin::of(&segment.header), &totals, begins)?;
            let ends = footer.is_some_and(|footer| footer.next_base <= anyway);
            if !ends && newest.is_some_and(|newest| !newest.is_before(time)) {
                return Ok((behind - 1, newest == Some(Newest::Unknown)));
            }
        }
        Ok((sealed.len(), false))
    }
}

/// The time by the clock; or by these segments, if it is behind: the latest of what they say. One that was ahead leaves times that look
/// the same, so not by more than a year: a host without a battery starts with the time of its last stop, or of its system, and nothing is
/// to wait for ten years.
pub(super) fn latest(now: Timestamp, sealed: &[Arc<Segment>], last: Option<&Last>) -> Timestamp {
    const BEHIND: Duration = Duration::from_secs(366 * 24 * 60 * 60);
    let said = |begin: Begin, totals: &Accumulator| {
        let times = [begin.created, Timestamp::from_millis(totals.last_append)];
        let may_be = times.into_iter().filter(|&time| time <= now.plus(BEHIND));
        may_be.fold(now, Ord::max)
    };
    let sealed = sealed.iter().filter_map(|segment| {
        let totals = &segment.seal()?.footer.accumulator;
        Some(said(Begin::of(&segment.header), totals))
    });
    let last = last.map(|last| said(last.begin, &last.totals));
    sealed.chain(last).fold(now, Ord::max)
}

/// When a segment with records is as old as `age`, which counts from its first append; or from when it was begun, if that is to come.
/// [`Timestamp::MIN`] if that is to come, too.
pub(super) fn over_at(
    begin: Begin,
    totals: &Accumulator,
    age: Duration,
    now: Timestamp,
) -> Timestamp {
    let soon = now.plus(age.max(JUMP));
    let first = Timestamp::from_millis(totals.first_append);
    let begun = if first <= soon {
        first
    } else {
        first.min(begin.created)
    };
    if begun <= soon {
        begun.plus(age)
    } else {
        Timestamp::MIN
    }
}

/// When an append need not look whether the active segment is the one for it: a span of the clock. Empty unless said.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Young {
    from: u64,
    len: u64,
}

impl Young {
    /// From a look at this time on, until the segment ends: and not for so long that the clock could go back unseen.
    pub(super) fn from(now: Timestamp, ends: Timestamp) -> Young {
        let millis = |time: Timestamp| u64::try_from(time.as_millis()).unwrap_or(0);
        let from = millis(now.minus(JUMP / 2));
        Young {
            from,
            len: millis(ends.min(now.plus(JUMP / 2))).saturating_sub(from),
        }
    }

    #[inline]
    pub(super) fn holds(self, now: u64) -> bool {
        now.wrapping_sub(self.from) < self.len
    }
}

#[cfg(test)]
mod tests;
