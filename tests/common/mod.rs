//! What the integration tests share: seeds and sizes from the environment, dice, and records that can be compared.
#![allow(dead_code)] // each test uses a part of it

use std::fmt;

use thalweg::testing::{Disk, ManualClock};
use thalweg::{Entry, EntryRef, Log, Maintenance, Record, Result, Timestamp, TimestampType};

/// Where randomness begins: `THALWEG_SEED`, or a fixed number. Printed, so that a failure can be run again.
pub(crate) fn seed() -> u64 {
    let seed = number("THALWEG_SEED").unwrap_or(20_130_101);
    println!("THALWEG_SEED={seed}");
    seed
}

/// `THALWEG_LONG`: how many times the usual work is done. 1 unless set.
pub(crate) fn scale() -> u64 {
    number("THALWEG_LONG").unwrap_or(1).max(1)
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable} must be a number, not {text:?}")))
}

/// Opens the log of a simulated disk, with the test's own clock and without a thread.
pub(crate) fn open(disk: &Disk, clock: &ManualClock) -> Result<Log> {
    let builder = Log::builder().maintenance(Maintenance::Manual);
    builder.clock(clock).open_on(disk)
}

/// Numbers that look random and follow from a seed.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// `SplitMix64`.
    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `n`, which is above zero.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.roll() % n
    }

    /// Yes, once in `n` times.
    pub(crate) fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// The same failure, or another one, from as few events as leaving some out can make it.
pub(crate) fn shortened<E: Copy>(events: &[E], fails: impl Fn(&[E]) -> bool) -> Vec<E> {
    let mut events = events.to_vec();
    let mut piece = events.len() / 2;
    while piece > 0 {
        let mut at = 0;
        while at + piece <= events.len() {
            let mut fewer = events.clone();
            fewer.drain(at..at + piece);
            if fails(&fewer) {
                events = fewer;
            } else {
                at += piece;
            }
        }
        piece /= 2;
    }
    events
}

/// A record as a test remembers it: what went in, or what came out.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Rec {
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
    /// Milliseconds; `None` where only the log knows the time.
    pub(crate) event_time: Option<i64>,
}

impl Rec {
    /// A record that is unlike that of any other number, whose value has `len` bytes or a few more.
    pub(crate) fn numbered(number: u64, len: usize) -> Rec {
        let mut value = format!("record {number} ").into_bytes();
        let mut dice = Dice::new(number);
        while value.len() < len {
            value.extend_from_slice(&dice.roll().to_le_bytes());
        }
        Rec {
            key: Some(format!("key-{}", number % 7).into_bytes()),
            value: Some(value),
            ..Rec::default()
        }
    }

    /// As [`numbered`](Rec::numbered), of any shape: keyless or tombstone, empty, with headers, with an event time.
    pub(crate) fn of_any_shape(number: u64, len: usize, dice: &mut Dice) -> Rec {
        let mut rec = Rec::numbered(number, len);
        match dice.below(8) {
            0 => rec.key = None,
            1 => rec.value = None,
            2 => rec.key = Some(Vec::new()),
            3 => rec.value = Some(Vec::new()),
            _ => {}
        }
        for n in 0..dice.below(4).saturating_sub(1) {
            let value = format!("header of {number}").into_bytes();
            rec.headers.push((format!("h{}", n % 2), Some(value)));
        }
        if dice.once_in(3) {
            rec.event_time = Some(1_500_000_000_000 + dice.below(1_000_000).cast_signed());
        }
        rec
    }

    /// To be appended.
    pub(crate) fn record(&self) -> Record<'_> {
        let mut record = match (&self.key, &self.value) {
            (Some(key), Some(value)) => Record::new(key, value),
            (None, Some(value)) => Record::keyless(value),
            (Some(key), None) => Record::tombstone(key),
            (None, None) => Record::default(),
        };
        for (name, value) in &self.headers {
            record = record.header(name, value.as_deref().unwrap_or_default());
        }
        match self.event_time {
            Some(ms) => record.at(Timestamp::from_millis(ms)),
            None => record,
        }
    }

    /// What an entry holds.
    pub(crate) fn of<'e>(entry: impl Into<EntryRef<'e>>) -> Rec {
        let entry = entry.into();
        let headers = entry.headers();
        let event = entry.timestamp_type() == TimestampType::EventTime;
        Rec {
            key: entry.key().map(<[u8]>::to_vec),
            value: entry.value().map(<[u8]>::to_vec),
            headers: headers
                .map(|(name, value)| (name.to_owned(), value.map(<[u8]>::to_vec)))
                .collect(),
            event_time: event.then(|| entry.timestamp().as_millis()),
        }
    }
}

/// An entry as a test remembers it.
pub(crate) fn seen(entry: &Entry) -> (u64, Rec) {
    (entry.offset().get(), Rec::of(entry))
}

/// Short: a failure prints many of them.
impl fmt::Debug for Rec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes: &Option<Vec<u8>>| match bytes {
            None => "none".to_owned(),
            Some(bytes) => {
                let start = String::from_utf8_lossy(&bytes[..bytes.len().min(16)]).into_owned();
                format!("{:?}/{}", start, bytes.len())
            }
        };
        write!(f, "{}={}", text(&self.key), text(&self.value))?;
        if !self.headers.is_empty() {
            write!(f, " +{} headers", self.headers.len())?;
        }
        match self.event_time {
            Some(ms) => write!(f, " at {ms}"),
            None => Ok(()),
        }
    }
}
