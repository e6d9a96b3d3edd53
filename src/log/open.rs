//! Opening a log, step by step. Steps 1 to 8 only read; what is found is judged first and mended afterwards.
//!
//! The numbers are those of the recovery procedure: 1 root, lock, `FORMAT` and `STATE` · 2 catalogue and directories ·
//! 3 the small files · 4 to 8 each partition by itself · 9 to 12 what recovery has to write · 13 leftovers · 14 recovery
//! points. An error leaves nothing locked and nothing half-done.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;

use super::builder::{OnCorruption, Options, RecoveryProgress};
use super::catalogue::CatalogueFile;
use super::config;
use super::held::Held;
use super::inner::{Inner, Known, Topics};
use super::ledger::{self, Ledger};
use super::maintenance::Worker;
use super::root::{Access, Root};
use super::state::State;
use super::survey::{Lasts, Survey};
use super::topic::{Opening, TopicCore, custom_for};
use super::upkeep::Upkeep;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::format::names;
use crate::format::root::CatalogueEntry;
use crate::io::Storage;
use crate::partition::home::{Evidence, Home, HomeParts};
use crate::partition::progress::Progress;
use crate::partition::report::{Finding, FindingKind, RecoveryReport};
use crate::segment::Ground;

/// Files of sealed segments that stay open.
const OPEN_FILES: usize = 256;

/// Opens the log at `path`.
pub(super) fn open(
    storage: Arc<dyn Storage>,
    clock: Arc<dyn Clock>,
    path: &Path,
    access: Access,
    mut options: Options,
) -> Result<Arc<Inner>> {
    let root = Root::open(storage, path, access, options.allow_world_writable)?;
    let release = Release(Some(Arc::clone(&root.held)));
    let mut found = Found::read(&root, &options)?;
    let mut checked = Checked::of(&root, &found, options.on_recovery_progress.take())?;
    let home = Home::new(HomeParts {
        ground: Ground::new(Arc::clone(&root.storage), OPEN_FILES, options.read_mode),
        clock,
        evidence: Arc::clone(&found.state) as Arc<dyn Evidence>,
        log: root.log,
        root: root.dir.clone(),
        on_suspect_tail: options.on_suspect_tail,
        read_only: access == Access::ReadOnly,
    });
    let topics = Topics::default();
    let memory = options.compaction_memory;
    let retention = options.offsets_retention;
    let report = &mut found.report;
    let ledger = Ledger::open(&root.dir, &home, &topics, memory, retention, report)?;
    *topics.write() = found.open_topics(&home, &options, &mut checked)?;
    if access == Access::ReadOnly {
        found.report.add(Finding::new(FindingKind::MayBeBehind));
    }
    refuse_damage(&found.report, options.on_corruption)?;
    let every = options.maintenance.every();
    let every = every.filter(|_| access == Access::Write);
    let upkeep = Upkeep::new(&home, &topics, &ledger, memory, every);
    let mut inner = Inner {
        home,
        state: found.state,
        held: Arc::clone(&root.held),
        access,
        catalogue: Mutex::new(found.catalogue),
        topics,
        ledger,
        report: found.report,
        partitioners: options.partitioners,
        maintenance: options.maintenance,
        worker: Worker::default(),
        upkeep,
        initial_rebalance_delay: options.initial_rebalance_delay,
        changes: Progress::new(0, 0),
        shared: Mutex::default(),
        closed: AtomicBool::new(false),
    };
    release.keep(); // from here on dropping `inner` closes the log
    mend(&mut inner, &found.survey)?;
    refuse_damage(&inner.report, options.on_corruption)?; // what is met only when it is mended or read
    checked.all();
    Ok(Arc::new(inner))
}

/// Gives the lock up again if opening fails.
struct Release(Option<Arc<Held>>);

impl Release {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        if let Some(held) = &self.0 {
            held.release();
        }
    }
}

/// What steps 1 to 3 read.
struct Found {
    state: Arc<State>,
    catalogue: CatalogueFile,
    topics: Vec<Listed>,
    survey: Survey,
    report: RecoveryReport,
}

/// A topic of the catalogue, and what its directory says of it.
struct Listed {
    name: Arc<str>,
    dir: PathBuf,
    /// `Err`: the damaged file.
    read: Result<config::Read, PathBuf>,
}

