//! Scenarios about bytes: those that a call left out, those that are wrong, and those that lie.

use thalweg::testing::{Disk, DiskCall, DiskError, Fault, Short};
use thalweg::{Durability, Error, FindingKind};

use crate::forge;
use crate::ground::{
    assert_whole, begin, files, fill, found, killed, open, partition, read, read_from, value,
};

pub(crate) fn a_short_write_is_continued() {
    let disk = Disk::new();
    let (_log, orders) = begin(&disk, Durability::Process);
    fill(&orders, 0, 3);
    disk.fail(Fault::short(DiskCall::Write, Short::Half).on(".log"));
    fill(&orders, 3, 4);
    fill(&orders, 4, 6);
    assert_eq!(disk.struck(), 1);
    let log = open(&killed(&disk)).expect("the log opens");
    assert_whole(&partition(&log, 0), 6);
    assert!(log.recovery().is_empty(), "{:?}", log.recovery());
}

/// A write that got half through before the disk was full is cut off again: a reopening finds nothing of it.
pub(crate) fn a_failed_write_leaves_nothing() {
    let disk = Disk::new();
    let (_log, orders) = begin(&disk, Durability::Process);
    fill(&orders, 0, 3);
    disk.fail(Fault::short_write_then(Short::Half, DiskError::NoSpace).on(".log"));
    let full = orders.append(("key", value(3)));
    assert!(matches!(full, Err(Error::NoSpace { .. })), "{full:?}");
    let log = open(&killed(&disk)).expect("the log opens");
    assert_whole(&partition(&log, 0), 3);
    assert!(log.recovery().is_empty(), "{:?}", log.recovery());
}

/// A closed log of several segments, each with an index.
fn sealed() -> Disk {
    let disk = Disk::new();
    let (log, orders) = begin(&disk, Durability::Process);
    fill(&orders, 0, 30);
    drop(orders);
    log.close().expect("a sound disk");
    disk
}

/// The sums of this index are right, and every place in it is wrong.
pub(crate) fn an_index_that_lies_is_not_followed() {
    let disk = sealed();
    let path = &files(&disk, "idx")[0];
    let segment = disk
        .read_file(path.with_extension("log"))
        .expect("an index stands beside its segment");
    let index = disk.read_file(path).expect("it is there");
    let mut places = forge::index_places(&index);
    assert!(places.len() > 2, "an index with a few places");
    for place in &mut places {
        place.1 += 1;
    }
    let covers = forge::u64_at(&index, 24);
    let lie = forge::index(forge::salt(&segment), covers, &places);
    disk.write_file(path, &lie).expect("it is there");
    let log = open(&disk).expect("the log opens");
    let orders = partition(&log, 0);
    let (numbers, error) = read_from(&orders, 5);
    assert!(error.is_none(), "{error:?}");
    assert!(numbers.into_iter().eq(5..30));
    for n in 0..30 {
        let entry = orders.get(thalweg::Offset::new(n)).expect("it is read");
        assert!(entry.is_some_and(|entry| entry.value() == Some(value(n).as_bytes())));
    }
}

pub(crate) fn a_flipped_bit_is_not_served() {
    let disk = sealed();
    let path = &files(&disk, "log")[0];
    let segment = disk.read_file(path).expect("it is there");
    let third = forge::batches(&segment)[2];
    disk.flip_bit(path, (third.end() as u64 - 2) * 8)
        .expect("within the file");
    let log = open(&disk).expect("the log opens");
    let (numbers, error) = read(&partition(&log, 0));
    assert!(numbers.into_iter().eq(0..2));
    let error = error.expect("the third batch is damaged");
    assert!(matches!(error, Error::Corruption { .. }), "{error:?}");
    let on = error.resume_at().expect("it goes on behind it");
    let (numbers, error) = read_from(&partition(&log, 0), on.offset().get());
    assert!(error.is_none() && numbers.into_iter().eq(3..30));
}

