//! The short ways in which this crate makes its errors, and the one place where an I/O error gets its meaning.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::{BoxError, Error};
use crate::offset::{Offset, Position, TopicPartition};

impl Error {
    /// What the operating system answered to `call` on `file`. A full disk, quota or file size is [`Error::NoSpace`], a
    /// file system that takes no writes [`Error::ReadOnly`], anything else [`Error::Io`].
    #[cold]
    pub(crate) fn io(call: &'static str, file: &Path, source: io::Error) -> Error {
        match source.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                Error::NoSpace { file: file.into() }
            }
            ErrorKind::ReadOnlyFilesystem => Error::ReadOnly {
                dir: file.parent().unwrap_or(file).into(),
            },
            _ => Error::Io {
                call,
                file: file.into(),
                source,
                unread: None,
            },
        }
    }

    /// A sync of `file` failed. It is not [`Error::NoSpace`] even for want of space: what was to be synced is lost or not, and
    /// trying again proves nothing.
    #[cold]
    pub(crate) fn failed_sync(file: &Path, source: io::Error) -> Error {
        Error::Io {
            call: "sync",
            file: file.into(),
            source,
            unread: None,
        }
    }

    /// Bytes of `file`, from `byte` on, are not those that were written; `lost` is what they held, where that is known.
    #[cold]
    pub(crate) fn corruption(
        file: &Path,
        byte: u64,
        lost: Option<(TopicPartition, Range<Offset>)>,
    ) -> Error {
        Error::Corruption {
            file: file.into(),
            byte,
            lost: lost.map(Box::new),
        }
    }

    /// The partition ends elsewhere than the writer expected.
    #[cold]
    pub(crate) fn conflict(at: &TopicPartition, expected_end: Offset, actual_end: Offset) -> Error {
        Error::Conflict {
            at: Box::new(at.clone()),
            expected_end,
            actual_end,
        }
    }

    /// The damage that a partition was found with, told once more; of any other kind, that it stopped the partition.
    #[cold]
    pub(crate) fn again(at: &TopicPartition, cause: &Arc<Error>) -> Error {
        match &**cause {
            Error::Corruption { file, byte, lost } => Error::Corruption {
                file: file.clone(),
                byte: *byte,
                lost: lost.clone(),
            },
            _ => Error::poisoned(Some(at), Arc::clone(cause)),
        }
    }

    /// `file` is of a format that this build does not know.
    #[cold]
    pub(crate) fn incompatible(file: &Path, found: u32, supported: u32) -> Error {
        Error::Incompatible {
            file: file.into(),
            found,
            supported,
            unread: None,
        }
    }

    /// Adds which records could not be read, for a layer that knows it when the layer below does not. An error that has
    /// no place for it, or has it already, stays as it is.
    #[cold]
    pub(crate) fn missing(mut self, at: &TopicPartition, records: Range<Offset>) -> Error {
        if let Error::Corruption { lost: missing, .. }
        | Error::Incompatible {
            unread: missing, ..
        }
        | Error::Io {
            unread: missing, ..
        } = &mut self
        {
            missing.get_or_insert_with(|| Box::new((at.clone(), records)));
        }
        self
    }

    #[cold]
    pub(crate) fn invalid(setting: &'static str, why: impl Into<Box<str>>) -> Error {
        Error::InvalidSetting {
            setting,
            why: why.into(),
        }
    }

    #[cold]
    pub(crate) fn invalid_name(name: &str, why: &'static str) -> Error {
        Error::InvalidName {
            name: name.into(),
            why,
        }
    }

    #[cold]
    pub(crate) fn not_found(what: &'static str, name: &str) -> Error {
        Error::NotFound {
            what,
            name: name.into(),
        }
    }

    #[cold]
    pub(crate) fn already_exists(what: &'static str, name: &str) -> Error {
        Error::AlreadyExists {
            what,
            name: name.into(),
        }
    }

    /// The sound record at `at` is not what the caller wants.
    #[cold]
    pub(crate) fn decode(at: Position, source: impl Into<BoxError>) -> Error {
        Error::Decode {
            at: Box::new(at),
            source: source.into(),
        }
    }

    /// Appends are refused since `cause`; `None` for the journal or the whole log.
    #[cold]
    pub(crate) fn poisoned(at: Option<&TopicPartition>, cause: Arc<Error>) -> Error {
        Error::Poisoned {
            at: at.cloned().map(Box::new),
            cause,
        }
    }

    /// The write may or may not be there, since `source`; `None` for a transaction. (Not yet decided.)
    #[cold]
    pub(crate) fn indeterminate(at: Option<&TopicPartition>, source: impl Into<BoxError>) -> Error {
        Error::Indeterminate {
            at: at.cloned().map(Box::new),
            decided: false,
            source: source.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn io(kind: ErrorKind) -> Error {
        Error::io("write", Path::new("data/orders/7.log"), kind.into())
    }

    #[test]
    fn every_kind_of_full_is_no_space() {
        for kind in [
            ErrorKind::StorageFull,
            ErrorKind::QuotaExceeded,
            ErrorKind::FileTooLarge,
        ] {
            assert!(matches!(io(kind), Error::NoSpace { .. }), "{kind}");
        }
    }

    /// The numbers that the simulated storage and the kernel answer with.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_numbers_of_linux_map_as_their_kinds_do() {
        for errno in [28, 122, 27] {
            let error = Error::io(
                "write",
                Path::new("7.log"),
                io::Error::from_raw_os_error(errno),
            );
            assert!(matches!(error, Error::NoSpace { .. }), "{error}");
        }
        let error = Error::io(
            "write",
            Path::new("7.log"),
            io::Error::from_raw_os_error(30),
        );
        assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
    }

    #[test]
    fn a_read_only_file_system_names_the_directory() {
        assert_eq!(
            io(ErrorKind::ReadOnlyFilesystem).to_string(),
            "data/orders can only be read"
        );
    }

    #[test]
    fn other_io_errors_keep_call_file_and_source() {
        assert_eq!(
            format!("{:?}", io(ErrorKind::TimedOut)),
            "write failed on data/orders/7.log\n  because: timed out"
        );
    }

    #[test]
    fn missing_records_are_added_once_and_only_where_they_belong() {
        let at = TopicPartition::new("orders", 3);
        let first = Offset::ZERO..Offset::new(5);
        let other = Offset::new(5)..Offset::new(9);
        let error = Error::corruption(Path::new("7.log"), 0, None)
            .missing(&at, first)
            .missing(&at, other.clone());
        assert_eq!(error.resume_at(), Some(at.at(Offset::new(5))));
        assert!(matches!(Error::Closed.missing(&at, other), Error::Closed));
    }
}
