//! B55: who reads what is just being removed goes on with what it has, and is told of the rest.

use thalweg::testing::Disk;
use thalweg::{Error, Log, Maintenance, Offset, Partition, ReadMode, Result, TopicConfig};

use super::logs::one;
use super::ten_by_ten;

/// On a simulated disk and in a real directory, read and mapped.
fn everywhere(story: fn(&Log, &Partition)) {
    for mode in [ReadMode::Positioned, ReadMode::Mapped] {
        let builder = || {
            Log::builder()
                .maintenance(Maintenance::Manual)
                .read_mode(mode)
        };
        let dir = tempfile::tempdir().expect("a directory");
        for log in [
            builder().open(dir.path().join("log")),
            builder().open_on(&Disk::new()),
        ] {
            let log = log.expect("the log opens");
            let topic = log.create_topic("t", TopicConfig::new()).unwrap();
            story(&log, &one(&topic));
        }
    }
}

/// Offsets, and where errors say what is valid.
fn told(read: impl Iterator<Item = Result<thalweg::Entry>>) -> Vec<std::result::Result<u64, u64>> {
    let tell = |read: Result<thalweg::Entry>| match read {
        Ok(entry) => Ok(entry.offset().get()),
        Err(Error::OutOfRange { valid, .. }) => Err(valid.start.get()),
        Err(other) => panic!("{other:?}"),
    };
    read.map(tell).collect()
}

#[test]
fn b55_a_scan_gives_what_it_has_then_says_so_and_goes_on_at_the_log_start() {
    everywhere(|_, partition| {
        ten_by_ten(partition);
        let mut forwards = partition.entries(..);
        let begun = told(forwards.by_ref().take(5));
        assert_eq!(begun, (0..5).map(Ok).collect::<Vec<_>>());
        let mut backwards = partition.entries(..).rev();
        let begun = told(backwards.by_ref().take(5));
        assert_eq!(begun, (95..100).rev().map(Ok).collect::<Vec<_>>());
        let untouched = partition.entries(..);
        partition.delete_before(Offset::new(50)).unwrap();

        let rest = told(forwards);
        let error = rest.iter().position(Result::is_err).expect("it is told");
        let ahead: Vec<_> = (5..5 + error as u64).map(Ok).collect();
        assert_eq!(rest[..error], ahead, "what it had");
        assert!(5 + error <= 50);
        assert_eq!(rest[error], Err(50));
        let behind: Vec<_> = (50..100).map(Ok).collect();
        assert_eq!(rest[error + 1..], behind, "none twice, and none left out");

        let mut rest = told(backwards);
        assert_eq!(rest.pop(), Some(Err(50)), "told once, last");
        assert_eq!(rest, (50..95).rev().map(Ok).collect::<Vec<_>>());

        let rest = told(untouched);
        assert_eq!((rest[0], rest.len()), (Err(50), 51));
        let fast = partition.entries(Offset::new(7)..);
        let fast = fast.try_for_each_ref(|entry| panic!("{entry:?}"));
        assert!(matches!(fast, Err(Error::OutOfRange { .. })), "{fast:?}");
    });
}

#[test]
fn b55_a_consumer_goes_on_at_the_log_start_and_says_so() {
    everywhere(|log, partition| {
        ten_by_ten(partition);
        let builder = log.group("g").subscribe(["t"]).max_poll_records(5);
        let mut consumer = builder.join().unwrap();
        let poll = |consumer: &mut thalweg::Consumer| {
            let batch = consumer.poll(std::time::Duration::ZERO).unwrap();
            let resets = batch.resets().iter();
            let resets: Vec<_> = resets
                .map(|r| (r.from.offset().get(), r.to.get()))
                .collect();
            let offsets: Vec<_> = batch.iter().map(|entry| entry.offset().get()).collect();
            (offsets, resets)
        };
        let kept = consumer.poll(std::time::Duration::ZERO).unwrap();
        partition.delete_before(Offset::new(50)).unwrap();
        let values = kept
            .iter()
            .map(|entry| entry.value_str().unwrap().to_owned());
        let first: Vec<String> = (0..5).map(|n| format!("value-{n:04}")).collect();
        assert_eq!(
            values.collect::<Vec<_>>(),
            first,
            "a batch outlives its file"
        );
        let (mut next, mut resets) = (5, Vec::new());
        while next < 100 {
            let (offsets, told) = poll(&mut consumer);
            if let [(from, to)] = told[..] {
                assert_eq!((from, to), (next, 50));
                resets.push(told);
                next = 50;
            }
            assert_eq!(offsets, (next..next + 5).collect::<Vec<_>>());
            next += 5;
        }
        assert_eq!(resets.len(), 1, "told once");
        consumer.commit().unwrap();
    });
}