/// A batch of another partition, of the same length and offset, stands where ours was.
pub(crate) fn a_misdirected_batch_is_not_served() {
    let disk = Disk::new();
    let (log, orders) = begin(&disk, Durability::Process);
    fill(&orders, 0, 30);
    let other = partition(&log, 1);
    for n in 0..30 {
        let stray = value(n).to_uppercase();
        other.append(("key", stray)).expect("a sound disk");
    }
    drop((orders, other));
    log.close().expect("a sound disk");
    let ours = &files(&disk, "log")[0];
    let name = ours.file_name().expect("a file has a name");
    let dir = ours.parent().and_then(|dir| dir.parent()).expect("a topic");
    let theirs = disk
        .read_file(dir.join("1").join(name))
        .expect("it is there");
    let second = forge::batches(&theirs)[1];
    disk.replace(
        ours,
        second.position as u64,
        &theirs[second.position..second.end()],
    )
    .expect("within the file");
    let log = open(&disk).expect("the log opens");
    let (numbers, error) = read(&partition(&log, 0));
    assert_eq!(numbers, [0]);
    assert!(matches!(error, Some(Error::Corruption { .. })), "{error:?}");
}

pub(crate) fn damage_in_the_middle_is_not_cut() {
    let disk = Disk::new();
    let (_log, orders) = begin(&disk, Durability::Process);
    fill(&orders, 0, 8);
    let disk = killed(&disk);
    let path = &files(&disk, "log")[0];
    let segment = disk.read_file(path).expect("it is there");
    let third = forge::batches(&segment)[2];
    disk.flip_bit(path, third.position as u64 * 8 + 100)
        .expect("within the file");
    let log = open(&disk).expect("the log opens");
    assert!(found(&log, FindingKind::Damaged), "{:?}", log.recovery());
    let orders = partition(&log, 0);
    let refused = orders.append(("key", "x"));
    assert!(
        matches!(refused, Err(Error::Corruption { .. })),
        "{refused:?}"
    );
    let (numbers, error) = read_from(&orders, 3);
    assert!(error.is_none(), "{error:?}");
    assert!(
        numbers.into_iter().eq(3..8),
        "what lies behind is still there"
    );
}

/// An error says nothing about the bytes: the log is not opened, and not one of them changes.
pub(crate) fn an_error_while_opening_changes_nothing() {
    let disk = Disk::new();
    let (_log, orders) = begin(&disk, Durability::Process);
    fill(&orders, 0, 8);
    let disk = killed(&disk);
    let before = disk.hash();
    disk.fail(
        Fault::error(DiskCall::Read, DiskError::Io)
            .on("/topics/")
            .lasting(),
    );
    let refused = open(&disk);
    assert!(
        matches!(refused, Err(Error::Io { .. })),
        "{:?}",
        refused.map(drop)
    );
    assert_eq!(disk.hash(), before, "something was written");
    disk.heal();
    let log = open(&disk).expect("the log opens");
    assert_whole(&partition(&log, 0), 8);
}

/// The size of the file reached the disk, the bytes did not.
pub(crate) fn zeros_are_no_batch() {
    let disk = Disk::new();
    let (_log, orders) = begin(&disk, Durability::Process);
    fill(&orders, 0, 1);
    let disk = killed(&disk);
    disk.set_boot_id(99);
    let path = &files(&disk, "log")[0];
    let len = disk.read_file(path).expect("it is there").len() as u64;
    disk.zero(path, forge::SEGMENT_HEADER as u64..len)
        .expect("within the file");
    let log = open(&disk).expect("the log opens");
    assert!(found(&log, FindingKind::TornTail), "{:?}", log.recovery());
    assert_whole(&partition(&log, 0), 0);
}

/// The header is sound but for its length, which no batch can have: that is no batch which the end of the file cut short.
pub(crate) fn a_length_beyond_the_format_is_no_cut_batch() {
    let disk = Disk::new();
    let (_log, orders) = begin(&disk, Durability::Process);
    fill(&orders, 0, 3);
    let disk = killed(&disk);
    let path = &files(&disk, "log")[0];
    let mut segment = disk.read_file(path).expect("it is there");
    let third = forge::batches(&segment)[2].position;
    forge::put(&mut segment, third + 8, &0x7FFF_FFFF_u32.to_le_bytes());
    forge::sum_batch_header(&mut segment, third);
    disk.write_file(path, &segment).expect("it is there");
    let log = open(&disk).expect("the log opens");
    assert!(
        found(&log, FindingKind::SuspectTail),
        "{:?}",
        log.recovery()
    );
    assert_whole(&partition(&log, 0), 2);
}
