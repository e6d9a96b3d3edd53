//! How does it look? The quickstart of the README: write two orders, read them as a group, remember how far it got.
//!
//! `cargo run --example quickstart [directory]`, without a directory in a temporary one. Give it a directory and run it twice: the
//! second time the kitchen sees only the new orders.

use std::path::Path;
use std::time::Duration;

use thalweg::{Log, TopicConfig};

fn main() -> Result<(), thalweg::BoxError> {
    if let Some(dir) = std::env::args_os().nth(1) {
        return Ok(quickstart(Path::new(&dir))?);
    }
    let dir = tempfile::tempdir()?;
    Ok(quickstart(&dir.path().join("data"))?)
}

fn quickstart(dir: &Path) -> thalweg::Result<()> {
    let log = Log::open(dir)?;
    let orders = log.topic_or_create("orders", TopicConfig::new().partitions(4))?;
    orders.append(("customer-7", "2 x espresso"))?; // same key, same partition, same order
    orders.append(("customer-9", "1 x flat white"))?;

    let mut kitchen = log.group("kitchen").subscribe(["orders"]).join()?;
    for order in &kitchen.poll(Duration::from_secs(1))? {
        println!("{} {}", order.position(), order.value_str()?);
    }
    kitchen.commit()?; // next time, begin after these
    kitchen.close()
}
