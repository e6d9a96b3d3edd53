//! What every error can be asked: may it be tried again, what became of the write, where does reading go on.

use std::error::Error as _;
use std::fmt;
use std::io::ErrorKind;

use super::{Error, Outcome};
use crate::offset::{Position, TopicPartition};

impl Error {
    /// What became of the write: nothing was done, or unknown until reopened. Only [`Error::Indeterminate`] is the latter.
    pub fn outcome(&self) -> Outcome {
        match self {
            Error::Indeterminate { .. } => Outcome::Indeterminate,
            _ => Outcome::Rejected,
        }
    }

    /// May the very same call succeed later, without anything else that this caller must do first?
    ///
    /// So it is while the disk or a buffer is full, while somebody else has the log open, and when the operating system was
    /// interrupted, out of time, busy or out of memory. Not so for [`Woken`](Error::Woken), which somebody wished for.
    pub fn is_retriable(&self) -> bool {
        match self {
            Error::NoSpace { .. } | Error::BufferFull { .. } | Error::AlreadyOpen { .. } => true,
            Error::Io { source, .. } => matches!(
                source.kind(),
                ErrorKind::Interrupted
                    | ErrorKind::TimedOut
                    | ErrorKind::WouldBlock
                    | ErrorKind::ResourceBusy
                    | ErrorKind::OutOfMemory
            ),
            _ => false,
        }
    }

    /// Are stored bytes not those that were written? Somebody should look at the disk, and a repair may be needed.
    ///
    /// True for [`Corruption`](Error::Corruption), and where it is the cause of [`Poisoned`](Error::Poisoned). Not for
    /// [`DataLoss`](Error::DataLoss), which tells of a repair that was made, nor for a read that the disk refused.
    pub fn is_corruption(&self) -> bool {
        match self {
            Error::Corruption { .. } => true,
            Error::Poisoned { cause, .. } => cause.is_corruption(),
            _ => false,
        }
    }

    /// Was a wait ended by `wake`?
    pub fn is_woken(&self) -> bool {
        matches!(self, Error::Woken)
    }

    /// The one partition this is about, if others are unharmed: a service may log it and poll on.
    pub fn partition(&self) -> Option<&TopicPartition> {
        match self {
            Error::Conflict { at, .. }
            | Error::NotAssigned { at }
            | Error::NoPosition { at, .. }
            | Error::DataLoss { at, .. } => Some(at),
            Error::Poisoned { at, .. } | Error::Indeterminate { at, .. } => at.as_deref(),
            Error::OutOfRange { requested: at, .. } | Error::Decode { at, .. } => {
                Some(at.topic_partition())
            }
            Error::Corruption { lost: missing, .. }
            | Error::Incompatible {
                unread: missing, ..
            }
            | Error::Io {
                unread: missing, ..
            } => missing.as_deref().map(|(at, _)| at),
            _ => None,
        }
    }

    /// First readable position after what could not be read, to pass to `seek`.
    ///
    /// For [`OutOfRange`](Error::OutOfRange) it is the valid offset nearest to what was requested: the first record that is
    /// left if retention overtook the reader, the end if the reader was ahead of the log.
    pub fn resume_at(&self) -> Option<Position> {
        match self {
            Error::DataLoss { at, lost } => Some(at.at(lost.end)),
            Error::OutOfRange { requested, valid } => {
                let nearest = requested.offset().min(valid.end).max(valid.start);
                Some(requested.topic_partition().at(nearest))
            }
            Error::Decode { at, .. } => Some(at.topic_partition().at(at.offset().next())),
            Error::Corruption { lost: missing, .. }
            | Error::Incompatible {
                unread: missing, ..
            }
            | Error::Io {
                unread: missing, ..
            } => missing.as_deref().map(|(at, range)| at.at(range.end)),
            _ => None,
        }
    }
}

