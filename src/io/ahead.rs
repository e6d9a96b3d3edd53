//! A file that is read from one end to the other while what was read is looked at.

use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded};

use super::{File, read_full};

/// Bytes that are read at a time.
pub(crate) const BLOCK: usize = 1 << 20;
/// Blocks that are read before somebody asks for them.
const DEPTH: usize = 2;
/// A byte of the file is read to an address that has the same rest by this. (Some processors copy five times slower to a place that is a
/// few bytes further into its page than its source.)
const ALIGNMENT: usize = 64;

/// Gives the blocks of a part of a file, in their order.
#[derive(Debug)]
pub(crate) struct Ahead(Reader);

#[derive(Debug)]
enum Reader {
    /// A block is read when it is asked for.
    AtHand(Reading),
    Thread(Behind),
}

/// What is to be read.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) file: Arc<dyn File>,
    /// The next byte of the file.
    pub(crate) at: u64,
    pub(crate) end: u64,
    /// Bytes that a block has at least in front of what is read, for whoever looks at it.
    pub(crate) room: usize,
}

/// A part of the file, and memory in front of it.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub(crate) bytes: Vec<u8>,
    /// Where in `bytes` it begins.
    pub(crate) from: usize,
}

/// The thread that reads.
#[derive(Debug)]
struct Behind {
    used: Option<Sender<Block>>,
    read: Option<Receiver<io::Result<Block>>>,
    thread: Option<JoinHandle<()>>,
}

impl Ahead {
    /// On this thread, when asked.
    pub(super) fn at_hand(reading: Reading) -> Ahead {
        Ahead(Reader::AtHand(reading))
    }

    /// On a thread of its own, or, where none can be had, on this one.
    pub(super) fn on_a_thread(reading: Reading) -> Ahead {
        let (used, unused) = bounded(DEPTH + 1);
        let (read, ours) = bounded(DEPTH);
        let mut theirs = reading.clone();
        let thread = Builder::new().name("thalweg-read".into());
        let thread = thread.spawn(move || {
            while let Ok(block) = unused.recv() {
                let block = theirs.next(block);
                std::thread::yield_now();
                let ends = block.is_err() || theirs.at >= theirs.end;
                if read.send(block).is_err() || ends {
                    return;
                }
            }
        });
        let Ok(thread) = thread else {
            return Ahead::at_hand(reading);
        };
        let whole = reading.room + ALIGNMENT + reading.next_len();
        for _ in 0..DEPTH {
            let bytes = Vec::with_capacity(whole);
            let _ = used.send(Block { bytes, from: 0 }); // it has room for them
        }
        Ahead(Reader::Thread(Behind {
            used: Some(used),
            read: Some(ours),
            thread: Some(thread),
        }))
    }

    /// The next block, for one that is not needed any more. Behind the last it is empty, and also after an error.
    pub(crate) fn next(&mut self, used: Block) -> io::Result<Block> {
        match &mut self.0 {
            Reader::AtHand(reading) => reading.next(used),
            Reader::Thread(behind) => {
                if let Some(sender) = &behind.used {
                    let _ = sender.send(used); // it may have read all that it should
                }
                let read = behind.read.as_ref().and_then(|read| read.recv().ok());
                read.unwrap_or_else(|| Ok(Block::default()))
            }
        }
    }
}

impl Reading {
    /// Bytes of the next block.
    fn next_len(&self) -> usize {
        self.end.saturating_sub(self.at).min(BLOCK as u64) as usize
    }

    fn next(&mut self, mut block: Block) -> io::Result<Block> {
        let bytes = self.next_len();
        block.prepare(self.room, self.at, bytes);
        let read = read_full(&*self.file, &mut block.bytes[block.from..], self.at)?;
        block.bytes.truncate(block.from + read);
        self.at += read as u64;
        if read < bytes {
            self.end = self.at; // somebody has cut the file
        }
        Ok(block)
    }
}

impl Block {
    /// Makes room for so many bytes that stand at a position of the file, behind so many more at least; what is held is not kept.
    fn prepare(&mut self, room: usize, position: u64, bytes: usize) {
        let whole = room + ALIGNMENT + bytes;
        self.bytes.reserve(whole.saturating_sub(self.bytes.len()));
        let address = self.bytes.as_ptr() as usize + room;
        self.from = room + (position as usize).wrapping_sub(address) % ALIGNMENT;
        self.bytes.resize(self.from + bytes, 0);
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        (self.used, self.read) = (None, None); // it ends with the block that it is at
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
