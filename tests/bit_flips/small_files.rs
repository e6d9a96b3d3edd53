//! Bits of everything else in the directory: indexes never matter, the small files are right or refused.

use std::path::{Path, PathBuf};

use thalweg::testing::{CrashModel, Disk};
use thalweg::{Durability, FindingKind, Offset, TopicConfig};

use crate::common::{Dice, seed};
use crate::forge;
use crate::media::{self, End, Golden, Plan, Verdict};
use crate::sampling::{how_many, run, sample};

fn golden(end: End) -> Golden {
    Golden::new(Plan::small(3, Durability::Power, end))
}

fn is_segment(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "log")
}

/// All other files, with their lengths; some of them may be empty.
fn small_files(disk: &Disk) -> Vec<(PathBuf, u64)> {
    let files = disk.files().into_iter();
    files
        .filter(|(path, len)| *len > 0 && !is_segment(path))
        .collect()
}

/// What the damaged log gave: all of it, some with errors, or a refusal.
fn outcome(golden: &Golden, disk: &Disk) -> Result<&'static str, String> {
    match golden.judge(disk)? {
        Verdict::Refused(_) => Ok("refused by a typed error"),
        Verdict::Opened(opened) if !opened.found.is_whole() => Ok("some lost, told"),
        Verdict::Opened(opened) if opened.log.recovery().is_empty() => Ok("the same data"),
        Verdict::Opened(_) => Ok("the same data, and a report"),
    }
}

/// Flips bits of the files that `wanted` says, shared evenly.
fn flip_files(
    name: &str,
    golden: &Golden,
    usual: u64,
    wanted: impl Fn(&Path) -> bool,
) -> crate::sampling::Counts {
    let files: Vec<_> = small_files(&golden.disk)
        .into_iter()
        .filter(|(path, _)| wanted(path))
        .collect();
    assert!(!files.is_empty(), "no file is {name}");
    let total: u64 = files.iter().map(|(_, len)| len * 8).sum();
    let mut dice = Dice::new(seed());
    let chosen = sample(total, how_many(total, usual), &mut dice);
    run(&format!("bit flips, {name}, bit"), &chosen, |bit| {
        let mut bit = bit;
        let mut of = files.iter();
        let (path, _) = loop {
            let file = of.next().expect("a bit of one of the files");
            if bit < file.1 * 8 {
                break file;
            }
            bit -= file.1 * 8;
        };
        let disk = golden.copy();
        disk.flip_bit(path, bit).map_err(|e| e.to_string())?;
        outcome(golden, &disk).map_err(|wrong| format!("bit {bit} of {}: {wrong}", path.display()))
    })
}

#[test]
fn f56_bits_of_an_index_change_nothing_at_all() {
    for end in [End::Closed, End::Killed] {
        let golden = golden(end);
        let index = |path: &Path| path.extension().is_some_and(|ending| ending == "idx");
        let counts = flip_files(&format!("indexes, {end:?}"), &golden, 1_000, index);
        assert_eq!(
            counts.keys().copied().collect::<Vec<_>>(),
            ["the same data"]
        );
    }
}

#[test]
fn f56_bits_of_an_index_do_not_lead_a_single_look_astray() {
    let golden = golden(End::Closed);
    let index = media::files(&golden.disk, "/log/topics/t-", ".idx").remove(0);
    let bits = golden.disk.read_file(&index).unwrap().len() as u64 * 8;
    let mut dice = Dice::new(seed());
    let chosen = sample(bits, how_many(bits, 300), &mut dice);
    run("looks past a flipped index, bit", &chosen, |bit| {
        let disk = golden.copy();
        disk.flip_bit(&index, bit).map_err(|e| e.to_string())?;
        let log = media::open(&disk).map_err(|e| e.to_string())?;
        let partition = media::partition(&log);
        for offset in (0..golden.end()).step_by(9) {
            match partition.get(Offset::new(offset)) {
                Ok(Some(entry)) if golden.wrote((&entry).into()) => {}
                other => return Err(format!("{offset} gave {other:?}")),
            }
        }
        Ok("the same data")
    });
}

#[test]
fn f62b_bits_of_state_cost_no_record_at_power() {
    for end in [End::Closed, End::Killed, End::Unplugged] {
        let golden = golden(end);
        let state = |path: &Path| path.ends_with("STATE");
        let counts = flip_files(&format!("STATE, {end:?}"), &golden, 1_500, state);
        for outcome in counts.keys() {
            assert!(outcome.starts_with("the same data"), "{counts:?}");
        }
    }
}

#[test]
fn f14_bits_of_format_catalogue_and_config_give_the_same_data_or_an_error() {
    for end in [End::Closed, End::Killed] {
        let golden = golden(end);
        let small = |path: &Path| {
            !path.starts_with("/log/ledger")
                && ["FORMAT", "CATALOGUE", "config"]
                    .iter()
                    .any(|name| path.ends_with(name))
        };
        let counts = flip_files(
            &format!("FORMAT, CATALOGUE, config, {end:?}"),
            &golden,
            3_000,
            small,
        );
        assert!(
            counts.len() > 1,
            "some bits count and some do not: {counts:?}"
        );
    }
}

#[test]
fn bits_of_the_ledger_do_not_touch_the_records() {
    let golden = golden(End::Killed);
    let ledger = |path: &Path| path.starts_with("/log/ledger");
    flip_files("the ledger's description", &golden, 1_000, ledger);
}

