//! The coordinator under a scheduler that tries many orders of its threads: who waits is told, who owns owns alone.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test --target-dir target/shuttle --lib coordinator`; `THALWEG_LONG` multiplies the
//! schedules, `THALWEG_SEED` gives others.
//! A deadlock fails as "deadlock", a failure prints the schedule that led to it.

mod members;
mod sleeping;
mod told;

use std::sync::Mutex as Plain;

use shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner, thread};

use super::*;
use crate::consumer::assignor::CooperativeSticky;
use crate::error::FencedBy;
use crate::log::PartitionKey;
use crate::offset::Offset;

const NOW: Duration = Duration::ZERO;
/// Between two polls.
const INTERVAL: Duration = Duration::from_secs(300);
const UUID: u128 = 7;
/// Of each kind of schedule.
const SCHEDULES: usize = 400;
/// So often a schedule of the second kind prefers another thread.
const CHANGES: usize = 3;
/// Of a scenario that is small enough to be tried in every order.
const ORDERS: usize = 50_000;

fn number(variable: &str, usual: u64) -> u64 {
    let given = std::env::var(variable).ok();
    given.map_or(usual, |text| text.parse().expect("a number"))
}

/// Runs a scenario in many orders: at random, and with few changes of the thread that goes first.
fn in_many_orders(scenario: fn()) {
    let schedules = SCHEDULES * number("THALWEG_LONG", 1) as usize;
    let seed = number("THALWEG_SEED", 1);
    println!("THALWEG_SEED={seed}");
    run(RandomScheduler::new_from_seed(seed, schedules), scenario);
    run(
        PctScheduler::new_from_seed(seed, CHANGES, schedules),
        scenario,
    );
}

/// Runs a small scenario in every order that there is.
fn in_every_order(scenario: fn()) {
    let orders = run(DfsScheduler::new(Some(ORDERS), false), scenario);
    println!("{orders} orders");
    assert!(orders < ORDERS, "too many to try them all");
}

fn run(scheduler: impl Scheduler + 'static, scenario: fn()) -> usize {
    let mut config = Config::new();
    config.stack_size = 1 << 18;
    Runner::new(scheduler, config).run(scenario)
}

// ── who takes part

/// How a member joins.
#[derive(Clone, Copy, Default)]
struct How {
    instance: Option<&'static str>,
    eager: bool,
}

const EAGER: How = How {
    instance: None,
    eager: true,
};
const STATIC: How = How {
    instance: Some("i"),
    eager: false,
};

fn look(topic: &str, uuid: u128, partitions: u32) -> Looked {
    let start = |n| Start {
        key: (uuid, n),
        wanted: Some(Offset::ZERO),
        first: Offset::ZERO,
    };
    Looked {
        name: topic.to_owned(),
        info: Some(TopicInfo { uuid, partitions }),
        starts: (0..partitions).map(start).collect(),
    }
}

/// Who reads what, as the members see it: nobody takes what another one has not given up.
type Readers = Arc<Plain<HashMap<PartitionKey, Arc<str>>>>;

/// A member without a log: it reconciles as a consumer does.
struct Reader {
    place: Place,
    parker: Arc<Parker>,
    id: Arc<str>,
    owned: Vec<PartitionKey>,
    seen: Option<u64>,
    readers: Readers,
}

/// A group of one topic of so many partitions.
#[derive(Clone)]
struct Ground {
    coordinator: Arc<Coordinator>,
    readers: Readers,
    partitions: u32,
}

impl Ground {
    fn new(partitions: u32) -> Ground {
        Ground {
            coordinator: Arc::default(),
            readers: Arc::default(),
            partitions,
        }
    }

