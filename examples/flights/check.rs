//! The proof: what each group did, held against a direct count over the CSV that knows nothing of the log.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use thalweg::{BoxError, Result};

use crate::child::tally_path;
use crate::flight::read_csv;
use crate::journal::{self, Line};
use crate::tally::{Group, Tally};

/// What the CSV says.
pub(crate) struct Truth {
    /// Per row a number for its tail number; `None` for a flight without.
    tails: Vec<Option<usize>>,
    aircraft: usize,
    tallies: [Tally; 3],
}

impl Truth {
    pub(crate) fn count(csv: &Path) -> Result<Self, BoxError> {
        let mut numbers: HashMap<String, usize> = HashMap::new();
        let mut truth = Truth {
            tails: Vec::new(),
            aircraft: 0,
            tallies: Group::ALL.map(Tally::new),
        };
        for flight in read_csv(csv)? {
            let flight = flight?;
            truth
                .tallies
                .iter_mut()
                .for_each(|tally| tally.add(&flight));
            let next = numbers.len();
            truth
                .tails
                .push(flight.tail.map(|tail| *numbers.entry(tail).or_insert(next)));
        }
        truth.aircraft = numbers.len();
        Ok(truth)
    }

    pub(crate) fn rows(&self) -> usize {
        self.tails.len()
    }

    pub(crate) fn aircraft(&self) -> usize {
        self.aircraft
    }

    pub(crate) fn tally(&self, group: Group) -> String {
        self.tallies
            .iter()
            .filter(|tally| tally.group() == group)
            .map(Tally::to_string)
            .collect()
    }
}

/// What is to be said about one group.
pub(crate) struct Verdict {
    pub(crate) group: Group,
    /// Records handled, over both lives.
    pub(crate) read: usize,
    /// Records handled once more.
    pub(crate) repeats: usize,
    /// How often a partition went from one member to another within a life.
    pub(crate) moves: usize,
    pub(crate) lag: u64,
    /// What the group counted, a line per subject.
    pub(crate) tally: String,
    /// What is wrong; empty when all is well.
    pub(crate) faults: Vec<String>,
}

/// Judges one group by the journals of its partitions and by its tally.
pub(crate) fn judge(
    group: Group,
    truth: &Truth,
    dir: &Path,
    partitions: u32,
    lag: u64,
) -> Result<Verdict, BoxError> {
    let mut found = Findings {
        places: vec![None; truth.rows()],
        ..Findings::default()
    };
    for partition in 0..partitions {
        let read = |life| journal::read(dir, group.name(), partition, life);
        found.follow(truth, partition, &[read(1)?, read(2)?]);
    }
    let tally = fs::read_to_string(tally_path(dir, group.name()))?;
    let lost = found.places.iter().filter(|place| place.is_none()).count();
    let unlike = unlike(&tally, &truth.tally(group));
    let faults = [
        (lost, "rows lost"),
        (found.twice, "records of rows that are in the log twice"),
        (found.unknown, "records of rows that the CSV does not have"),
        (found.order, "flights out of the order of their tail number"),
        (found.committed, "records handled that were committed"),
        (found.back, "records handled by a former owner"),
        (usize::try_from(lag)?, "records of lag"),
        (unlike, "lines of the tally unlike those of the CSV"),
    ];
    let faults = faults.into_iter().filter(|(count, _)| *count > 0);
    Ok(Verdict {
        group,
        read: found.read,
        repeats: found.repeats,
        moves: found.moves,
        lag,
        tally,
        faults: faults
            .map(|(count, what)| format!("{count} {what}"))
            .collect(),
    })
}

/// What the journals of a group say, counted.
#[derive(Default)]
struct Findings {
    /// Where in the log each row was seen.
    places: Vec<Option<(u32, u64)>>,
    read: usize,
    repeats: usize,
    moves: usize,
    // What must not be.
    twice: usize,
    unknown: usize,
    order: usize,
    committed: usize,
    back: usize,
}

impl Findings {
    /// Follows one partition through both lives, from owner to owner. Each begins at the last commit, not before it, and sees
    /// the flights of a tail number in the order in which they were appended: that of the CSV.
    fn follow(&mut self, truth: &Truth, partition: u32, lives: &[Vec<Line>; 2]) {
        let mut committed = 0;
        for life in lives {
            let mut owners = Vec::new(); // of this life, the present one last
            let mut latest = HashMap::new(); // the row that the present owner saw last of each tail number
            for &line in life {
                let (member, offset, row) = match line {
                    Line::Committed { next } => {
                        committed = committed.max(next);
                        continue;
                    }
                    Line::Handled {
                        member,
                        offset,
                        row,
                    } => (member, offset, row),
                };
                if owners.last() != Some(&member) {
                    self.back += usize::from(owners.contains(&member));
                    owners.push(member);
                    latest.clear();
                }
                if let Some(tail) = truth.tails.get(row).copied().flatten() {
                    let before = latest.insert(tail, row);
                    self.order += usize::from(before >= Some(row));
                }
                self.committed += usize::from(offset < committed);
                self.see(row, (partition, offset));
            }
            self.moves += owners.len().saturating_sub(1);
        }
    }

    /// Two places for one row, and it was appended twice; the same place again, and it was handled twice.
    fn see(&mut self, row: usize, at: (u32, u64)) {
        self.read += 1;
        match self.places.get_mut(row) {
            Some(place) => match place.replace(at) {
                None => {}
                Some(before) if before == at => self.repeats += 1,
                Some(_) => self.twice += 1,
            },
            None => self.unknown += 1,
        }
    }
}

/// How many subjects have a different line, or one in one of the two only.
fn unlike(tally: &str, truth: &str) -> usize {
    let lines = |text: &str| -> BTreeMap<String, String> {
        text.lines()
            .filter_map(|line| line.split_once(": "))
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .collect()
    };
    let (tally, truth) = (lines(tally), lines(truth));
    let missing = truth
        .keys()
        .filter(|subject| !tally.contains_key(*subject))
        .count();
    missing
        + tally
            .iter()
            .filter(|&(subject, line)| truth.get(subject) != Some(line))
            .count()
}
