//! A file read forwards through a buffer.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::thread;

use super::Ground;
use crate::io::{Ahead, BLOCK, Block, File, Reading, read_full};

/// Bytes that are read at once.
const WINDOW: usize = 256 << 10;
const LEAST_WINDOW: usize = 32 << 10;
/// So much of what is left of one block fits in front of the next: most record batches.
const ROOM: usize = 256 << 10;

/// A file that is read forwards.
pub(crate) struct Stream<'f> {
    file: &'f dyn File,
    /// Who reads on while the caller looks at what was read.
    behind: Option<Behind<'f>>,
    /// Nobody waits for the caller: it lets others run between two reads.
    gives_way: bool,
    ahead: Option<Ahead>,
    /// The file is looked at up to here.
    len: u64,
    buffer: Block,
    /// Of what stands in the buffer.
    start: u64,
    /// Memory for the next block.
    spare: Block,
    /// Bytes to read next: few where what follows may be passed over, and more each time it was not.
    window: usize,
}

/// What is needed to read on.
struct Behind<'f> {
    ground: &'f Ground,
    file: &'f Arc<dyn File>,
    /// How many syncs of others there had been at the beginning.
    others: u64,
}

impl<'f> Stream<'f> {
    pub(crate) fn new(file: &'f dyn File, len: u64) -> Stream<'f> {
        Stream {
            file,
            behind: None,
            gives_way: false,
            ahead: None,
            len,
            buffer: Block::default(),
            start: 0,
            spare: Block::default(),
            window: WINDOW,
        }
    }

    /// One that reads on while the caller looks at what was read, where much is wanted in a row; until somebody syncs what was appended, or
    /// a record batch is too large for it.
    pub(crate) fn reading_on(ground: &'f Ground, file: &'f Arc<dyn File>, len: u64) -> Stream<'f> {
        Stream {
            behind: Some(Behind {
                ground,
                file,
                others: ground.syncs.ended(),
            }),
            gives_way: true,
            ..Stream::new(&**file, len)
        }
    }

    /// What comes next lies further on, and perhaps by itself.
    pub(crate) fn leap(&mut self) {
        self.window = LEAST_WINDOW;
    }

    /// The bytes from `position` on: at least `need` of them, unless the file ends before.
    pub(crate) fn at(&mut self, position: u64, need: usize) -> io::Result<&[u8]> {
        let left = usize::try_from(self.len.saturating_sub(position)).unwrap_or(usize::MAX);
        let need = need.min(left);
        if self.gives_way && self.lacks(position, need) {
            self.give_way();
        }
        while self.lacks(position, need) && self.take_on(position) {}
        if self.lacks(position, need) {
            let in_a_row = self.window == WINDOW && self.held(position).is_some();
            self.read(position, need.max(self.window).min(left))?;
            self.window = (2 * self.window).min(WINDOW);
            if in_a_row {
                self.read_on();
            }
        }
        let held = self.held(position).unwrap_or(0..0);
        Ok(&self.buffer.bytes[held])
    }

    fn lacks(&self, position: u64, need: usize) -> bool {
        self.held(position).is_none_or(|held| held.len() < need)
    }

    /// Where the bytes from this position on stand in the buffer.
    fn held(&self, position: u64) -> Option<Range<usize>> {
        let skip = usize::try_from(position.checked_sub(self.start)?).ok()?;
        let from = self.buffer.from + skip;
        (from <= self.buffer.bytes.len()).then_some(from..self.buffer.bytes.len())
    }

    /// The position behind what is held.
    fn end(&self) -> u64 {
        self.start + (self.buffer.bytes.len() - self.buffer.from) as u64
    }

    /// Reads so many bytes from this position on, but for those that are held.
    fn read(&mut self, position: u64, bytes: usize) -> io::Result<()> {
        let held = self.held(position).unwrap_or(0..0);
        let known = held.len();
        let Block {
            bytes: buffer,
            from,
        } = &mut self.buffer;
        buffer.copy_within(held, 0);
        buffer.reserve_exact(bytes.saturating_sub(buffer.len()));
        buffer.resize(bytes, 0);
        (self.start, *from) = (position, 0);
        let read = read_full(self.file, &mut buffer[known..], position + known as u64);
        buffer.truncate(known + *read.as_ref().unwrap_or(&0));
        read.map(drop)
    }

    /// Who waits for a processor gets it; and two are not taken from somebody who syncs what was appended.
    fn give_way(&mut self) {
        thread::yield_now();
        let behind = self.behind.as_ref();
        if behind.is_some_and(|behind| behind.ground.syncs.went_on(behind.others)) {
            (self.behind, self.ahead) = (None, None);
        }
    }

