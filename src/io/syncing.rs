//! A sync that goes on while its caller does something else.

use std::io;
use std::thread::JoinHandle;

/// A sync that may still be under way. Who drops it waits for its end.
#[derive(Debug)]
pub(crate) struct Syncing(Option<State>);

#[derive(Debug)]
enum State {
    Done(io::Result<()>),
    UnderWay(JoinHandle<io::Result<()>>),
}

impl Syncing {
    /// One that was done at once.
    pub(super) fn done(result: io::Result<()>) -> Syncing {
        Syncing(Some(State::Done(result)))
    }

    /// One that this thread does.
    pub(super) fn by(thread: JoinHandle<io::Result<()>>) -> Syncing {
        Syncing(Some(State::UnderWay(thread)))
    }

    /// How it ended.
    pub(crate) fn wait(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        match self.0.take() {
            Some(State::UnderWay(thread)) => thread.join().expect("syncing a file does not panic"),
            Some(State::Done(result)) => result,
            None => Ok(()),
        }
    }
}

impl Drop for Syncing {
    fn drop(&mut self) {
        let _ = self.end(); // nobody asks any more
    }
}