    fn join(&self, how: How) -> Reader {
        let protocol = Protocol {
            assignor: Arc::new(CooperativeSticky),
            name: "cooperative-sticky".into(),
            eager: how.eager,
        };
        let parker: Arc<Parker> = Arc::default();
        let joining = Joining {
            group: "g",
            client: "m",
            instance: how.instance,
            instead_of: None,
            topics: &["t".to_owned()],
            protocol: &protocol,
            limits: Limits {
                poll_interval: INTERVAL,
                session_timeout: Duration::from_secs(45),
                rebalance_delay: Duration::ZERO,
            },
            parker: &parker,
        };
        let topics = vec![look("t", UUID, self.partitions)];
        let at = Offset::ZERO;
        let place = self.coordinator.join(&joining, Look { at, topics }, NOW);
        let place = place.unwrap().expect("no look is older than this");
        Reader {
            id: place.membership(0).member().into(),
            place,
            parker,
            owned: Vec::new(),
            seen: None,
            readers: Arc::clone(&self.readers),
        }
    }

    /// The ids of the members, sorted.
    fn members(&self) -> Vec<Arc<str>> {
        let seen = self.coordinator.describe("g", NOW).unwrap();
        let members = seen.into_iter().flat_map(|seen| seen.members);
        members.map(|member| member.id).collect()
    }

    /// These are all that there are, and when each has polled they own everything, each its own.
    fn is_settled_by(&self, readers: &mut [&mut Reader]) {
        for _ in 0..=readers.len() {
            for reader in &mut *readers {
                reader.poll();
            }
        }
        let mut owned: Vec<_> = readers.iter().flat_map(|of| of.owned.clone()).collect();
        owned.sort_unstable();
        let all: Vec<PartitionKey> = (0..self.partitions).map(|n| (UUID, n)).collect();
        assert_eq!(owned, all);
        let mut ids: Vec<_> = readers.iter().map(|of| Arc::clone(&of.id)).collect();
        ids.sort();
        assert_eq!(self.members(), ids);
        let sizes = readers.iter().map(|of| of.owned.len());
        let (least, most) = (sizes.clone().min().unwrap(), sizes.max().unwrap());
        assert!(most - least <= 1, "not even: {least} and {most}");
    }
}

impl Reader {
    /// Gives up what it should not read and takes what it should, as far as it can now. `false`: it is no member.
    fn poll(&mut self) -> bool {
        self.poll_at(NOW)
    }

    fn poll_at(&mut self, now: Duration) -> bool {
        if self.place.beat(now, INTERVAL).is_err() {
            return false;
        }
        if self.seen == Some(self.place.version()) {
            return true;
        }
        let Found::Target(target) = self.place.target(now).unwrap() else {
            return false;
        };
        let wanted: Vec<PartitionKey> = target.owned.iter().map(|of| of.key).collect();
        let goes = |key: &PartitionKey| target.everything_first || !wanted.contains(key);
        let going: Vec<_> = self.owned.extract_if(.., |key| goes(key)).collect();
        self.let_go(&going);
        self.place.release(&going);
        if target.everything_first {
            self.place.gave_up(target.generation);
        }
        if let Some(taken) = self.place.take(target.generation) {
            for Taken { of, .. } in taken {
                self.begin(of.key);
            }
        }
        self.seen = Some(target.version);
        true
    }

    fn begin(&mut self, key: PartitionKey) {
        let before = self
            .readers
            .lock()
            .unwrap()
            .insert(key, Arc::clone(&self.id));
        assert_eq!(
            before, None,
            "{key:?} has two readers, the second is {}",
            self.id
        );
        self.owned.push(key);
    }

    /// Said before others can have them.
    fn let_go(&self, going: &[PartitionKey]) {
        let mut readers = self.readers.lock().unwrap();
        for key in going {
            readers.remove(key);
        }
    }

    /// Polls and sleeps until it owns so many. A ring that is lost is a deadlock.
    fn wait_for(&mut self, count: usize) {
        loop {
            self.parker.arm();
            assert!(self.poll(), "nobody shuts it out");
            if self.owned.len() == count {
                return;
            }
            if self.seen == Some(self.place.version()) {
                self.parker.park(None);
            }
        }
    }

    fn leave(self) {
        self.let_go(&self.owned);
        self.place.leave(NOW);
    }

    fn fenced(&self) -> Option<FencedBy> {
        self.place.hold(NOW, INTERVAL).err()
    }
}
