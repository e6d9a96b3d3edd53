//! F48 and F49: names that are ours but not files, and files that are none of ours.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use thalweg::testing::Disk;
use thalweg::{Durability, Error, FindingKind};

use crate::media::{self, End, Golden, Plan, append_probe};

fn golden() -> Golden {
    Golden::new(Plan::small(3, Durability::Power, End::Closed))
}

/// What stands in the place of a file.
#[cfg(unix)]
#[derive(Clone, Copy, Debug)]
enum Stranger {
    Directory,
    Pipe,
    Socket,
    /// To a file with the very bytes that belong there.
    Link,
    DanglingLink,
}

#[cfg(unix)]
fn put_in_place_of(file: &Path, stranger: Stranger, aside: &Path) {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    let kept = aside.join("kept");
    fs::rename(file, &kept).unwrap();
    match stranger {
        Stranger::Directory => fs::create_dir(file).unwrap(),
        Stranger::Pipe => {
            let made = Command::new("mkfifo").arg(file).status().unwrap();
            assert!(made.success());
        }
        Stranger::Socket => {
            // A socket's path is short, so it is made elsewhere.
            let socket = aside.join("s");
            drop(UnixListener::bind(&socket).unwrap());
            fs::rename(socket, file).unwrap();
        }
        Stranger::Link => symlink(&kept, file).unwrap(),
        Stranger::DanglingLink => symlink(aside.join("nothing"), file).unwrap(),
    }
}

/// Opens a copy of the golden log on the real file system where something else stands in the place of a file.
#[cfg(unix)]
fn with_stranger(golden: &Golden, file: &Path, stranger: Stranger) {
    let real = tempfile::tempdir().unwrap();
    golden.disk.export("/log", real.path().join("log")).unwrap();
    let below = file.strip_prefix("/log").unwrap();
    put_in_place_of(&real.path().join("log").join(below), stranger, real.path());
    let what = format!("{stranger:?} as {}", below.display());
    let opened = media::builder().open(real.path().join("log"));
    let judged = golden
        .judge_opened(opened)
        .unwrap_or_else(|e| panic!("{what}: {e}"));
    match judged {
        media::Verdict::Refused(error) => assert!(error.is_corruption(), "{what}: {error:?}"),
        media::Verdict::Opened(opened) => {
            let cache = below.extension().is_some_and(|ending| ending == "idx")
                || below == Path::new("STATE");
            assert!(cache || !opened.found.is_whole(), "{what} was not noticed");
            if !cache {
                assert!(
                    !opened.log.recovery().is_empty() || !opened.found.errors.is_empty(),
                    "{what}"
                );
            }
        }
    }
}

#[cfg(unix)]
#[test]
fn f48_a_directory_pipe_socket_or_link_in_the_place_of_a_file_is_corruption_and_never_hangs() {
    use Stranger::{DanglingLink, Directory, Link, Pipe, Socket};
    let golden = golden();
    let files = golden.disk.files().into_iter().map(|(path, _)| path);
    let ledger = Path::new("/log/ledger");
    let files: Vec<PathBuf> = files.filter(|path| !path.starts_with(ledger)).collect();
    assert!(files.len() >= 8, "{files:?}");
    for file in files.iter().filter(|file| !file.ends_with("LOCK")) {
        for stranger in [Directory, Pipe, Socket, Link, DanglingLink] {
            with_stranger(&golden, file, stranger);
        }
    }
}

/// Names that are almost ours.
fn strange_names() -> Vec<OsString> {
    let mut names: Vec<OsString> = [
        "+0000000000000000001-00000000.log",
        "0000000000000000001-00000000.log",
        "00000000000000000001-0000000G.log",
        "00000000000000000001.log",
        "00000000000000000001-00000000.log~",
        ".00000000000000000001-00000000.log.swp",
        "lost+found",
        "notes.txt",
        "MANIFEST.bak",
    ]
    .map(OsString::from)
    .into();
    #[cfg(unix)]
    names.push(std::os::unix::ffi::OsStringExt::from_vec(vec![
        b'x', 0xFF, 0xFE,
    ]));
    names
}

#[test]
fn f49_unknown_files_are_counted_reported_once_and_never_deleted() {
    let golden = golden();
    let partition = media::partition_dir(&golden.disk);
    let topic = partition.parent().unwrap();
    let places = [
        Path::new("/log"),
        Path::new("/log/topics"),
        topic,
        &partition,
    ];
    for dir in places {
        let disk = golden.copy();
        let names = strange_names();
        for name in &names {
            disk.write_file(dir.join(name), b"somebody else's").unwrap();
        }
        let what = format!("in {}", dir.display());
        let opened = golden
            .judge(&disk)
            .unwrap_or_else(|e| panic!("{what}: {e}"))
            .opened();
        assert!(opened.found.is_whole(), "{what}");
        let findings = opened.log.recovery().findings();
        assert_eq!(findings.len(), 1, "{what}: {findings:?}");
        assert_eq!(findings[0].kind, FindingKind::UnknownFiles, "{what}");
        assert_eq!(
            findings[0].bytes,
            names.len() as u64,
            "{what}: all are counted"
        );
        assert_eq!(
            append_probe(&opened.partition),
            Some(golden.end()),
            "{what}"
        );
        opened.partition.roll().unwrap();
        opened.log.close().unwrap();
        for name in &names {
            let kept = disk.read_file(dir.join(name));
            assert_eq!(
                kept.ok().as_deref(),
                Some(&b"somebody else's"[..]),
                "{what}: {name:?}"
            );
        }
    }
}

#[test]
fn f49_unknown_directories_are_left_alone_with_what_is_in_them() {
    let golden = golden();
    let disk = golden.copy();
    let partition = media::partition_dir(&disk);
    let topic = partition.parent().unwrap().to_owned();
    let inside = [
        PathBuf::from("/log/lost+found/#12/orphan"),
        PathBuf::from("/log/topics/backup/copy"),
        topic.join("7/00000000000000000000-00000000.log"),
        topic.join("00/x"),
        partition.join("old/x"),
    ];
    for path in &inside {
        disk.write_file(path, b"kept").unwrap();
    }
    for _ in 0..2 {
        let opened = golden.judge(&disk).unwrap().opened();
        let findings = opened.log.recovery().findings();
        assert!(
            findings.iter().all(|f| f.kind == FindingKind::UnknownFiles),
            "{findings:?}"
        );
        let count: u64 = findings.iter().map(|found| found.bytes).sum();
        assert_eq!(count, inside.len() as u64, "{findings:?}");
        opened.log.close().unwrap();
    }
    assert!(inside.iter().all(|path| disk.read_file(path).is_ok()));
}

#[test]
fn f49_a_clean_log_without_strangers_reports_nothing() {
    let golden = golden();
    let disk = golden.copy();
    let log = media::open(&disk).unwrap();
    assert!(log.recovery().is_empty(), "{:?}", log.recovery());
    let again: Result<_, Error> = media::open(&Disk::new());
    assert!(again.unwrap().recovery().is_empty());
}
