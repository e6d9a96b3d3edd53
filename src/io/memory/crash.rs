//! The simulation behind a tree in memory: it remembers every call, so that the state which a crash after any of them leaves
//! can be built, and it is asked before every call, so that the call can fail.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::content::Content;
use super::errors::{DiskError, FailedSync};
use super::faults::{Effect, Faults};
use super::models::{self, CrashModel, Dice, Variants};
use super::platter::{Image, Op, Platter, Synced};
use super::state::State;
use super::tree::{Change, Inode, Tree};
use super::{DiskCall, Memory};

/// Present in the state of a simulated tree.
pub(super) struct Sim {
    /// Where the history begins.
    base: Arc<Image>,
    history: Vec<Arc<Op>>,
    /// Can a crash at an earlier moment be asked for? Otherwise there is no history, and memory does not grow with it.
    remembers: bool,
    /// The machine is off: cache and medium change no more.
    dead: bool,
    platter: Platter,
    /// The image after some number of operations, kept because the next crash is mostly asked for there or a little later.
    cursor: Option<(usize, Image)>,
    pub(super) faults: Faults,
    boot: u128,
    device: u64,
    /// Counts forks: a lock taken before one is not ours.
    process: u64,
    capacity: Option<u64>,
    /// What the medium writes as a whole: 4096 or 512 bytes.
    unit: usize,
    seed: u64,
    dice: Dice,
}

impl Sim {
    fn beginning_at(image: Image, seed: u64) -> Sim {
        Sim {
            platter: image.platter.clone(),
            base: Arc::new(image),
            history: Vec::new(),
            remembers: true,
            dead: false,
            cursor: None,
            faults: Faults::default(),
            boot: 1,
            device: 1,
            process: 0,
            capacity: None,
            unit: super::pages::PAGE,
            seed,
            dice: Dice::seeded(&[seed]),
        }
    }

    pub(super) fn boot(&self) -> u128 {
        self.boot
    }

    pub(super) fn device(&self) -> u64 {
        self.device
    }

    pub(super) fn process(&self) -> u64 {
        self.process
    }

    /// Lets a change happen and remembers it.
    pub(super) fn change(&mut self, change: Change<'static>, tree: &mut Tree) {
        self.step(Op::Change(change), tree);
    }

    /// A change that no call made: of cache and medium alike.
    pub(super) fn damage(&mut self, change: Change<'static>, tree: &mut Tree) {
        self.step(Op::Damage(change), tree);
    }

    fn step(&mut self, op: Op, tree: &mut Tree) {
        if self.dead {
            return;
        }
        let op = Arc::new(op);
        self.platter.apply(&op, tree);
        if self.remembers {
            self.history.push(op);
        } else {
            self.platter.sweep_if_grown(tree);
        }
    }

    /// A machine that is off answers no call that would change something. Reads are answered: they find what was there.
    fn check_alive(&self, call: DiskCall) -> io::Result<()> {
        let reads = [
            DiskCall::Open,
            DiskCall::Read,
            DiskCall::ReadDir,
            DiskCall::Map,
            DiskCall::Metadata,
        ];
        if self.dead && !reads.contains(&call) {
            return Err(DiskError::Io.into());
        }
        Ok(())
    }

    pub(super) fn allow(
        &mut self,
        call: DiskCall,
        path: &Path,
        position: u64,
        len: usize,
    ) -> io::Result<usize> {
        self.check_alive(call)?;
        match self.faults.strike(call, path, position, len) {
            Some(Effect::Error(error) | Effect::Sync(_, error)) => Err(error.into()),
            Some(Effect::Short(short)) => Ok(short.of(position, len)),
            None => Ok(len),
        }
    }

    /// How many of `len` bytes at `position` fit on the disk: fewer, or an error if none does.
    pub(super) fn room(
        &self,
        tree: &Tree,
        inode: Inode,
        position: u64,
        len: u64,
    ) -> io::Result<u64> {
        let Some(capacity) = self.capacity else {
            return Ok(len);
        };
        let end = tree.file(inode).map_or(0, |content| content.len());
        let limit = end.saturating_add(capacity.saturating_sub(tree.used()));
        match len.min(limit.saturating_sub(position)) {
            0 if len > 0 => Err(DiskError::NoSpace.into()),
            fits => Ok(fits),
        }
    }

