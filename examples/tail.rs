//! How does a program follow its own log? A `tail -f` for a topic: what was written last, then whatever is written, as it comes.
//!
//! `cargo run --example tail [directory topic]`. It appends the lines that it is given on its input, from one thread, and shows
//! them from another; at the end of the input it ends. Without arguments it makes do with a temporary directory and a few lines of
//! its own.
//!
//! Reader and writer are in one process, for a log is open in one process at a time. Another one can look at it with
//! `Log::open_read_only`, which shows what is there at that moment and does not follow.

use std::env;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::thread;
use std::time::Duration;

use thalweg::{Batch, BoxError, EntryRef, Log, Result, StartFrom, Topic, TopicConfig};

/// How many records of each partition are shown at first.
const LAST: usize = 10;

fn main() -> Result<(), BoxError> {
    let args: Vec<_> = env::args_os().skip(1).collect();
    match args.as_slice() {
        [] => {
            let dir = tempfile::tempdir()?;
            let lines = ["one espresso", "two flat whites", "three croissants"];
            let lines = lines.into_iter().map(|line| Ok(line.to_owned()));
            tail(dir.path(), "orders", lines)
        }
        [dir, topic] => {
            let topic = topic.to_str().ok_or("the name of the topic is not UTF-8")?;
            tail(Path::new(dir), topic, BufReader::new(io::stdin()).lines())
        }
        _ => Err("usage: tail [directory topic]".into()),
    }
}

fn tail(
    dir: &Path,
    topic: &str,
    lines: impl Iterator<Item = io::Result<String>> + Send,
) -> Result<(), BoxError> {
    let log = Log::open(dir)?;
    let topic = log.topic_or_create(topic, TopicConfig::new())?;
    show_last(&topic)?;

    // Where it begins is settled when it joins: at the end, and nothing that is appended from now on is missed. It commits
    // nothing, so it leaves no trace, and begins at the end the next time too.
    let mut reader = log
        .group("tail")
        .subscribe([topic.name()])
        .start_from(StartFrom::Latest)
        .join()?;
    let stop = reader.wake_handle();
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let written = write(&topic, lines);
            stop.wake(); // whatever came of it: nobody would end the reader otherwise
            written
        });
        while let Some(batch) = reader.next_batch()? {
            show(&batch);
        }
        // `wake` ends the loop at once. Nothing is written any more, and what was written before is still to be shown.
        loop {
            let batch = reader.poll(Duration::ZERO)?;
            if batch.is_empty() {
                break;
            }
            show(&batch);
        }
        writer.join().map_err(|_| "the writer panicked")?
    })?;
    reader.close()?;
    Ok(log.close()?)
}

fn write(topic: &Topic, lines: impl Iterator<Item = io::Result<String>>) -> Result<(), BoxError> {
    for line in lines {
        topic.append(thalweg::Record::keyless(&line?))?;
    }
    Ok(())
}

fn show_last(topic: &Topic) -> Result<()> {
    for partition in topic.partitions() {
        let newest_first = partition.entries(..).rev().take(LAST);
        let newest_first = newest_first.collect::<Result<Vec<_>>>()?;
        for entry in newest_first.iter().rev() {
            show_entry(entry.into());
        }
    }
    Ok(())
}

fn show(batch: &Batch) {
    batch.iter().for_each(show_entry);
}

fn show_entry(entry: EntryRef<'_>) {
    let text = |bytes: Option<&[u8]>| bytes.map(|b| String::from_utf8_lossy(b).into_owned());
    let value = text(entry.value()).unwrap_or_else(|| "(deleted)".into());
    match text(entry.key()) {
        Some(key) => println!("{} {key}: {value}", entry.position()),
        None => println!("{} {value}", entry.position()),
    }
}
