//! How far are my groups, who reads what, and how do I move or delete one? What `kafka-consumer-groups.sh` does and prints, from
//! `describe`.
//!
//! `cargo run --example group_admin [directory]`, without a directory in a temporary one. Two groups read parts of a topic of four
//! partitions. Then it does what these commands do on a cluster, and prints their columns: `--list`, `--describe`,
//! `--reset-offsets --to-earliest` (looking first, and refused while somebody reads), `--delete`.

use std::path::Path;
use std::time::Duration;

use thalweg::{
    BoxError, ConsumerGroup, Error, GroupDescription, Log, Positions, Result, StartFrom,
    TopicConfig,
};

const NOW: Duration = Duration::ZERO;
const DESCRIBED: &str =
    "GROUP\tTOPIC\tPARTITION\tCURRENT-OFFSET\tLOG-END-OFFSET\tLAG\tCONSUMER-ID\tHOST\tCLIENT-ID";

fn main() -> Result<(), BoxError> {
    if let Some(dir) = std::env::args_os().nth(1) {
        return Ok(administer(Path::new(&dir))?);
    }
    let dir = tempfile::tempdir()?;
    Ok(administer(&dir.path().join("data"))?)
}

fn administer(dir: &Path) -> Result<()> {
    let log = Log::open(dir)?;
    let orders = log.topic_or_create("orders", TopicConfig::new().partitions(4))?;
    let some = |count: usize| (0..count).map(|n| (format!("customer-{n}"), "2 x espresso"));
    orders.append_all(some(40))?;

    // Accounting has read everything, and left.
    let (accounting, kitchen) = (log.group("accounting"), log.group("kitchen"));
    let mut clerk = accounting.subscribe(["orders"]).join()?;
    while !clerk.poll(NOW)?.is_empty() {}
    clerk.commit()?;
    clerk.close()?;

    // Two cooks are at work. Ben has committed nothing yet, and new orders have come since.
    let cook = |name: &str| kitchen.subscribe(["orders"]).client_id(name).join();
    let (mut ann, mut ben) = (cook("ann")?, cook("ben")?);
    let _ = (ann.poll(NOW)?, ben.poll(NOW)?);
    ann.commit()?;
    orders.append_all(some(20))?;

    list(&log)?;
    show(&accounting)?;
    show(&kitchen)?;
    let planned = look(&log, &kitchen)?;
    match reset(&kitchen) {
        Err(error @ Error::GroupNotEmpty { .. }) => println!("{error}"),
        other => panic!("nobody moves a group that is read, but {other:?}"),
    }
    ann.close()?;
    ben.close()?;
    assert_eq!(reset(&kitchen)?, planned);
    show(&kitchen)?;
    println!("\n$ --delete --group accounting");
    log.delete_group("accounting")?;
    list(&log)?;
    log.close()
}

fn list(log: &Log) -> Result<()> {
    println!("\n$ --list");
    for group in log.groups()? {
        println!("{}", group.name());
    }
    Ok(())
}

fn show(group: &ConsumerGroup) -> Result<()> {
    println!("\n$ --describe --group {}", group.name());
    describe(&group.describe()?);
    Ok(())
}

/// The columns of `--describe`. `-` is for what is not there: a committed offset, a member. HOST is always `-`, for all members
/// live in this process. CLIENT-ID is the name that a member was given, by `client_id` or `instance_id`, or else that of its group:
/// its id without the number of its join. LAG is a number without a commit too: counted from where the group begins to read.
/// (A member that reads nothing has no line here; it is among the `members` of a description.)
fn describe(group: &GroupDescription) {
    row(DESCRIBED);
    for of in &group.partitions {
        let (name, topic, partition) = (&group.name, of.at.topic(), of.at.partition());
        let next = of.committed.map_or("-".to_owned(), |next| next.to_string());
        let (end, lag) = (of.end, of.lag);
        let owner = of.owner.as_deref();
        let (member, client) = (owner.unwrap_or("-"), client_id(owner));
        row(&format!(
            "{name}\t{topic}\t{partition}\t{next}\t{end}\t{lag}\t{member}\t-\t{client}"
        ));
    }
}

fn client_id(member: Option<&str>) -> &str {
    let name = member.and_then(|id| id.rsplit_once('-'));
    name.map_or("-", |(name, _)| name)
}

/// Cells that are divided by tabs, one under another.
fn row(line: &str) {
    let widths = [10, 6, 9, 14, 14, 3, 14, 4, 0];
    let cells = line.split('\t').zip(widths);
    let cells: Vec<String> = cells
        .map(|(cell, width)| format!("{cell:<width$}"))
        .collect();
    println!("{}", cells.join(" ").trim_end());
}

/// Says what `reset` would store: for `--to-earliest` that is the first offset of each partition.
fn look(log: &Log, group: &ConsumerGroup) -> Result<Positions> {
    println!(
        "\n$ --reset-offsets --to-earliest --dry-run --group {}",
        group.name()
    );
    let mut first = Positions::new();
    for of in group.describe()?.partitions {
        let partition = log.topic(of.at.topic())?.partition(of.at.partition())?;
        first.set(of.at.at(partition.offsets().start));
    }
    positions(group, &first);
    Ok(first)
}

fn reset(group: &ConsumerGroup) -> Result<Positions> {
    println!(
        "\n$ --reset-offsets --to-earliest --execute --group {}",
        group.name()
    );
    let moved = group.reset(StartFrom::Earliest)?;
    positions(group, &moved);
    Ok(moved)
}

fn positions(group: &ConsumerGroup, next: &Positions) {
    row("GROUP\tTOPIC\tPARTITION\tNEW-OFFSET");
    for at in next.iter() {
        let (topic, partition, next) = (at.topic(), at.partition(), at.offset());
        row(&format!("{}\t{topic}\t{partition}\t{next}", group.name()));
    }
}
