//! How does a partition go from one member of a group to another, and what becomes of the state that was kept for it? Three cooks
//! share six partitions, one poll at a time.
//!
//! `cargo run --example rebalance`. Each cook counts orders per partition, and each line shows one step: who reads which partition
//! after it (`-`: nobody), and what the listener of the one who acted was told. It runs on a `TestLog`, so it prints the same in every
//! run, and fails if that is not what `main` and the three functions below it say.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use thalweg::testing::TestLog;
use thalweg::{
    BoxError, Consumer, ConsumerBuilder, ConsumerGroup, Error, Rebalance, RebalanceListener,
    Result, TopicConfig, TopicPartition,
};

const PARTITIONS: u32 = 6;
const SECOND: Duration = Duration::from_secs(1);

/// Orders per partition.
type Counts = BTreeMap<TopicPartition, u64>;

// ── a cook, and the state that it keeps for each of its partitions

struct Cook {
    consumer: Consumer,
    state: State,
}

#[derive(Default)]
struct State {
    counts: Counts,
    /// Where counts are kept between two owners, as they were at the last commit. In a service it would be a table or a file.
    shelf: Rc<RefCell<Counts>>,
    told: Vec<String>,
}

impl Cook {
    /// Counts what is there; the listener is called within. Nothing is committed.
    fn poll(&mut self) -> Result<()> {
        for order in &self.consumer.poll_with(Duration::ZERO, &mut self.state)? {
            let count = self.state.counts.get_mut(order.topic_partition());
            *count.expect("it was assigned") += 1;
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        self.consumer.commit()?;
        self.state.put_aside(&self.consumer.assignment());
        Ok(())
    }
}

impl State {
    fn put_aside(&self, partitions: &[TopicPartition]) {
        let counts = partitions.iter().map(|at| (at.clone(), self.counts[at]));
        self.shelf.borrow_mut().extend(counts);
    }

    fn note(&mut self, callback: &str, partitions: &[TopicPartition]) {
        let numbers = partitions.iter().map(|at| format!(" {}", at.partition()));
        let numbers: Vec<String> = numbers.collect();
        self.told.push(format!("{callback}{}", numbers.concat()));
    }
}

impl RebalanceListener for State {
    /// New, possibly none: take up their state where the last owner has left it.
    fn assigned(
        &mut self,
        _: &mut Rebalance<'_>,
        added: &[TopicPartition],
    ) -> Result<(), BoxError> {
        self.note("assigned", added);
        for at in added {
            let count = self.shelf.borrow().get(at).copied().unwrap_or(0);
            self.counts.insert(at.clone(), count);
        }
        Ok(())
    }

    /// Still owned: commit, and hand the state over.
    fn revoked(
        &mut self,
        own: &mut Rebalance<'_>,
        going: &[TopicPartition],
    ) -> Result<(), BoxError> {
        self.note("revoked", going);
        own.commit()?;
        self.put_aside(going);
        self.counts.retain(|at, _| !going.contains(at));
        Ok(())
    }