    /// Begins to read on behind what is held.
    fn read_on(&mut self) {
        let at = self.end();
        if let Some(behind) = &self.behind
            && self.len.saturating_sub(at) >= BLOCK as u64
        {
            self.ahead = Some(behind.ground.storage.read_ahead(Reading {
                file: Arc::clone(behind.file),
                at,
                end: self.len,
                room: ROOM,
            }));
        }
    }

    /// Goes on with what was read ahead. `false`: there is nothing, or it is of no use for this position. (An error is met again by who
    /// needs just these bytes.)
    fn take_on(&mut self, position: u64) -> bool {
        let end = self.end();
        let held = self.held(position).unwrap_or(0..0);
        let known = held.len();
        if known > ROOM {
            self.behind = None;
        }
        let of_use = known <= ROOM && (self.start..end + BLOCK as u64).contains(&position);
        let next = match &mut self.ahead {
            Some(ahead) if of_use => ahead.next(std::mem::take(&mut self.spare)).ok(),
            _ => None,
        };
        let Some(mut next) = next.filter(|next| next.bytes.len() > next.from) else {
            (self.ahead, self.spare) = (None, Block::default());
            return false;
        };
        next.from -= known;
        next.bytes[next.from..next.from + known].copy_from_slice(&self.buffer.bytes[held]);
        self.start = end - known as u64;
        self.spare = std::mem::replace(&mut self.buffer, next);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::io::memory::Memory;
    use crate::io::{OpenMode, Storage, write_full};
    use crate::segment::ReadMode;

    /// A file of so many bytes, no two places of which are alike, on a disk and in memory; and what is in it.
    fn on_each(len: usize, test: impl Fn(&Ground, &Arc<dyn File>, &[u8])) {
        let words = (0..len as u32).map(|n| n.wrapping_mul(2_654_435_761));
        let bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).take(len).collect();
        let dir = tempfile::tempdir().expect("a directory");
        let disk: Arc<dyn Storage> = Arc::new(crate::io::disk::Disk);
        let memory: Arc<dyn Storage> = Arc::new(Memory::new());
        for (storage, dir) in [(disk, dir.path()), (memory, Path::new("/d"))] {
            let dir = storage.resolve(dir, true).expect("room");
            let file = storage.open(&dir.join("f"), OpenMode::CreateNew);
            let file = file.expect("room");
            write_full(&*file, &bytes, 0).expect("room");
            let ground = Ground::new(storage, 8, ReadMode::Positioned);
            test(&ground, &file, &bytes);
        }
    }

    /// Reads on from 0 in steps of so many bytes, of which a part is asked for first, and compares all.
    fn read_all(stream: &mut Stream<'_>, bytes: &[u8], step: usize) {
        let mut at = 0;
        while at < bytes.len() {
            let front = stream.at(at as u64, step.min(48)).expect("it can be read");
            assert!(
                bytes[at..].starts_with(front) && front.len() >= step.min(48).min(bytes.len() - at)
            );
            let whole = stream.at(at as u64, step).expect("it can be read");
            assert!(bytes[at..].starts_with(whole), "at {at}");
            assert!(whole.len() >= step.min(bytes.len() - at), "at {at}");
            at += step;
        }
        assert!(
            stream
                .at(bytes.len() as u64, 1)
                .expect("its end")
                .is_empty()
        );
    }

    #[test]
    fn whatever_the_steps_the_bytes_are_those_of_the_file() {
        for len in [0, 1, WINDOW, WINDOW + 1, WINDOW + BLOCK, 5 * BLOCK + 4321] {
            on_each(len, |ground, file, bytes| {
                for step in [1000, 104_999, ROOM, ROOM + 1, 700_001, BLOCK, 3 * BLOCK + 7] {
                    read_all(&mut Stream::new(&**file, len as u64), bytes, step);
                    let mut ahead = Stream::reading_on(ground, file, len as u64);
                    read_all(&mut ahead, bytes, step);
                    let most = step.max(2 * BLOCK);
                    assert!(
                        ahead.buffer.bytes.capacity() <= most
                            && ahead.spare.bytes.capacity() <= 2 * BLOCK
                    );
                }
            });
        }
    }