/// The message, then a line for each source.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        let mut source = self.source();
        while let Some(error) = source {
            write!(f, "\n  because: {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offset::Offset;
    use std::ops::Range;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    fn orders() -> TopicPartition {
        TopicPartition::new("orders", 3)
    }

    fn range(start: u64, end: u64) -> Range<Offset> {
        Offset::new(start)..Offset::new(end)
    }

    fn io(kind: ErrorKind) -> Error {
        Error::io("read", Path::new("log/7.log"), kind.into())
    }

    fn damage() -> Error {
        Error::corruption(Path::new("log/7.log"), 4096, Some((orders(), range(5, 9))))
    }

    fn poisoned(cause: Error) -> Error {
        Error::poisoned(Some(&orders()), Arc::new(cause))
    }

    fn out_of_range(offset: u64) -> Error {
        Error::OutOfRange {
            requested: Box::new(orders().at(Offset::new(offset))),
            valid: range(5, 9),
        }
    }

    fn resume_at(e: &Error) -> Option<String> {
        e.resume_at().map(|at| at.to_string())
    }

    #[test]
    fn an_error_is_at_most_64_bytes_and_can_cross_threads() {
        const fn shared<T: Send + Sync + 'static>() {}
        const { shared::<Error>() };
        assert!(size_of::<Error>() <= 64);
    }

    #[test]
    fn only_indeterminate_is_indeterminate() {
        let unknown = Error::indeterminate(Some(&orders()), io(ErrorKind::Other));
        assert_eq!(unknown.outcome(), Outcome::Indeterminate);
        assert_eq!(poisoned(unknown).outcome(), Outcome::Rejected);
        assert_eq!(io(ErrorKind::StorageFull).outcome(), Outcome::Rejected);
    }

    #[test]
    fn what_passes_by_itself_is_retriable() {
        assert!(io(ErrorKind::StorageFull).is_retriable());
        assert!(io(ErrorKind::TimedOut).is_retriable());
        assert!(
            Error::BufferFull {
                setting: "buffer_bytes",
                limit: 1,
                waited: Duration::ZERO
            }
            .is_retriable()
        );
        assert!(!io(ErrorKind::PermissionDenied).is_retriable());
        assert!(!poisoned(io(ErrorKind::TimedOut)).is_retriable());
        assert!(!Error::Woken.is_retriable());
        assert!(Error::Woken.is_woken());
    }

    #[test]
    fn damage_is_corruption_also_behind_poisoned_and_a_refused_read_is_not() {
        assert!(damage().is_corruption());
        assert!(poisoned(damage()).is_corruption());
        assert!(!io(ErrorKind::Other).is_corruption());
        assert!(
            !Error::DataLoss {
                at: Box::new(orders()),
                lost: range(5, 9)
            }
            .is_corruption()
        );
    }

    #[test]
    fn reading_resumes_behind_what_could_not_be_read() {
        let unread = io(ErrorKind::Other).missing(&orders(), range(5, 9));
        let lost = Error::DataLoss {
            at: Box::new(orders()),
            lost: range(5, 9),
        };
        for error in [damage(), unread, lost] {
            assert_eq!(resume_at(&error).as_deref(), Some("orders-3@9"), "{error}");
            assert_eq!(error.partition(), Some(&orders()));
        }
        assert_eq!(resume_at(&io(ErrorKind::Other)), None);
        assert_eq!(io(ErrorKind::Other).partition(), None);
    }

    #[test]
    fn reading_out_of_range_resumes_at_the_nearest_valid_offset() {
        assert_eq!(resume_at(&out_of_range(0)).as_deref(), Some("orders-3@5"));
        assert_eq!(resume_at(&out_of_range(99)).as_deref(), Some("orders-3@9"));
        assert_eq!(resume_at(&out_of_range(7)).as_deref(), Some("orders-3@7"));
    }

    #[test]
    fn a_record_of_the_wrong_form_is_skipped_by_resuming() {
        let error = Error::decode(orders().at(Offset::new(17)), "no value");
        assert_eq!(resume_at(&error).as_deref(), Some("orders-3@18"));
    }

    #[test]
    fn debug_prints_the_message_and_every_source() {
        let shown = format!(
            "{:?}",
            poisoned(Error::indeterminate(None, io(ErrorKind::TimedOut)))
        );
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(
            lines,
            [
                "orders-3 takes no appends after an earlier failure: recover the partition or reopen the log",
                "  because: what was written to the log may or may not be there: reopen the log to see",
                "  because: read failed on log/7.log",
                "  because: timed out",
            ]
        );
    }

    #[test]
    fn messages_name_file_and_number() {
        let expected = "log/7.log is damaged at byte 4096, records 5..9 of orders-3: the rest can be read, and writing here waits for a repair";
        assert_eq!(damage().to_string(), expected);
        assert_eq!(
            out_of_range(4).to_string(),
            "orders-3@4 is out of range: the partition holds 5..9"
        );
    }
}