/// A partition whose empty last segment was replaced by one behind a gap: it has a manifest.
fn with_manifest() -> (Disk, Vec<(u64, Vec<u8>)>) {
    let disk = Disk::seeded(11);
    let log = media::open(&disk).unwrap();
    let config = TopicConfig::new()
        .durability(Durability::Process)
        .offset_span(100)
        .segment_bytes(600);
    let partition = log.create_topic("t", config).unwrap().partition(0).unwrap();
    for n in 0..10 {
        partition.append(("k", format!("early {n}"))).unwrap();
    }
    partition.roll().unwrap();
    let broken = disk.crash(disk.points(), CrashModel::LostSuffix, 0);
    drop((log, partition));
    let log = media::open(&broken).unwrap();
    let partition = media::partition(&log);
    for n in 0..5 {
        partition.append(("k", format!("late {n}"))).unwrap();
    }
    let manifest = media::partition_dir(&broken).join("MANIFEST");
    assert!(
        broken.read_file(manifest).is_ok(),
        "the empty segment was replaced"
    );
    let entries = partition.entries(..).map(Result::unwrap);
    let written = entries
        .map(|e| (e.offset().get(), e.value().unwrap().to_vec()))
        .collect();
    let killed = media::copy(&broken);
    killed.forget_history();
    drop(log);
    (killed, written)
}

#[test]
fn f14_bits_of_a_manifest_give_the_same_data_or_an_error_and_remove_nothing() {
    let (disk, written) = with_manifest();
    let manifest = media::partition_dir(&disk).join("MANIFEST");
    let bits = disk.read_file(&manifest).unwrap().len() as u64 * 8;
    let segments = media::segments(&disk);
    let mut dice = Dice::new(seed());
    let chosen = sample(bits, how_many(bits, 2_000), &mut dice);
    run("bit flips, MANIFEST, bit", &chosen, |bit| {
        let damaged = media::copy(&disk);
        damaged
            .flip_bit(&manifest, bit)
            .map_err(|e| e.to_string())?;
        let log = media::open(&damaged).map_err(|e| e.to_string())?;
        let partition = media::partition(&log);
        let mut read = Vec::new();
        let mut errors = 0;
        for item in partition.entries(..) {
            match item {
                Ok(entry) => read.push((
                    entry.offset().get(),
                    entry.value().unwrap_or_default().to_vec(),
                )),
                Err(error) if error.is_corruption() => errors += 1,
                Err(other) => return Err(format!("{other:?}")),
            }
        }
        let appended = media::append_probe(&partition);
        drop(log);
        if segments.iter().any(|file| damaged.read_file(file).is_err()) {
            return Err("a segment was removed".into());
        }
        let report = appended.is_none() || errors > 0;
        if read == written && !report {
            return Ok("the same data");
        }
        let known = read.iter().all(|entry| written.contains(entry));
        match (known, report) {
            (false, _) => Err(format!("other data: {read:?}")),
            (true, true) => Ok("damaged, told"),
            (true, false) => Err(format!(
                "{} of {} are there, and nothing says so",
                read.len(),
                written.len()
            )),
        }
    });
}

#[test]
fn bits_and_bytes_of_the_lock_file_mean_nothing() {
    let golden = golden(End::Closed);
    for content in [&b""[..], b"x", b"4711\n", &[0xFF; 100]] {
        let disk = golden.copy();
        disk.write_file("/log/LOCK", content).unwrap();
        let log = golden.judge(&disk).unwrap().opened().log;
        let findings = log.recovery().findings();
        assert!(findings.is_empty(), "{findings:?}");
    }
}

#[test]
fn every_length_of_every_small_file_gives_the_same_data_or_an_error() {
    for end in [End::Closed, End::Killed] {
        let golden = golden(end);
        for (path, len) in small_files(&golden.disk) {
            let mut dice = Dice::new(seed());
            let chosen = sample(len, how_many(len, 120), &mut dice);
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let counts = run(&format!("cut, {name}, {end:?}, to byte"), &chosen, |len| {
                let disk = golden.copy();
                disk.resize(&path, len).map_err(|e| e.to_string())?;
                outcome(&golden, &disk)
            });
            if name.ends_with(".idx") {
                assert!(
                    counts.keys().all(|outcome| *outcome == "the same data"),
                    "{counts:?}"
                );
            }
        }
    }
}

#[test]
fn a_rotted_newest_description_never_brings_an_older_topic_back() {
    // Two slots: with the newest one gone, the older one knows no partition in use.
    let golden = golden(End::Closed);
    let config = media::files(&golden.disk, "/log/topics/t-", "/config").remove(0);
    let bytes = golden.disk.read_file(&config).unwrap();
    let slot = (bytes.len() - 64) / 2;
    for rotten in [0, 1] {
        let disk = golden.copy();
        let begin = (64 + rotten * slot) as u64;
        disk.zero(&config, begin..begin + slot as u64).unwrap();
        match golden.judge(&disk).unwrap() {
            Verdict::Refused(error) => assert!(error.is_corruption()),
            Verdict::Opened(opened) => {
                let next = media::append_probe(&opened.partition);
                assert!(
                    next.is_none() || next >= Some(golden.end()),
                    "{rotten}: {next:?}"
                );
                let findings = opened.log.recovery().findings();
                let told = |kind| matches!(kind, FindingKind::LostSlot | FindingKind::Damaged);
                assert!(
                    findings.iter().any(|f| told(f.kind)),
                    "{rotten}: {findings:?}"
                );
            }
        }
    }
    assert!(
        forge::u16_at(&bytes, 10) <= 64,
        "the head comes before the first slot"
    );
}