    pub(super) fn sync(
        &mut self,
        call: DiskCall,
        path: &Path,
        inode: Inode,
        tree: &mut Tree,
    ) -> io::Result<()> {
        self.check_alive(call)?;
        let (synced, result) = match self.faults.strike(call, path, 0, 0) {
            Some(Effect::Error(error)) => return Err(error.into()),
            Some(Effect::Sync(FailedSync::Keep, error)) => (Synced::Kept, Err(error)),
            Some(Effect::Sync(FailedSync::Revert, error)) => (Synced::Reverted, Err(error)),
            Some(Effect::Sync(FailedSync::Late, error)) => {
                self.faults.report_late(inode, error);
                (Synced::Kept, Ok(()))
            }
            Some(Effect::Short(_)) | None => match self.faults.late(inode) {
                Some(error) => (Synced::Kept, Err(error)),
                None => (Synced::Done, Ok(())),
            },
        };
        let op = if call == DiskCall::SyncDir {
            Op::SyncDir(inode, synced)
        } else {
            Op::SyncFile(inode, synced)
        };
        self.step(op, tree);
        result.map_err(Into::into)
    }

    pub(super) fn random(&mut self) -> u128 {
        u128::from(self.dice.roll()) << 64 | u128::from(self.dice.roll())
    }

    /// Cache and medium after the first `after` operations.
    fn image(&mut self, after: usize) -> &Image {
        assert!(
            self.remembers,
            "only a disk that remembers is asked about the past"
        );
        let after = after.min(self.history.len());
        let (mut at, mut image) = match self.cursor.take() {
            Some((at, image)) if at <= after => (at, image),
            _ => (0, (*self.base).clone()),
        };
        for op in &self.history[at..after] {
            image.apply(op);
            at += 1;
        }
        &self.cursor.insert((at, image)).1
    }

    /// The image after `after` operations if the last `lies` syncs among them did nothing.
    fn image_of_lies(&self, after: usize, lies: usize) -> Image {
        let history = &self.history[..after];
        let honest = syncs(history).saturating_sub(lies);
        let mut image = (*self.base).clone();
        let mut seen = 0;
        for op in history {
            seen += usize::from(is_sync(op));
            if !is_sync(op) || seen <= honest {
                image.apply(op);
            }
        }
        image
    }

    fn crash(&mut self, after: usize, model: CrashModel, seed: u64) -> State {
        let after = after.min(self.history.len());
        // Each life draws numbers of its own, and the same ones whenever it is built again.
        let life = Dice::seeded(&[self.seed, after as u64, model as u64, seed]).roll();
        let unit = self.unit;
        let lies;
        let image = match model {
            CrashModel::ProcessKill => return self.killed(after, life),
            CrashModel::LyingDevice => {
                let lying =
                    Dice::seeded(&[seed]).roll() % syncs(&self.history[..after]).max(1) as u64;
                lies = self.image_of_lies(after, 1 + lying as usize);
                &lies
            }
            _ => self.image(after),
        };
        let survivors = models::survivors(image, model, unit, seed);
        let graves = image.platter.graves.clone();
        self.restarted(survivors, graves, life)
    }

    /// The machine finds `survivors` when it starts again.
    fn restarted(&self, survivors: Tree, graves: Vec<Arc<Content>>, life: u64) -> State {
        let image = Image {
            cache: survivors.clone(),
            platter: Platter::holding(survivors, graves),
        };
        let mut dice = Dice::seeded(&[life]);
        let boot = u128::from(dice.roll()) << 64 | u128::from(dice.roll());
        self.next_life(
            image.cache.clone(),
            Sim {
                boot,
                ..Sim::beginning_at(image, life)
            },
        )
    }

    /// The machine runs on: cache, medium, boot and what is under way between them stay as they are.
    fn killed(&mut self, after: usize, life: u64) -> State {
        let mut image = self.image(after).clone();
        image.cache.sweep();
        let sim = Sim {
            base: self.base.clone(),
            history: self.history[..after].to_vec(),
            platter: image.platter,
            boot: self.boot,
            ..Sim::beginning_at(Image::empty(), life)
        };
        self.next_life(image.cache, sim)
    }

    /// The crash happens now, and this is the end of this disk: nobody changes it any more. (Not for
    /// [`CrashModel::LyingDevice`], which is about the past.) Of a file that was removed, and whose name may come back, there is what
    /// was synced or what was written in order, but no mixture of pages: the cache has forgotten it.
    fn die(&mut self, tree: &Tree, model: CrashModel, seed: u64) -> State {
        self.dead = true;
        let life = Dice::seeded(&[self.seed, model as u64, seed]).roll();
        let mut image = Image {
            cache: tree.clone(),
            platter: std::mem::replace(&mut self.platter, Platter::empty()),
        };
        if model != CrashModel::ProcessKill {
            let survivors = models::survivors(&image, model, self.unit, seed);
            return self.restarted(survivors, image.platter.graves, life);
        }
        image.cache.sweep();
        let sim = Sim {
            platter: image.platter,
            boot: self.boot,
            ..Sim::beginning_at(Image::empty(), life)
        };
        self.next_life(image.cache, sim)
    }

