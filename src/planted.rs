//! Bugs that are planted on purpose, to prove that the tests notice: compiled in only under `--cfg planted`.
//!
//! A build without that flag holds none of them: [`planted!`] is then the constant `false`.

/// Is this bug planted? `planted!(NAME)`.
macro_rules! planted {
    ($bug:ident) => {{
        #[cfg(planted)]
        {
            $crate::planted::is_planted($crate::planted::Bug::$bug)
        }
        #[cfg(not(planted))]
        {
            false
        }
    }};
}

#[cfg(planted)]
pub use bugs::*;

#[cfg(planted)]
mod bugs {
    use std::sync::atomic::{AtomicU8, Ordering};

    /// The bugs of this layer, by their number in the list of planted bugs.
    #[allow(non_camel_case_types, missing_docs)]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(u8)]
    pub enum Bug {
        NONE = 0,
        DIRECTORY_SYNC_SKIPPED = 1,
        ACKNOWLEDGED_BEFORE_SYNC = 2,
        FAILED_SYNC_RETRIED = 3,
        SHORT_WRITE_IGNORED = 4,
        NO_ROLLBACK = 5,
        BARRIER_SKIPPED = 6,
        INDEX_TRUSTED = 7,
        CRC_NOT_CHECKED = 8,
        SEED_WITHOUT_PLACE = 9,
        CUT_AT_DAMAGE = 10,
        EIO_IS_END_OF_FILE = 11,
        ZERO_HEADER_ACCEPTED = 12,
        SPAN_SKIP_IGNORED = 13,
        COMMIT_DURABLE_BEFORE_DATA = 14,
        UNLINKED_BEFORE_MANIFEST = 16,
        LEFTOVER_REUSED = 17,
        LOCK_AFTER_RECOVERY = 18,
        CALLBACK_UNDER_LOCK = 19,
        SILENT_NEVER_FENCED = 20,
        OLD_GENERATION_COMMITS = 21,
        LENGTH_CAP_REMOVED = 24,
        OPEN_NOT_SYNCED = 25,
        OUT_LINK_NOT_COPIED = 26,
        SAME_BOOT_BY_NEWEST_OPEN = 27,
        CLOSE_WHILE_UNFINISHED = 29,
        LEFTOVER_REMOVED_UNCOVERED = 30,
        TOMBSTONE_DROPPED_EARLY = 32,
        DROPPED_BEYOND_ROUND = 33,
        OFFSETS_EXPIRE_UNDER_MEMBERS = 34,
    }

    static PLANTED: AtomicU8 = AtomicU8::new(0);

    /// Plants one bug in this process, instead of any other.
    pub fn plant(bug: Bug) {
        PLANTED.store(bug as u8, Ordering::SeqCst);
    }

    pub(crate) fn is_planted(bug: Bug) -> bool {
        PLANTED.load(Ordering::SeqCst) == bug as u8
    }
}
