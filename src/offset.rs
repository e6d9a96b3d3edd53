//! Where a record is: offset, partition, topic, and the positions that they make together.

mod positions;

pub use positions::Positions;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::clock::Timestamp;
use crate::error::{Error, Result};

/// The number of one record in its partition, from 0 to 2⁶³ − 1.
///
/// Never a count: neighbours may be missing, since compaction, repair and recovery leave gaps.
///
/// ```
/// use thalweg::Offset;
///
/// let first = Offset::ZERO;
/// assert_eq!(first.next(), Offset::new(1));
/// assert_eq!(first.next().to_string(), "1");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(u64);

impl Offset {
    /// The offset of the first record that a partition ever gets.
    pub const ZERO: Offset = Offset(0);
    /// The largest there is: Kafka counts in signed numbers.
    pub(crate) const MAX: Offset = Offset(i64::MAX.cast_unsigned());

    /// The offset `n`; above the largest possible, that one.
    #[inline]
    pub const fn new(n: u64) -> Self {
        if n > Self::MAX.0 {
            Self::MAX
        } else {
            Offset(n)
        }
    }

    /// The offset `n`, for numbers from outside: `None` above the largest possible.
    pub(crate) const fn checked(n: u64) -> Option<Self> {
        if n > Self::MAX.0 {
            None
        } else {
            Some(Offset(n))
        }
    }