impl Found {
    fn read(root: &Root, options: &Options) -> Result<Found> {
        let storage = &*root.storage;
        let mut report = RecoveryReport::default();
        let state = Arc::new(State::read(root, options.assume_power_loss)?);
        let catalogue = CatalogueFile::open(storage, &root.dir, state.catalogue_seen())?;
        state.set_catalogue(catalogue.generation());
        let lost = [
            (root.lost_slot, names::FORMAT),
            (catalogue.lost_slot, names::CATALOGUE),
        ];
        for (_, name) in lost.into_iter().filter(|(lost, _)| *lost) {
            report.add(finding(FindingKind::LostSlot, root.dir.join(name)));
        }
        let mut topics = read_topics(root, &catalogue, &mut report)?;
        let dirs: Vec<_> = topics
            .iter()
            .map(|topic| (topic.dir.clone(), topic.partitions()))
            .collect();
        let going: Vec<PathBuf> = catalogue
            .deleting()
            .map(|entry| topic_dir(root, entry))
            .collect();
        let survey = Survey::of(storage, &root.dir, &dirs, &going)?;
        survey.report(&mut report);
        if survey.orphans.is_empty() {
            let known = catalogue.uuids();
            state.keep_points(|topic| topic == ledger::TOPIC || known.contains(&topic));
        }
        for orphan in &survey.orphans {
            topics.extend(lost_by_catalogue(root, orphan, &topics)?);
        }
        Ok(Found {
            state,
            catalogue,
            topics,
            survey,
            report,
        })
    }

    /// Steps 4 to 8 for every partition.
    fn open_topics(
        &mut self,
        home: &Arc<Home>,
        options: &Options,
        checked: &mut Checked,
    ) -> Result<BTreeMap<Arc<str>, Known>> {
        let mut topics = BTreeMap::new();
        for Listed { name, dir, read } in std::mem::take(&mut self.topics) {
            let known = match read {
                Ok(read) => {
                    let custom = custom_for(&read.description.partitioner, &options.partitioners);
                    let opening = Opening {
                        dir,
                        read,
                        custom,
                        first_offset: 0,
                    };
                    let core = TopicCore::open(opening, home, &mut self.report)?;
                    Known::Open(Arc::new(core))
                }
                Err(file) => Known::Damaged { file },
            };
            checked.topic();
            topics.insert(name, known);
        }
        Ok(topics)
    }
}

impl Listed {
    fn partitions(&self) -> Option<u32> {
        self.read
            .as_ref()
            .ok()
            .map(|read| read.description.partitions)
    }
}

/// A topic that has records and stands in no catalogue: whoever asks for it, or wants to make it, is told that it is damaged.
fn lost_by_catalogue(root: &Root, dir: &Path, listed: &[Listed]) -> Result<Option<Listed>> {
    let name: Arc<str> = match config::read(&*root.storage, dir) {
        Ok(read) => read.stored.name.into(),
        Err(e) if e.is_corruption() => return Ok(None),
        Err(e) => return Err(e),
    };
    let lost = !listed.iter().any(|topic| topic.name == name);
    Ok(lost.then(|| Listed {
        name,
        dir: dir.to_owned(),
        read: Err(dir.to_owned()),
    }))
}

/// The descriptions of all topics. One that is missing or damaged is a finding, and that topic's alone.
fn read_topics(
    root: &Root,
    catalogue: &CatalogueFile,
    report: &mut RecoveryReport,
) -> Result<Vec<Listed>> {
    let mut topics = Vec::new();
    for entry in catalogue.live() {
        let dir = topic_dir(root, entry);
        let read = match config::read(&*root.storage, &dir) {
            Ok(read) if read.stored.topic != entry.topic || read.stored.name != entry.name => {
                Err(read.path)
            }
            Ok(read) => Ok(read),
            Err(Error::Corruption { file, .. }) => Err(file.into()),
            Err(e) => return Err(e),
        };
        match &read {
            Ok(read) if read.lost_slot => {
                report.add(finding(FindingKind::LostSlot, read.path.clone()));
            }
            Ok(_) => {}
            Err(file) => report.add(finding(FindingKind::Damaged, file.clone())),
        }
        topics.push(Listed {
            name: entry.name.as_str().into(),
            dir,
            read,
        });
    }
    Ok(topics)
}

