//! Where a partition is: its directory, its name, and the identity of its topic.

use std::path::PathBuf;

use crate::offset::TopicPartition;

/// Where a partition is.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Directory of the partition.
    pub(crate) dir: PathBuf,
    pub(crate) at: TopicPartition,
    /// Identity of the topic.
    pub(crate) topic: u128,
    /// Its topic's config says that it has a directory with a first segment.
    pub(crate) used: bool,
}