    /// The bare number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The offset after this one; the largest possible stays.
    #[must_use = "this offset itself stays as it is"]
    pub const fn next(self) -> Self {
        Self::new(self.0 + 1)
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a partition within its topic, from 0 to 2³¹ − 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(u32);

impl PartitionId {
    /// The largest there is: Kafka counts in signed numbers.
    pub(crate) const MAX: PartitionId = PartitionId(i32::MAX.cast_unsigned());

    /// Partition `n`; above the largest possible, that one.
    pub const fn new(n: u32) -> Self {
        if n > Self::MAX.0 {
            Self::MAX
        } else {
            PartitionId(n)
        }
    }

    /// The bare number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl From<u32> for PartitionId {
    fn from(n: u32) -> Self {
        PartitionId::new(n)
    }
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One partition by name: what is assigned, paused, revoked. A cheap clone; shown as `orders-3`.
///
/// It is a name only, and nothing is checked: there may be no such topic.
///
/// ```
/// use thalweg::{Offset, TopicPartition};
///
/// let at = TopicPartition::new("orders", 3);
/// assert_eq!(at.to_string(), "orders-3");
/// assert_eq!(at.at(Offset::new(17)).to_string(), "orders-3@17");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    topic: Arc<str>,
    partition: PartitionId,
}

impl TopicPartition {
    /// The partition of that number in the topic of that name.
    pub fn new(topic: &str, partition: impl Into<PartitionId>) -> Self {
        Self::shared(topic.into(), partition.into())
    }

    /// As [`new`](Self::new), for the many partitions that share one copy of their topic's name.
    pub(crate) fn shared(topic: Arc<str>, partition: PartitionId) -> Self {
        TopicPartition { topic, partition }
    }

    /// The name of the topic.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The number of the partition.
    pub fn partition(&self) -> PartitionId {
        self.partition
    }

    /// The record at `offset` of this partition.
    pub fn at(&self, offset: Offset) -> Position {
        Position::new(self.clone(), offset)
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// Topic, partition and offset of one record. Shown as `orders-3@17`, and parsed from that.
///
/// ```
/// use thalweg::Position;
///
/// let at: Position = "late-orders-3@17".parse()?;
/// assert_eq!((at.topic(), at.partition().get(), at.offset().get()), ("late-orders", 3, 17));
/// assert_eq!(at.to_string(), "late-orders-3@17");
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    at: TopicPartition,
    offset: Offset,
}

impl Position {
    /// The record at `offset` of the partition `at`.
    pub fn new(at: TopicPartition, offset: Offset) -> Self {
        Position { at, offset }
    }

    /// The name of the topic.
    pub fn topic(&self) -> &str {
        self.at.topic()
    }

    /// The number of the partition.
    pub fn partition(&self) -> PartitionId {
        self.at.partition()
    }

    /// Topic and partition together.
    pub fn topic_partition(&self) -> &TopicPartition {
        &self.at
    }

    /// The offset in the partition.
    pub fn offset(&self) -> Offset {
        self.offset
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.at, self.offset)
    }
}

/// # Errors
///
/// [`Error::InvalidName`] for anything that a position is not shown as; a topic's name itself is not checked here.
impl FromStr for Position {
    type Err = Error;

    fn from_str(s: &str) -> Result<Self> {
        parse(s).ok_or_else(|| {
            Error::invalid_name(
                s,
                "a position is written topic-partition@offset, as in orders-3@17",
            )
        })
    }
}

/// From the right: a topic's name may hold a `-`.
fn parse(s: &str) -> Option<Position> {
    let (at, offset) = s.rsplit_once('@')?;
    let (topic, partition) = at.rsplit_once('-')?;
    let offset = Offset::checked(number(offset)?)?;
    let partition = u32::try_from(number(partition)?)
        .ok()
        .filter(|&n| n <= PartitionId::MAX.0)?;
    (!topic.is_empty()).then(|| TopicPartition::new(topic, partition).at(offset))
}

/// Digits and nothing else, without zeros in front: what is parsed is shown the same again. (`str::parse` takes a `+` too.)
fn number(s: &str) -> Option<u64> {
    let digits = s.bytes().all(|b| b.is_ascii_digit());
    let padded = s.len() > 1 && s.starts_with('0');
    if digits && !padded {
        s.parse().ok()
    } else {
        None
    }
}

/// Where a group begins in a partition for which it has no committed offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartFrom {
    /// At the first record that is still there. The default.
    Earliest,
    /// At the end, as it is when the group is joined: only what is appended afterwards.
    Latest,
    /// At the first record of that time or later; at the end if there is none.
    Time(Timestamp),
    /// As `Time`, that long before now.
    Ago(std::time::Duration),
    /// Nowhere: the first poll is an error ([`Error::NoPosition`]).
    Fail,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stop_where_kafka_stops() {
        assert_eq!(Offset::new(u64::MAX).get(), i64::MAX as u64);
        assert_eq!(Offset::MAX.next(), Offset::MAX);
        assert_eq!(Offset::checked(i64::MAX as u64), Some(Offset::MAX));
        assert_eq!(Offset::checked(1 << 63), None);
        assert_eq!(PartitionId::new(u32::MAX).get(), i32::MAX as u32);
    }

    #[test]
    fn a_position_is_parsed_from_what_it_is_shown_as() {
        let largest = format!("t-{}@{}", i32::MAX, i64::MAX);
        for text in [
            "orders-3@17",
            "a-b-c-0@0",
            "x@y-1@2",
            "--1@5",
            largest.as_str(),
        ] {
            assert_eq!(text.parse::<Position>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_position_is_refused() {
        let over = [
            format!("t-{}@1", 1_u64 << 31),
            format!("t-1@{}", 1_u64 << 63),
            format!("t-1@{}9", u64::MAX),
        ];
        let wrong = [
            "",
            "orders",
            "orders-3",
            "orders@3",
            "-3@1",
            "orders-@1",
            "orders-3@",
            "o-3@+1",
            "o-+3@1",
            "o-3@01",
            "o-03@1",
            "o-3@-1",
            "o-3@1 ",
        ];
        for text in wrong.into_iter().chain(over.iter().map(String::as_str)) {
            assert!(
                matches!(text.parse::<Position>(), Err(Error::InvalidName { .. })),
                "{text}"
            );
        }
    }

    #[test]
    fn partitions_sort_by_topic_then_by_number() {
        let mut all = [
            TopicPartition::new("b", 1),
            TopicPartition::new("a", 10),
            TopicPartition::new("a", 9),
        ];
        all.sort();
        assert_eq!(all.map(|at| at.to_string()), ["a-9", "a-10", "b-1"]);
    }
}
