//! The log, its members, and what happens to them, each time compared with the model.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use thalweg::testing::{Survives, TestLog};
use thalweg::{
    Consumer, ConsumerBuilder, ConsumerGroup, Error, FencedBy, Offset, TopicConfig, TopicPartition,
    assignor,
};

use crate::Event;
use crate::book::{Book, Writer};

const TOPICS: [(&str, u32); 3] = [("a", 1), ("b", 3), ("c", 4)];
const NOW: Duration = Duration::ZERO;
/// Of `max_poll_interval`, in seconds.
const INTERVAL: u64 = 300;
/// Of `session_timeout`.
const SESSION: u64 = 45;

pub(crate) struct World {
    pub(crate) test: TestLog,
    assignor: u64,
    eager: bool,
    pub(crate) slots: BTreeMap<u64, Member>,
    joined: u64,
    pub(crate) book: Arc<Mutex<Book>>,
    steps: u64,
}

pub(crate) struct Member {
    pub(crate) consumer: Consumer,
    pub(crate) number: u64,
    pub(crate) named: bool,
    pub(crate) topics: u64,
    /// Seconds since its last poll.
    pub(crate) silent: u64,
    /// It is in the group, if nobody has shut it out.
    pub(crate) is_in: bool,
}

pub(crate) fn names(bits: u64) -> Vec<&'static str> {
    let wanted =
        |(i, (name, _)): (usize, &(&'static str, u32))| (bits >> i & 1 == 1).then_some(*name);
    TOPICS.iter().enumerate().filter_map(wanted).collect()
}

fn partitions(bits: u64) -> BTreeSet<TopicPartition> {
    let wanted = names(bits);
    let of = |(name, count): &(&'static str, u32)| {
        let name = *name;
        (0..*count).map(move |n| TopicPartition::new(name, n))
    };
    let all = TOPICS.iter().filter(|(name, _)| wanted.contains(name));
    all.flat_map(of).collect()
}

impl World {
    pub(crate) fn new(assignor: u64, eager: bool) -> World {
        let test = TestLog::new();
        for (name, count) in TOPICS {
            let config = TopicConfig::new().partitions(count);
            test.log().create_topic(name, config).unwrap();
        }
        World {
            test,
            assignor,
            eager,
            slots: BTreeMap::new(),
            joined: 0,
            book: Arc::default(),
            steps: 0,
        }
    }

    pub(crate) fn group(&self) -> ConsumerGroup {
        self.test.log().group("g")
    }

    fn builder(&self, slot: u64, topics: u64, named: bool) -> ConsumerBuilder {
        let builder = self.group().subscribe(names(topics)).max_poll_records(5);
        let builder = match self.assignor {
            0 => builder.assignor(assignor::Range),
            1 => builder.assignor(assignor::RoundRobin),
            2 => builder.assignor(assignor::Sticky),
            _ => builder.assignor(assignor::CooperativeSticky),
        };
        let builder = builder.eager(self.eager);
        let builder = if named {
            builder.instance_id(format!("s{slot}"))
        } else {
            builder.client_id(format!("c{slot}"))
        };
        builder.listener(Writer {
            number: self.joined,
            book: Arc::clone(&self.book),
            commits: self.joined.is_multiple_of(2),
        })
    }

    /// One step, and what must hold after it.
    pub(crate) fn take(&mut self, event: Event) {
        self.happen(event);
        self.steps += 1;
        self.check();
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Join {
                slot,
                topics,
                named,
            } => {
                self.lose(slot);
                self.join(slot, topics, named);
            }
            Event::TakeOver(slot) => self.take_over(slot),
            Event::Poll(slot) => {
                self.poll(slot);
            }
            Event::Wait(seconds) => self.wait(seconds),
            Event::Append { partition, count } => self.append(partition, count),
            Event::Settle => self.settle(),
            Event::Crash { power } => self.crash(power),
            Event::Close(slot) | Event::Leave(slot) | Event::Drop(slot) => self.go(slot, event),
            of_member => self.steer(of_member),
        }
    }

    fn join(&mut self, slot: u64, topics: u64, named: bool) {
        self.joined += 1;
        let consumer = self.builder(slot, topics, named).join().unwrap();
        let member = Member {
            consumer,
            number: self.joined,
            named,
            topics,
            silent: 0,
            is_in: true,
        };
        self.slots.insert(slot, member);
    }

    /// Whoever is there goes without a word.
    fn lose(&mut self, slot: u64) {
        if let Some(member) = self.slots.remove(&slot) {
            drop(member.consumer);
            self.book.lock().unwrap().readers.remove(&member.number);
        }
    }

    fn take_over(&mut self, slot: u64) {
        let Some(mut old) = self.slots.remove(&slot) else {
            return;
        };
        if !old.named || old.topics == 0 {
            self.slots.insert(slot, old);
            return;
        }
        let was_in = old.is_in;
        self.join(slot, old.topics, true);
        self.book.lock().unwrap().reader(old.number).fenced = was_in;
        for _ in 0..2 {
            let why = match old.consumer.poll(NOW) {
                Err(Error::Fenced { why, .. }) => why,
                other => panic!("{slot} was replaced, and its poll is {other:?}"),
            };
            let expected = if was_in {
                FencedBy::NewerInstance
            } else {
                FencedBy::Left
            };
            assert_eq!(why, expected);
        }
        self.book.lock().unwrap().readers.remove(&old.number);
    }

    fn go(&mut self, slot: u64, how: Event) {
        let Some(member) = self.slots.remove(&slot) else {
            return;
        };
        let number = member.number;
        if self.is_out(&member) {
            self.book.lock().unwrap().reader(number).fenced = true;
        }
        match how {
            Event::Close(_) => member.consumer.close().unwrap(),
            Event::Leave(_) => member.consumer.leave().unwrap(),
            _ => drop(member.consumer),
        }
        let mut book = self.book.lock().unwrap();
        let left = &book.reader(number).owned;
        assert!(
            matches!(how, Event::Drop(_)) || left.is_empty(),
            "{number} was not told"
        );
        book.readers.remove(&number);
    }

    /// It was shut out, or will be found to be.
    pub(crate) fn is_out(&self, member: &Member) -> bool {
        let mut book = self.book.lock().unwrap();
        member.is_in && (member.silent >= INTERVAL || book.reader(member.number).fenced)
    }

    fn poll(&mut self, slot: u64) -> usize {
        let Some(mut member) = self.slots.remove(&slot) else {
            return 0;
        };
        let (number, out) = (member.number, self.is_out(&member));
        if out {
            self.book.lock().unwrap().reader(number).fenced = true;
        }
        let had = !self.book.lock().unwrap().reader(number).owned.is_empty();
        if out && !had {
            // Nothing is lost, so nothing is told.
            self.book.lock().unwrap().reader(number).fenced = false;
        }
        let polled = member.consumer.poll(NOW);
        if !member.is_in {
            assert!(matches!(
                polled,
                Err(Error::Fenced {
                    why: FencedBy::Left,
                    ..
                })
            ));
            self.slots.insert(slot, member);
            return 0;
        }
        let batch = polled.unwrap();
        member.silent = 0;
        let mut book = self.book.lock().unwrap();
        assert!(
            !book.reader(number).fenced,
            "{slot} was not told what it lost"
        );
        for entry in &batch {
            let at = entry.topic_partition();
            let place = book.reader(number).owned.get_mut(at);
            let place = place.unwrap_or_else(|| panic!("{slot} got a record of {at}"));
            assert!(!place.paused, "{slot} paused {at}");
            assert_eq!(entry.offset(), Offset::new(place.next), "{slot}, {at}");
            assert_eq!(entry.value_str().unwrap(), place.next.to_string());
            place.next += 1;
            place.moved = true;
        }
        drop(book);
        let read = batch.len();
        self.slots.insert(slot, member);
        read
    }

    fn wait(&mut self, seconds: u64) {
        self.test.advance(Duration::from_secs(seconds));
        for member in self.slots.values_mut() {
            member.silent += seconds;
            if member.is_in && member.silent >= INTERVAL {
                self.book.lock().unwrap().reader(member.number).fenced = true;
            }
        }
    }

    fn append(&mut self, partition: u64, count: u64) {
        let all: Vec<TopicPartition> = partitions(7).into_iter().collect();
        let at = &all[partition as usize % all.len()];
        let topic = self.test.log().topic(at.topic()).unwrap();
        let partition = topic.partition(at.partition()).unwrap();
        for _ in 0..count {
            let next = partition.offsets().end.get();
            partition.append(("", &next.to_string())).unwrap();
        }
    }

    fn crash(&mut self, power: bool) {
        let survives = if power {
            Survives::SyncedOnly
        } else {
            Survives::Everything
        };
        self.test.crash(survives).unwrap();
        self.slots.clear();
        let found = committed(&self.group());
        let mut book = self.book.lock().unwrap();
        book.readers.clear();
        if !power {
            assert_eq!(found, book.committed);
        }
        for (at, next) in &found {
            assert!(book.past.get(at).is_some_and(|past| past.contains(next)));
        }
        book.committed = found;
    }

    /// All poll until nothing moves; then everything is owned, and read to its end.
    fn settle(&mut self) {
        let slots: Vec<u64> = self.slots.keys().copied().collect();
        for &slot in &slots {
            self.poll(slot);
        }
        self.wait(SESSION); // places that are kept are given up
        for &slot in &slots {
            self.steer(Event::Resume(slot));
        }
        let mut quiet = 0;
        while quiet < 3 {
            let read: usize = slots.iter().map(|&slot| self.poll(slot)).sum();
            for &slot in &slots {
                self.steer(Event::Resume(slot));
            }
            quiet = if read == 0 { quiet + 1 } else { 0 };
        }
        let live = self.slots.values().filter(|member| member.is_in);
        let wanted = live.fold(0, |all, member| all | member.topics);
        let mut owned = BTreeSet::new();
        for member in self.slots.values().filter(|member| member.is_in) {
            for at in member.consumer.assignment() {
                assert!(
                    partitions(member.topics).contains(&at),
                    "{at} was not subscribed to"
                );
                assert_eq!(member.consumer.lag(&at), Some(0));
                assert!(owned.insert(at.clone()), "{at} has two owners");
            }
        }
        assert_eq!(owned, partitions(wanted), "settled");
    }

    /// What holds at every step.
    fn check(&self) {
        let book = self.book.lock().unwrap();
        if let Some(fault) = &book.fault {
            panic!("{fault}");
        }
        assert_eq!(committed(&self.group()), book.committed);
        for (slot, member) in &self.slots {
            let known = book.readers.get(&member.number);
            let known: Vec<TopicPartition> =
                known.map_or_else(Vec::new, |reader| reader.owned.keys().cloned().collect());
            assert_eq!(member.consumer.assignment(), known, "of {slot}");
            for at in &known {
                let place = book.readers[&member.number].owned[at];
                assert_eq!(member.consumer.position(at), Some(Offset::new(place.next)));
            }
        }
        if self.steps.is_multiple_of(3) {
            self.compare_description(&book);
        }
    }

    fn compare_description(&self, book: &Book) {
        let described = self.group().describe().unwrap();
        for member in self.slots.values().filter(|member| member.is_in) {
            let id = member.consumer.membership().member().to_owned();
            let fenced = book.readers.get(&member.number).is_some_and(|of| of.fenced);
            let seen = described.members.iter().find(|seen| seen.id == id);
            match seen {
                Some(seen) if !fenced => assert_eq!(seen.owned, member.consumer.assignment()),
                Some(seen) => assert!(seen.owned.is_empty(), "{id} was shut out"),
                None => assert!(fenced, "{id} is not there"),
            }
        }
    }
}

fn committed(group: &ConsumerGroup) -> BTreeMap<TopicPartition, u64> {
    let committed = group.committed().unwrap();
    let pair = |at: &thalweg::Position| (at.topic_partition().clone(), at.offset().get());
    committed.iter().map(pair).collect()
}
