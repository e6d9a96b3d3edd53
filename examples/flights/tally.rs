//! What each of the three groups makes of the flights: a table that grows with every flight it is shown.

use std::collections::HashMap;
use std::fmt;

use crate::flight::Flight;

/// The three services. Each reads every flight, for its own purpose and at its own pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// Flights by destination.
    Search,
    /// Count and mean departure delay per carrier.
    Analytics,
    /// The latest flight of each tail number.
    Recommender,
}

impl Group {
    pub(crate) const ALL: [Group; 3] = [Group::Search, Group::Analytics, Group::Recommender];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Group::Search => "search",
            Group::Analytics => "analytics",
            Group::Recommender => "recommender",
        }
    }

    /// How many members share its partitions. Of several, one leaves on the way.
    pub(crate) fn members(self) -> usize {
        match self {
            Group::Analytics => 3,
            Group::Search | Group::Recommender => 1,
        }
    }

    /// Its pace: how many records a member takes at once where `step` is one step of the ingest, and after how many such batches it commits.
    pub(crate) fn pace(self, step: usize) -> (usize, usize) {
        match self {
            Group::Search => (step / 4 + 1, 3),
            Group::Analytics => (step, 3),
            Group::Recommender => (step / 2 + 1, 7),
        }
    }

    /// Under which name this group files a flight.
    fn subject(self, flight: &Flight) -> Option<&str> {
        match self {
            Group::Search => Some(&flight.dest),
            Group::Analytics => Some(&flight.carrier),
            Group::Recommender => flight.tail.as_deref(),
        }
    }
}

/// What is known about one destination, carrier or tail number.
#[derive(Clone, Debug, Default)]
struct Line {
    flights: u32,
    departed: u32,
    /// A sum of whole minutes, exact far beyond any number of flights.
    delay_minutes: f64,
    latest: String,
}

/// What a group counted, of one partition or of all. It lives in memory only: the log can make it again at any time.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    group: Group,
    lines: HashMap<String, Line>,
}

impl Tally {
    pub(crate) fn new(group: Group) -> Self {
        Tally {
            group,
            lines: HashMap::new(),
        }
    }

    pub(crate) fn group(&self) -> Group {
        self.group
    }

    pub(crate) fn add(&mut self, flight: &Flight) {
        let Some(subject) = self.group.subject(flight) else {
            return;
        };
        if !self.lines.contains_key(subject) {
            self.lines.insert(subject.to_owned(), Line::default());
        }
        let Some(line) = self.lines.get_mut(subject) else {
            return;
        };
        line.flights += 1;
        if let Some(minutes) = flight.delay {
            line.departed += 1;
            line.delay_minutes += f64::from(minutes);
        }
        if self.group == Group::Recommender {
            line.latest = format!(
                "{}{} {}-{}",
                flight.carrier, flight.number, flight.origin, flight.dest
            );
        }
    }

    /// Adds what was counted of other partitions. (All flights of a tail number are in one: there is one latest.)
    pub(crate) fn join(&mut self, other: Tally) {
        for (subject, of_other) in other.lines {
            let line = self.lines.entry(subject).or_default();
            line.flights += of_other.flights;
            line.departed += of_other.departed;
            line.delay_minutes += of_other.delay_minutes;
            if !of_other.latest.is_empty() {
                line.latest = of_other.latest;
            }
        }
    }
}

/// One line per subject, in alphabetical order: two tallies are equal when their texts are.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines: Vec<_> = self.lines.iter().collect();
        lines.sort_unstable_by_key(|(subject, _)| *subject);
        for (subject, line) in lines {
            match self.group {
                Group::Search => writeln!(f, "{subject}: {} flights", line.flights)?,
                Group::Analytics => {
                    let mean = line.delay_minutes / f64::from(line.departed.max(1));
                    writeln!(
                        f,
                        "{subject}: {} flights, mean delay {mean:.3} min",
                        line.flights
                    )?;
                }
                Group::Recommender => writeln!(
                    f,
                    "{subject}: {} flights, latest {}",
                    line.flights, line.latest
                )?,
            }
        }
        Ok(())
    }
}