fn topic_dir(root: &Root, entry: &CatalogueEntry) -> PathBuf {
    let topics = root.dir.join(names::TOPICS);
    topics.join(names::topic_dir(&entry.name, entry.topic))
}

fn finding(kind: FindingKind, file: PathBuf) -> Finding {
    let mut finding = Finding::new(kind);
    finding.file = Some(file);
    finding
}

/// Under [`OnCorruption::RefuseLog`], the first damage is the error of the opening.
fn refuse_damage(report: &RecoveryReport, on_corruption: OnCorruption) -> Result<()> {
    let damage = report
        .findings()
        .iter()
        .find(|finding| finding.kind == FindingKind::Damaged);
    match damage {
        Some(finding) if on_corruption == OnCorruption::RefuseLog => {
            let file = finding.file.clone().unwrap_or_default();
            let lost = finding.at.clone().zip(finding.offsets.clone());
            Err(Error::corruption(&file, finding.byte.unwrap_or(0), lost))
        }
        _ => Ok(()),
    }
}

/// Steps 9 to 14: at once for topics at `Power`, whose records must not be shown before they are durable; the others do it
/// before their first write.
fn mend(inner: &mut Inner, survey: &Survey) -> Result<()> {
    if inner.access == Access::Write && !inner.state.clean() {
        for core in inner.cores() {
            if core.now().settings.below_power() {
                continue;
            }
            for partition in core.partitions.iter() {
                isolate(partition.finish_recovery(), &mut inner.report)?;
            }
        }
    }
    if inner.access == Access::Write
        && !survey.leftovers.is_empty()
        && inner.state.open_number().is_ok()
    {
        survey.clean_up(&*inner.home.ground.storage);
    }
    for core in inner.cores() {
        inner.work_for(&core.now().settings)?;
    }
    inner.ledger.replay(&mut inner.report)?;
    inner.work_for_offsets()?;
    if inner.access == Access::Write {
        // What cannot be done now is done at a later opening, unless the directory is not ours.
        if let Err(e @ Error::Poisoned { at: None, .. }) = inner.finish_deletions() {
            return Err(e);
        }
    }
    Ok(())
}

/// One partition that cannot be mended does not keep the others from being opened: damage is its own, and a disk that is full or
/// fails leaves the work for later, since reading needs no write. The next append tries again, and tells.
fn isolate(mended: Result<()>, report: &mut RecoveryReport) -> Result<()> {
    match mended {
        Err(Error::Corruption { file, byte, lost }) => {
            let mut finding = finding(FindingKind::Damaged, file.into());
            finding.byte = Some(byte);
            (finding.at, finding.offsets) = lost.map(|lost| *lost).unzip();
            report.add(finding);
            Ok(())
        }
        Err(Error::NoSpace { .. } | Error::Io { .. }) => Ok(()),
        other => other,
    }
}

/// Tells the host how far checking has come.
struct Checked {
    tell: Option<RecoveryProgress>,
    /// Bytes of the topics that are still to be checked.
    todo: VecDeque<u64>,
    done: u64,
    total: u64,
}

impl Checked {
    /// Counts what there is to check, and, where `STATE` did not survive whole, which openings the segments name. After a clean
    /// end neither is needed, and nothing is looked at.
    fn of(root: &Root, found: &Found, tell: Option<RecoveryProgress>) -> Result<Checked> {
        let mut checked = Checked {
            tell,
            todo: VecDeque::new(),
            done: 0,
            total: 0,
        };
        let counts = checked.tell.is_some() && !found.state.clean();
        if counts || !found.state.is_sound() {
            let ledger = root.dir.join(names::LEDGER);
            let dirs = found
                .topics
                .iter()
                .map(|topic| topic.dir.as_path())
                .chain([ledger.as_path()]);
            let lasts = Lasts::of(&*root.storage, dirs)?;
            found.state.saw(lasts.open_number);
            checked.total = lasts.bytes.iter().sum();
            checked.todo = lasts.bytes.into();
        }
        Ok(checked)
    }

    /// The partitions of the next topic were checked.
    fn topic(&mut self) {
        self.done += self.todo.pop_front().unwrap_or(0);
        self.tell();
    }

    /// Everything was.
    fn all(&mut self) {
        self.done = self.total;
        self.tell();
    }

    fn tell(&mut self) {
        if let Some(tell) = &mut self.tell {
            tell(self.done, self.total);
        }
    }
}
