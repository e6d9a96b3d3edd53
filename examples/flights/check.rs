//! The proof: what each group did, held against a direct count over the CSV that knows nothing of the log.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use thalweg::{BoxError, Result};

use crate::flight::read_csv;
use crate::journal::{Handled, Life};
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
    /// Records handled in both lives.
    pub(crate) repeats: usize,
    pub(crate) lag: u64,
    /// What the group counted, a line per subject.
    pub(crate) tally: String,
    /// What is wrong; empty when all is well.
    pub(crate) faults: Vec<String>,
}

/// Judges one group by the journals of its two lives and by its tally.
pub(crate) fn judge(
    group: Group,
    truth: &Truth,
    dir: &Path,
    lag: u64,
) -> Result<Verdict, BoxError> {
    let lives = [
        Life::read(dir, group.name(), 1)?,
        Life::read(dir, group.name(), 2)?,
    ];
    let mut faults = Faults::default();
    let seen = places(truth, &lives, &mut faults);
    faults.count(
        "rows lost",
        seen.iter().filter(|place| place.is_none()).count(),
    );
    faults.count(
        "flights out of the order of their tail number",
        lives.iter().map(|life| out_of_order(truth, life)).sum(),
    );
    let (repeats, before_commit) = repeats(&lives, truth.rows());
    faults.count("repeats of what was committed", before_commit);
    faults.count("records of lag", usize::try_from(lag)?);
    let tally = fs::read_to_string(dir.join(format!("{}.tally", group.name())))?;
    faults.count(
        "lines of the tally unlike those of the CSV",
        unlike(&tally, &truth.tally(group)),
    );
    let read = lives.iter().map(|life| life.handled.len()).sum();
    Ok(Verdict {
        group,
        read,
        repeats,
        lag,
        tally,
        faults: faults.0,
    })
}

#[derive(Default)]
struct Faults(Vec<String>);

impl Faults {
    fn count(&mut self, what: &str, how_many: usize) {
        if how_many > 0 {
            self.0.push(format!("{how_many} {what}"));
        }
    }
}

/// Where in the log each row was seen. Two places for one row, and it was appended twice.
fn places(truth: &Truth, lives: &[Life], faults: &mut Faults) -> Vec<Option<(u32, u64)>> {
    let mut seen = vec![None; truth.rows()];
    let (mut twice, mut unknown) = (0, 0);
    for &Handled {
        partition,
        offset,
        row,
    } in lives.iter().flat_map(|life| &life.handled)
    {
        match seen.get_mut(row) {
            Some(place) if place.is_none_or(|at| at == (partition, offset)) => {
                *place = Some((partition, offset));
            }
            Some(_) => twice += 1,
            None => unknown += 1,
        }
    }
    faults.count("records of rows that are in the log twice", twice);
    faults.count("records of rows that the CSV does not have", unknown);
    seen
}

/// Rows are appended in their order in the CSV: within one life, those of one tail number must come in that order too.
fn out_of_order(truth: &Truth, life: &Life) -> usize {
    let mut latest = vec![None; truth.aircraft()];
    let mut wrong = 0;
    for handled in &life.handled {
        let tail = truth.tails.get(handled.row).copied().flatten();
        if let Some(before) = tail.and_then(|tail| latest.get_mut(tail)) {
            wrong += usize::from(*before >= Some(handled.row));
            *before = Some(handled.row);
        }
    }
    wrong
}

/// How many rows the second life handled again, and how many of those the first had committed: of these there must be none.
fn repeats([first, second]: &[Life; 2], rows: usize) -> (usize, usize) {
    let mut handled_at = vec![None; rows];
    for (nth, handled) in first.handled.iter().enumerate() {
        if let Some(at) = handled_at.get_mut(handled.row) {
            *at = Some(nth);
        }
    }
    let again = second
        .handled
        .iter()
        .filter_map(|handled| handled_at.get(handled.row).copied().flatten());
    again.fold((0, 0), |(all, bad), nth| {
        (all + 1, bad + usize::from(nth < first.committed))
    })
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
