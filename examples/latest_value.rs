//! The latest state of each aircraft, kept in a compacted topic: a table that a program rebuilds when it starts, and that does not grow with
//! the number of its changes.
//!
//! `cargo run --example latest_value [flights.csv [planes.csv]]`, without paths on the excerpts in `examples/data`.
//!
//! Every aircraft of `planes.csv` is a record, keyed by its tail number. Each flight changes one, so it appends the new state of that
//! aircraft; at the end those that were built before 1985 are retired, which is a tombstone. Then the log is closed and opened again, the
//! table rebuilt from the topic, the topic compacted, the table rebuilt again. Both are the table that the program had before, and the
//! second took a fraction of the records.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use csv::StringRecord;
use thalweg::{BoxError, Compaction, Log, Record, Result, Topic, TopicConfig};

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data");
/// Aircraft that were built earlier are retired at the end.
const RETIRED_BEFORE: u32 = 1985;

/// What is known of an aircraft; by tail number in a [`Table`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Aircraft {
    built: Option<u32>,
    model: String,
    flights: u32,
    /// Where it last left for.
    bound_for: String,
}

type Table = BTreeMap<String, Aircraft>;

fn main() -> Result<(), BoxError> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let path = |at: usize, name: &str| paths.get(at).cloned().unwrap_or(Path::new(DATA).join(name));
    let (flights, planes) = (path(0, "flights.csv"), path(1, "planes.csv"));
    let dir = tempfile::tempdir()?;

    let log = Log::open(dir.path())?;
    let topic = log.create_topic("aircraft", config())?;
    let table = change(&topic, &flights, &planes)?;
    for partition in topic.partitions() {
        partition.roll()?; // the last segment of a partition is never compacted
    }
    log.close()?;

    let log = Log::open(dir.path())?;
    let topic = log.topic("aircraft")?;
    println!("                       records    bytes    time");
    let before = rebuild(&topic, "as it was written", dir.path())?;
    topic.compact()?; // the log does so by itself when half of it is new
    let after = rebuild(&topic, "compacted", dir.path())?;
    assert_eq!(before, table, "the table is what the topic says");
    assert_eq!(after, table, "compaction changes nothing of that");

    let mut busiest: Vec<_> = after.iter().collect();
    busiest.sort_by_key(|(tail, aircraft)| (u32::MAX - aircraft.flights, *tail));
    println!("\n{} aircraft, the busiest:", after.len());
    for (tail, aircraft) in busiest.into_iter().take(5) {
        let Aircraft {
            model,
            flights,
            bound_for,
            ..
        } = aircraft;
        println!("  {tail}  {model:<20} {flights:>5} flights, the last one to {bound_for}");
    }
    Ok(log.close()?)
}

fn config() -> TopicConfig {
    TopicConfig::new()
        .partitions(4)
        .durability(thalweg::Durability::Process)
        .compacted(Compaction::new())
}

/// Appends what happens to each aircraft; the table that comes of it.
fn change(topic: &Topic, flights: &Path, planes: &Path) -> Result<Table, BoxError> {
    let mut table = Table::new();
    let mut planes = csv::Reader::from_path(planes)?;
    let headers = planes.headers()?.clone();
    for row in planes.records() {
        let row = row?;
        let field = |name| field(&headers, &row, name);
        let aircraft = Aircraft {
            built: field("year").parse().ok(),
            model: format!("{} {}", field("manufacturer"), field("model")),
            ..Aircraft::default()
        };
        table.insert(field("tailnum").to_owned(), aircraft);
    }
    topic.append_all(table.iter().map(|(tail, aircraft)| record(tail, aircraft)))?;

    let mut flights = csv::Reader::from_path(flights)?;
    let headers = flights.headers()?.clone();
    for row in flights.records() {
        let row = row?;
        let tail = field(&headers, &row, "tailnum");
        if tail.is_empty() || tail == "NA" {
            continue;
        }
        let aircraft = table.entry(tail.to_owned()).or_default();
        aircraft.flights += 1;
        field(&headers, &row, "dest").clone_into(&mut aircraft.bound_for);
        topic.append(record(tail, aircraft))?;
    }

    let is_old = |aircraft: &Aircraft| aircraft.built.is_some_and(|year| year < RETIRED_BEFORE);
    for (tail, _) in table.iter().filter(|(_, aircraft)| is_old(aircraft)) {
        topic.append(Record::tombstone(tail))?;
    }
    table.retain(|_, aircraft| !is_old(aircraft));
    Ok(table)
}

/// The table that the topic holds: of each key the last value, and none where that is a tombstone.
fn rebuild(topic: &Topic, what: &str, dir: &Path) -> Result<Table, BoxError> {
    let begun = Instant::now();
    let (mut table, mut records) = (Table::new(), 0);
    for partition in topic.partitions() {
        for entry in partition.entries(..) {
            let entry = entry?;
            records += 1;
            let tail = entry.key_str()?;
            match entry.value() {
                Some(_) => table.insert(tail.to_owned(), parse(entry.value_str()?)?),
                None => table.remove(tail),
            };
        }
    }
    let (bytes, took) = (bytes_below(dir)?, begun.elapsed());
    println!("{what:<20} {records:>9} {bytes:>9} {took:>7.1?}");
    Ok(table)
}

fn record<'a>(tail: &'a str, aircraft: &Aircraft) -> Record<'a> {
    let built = aircraft
        .built
        .map_or(String::new(), |year| year.to_string());
    let Aircraft {
        model,
        flights,
        bound_for,
        ..
    } = aircraft;
    Record::new(tail, format!("{built},{flights},{bound_for},{model}"))
}

/// The way back from [`record`].
fn parse(value: &str) -> Result<Aircraft, BoxError> {
    let mut fields = value.splitn(4, ',');
    let mut field = || fields.next().ok_or("a value with too few fields");
    Ok(Aircraft {
        built: field()?.parse().ok(),
        flights: field()?.parse()?,
        bound_for: field()?.to_owned(),
        model: field()?.to_owned(),
    })
}

fn field<'r>(headers: &StringRecord, row: &'r StringRecord, name: &str) -> &'r str {
    let column = headers.iter().position(|header| header == name);
    column
        .and_then(|column| row.get(column))
        .unwrap_or_default()
}

/// Bytes of the segments below a directory.
fn bytes_below(dir: &Path) -> Result<u64, BoxError> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let (path, meta) = {
            let entry = entry?;
            (entry.path(), entry.metadata()?)
        };
        if meta.is_dir() {
            bytes += bytes_below(&path)?;
        } else if path.extension().is_some_and(|end| end == "log") {
            bytes += meta.len();
        }
    }
    Ok(bytes)
}
