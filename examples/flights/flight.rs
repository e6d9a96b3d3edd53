//! One departure: read from a row of the CSV, written into a record, and read back from an entry.

use std::path::Path;

use thalweg::{BoxError, EntryRef, Record, Result, Timestamp};

/// The header of a record that says which row of the CSV it is.
const ROW: &str = "row";

/// What the example keeps of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flight {
    /// Its place in the CSV, from 0.
    pub(crate) row: usize,
    /// `None` is a flight without a tail number, not one with the tail number `NA`.
    pub(crate) tail: Option<String>,
    pub(crate) scheduled: Timestamp,
    pub(crate) carrier: String,
    pub(crate) number: String,
    pub(crate) origin: String,
    pub(crate) dest: String,
    /// Minutes; negative when it left early, `None` when it never left.
    pub(crate) delay: Option<i32>,
}

impl Flight {
    /// Keyed by tail number, so that the flights of one aircraft stay in order in one partition; a flight without one is keyless and
    /// goes anywhere. The event time is the scheduled departure.
    pub(crate) fn record(&self) -> Record<'_> {
        let delay = self
            .delay
            .map_or(String::new(), |minutes| minutes.to_string());
        let value = [
            &self.carrier,
            &self.number,
            &self.origin,
            &self.dest,
            &delay,
        ]
        .map(String::as_str)
        .join(",");
        let record = match &self.tail {
            Some(tail) => Record::new(tail, value),
            None => Record::keyless(value),
        };
        record.header(ROW, self.row.to_string()).at(self.scheduled)
    }

    /// The way back from [`record`](Self::record).
    pub(crate) fn of(entry: EntryRef<'_>) -> Result<Flight, BoxError> {
        let mut fields = entry.value_str()?.split(',');
        let mut field = || {
            fields
                .next()
                .map(str::to_owned)
                .ok_or("a flight with too few fields")
        };
        Ok(Flight {
            row: row_of(entry)?,
            tail: entry
                .key()
                .map(|_| entry.key_str().map(str::to_owned))
                .transpose()?,
            scheduled: entry.timestamp(),
            carrier: field()?,
            number: field()?,
            origin: field()?,
            dest: field()?,
            delay: parse_delay(&field()?)?,
        })
    }
}

/// Which row of the CSV is this entry?
pub(crate) fn row_of(entry: EntryRef<'_>) -> Result<usize, BoxError> {
    let row = entry.header(ROW).ok_or("a flight without its row number")?;
    Ok(std::str::from_utf8(row)?.parse()?)
}

/// The flights of a CSV, row by row, as they stand there.
pub(crate) fn read_csv(
    path: &Path,
) -> Result<impl Iterator<Item = Result<Flight, BoxError>>, BoxError> {
    let mut reader =
        csv::Reader::from_path(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let columns = Columns::find(reader.headers()?)?;
    let rows = reader.into_records().enumerate();
    Ok(rows.map(move |(row, fields)| {
        columns
            .flight(row, &fields?)
            .map_err(|why| format!("row {row}: {why}").into())
    }))
}

/// Where in a row each field stands.
struct Columns {
    time_hour: usize,
    minute: usize,
    tail: usize,
    carrier: usize,
    number: usize,
    origin: usize,
    dest: usize,
    delay: usize,
}

impl Columns {
    fn find(headers: &csv::StringRecord) -> Result<Self, BoxError> {
        let column = |name: &str| {
            headers
                .iter()
                .position(|header| header == name)
                .ok_or_else(|| format!("the CSV has no column {name}"))
        };
        Ok(Columns {
            time_hour: column("time_hour")?,
            minute: column("minute")?,
            tail: column("tailnum")?,
            carrier: column("carrier")?,
            number: column("flight")?,
            origin: column("origin")?,
            dest: column("dest")?,
            delay: column("dep_delay")?,
        })
    }

    fn flight(&self, row: usize, fields: &csv::StringRecord) -> Result<Flight, BoxError> {
        let field = |column: usize| fields.get(column).unwrap_or_default();
        let minute: i64 = field(self.minute).parse()?;
        let hour = parse_hour(field(self.time_hour))
            .ok_or("time_hour is no time of the form 2013-01-01T10:00:00Z")?;
        Ok(Flight {
            row,
            tail: present(field(self.tail)).map(str::to_owned),
            scheduled: Timestamp::from_millis(hour + minute * 60_000),
            carrier: field(self.carrier).to_owned(),
            number: field(self.number).to_owned(),
            origin: field(self.origin).to_owned(),
            dest: field(self.dest).to_owned(),
            delay: parse_delay(field(self.delay))?,
        })
    }
}

/// The file writes `NA` or nothing for what is not known.
fn present(field: &str) -> Option<&str> {
    (!field.is_empty() && field != "NA").then_some(field)
}

fn parse_delay(field: &str) -> Result<Option<i32>, BoxError> {
    Ok(present(field).map(str::parse).transpose()?)
}

/// `2013-01-01T10:00:00Z` as milliseconds since the epoch.
fn parse_hour(text: &str) -> Option<i64> {
    let (date, time) = text.strip_suffix(":00:00Z")?.split_once('T')?;
    let mut parts = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let hour: i64 = time.parse().ok()?;
    Some((days_since_epoch(year, month, day) * 24 + hour) * 3_600_000)
}

/// Days from 1970-01-01 in the Gregorian calendar. Years begin in March here, so that the leap day is their last.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leap_days = year / 4 - year / 100 + year / 400;
    let days_before_month = (153 * month + 2) / 5;
    year * 365 + leap_days + days_before_month + day - 1 - 719_468
}
