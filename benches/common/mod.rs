//! What the benches share: ours and the raw limit measured in turn, and one JSON line for each measurement.
//!
//! A figure alone says more about the machine than about the code, so each stands beside a raw limit of the same machine: what
//! it takes to do the same with plain calls and no log. Both are measured in short slices, one after the other, so that
//! whatever else the machine does at that time hits both; the ratio is taken slice by slice, and its median is printed.
//!
//! `cargo bench --bench append` measures everything, `cargo bench --bench append -- append_one` what is named so.
//! `THALWEG_LONG=4` makes all sizes four times as large. Run without `--bench`, as `cargo test --benches` does, the work is
//! done once and small: that it runs is all that is shown.

#![allow(dead_code, reason = "each bench uses its own part of it")]

pub(crate) mod raw;

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// What was asked for on the command line and in the environment.
pub(crate) struct Run {
    full: bool,
    names: Vec<String>,
    long: u64,
}

impl Run {
    pub(crate) fn from_args() -> Run {
        let mut args: Vec<String> = std::env::args().skip(1).collect();
        let full = args.iter().any(|arg| arg == "--bench");
        args.retain(|arg| !arg.starts_with('-'));
        let long = std::env::var("THALWEG_LONG").map_or(1, |factor| {
            factor.parse().expect("THALWEG_LONG is a whole number")
        });
        Run {
            full,
            names: args,
            long,
        }
    }

    /// Is the measurement of this name wanted?
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|wanted| wanted == name)
    }

    /// How often ours and raw are measured.
    pub(crate) fn rounds(&self, full: usize) -> usize {
        if self.full { full } else { 1 }
    }

    /// How much work is done.
    pub(crate) fn size(&self, full: u64) -> u64 {
        if self.full {
            full * self.long
        } else {
            (full / 256).max(1)
        }
    }
}

/// Least, median and greatest of some figures.
#[derive(Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) max: f64,
}

impl Spread {
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Spread {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        let at = |i: usize| figures.get(i).copied().unwrap_or(f64::NAN);
        Spread {
            min: at(0),
            median: at(figures.len() / 2),
            max: at(figures.len().saturating_sub(1)),
        }
    }
}

/// Two ways measured in turn.
pub(crate) struct Duel {
    ours: Vec<f64>,
    raw: Vec<f64>,
}

/// Measures both ways in turn, each `rounds` times after one round that does not count. Who comes first alternates, so that a
/// machine that grows slower or faster favours neither.
pub(crate) fn duel(
    rounds: usize,
    mut ours: impl FnMut() -> f64,
    mut raw: impl FnMut() -> f64,
) -> Duel {
    let mut duel = Duel {
        ours: Vec::new(),
        raw: Vec::new(),
    };
    for round in 0..=rounds {
        let (o, r) = if round % 2 == 0 {
            let o = ours();
            (o, raw())
        } else {
            let r = raw();
            (ours(), r)
        };
        if round > 0 {
            duel.ours.push(o);
            duel.raw.push(r);
        }
    }
    duel
}

impl Duel {
    pub(crate) fn ours(&self) -> Spread {
        Spread::of(self.ours.iter().copied())
    }

    pub(crate) fn raw(&self) -> Spread {
        Spread::of(self.raw.iter().copied())
    }

    /// Raw over ours, of the slices that were measured next to each other.
    pub(crate) fn inverse(&self) -> impl Iterator<Item = f64> + '_ {
        self.ours
            .iter()
            .zip(&self.raw)
            .map(|(ours, raw)| raw / ours)
    }

    /// Ours over raw, of the slices that were measured next to each other.
    pub(crate) fn ratio(&self) -> Spread {
        Spread::of(
            self.ours
                .iter()
                .zip(&self.raw)
                .map(|(ours, raw)| ours / raw),
        )
    }
}

/// Says so at every `n`-th call: when the disk is given time to catch up, which is not measured.
pub(crate) struct Every {
    n: u64,
    calls: u64,
}

impl Every {
    pub(crate) fn new(n: u64) -> Every {
        Every { n, calls: 0 }
    }

    pub(crate) fn due(&mut self) -> bool {
        self.calls += 1;
        self.calls.is_multiple_of(self.n)
    }
}

/// How often a second: `count` things in the time that `work` takes.
pub(crate) fn rate(count: u64, work: impl FnOnce()) -> f64 {
    float(count) / seconds(work)
}

#[allow(
    clippy::cast_precision_loss,
    reason = "counts of a bench lie far below 2⁵²"
)]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

pub(crate) fn seconds(work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_secs_f64()
}

pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// One measurement as one line of JSON.
pub(crate) struct Line(String);

impl Line {
    pub(crate) fn new(bench: &str) -> Line {
        Line(format!("{{\"bench\":\"{bench}\""))
    }

    pub(crate) fn text(mut self, name: &str, value: &str) -> Line {
        let _ = write!(self.0, ",\"{name}\":\"{value}\"");
        self
    }

    pub(crate) fn count(mut self, name: &str, value: u64) -> Line {
        let _ = write!(self.0, ",\"{name}\":{value}");
        self
    }

    pub(crate) fn number(mut self, name: &str, value: f64) -> Line {
        let _ = write!(self.0, ",\"{name}\":{value:.3}");
        self
    }

    /// Median, least and greatest.
    pub(crate) fn spread(self, name: &str, spread: Spread) -> Line {
        self.number(name, spread.median)
            .number(&format!("{name}_min"), spread.min)
            .number(&format!("{name}_max"), spread.max)
    }

    /// Rates, their ratio, and the floor that the ratio is held against, if there is one.
    pub(crate) fn duel(self, raw: &str, duel: &Duel, floor: Option<f64>) -> Line {
        let line = self
            .number("per_s", duel.ours().median)
            .text("raw", raw)
            .number("raw_per_s", duel.raw().median)
            .spread("ratio", duel.ratio())
            .count("rounds", duel.ours.len() as u64);
        match floor {
            Some(floor) => line.number("floor", floor),
            None => line,
        }
    }

    pub(crate) fn print(self) {
        println!("{}}}", self.0);
    }
}

/// Values that no compression and no lucky branch makes easier: the `i`-th of `len` bytes, from a pool that stays in the cache.
pub(crate) struct Values(Vec<u8>);

const POOL_BYTES: usize = 256 << 10;

impl Values {
    pub(crate) fn new() -> Values {
        let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
        Values(
            (0..2 * POOL_BYTES / 8)
                .flat_map(|_| dice.roll().to_le_bytes())
                .collect(),
        )
    }

    #[inline]
    pub(crate) fn get(&self, i: u64, len: usize) -> &[u8] {
        let at = (i as usize).wrapping_mul(64) % POOL_BYTES;
        &self.0[at..at + len]
    }

    /// `len` bytes for one large write.
    pub(crate) fn block(&self, len: usize) -> Vec<u8> {
        self.0.iter().copied().cycle().take(len).collect()
    }
}

/// Xorshift: the same numbers at every run.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    #[inline]
    pub(crate) fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Bytes of all files below a directory.
pub(crate) fn bytes_below(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).expect("a directory of ours").flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => bytes_below(&entry.path()),
            Ok(meta) => meta.len(),
            Err(_) => 0,
        })
        .sum()
}