    /// Somebody else's already: what was counted since the last commit is counted again there, so it is dropped here.
    fn lost(&mut self, gone: &[TopicPartition]) -> Result<(), BoxError> {
        self.note("lost", gone);
        self.counts.retain(|at, _| !gone.contains(at));
        Ok(())
    }
}

// ── what happens

fn main() -> Result<()> {
    let kitchen = Kitchen::open()?;
    println!("orders                    0    1    2    3    4    5     told");
    let (mut ann, mut ben, mut cleo) = three_join(&kitchen)?;
    one_hangs(&kitchen, &mut ann, &mut ben, &mut cleo)?;
    let mut cleo = one_restarts(&kitchen, &mut ann, &mut ben, cleo)?;

    // One was shut out with orders in hand, one restarted, all handed over: and each order counts once.
    for cook in [&mut ann, &mut ben, &mut cleo] {
        cook.commit()?;
    }
    let counted: u64 = kitchen.shelf.borrow().values().sum();
    println!("counted {counted}");
    assert_eq!(counted, 4 * u64::from(PARTITIONS));
    Ok(())
}

/// Who joins gets nothing at once: what it should read, others read, and they give it up in polls of their own.
fn three_join(kitchen: &Kitchen) -> Result<(Cook, Cook, Cook)> {
    kitchen.order_two_of_each()?;
    let mut ann = kitchen.join(kitchen.orders().client_id("ann"))?;
    kitchen.step(&mut ann, "joins", "aaaaaa", "assigned 0 1 2 3 4 5")?;
    let mut ben = kitchen.join(kitchen.orders().client_id("ben"))?;
    kitchen.step(&mut ben, "joins", "aaaaaa", "assigned")?;
    kitchen.step(&mut ann, "polls", "aaa---", "revoked 3 4 5, assigned")?;
    kitchen.step(&mut ben, "polls", "aaabbb", "assigned 3 4 5")?;
    let mut cleo = kitchen.join(kitchen.orders().instance_id("cleo"))?; // a static member
    kitchen.step(&mut cleo, "joins", "aaabbb", "assigned")?;
    kitchen.step(&mut ann, "polls", "aa-bbb", "revoked 2, assigned")?;
    kitchen.step(&mut ben, "polls", "aa-bb-", "revoked 5, assigned")?;
    kitchen.step(&mut cleo, "polls", "aacbbc", "assigned 2 5")?;
    Ok((ann, ben, cleo))
}

/// Ben has orders in hand and does not come back for five minutes. Then he is out, and the others count what he had.
fn one_hangs(kitchen: &Kitchen, ann: &mut Cook, ben: &mut Cook, cleo: &mut Cook) -> Result<()> {
    kitchen.order_two_of_each()?;
    kitchen.step(ben, "polls, hangs", "aacbbc", "")?;
    kitchen.test.advance(299 * SECOND);
    kitchen.step(ann, "polls after 299 s", "aacbbc", "")?;
    kitchen.step(cleo, "polls", "aacbbc", "")?;
    kitchen.test.advance(SECOND);
    kitchen.step(ann, "polls after 300 s", "aaca-c", "assigned 3")?;
    kitchen.step(cleo, "polls", "aacacc", "assigned 4")?;
    let refused = ben.commit().expect_err("others have what he had");
    assert!(matches!(refused, Error::Fenced { .. }));
    kitchen.show("ben commits", "aacacc", &refused.to_string())?;

    // His next poll says what he has lost, and he is a member again, a new one.
    kitchen.step(ben, "polls", "aacacc", "lost 3 4, assigned")?;
    kitchen.step(ann, "polls", "aac-cc", "revoked 3, assigned")?;
    kitchen.step(cleo, "polls", "aac-c-", "revoked 5, assigned")?;
    kitchen.step(ben, "polls", "aacbcb", "assigned 3 5")
}

/// Cleo is a static member: while she restarts her partitions rest, and the others hear nothing of it.
fn one_restarts(kitchen: &Kitchen, ann: &mut Cook, ben: &mut Cook, mut cleo: Cook) -> Result<Cook> {
    let before = ann.consumer.membership();
    cleo.consumer.close_with(&mut cleo.state)?;
    kitchen.show("cleo closes", "aa-b-b", &cleo.state.told.join(", "))?;
    kitchen.test.advance(30 * SECOND);
    kitchen.step(ann, "polls after 30 s", "aa-b-b", "")?;
    let mut cleo = kitchen.join(kitchen.orders().instance_id("cleo"))?;
    kitchen.step(&mut cleo, "is back", "aacbcb", "assigned 2 4")?;
    kitchen.step(ben, "polls", "aacbcb", "")?;
    kitchen.step(ann, "polls", "aacbcb", "")?;
    assert_eq!(ann.consumer.membership(), before); // the generation too
    Ok(cleo)
}

// ── the kitchen

struct Kitchen {
    test: TestLog,
    group: ConsumerGroup,
    shelf: Rc<RefCell<Counts>>,
}

impl Kitchen {
    fn open() -> Result<Kitchen> {
        let test = TestLog::new();
        let config = TopicConfig::new().partitions(PARTITIONS);
        test.log().create_topic("orders", config)?;
        let (group, shelf) = (test.log().group("kitchen"), Rc::default());
        Ok(Kitchen { test, group, shelf })
    }

    fn order_two_of_each(&self) -> Result<()> {
        for partition in self.test.log().topic("orders")?.partitions() {
            partition.append_all([("table-1", "espresso"), ("table-2", "flat white")])?;
        }
        Ok(())
    }

    fn orders(&self) -> ConsumerBuilder {
        self.group.subscribe(["orders"])
    }

    fn join(&self, builder: ConsumerBuilder) -> Result<Cook> {
        let (consumer, mut state) = (builder.join()?, State::default());
        state.shelf = Rc::clone(&self.shelf);
        Ok(Cook { consumer, state })
    }

    /// A poll: counts, prints the line, and checks it.
    fn step(&self, cook: &mut Cook, does: &str, owners: &str, told: &str) -> Result<()> {
        cook.poll()?;
        let said = std::mem::take(&mut cook.state.told).join(", ");
        let membership = cook.consumer.membership();
        let step = format!("{} {does}", name_of(membership.member()));
        self.show(&step, owners, &said)?;
        assert_eq!(said, told, "{step}");
        Ok(())
    }

    /// `owners` are their initials.
    fn show(&self, step: &str, owners: &str, told: &str) -> Result<()> {
        let (mut cells, mut initials) = (Vec::new(), String::new());
        for partition in self.group.describe()?.partitions {
            let name = partition.owner.as_deref().map_or("-", name_of);
            cells.push(format!("{name:<5}"));
            initials += &name[..1];
        }
        let line = format!("{step:<26}{} {told}", cells.concat());
        println!("{}", line.trim_end());
        assert_eq!(initials, owners, "{step}");
        Ok(())
    }
}

/// The id of a member is its name and the number of its join: `ann-0000000001`.
fn name_of(id: &str) -> &str {
    id.split('-').next().unwrap_or(id)
}
