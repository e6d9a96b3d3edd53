//! Row F97b: a crash at each step of a partition's first append, and what the bit in the topic's description is worth.

use thalweg::testing::{CrashModel, Disk, Variants};
use thalweg::{Durability, FindingKind, TopicConfig};

use super::logs::{end, files, fill, killed, kinds, numbered, open, rows, scale, t0, try_open};

const LEVELS: [Durability; 3] = [
    Durability::Power,
    Durability::Process,
    Durability::Interval {
        time: std::time::Duration::from_secs(1),
        bytes: 1 << 20,
    },
];

/// How many states of one crash point are looked at.
fn states(disk: &Disk, after: usize, model: CrashModel) -> u64 {
    match disk.variants(after, model) {
        Variants::All(count) => count.min(256),
        _ => 16 * scale(),
    }
}

/// Opens what a crash left, and goes on. Whether the record was acknowledged before says what must be there.
fn goes_on(crashed: &Disk, acknowledged: bool, context: &str) {
    let log = try_open(crashed).unwrap_or_else(|e| panic!("{context}: {e:?}"));
    let found = kinds(log.recovery());
    assert!(
        !found.contains(&FindingKind::Damaged),
        "{context}: {:?}",
        log.recovery()
    );
    let partition = t0(&log);
    let held = rows(&partition);
    assert!(
        held == numbered(0..1) || !acknowledged && held.is_empty(),
        "{context}: {held:?}"
    );
    let from = end(&partition);
    assert!(from >= held.len() as u64, "{context}");
    let at = partition
        .append(("key", "after"))
        .unwrap_or_else(|e| panic!("{context}: {e:?}"));
    assert_eq!(at.offset().get(), from, "{context}");
    log.close().unwrap_or_else(|e| panic!("{context}: {e:?}"));
    let log = open(crashed);
    assert!(log.recovery().is_empty(), "{context}: {:?}", log.recovery());
    assert_eq!(
        rows(&t0(&log)).last(),
        Some(&(from, "after".to_owned())),
        "{context}"
    );
}

/// Every operation of the first append × every model; `acknowledged` is what the level promises there.
#[test]
fn f97b_a_crash_within_the_first_append_never_damages_the_partition() {
    let mut looked_at = 0;
    for level in LEVELS {
        let disk = Disk::new();
        let log = open(&disk);
        let topic = log
            .create_topic("t", TopicConfig::new().durability(level))
            .unwrap();
        let before = disk.points();
        fill(&topic.partition(0).unwrap(), 0..1);
        let after = disk.points();
        assert!(
            after > before + 5,
            "directory, segment, syncs, bit, batch: {}",
            after - before
        );
        for model in [
            CrashModel::ProcessKill,
            CrashModel::LostSuffix,
            CrashModel::LostPages,
            CrashModel::GarbagePages,
        ] {
            for point in before..=after {
                for seed in 0..states(&disk, point, model) {
                    let promised = match model {
                        CrashModel::ProcessKill => true,
                        _ => level == Durability::Power,
                    };
                    let context = format!(
                        "{level:?}, {model:?}, point {point} of {before}..={after}, seed {seed}"
                    );
                    goes_on(
                        &disk.crash(point, model, seed),
                        promised && point == after,
                        &context,
                    );
                    looked_at += 1;
                }
            }
        }
    }
    println!("states: {looked_at}");
    assert!(looked_at > 200);
}

/// A second partition of the topic begins: the first one's records stay, whatever happens.
#[test]
fn f97b_a_crash_within_a_first_append_leaves_the_other_partitions_alone() {
    let disk = Disk::new();
    let log = open(&disk);
    let topic = log
        .create_topic("t", TopicConfig::new().partitions(2))
        .unwrap();
    fill(&topic.partition(0).unwrap(), 0..5);
    let before = disk.points();
    fill(&topic.partition(1).unwrap(), 0..1);
    for model in [
        CrashModel::ProcessKill,
        CrashModel::LostPages,
        CrashModel::GarbagePages,
    ] {
        for point in before..=disk.points() {
            for seed in 0..states(&disk, point, model).min(64) {
                let log = open(&disk.crash(point, model, seed));
                assert!(
                    !kinds(log.recovery()).contains(&FindingKind::Damaged),
                    "{model:?} {point} {seed}"
                );
                let topic = log.topic("t").unwrap();
                assert_eq!(
                    rows(&topic.partition(0).unwrap()),
                    numbered(0..5),
                    "{model:?} {point} {seed}"
                );
                let second = topic.partition(1).unwrap();
                fill(&second, end(&second)..end(&second) + 1);
            }
        }
    }
}

/// The newest slot of the description rots: the older one has no bit, but there are batches. That is damage, not a beginning.
#[test]
fn f97b_batches_without_the_bit_are_corruption_and_never_made_anew() {
    for level in LEVELS {
        let disk = Disk::new();
        let log = open(&disk);
        let topic = log
            .create_topic("t", TopicConfig::new().durability(level))
            .unwrap();
        let config = files(&disk, "t", "/config").pop().unwrap();
        let old = disk.read_file(&config).unwrap();
        fill(&topic.partition(0).unwrap(), 0..10);
        let new = disk.read_file(&config).unwrap();
        drop((topic, log));
        let disk = killed(&disk);
        zero_what_changed(&disk, &config, &old, &new);
        for _ in 0..2 {
            let log = open(&disk);
            let found = kinds(log.recovery());
            assert!(
                found.contains(&FindingKind::Damaged),
                "{level:?}: {found:?}"
            );
            let partition = t0(&log);
            let error = partition.append(("k", "anew")).unwrap_err();
            assert!(error.is_corruption(), "{level:?}: {error:?}");
            let held: Vec<_> = partition
                .entries(..)
                .filter_map(Result::ok)
                .map(|e| super::logs::row(&e))
                .collect();
            assert!(
                held.iter().all(|row| numbered(0..10).contains(row)),
                "{level:?}: {held:?}"
            );
            assert!(
                end(&partition) == 0 || end(&partition) >= 10,
                "{level:?}: no end in between"
            );
        }
        let segment = files(&disk, "t", ".log").pop().unwrap();
        let bytes = disk.read_file(segment).unwrap();
        assert!(
            bytes.windows(10).any(|window| window == b"value-0009"),
            "nothing was removed"
        );
    }
}

/// The slot that was written last begins at the first byte that changed and ends with the last one.
fn zero_what_changed(disk: &Disk, path: &std::path::Path, old: &[u8], new: &[u8]) {
    let same = |at: &usize| old.get(*at) == new.get(*at);
    let first = (0..new.len()).find(|at| !same(at)).expect("a change") as u64;
    let last = (0..new.len()).rfind(|at| !same(at)).expect("a change") as u64;
    disk.zero(path, first..last + 1).unwrap();
}