    fn next_life(&self, tree: Tree, sim: Sim) -> State {
        let sim = Sim {
            remembers: self.remembers,
            device: self.device,
            capacity: self.capacity,
            unit: self.unit,
            ..sim
        };
        State {
            sim: Some(Box::new(sim)),
            ..State::new(tree)
        }
    }
}

fn is_sync(op: &Op) -> bool {
    matches!(op, Op::SyncFile(..) | Op::SyncDir(..))
}

fn syncs(history: &[Arc<Op>]) -> usize {
    history.iter().filter(|op| is_sync(op)).count()
}

impl Memory {
    /// An empty simulated disk, whose random numbers follow from `seed`.
    pub(crate) fn simulated(seed: u64) -> Memory {
        let image = Image::empty();
        let tree = image.cache.clone();
        let sim = Sim::beginning_at(image, seed);
        Memory::from_state(State {
            sim: Some(Box::new(sim)),
            ..State::new(tree)
        })
    }

    /// How many operations are remembered: changes and syncs that happened, in the order in which they did.
    pub(crate) fn points(&self) -> usize {
        self.with_sim(|sim, _| sim.history.len())
    }

    /// How many states a crash after the first `after` operations may leave.
    pub(crate) fn variants(&self, after: usize, model: CrashModel) -> Variants {
        self.with_sim(|sim, _| {
            let unit = sim.unit;
            models::variants(sim.image(after), model, unit)
        })
    }

    /// The disk as a crash after the first `after` operations leaves it: one of the states that `model` allows, chosen by
    /// `seed`. It goes on remembering from there, so that crashes nest.
    pub(crate) fn crash(&self, after: usize, model: CrashModel, seed: u64) -> Memory {
        Memory::from_state(self.with_sim(|sim, _| sim.crash(after, model, seed)))
    }

    /// As [`crash`](Memory::crash) at this moment, and the end of this tree: who still has it changes nothing any more, neither here
    /// nor there.
    pub(crate) fn die(&self, model: CrashModel, seed: u64) -> Memory {
        Memory::from_state(self.with_sim(|sim, tree| sim.die(tree, model, seed)))
    }

    /// From now on a crash can only be asked for as [`die`](Memory::die) does.
    pub(crate) fn remember_nothing(&self) {
        self.forget_history();
        self.with_sim(|sim, _| {
            sim.remembers = false;
            sim.base = Arc::new(Image::empty());
        });
    }

    /// Begins a new history at the present state; what is un-synced stays so.
    pub(crate) fn forget_history(&self) {
        self.with_sim(|sim, tree| {
            sim.base = Arc::new(Image {
                cache: tree.clone(),
                platter: sim.platter.clone(),
            });
            sim.history.clear();
            sim.cursor = None;
        });
    }

    /// How many operations, and how many files on the medium, are kept in memory.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> (usize, usize) {
        self.with_sim(|sim, _| (sim.history.len(), sim.platter.durable.count()))
    }

    pub(super) fn with_sim<T>(&self, act: impl FnOnce(&mut Sim, &mut Tree) -> T) -> T {
        let mut state = self.state.lock();
        let State { tree, sim, .. } = &mut *state;
        act(
            sim.as_mut()
                .expect("only simulated disks are asked about crashes and faults"),
            tree,
        )
    }

    /// Bytes in all files.
    pub(crate) fn used(&self) -> u64 {
        self.with_sim(|_, tree| tree.used())
    }

    /// The device that files say they are on.
    pub(crate) fn device(&self) -> u64 {
        self.with_sim(|sim, _| sim.device)
    }

    /// Changes the simulation's settings.
    pub(crate) fn set(&self, setting: Setting) {
        self.with_sim(|sim, _| match setting {
            Setting::Boot(boot) => sim.boot = boot,
            Setting::Device(device) => sim.device = device,
            Setting::Capacity(capacity) => sim.capacity = capacity,
            Setting::Unit(unit) => sim.unit = unit,
            Setting::Forked => sim.process += 1,
        });
    }
}

/// What can be set of a simulated disk.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Setting {
    Boot(u128),
    Device(u64),
    Capacity(Option<u64>),
    /// What the medium writes as a whole: 512 or 4096 bytes.
    Unit(usize),
    /// From now on it is a forked child that calls.
    Forked,
}