    #[test]
    fn what_is_leapt_over_need_not_be_read() {
        let len = 8 * BLOCK + 99;
        on_each(len, |ground, file, bytes| {
            for leap in [10, 10_000, BLOCK / 2, BLOCK + 17, 3 * BLOCK] {
                for steps in [1, 3, 20] {
                    let mut stream = Stream::reading_on(ground, file, len as u64);
                    let mut at = 0;
                    while at < len {
                        for _ in 0..steps {
                            let some = stream.at(at as u64, 30_000).expect("it can be read");
                            assert!(bytes[at.min(len)..].starts_with(some), "at {at}");
                            assert!(some.len() >= 30_000.min(len.saturating_sub(at)), "at {at}");
                            at += 30_000;
                        }
                        at += leap;
                        stream.leap();
                    }
                }
            }
        });
    }

    #[test]
    fn nothing_is_read_ahead_once_somebody_syncs_what_was_appended() {
        let len = 6 * BLOCK;
        on_each(len, |ground, file, bytes| {
            let mut stream = Stream::reading_on(ground, file, len as u64);
            stream.at(0, 1).expect("it can be read");
            assert!(stream.ahead.is_some());
            stream.at(WINDOW as u64, 1).expect("it can be read");
            assert!(stream.ahead.is_some());
            ground.syncs.begin();
            let at = (WINDOW + BLOCK) as u64;
            let after = stream.at(at, 1).expect("it can be read");
            assert!(bytes[WINDOW + BLOCK..].starts_with(after));
            assert!(stream.ahead.is_none());
            read_all(&mut stream, bytes, 99_999);
            assert!(stream.ahead.is_none());
            ground.syncs.end();
        });
    }

    #[test]
    fn a_file_that_is_shorter_than_was_said_ends_where_it_ends() {
        for len in [WINDOW - 1, WINDOW + 5, WINDOW + BLOCK + 5] {
            on_each(len, |ground, file, bytes| {
                let mut stream = Stream::reading_on(ground, file, 9 * BLOCK as u64);
                let mut at = 0;
                while at < len {
                    let some = stream.at(at as u64, 10_000).expect("it can be read");
                    assert_eq!(
                        some.get(..10_000.min(len - at)),
                        bytes.get(at..len.min(at + 10_000))
                    );
                    at += 10_000;
                }
                assert!(stream.at(len as u64, 1).expect("its end").is_empty());
            });
        }
    }

    /// A file with a place that cannot be read.
    #[derive(Debug)]
    struct Torn {
        file: Arc<dyn File>,
        bad: Range<u64>,
    }

    impl File for Torn {
        fn read_at(&self, into: &mut [u8], position: u64) -> io::Result<usize> {
            if position < self.bad.end && self.bad.start < position + into.len() as u64 {
                return Err(io::Error::other("a bad sector"));
            }
            self.file.read_at(into, position)
        }
        fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
            self.file.write_at(bytes, position)
        }
        fn sync_data(&self) -> io::Result<()> {
            self.file.sync_data()
        }
        fn sync_all(&self) -> io::Result<()> {
            self.file.sync_all()
        }
        fn set_len(&self, len: u64) -> io::Result<()> {
            self.file.set_len(len)
        }
        fn len(&self) -> io::Result<u64> {
            self.file.len()
        }
        fn map(&self, len: u64) -> io::Result<crate::io::Mapping> {
            self.file.map(len)
        }
    }

    #[test]
    fn a_place_that_cannot_be_read_is_an_error_for_who_wants_it_and_for_nobody_else() {
        let len = 7 * BLOCK;
        let bad = (5 * BLOCK + 300_000) as u64..(5 * BLOCK + 300_512) as u64;
        on_each(len, |ground, file, bytes| {
            let (file, bad) = (Arc::clone(file), bad.clone());
            let torn: Arc<dyn File> = Arc::new(Torn {
                file,
                bad: bad.clone(),
            });
            let mut stream = Stream::reading_on(ground, &torn, len as u64);
            let mut at = 0;
            while at + 4096 <= bad.start {
                // Where what is read at once reaches into it, that fails, and who asks again is told again.
                if let Ok(some) = stream.at(at, 4096) {
                    assert!(bytes[at as usize..].starts_with(some) && some.len() >= 4096);
                } else {
                    assert!(bad.start - at <= WINDOW as u64, "at {at}");
                    assert!(stream.at(at, 4096).is_err());
                }
                at += 4096;
            }
            assert!(stream.at(bad.start, 1).is_err());
            stream.leap();
            let behind = bad.end + 1;
            let some = stream.at(behind, 4096).expect("it is sound again");
            assert!(bytes[behind as usize..].starts_with(some) && some.len() >= 4096);
        });
    }
}
