//! How is the logic of a consumer tested without a broker? A kitchen that reads orders, on a log whose crashes, faults and time the
//! test chooses.
//!
//! `cargo run --example testing_a_consumer`. In a crate of yours, `Kitchen` would be in `src`, each of the four
//! functions below it a `#[test]`, and `thalweg = { …, features = ["testing"] }` a dev-dependency. None of them waits.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::time::Duration;

use thalweg::testing::{Call, Survives, TestLog};
use thalweg::{ConsumerGroup, EntryRef, Error, Result, Timestamp, TopicConfig};

/// An order that has waited for so long is refused.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

// ── what is tested

/// Brews what is ordered, and counts it by drink. It runs on every log: on disk in the service, in memory here.
#[derive(Default)]
struct Kitchen {
    brewed: BTreeMap<String, u32>,
    /// Who waited too long.
    refused: Vec<String>,
}

impl Kitchen {
    /// The service loop: until somebody wakes it, or, on a `TestLog`, until nothing is left.
    fn serve(&mut self, group: &ConsumerGroup, now: impl Fn() -> Timestamp) -> Result<()> {
        let mut consumer = group.subscribe(["orders"]).join()?;
        while let Some(batch) = consumer.next_batch()? {
            for order in &batch {
                self.handle(order, now())?;
            }
            consumer.commit()?; // next time, begin after these
        }
        consumer.close()
    }

    fn handle(&mut self, order: EntryRef<'_>, now: Timestamp) -> Result<()> {
        let waited = now.as_millis() - order.timestamp().as_millis();
        if u128::try_from(waited).is_ok_and(|waited| waited > PATIENCE.as_millis()) {
            self.refused.push(order.key_str()?.to_owned());
        } else {
            *self
                .brewed
                .entry(order.value_str()?.to_owned())
                .or_default() += 1;
        }
        Ok(())
    }

    fn brewed(&self, drink: &str) -> u32 {
        self.brewed.get(drink).copied().unwrap_or(0)
    }
}

// ── its tests

fn main() -> Result<()> {
    every_order_is_brewed_once()?;
    a_crash_before_the_commit_repeats_the_order()?;
    an_order_whose_commit_failed_comes_again()?;
    an_order_that_waited_too_long_is_refused()
}

/// A log with two orders.
fn cafe() -> Result<TestLog> {
    let test = TestLog::new();
    let orders = test
        .log()
        .create_topic("orders", TopicConfig::new().partitions(4))?;
    orders.append(("customer-7", "espresso"))?;
    orders.append(("customer-9", "flat white"))?;
    Ok(test)
}

/// One run of the service, from its start until nothing is left to read.
fn serve(test: &TestLog, kitchen: &mut Kitchen) -> Result<()> {
    kitchen.serve(&test.log().group("kitchen"), || test.now())
}

fn every_order_is_brewed_once() -> Result<()> {
    let test = cafe()?;
    let mut kitchen = Kitchen::default();
    serve(&test, &mut kitchen)?;
    serve(&test, &mut kitchen)?; // a second run finds nothing: the first one has committed
    println!("served:        {:?}", kitchen.brewed);
    assert_eq!(kitchen.brewed("espresso"), 1);
    assert_eq!(kitchen.brewed("flat white"), 1);
    Ok(())
}

fn a_crash_before_the_commit_repeats_the_order() -> Result<()> {
    let test = cafe()?;
    let mut kitchen = Kitchen::default();

    // Handled, and before the commit the process dies.
    let mut consumer = test.log().group("kitchen").subscribe(["orders"]).join()?;
    for order in &consumer.poll(Duration::ZERO)? {
        kitchen.handle(order, test.now())?;
    }
    let report = test.crash(Survives::Everything)?;
    assert!(report.is_empty()); // no record was lost, so nothing had to be repaired
    assert!(matches!(consumer.commit(), Err(Error::Closed)));

    serve(&test, &mut kitchen)?;
    println!("after a crash: {:?}", kitchen.brewed);
    assert_eq!(kitchen.brewed("espresso"), 2); // at least once: brewing must be safe to repeat
    Ok(())
}

fn an_order_whose_commit_failed_comes_again() -> Result<()> {
    let test = cafe()?;
    let mut kitchen = Kitchen::default();
    test.fail_next(Call::Commit, ErrorKind::StorageFull);
    let error = serve(&test, &mut kitchen).expect_err("the disk is full");
    println!("full disk:     {error}");
    assert!(matches!(error, Error::NoSpace { .. }));

    serve(&test, &mut kitchen)?; // there is room again
    println!("once more:     {:?}", kitchen.brewed);
    assert_eq!(kitchen.brewed("espresso"), 2);
    Ok(())
}

fn an_order_that_waited_too_long_is_refused() -> Result<()> {
    let test = cafe()?;
    test.advance(PATIENCE); // just in time
    test.log()
        .topic("orders")?
        .append(("customer-8", "espresso"))?;
    let mut kitchen = Kitchen::default();
    serve(&test, &mut kitchen)?;
    assert_eq!(kitchen.brewed("espresso"), 2);

    test.log()
        .topic("orders")?
        .append(("customer-5", "espresso"))?;
    test.advance(PATIENCE + Duration::from_millis(1));
    serve(&test, &mut kitchen)?;
    println!("too late for:  {:?}", kitchen.refused);
    assert_eq!(kitchen.refused, ["customer-5"]);
    Ok(())
}
