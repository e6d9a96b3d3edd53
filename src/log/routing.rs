//! From a key to a partition: the choice is stored with the topic, so that a key stays where it is.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, Result};
use crate::offset::PartitionId;

/// How a record finds its partition. Stored with the topic, and fixed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Partitioner {
    /// The hash `xxh3` of the key, modulo the number of partitions. The default.
    #[default]
    Xxh3,
    /// Murmur2 as Kafka's Java client has it, bit for bit: the partitions that a Kafka cluster would choose.
    Kafka,
    /// Each partition in turn, whatever the key.
    RoundRobin,
    /// A function of the host, under a name. The name is stored; the function is given to
    /// [`LogBuilder::partitioner`](crate::LogBuilder::partitioner) each time the log is opened.
    Custom(Cow<'static, str>),
}

/// A function of the host: the key and the number of partitions give the number of a partition.
pub(super) type CustomPartitioner = Arc<dyn Fn(&[u8], u32) -> u32 + Send + Sync>;

/// Chooses partitions for one topic. How many there are is told with each call, which may ask several times and must go by one number.
pub(super) struct Router {
    how: Partitioner,
    /// The function that goes with [`Partitioner::Custom`], if the host gave it.
    custom: Option<CustomPartitioner>,
    /// The next partition for what has no key.
    turn: AtomicU32,
}

impl Router {
    pub(super) fn new(how: Partitioner, custom: Option<CustomPartitioner>) -> Router {
        Router {
            how,
            custom,
            turn: AtomicU32::new(0),
        }
    }

    /// The partition, of `count`, for a record with this key; one without a key goes where `keyless` says.
    pub(super) fn route(
        &self,
        key: Option<&[u8]>,
        count: u32,
        keyless: impl FnOnce() -> PartitionId,
    ) -> Result<PartitionId> {
        match (&self.how, key) {
            (Partitioner::RoundRobin, _) => Ok(self.turn(count)),
            (_, None) => Ok(keyless()),
            (_, Some(key)) => self.of_key(key, count),
        }
    }

    /// The partition of a key, of `count`. (`RoundRobin` ignores keys, and has none for it: the first stands in.)
    pub(super) fn of_key(&self, key: &[u8], count: u32) -> Result<PartitionId> {
        let number = match &self.how {
            Partitioner::Xxh3 => (xxh3_64(key) % u64::from(count)) as u32,
            Partitioner::Kafka => (murmur2(key) & 0x7fff_ffff) % count,
            Partitioner::RoundRobin => 0,
            Partitioner::Custom(name) => self.custom(name)?(key, count),
        };
        if number >= count {
            return Err(Error::invalid(
                "partitioner",
                format!("it chose partition {number} of {count}"),
            ));
        }
        Ok(PartitionId::new(number))
    }

    fn custom(&self, name: &str) -> Result<&CustomPartitioner> {
        self.custom.as_ref().ok_or_else(|| {
            Error::invalid(
                "partitioner",
                format!("the topic is stored with the function {name:?}: give it to the builder of the log"),
            )
        })
    }

    /// Each of `count` partitions in turn, cyclically, so that tests repeat.
    pub(super) fn turn(&self, count: u32) -> PartitionId {
        if count == 1 {
            return PartitionId::new(0);
        }
        // Relaxed: only the spread matters. Wrapping at 2³² may repeat or skip a few partitions once.
        PartitionId::new(self.turn.fetch_add(1, Ordering::Relaxed) % count)
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router")
            .field("how", &self.how)
            .finish_non_exhaustive()
    }
}

/// The 32-bit hash that Kafka's Java client applies to keys.
fn murmur2(key: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    const R: u32 = 24;
    const SEED: u32 = 0x9747_b28c;
    let mut hash = SEED ^ key.len() as u32;
    let mut blocks = key.chunks_exact(4);
    for block in &mut blocks {
        let mut k = block
            .iter()
            .rev()
            .fold(0, |k, &byte| k << 8 | u32::from(byte));
        k = k.wrapping_mul(M);
        k ^= k >> R;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    let tail = blocks.remainder();
    if !tail.is_empty() {
        hash ^= tail
            .iter()
            .rev()
            .fold(0, |k, &byte| k << 8 | u32::from(byte));
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> 15
}

#[cfg(test)]
mod tests {
    use super::*;

    fn router(how: Partitioner) -> Router {
        Router::new(how, None)
    }

    /// Numbers of partitions, as the columns of [`VECTORS`].
    const COUNTS: [u32; 6] = [1000, 100, 12, 10, 6, 3];

    /// Key, hash, partition of so many. Published by the Java client, librdkafka, sarama, franz-go and kafka-python; the last two
    /// were computed. ("21", "foobar", "kafka" and "a" are those where signed arithmetic goes wrong.)
    const VECTORS: [(&[u8], u32, [u32; 6]); 27] = [
        (b"21", 0xc5f2_f8ec, [340, 40, 0, 0, 0, 0]),
        (b"foobar", 0xd0e4_7bbe, [166, 66, 6, 6, 0, 0]),
        (
            b"a-little-bit-long-string",
            0xc53b_1da0,
            [112, 12, 8, 2, 2, 2],
        ),
        (
            b"a-little-bit-longer-string",
            0xa768_c9c3,
            [819, 19, 11, 9, 5, 2],
        ),
        (
            b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
            0xfc7d_49cd,
            [677, 77, 5, 7, 5, 2],
        ),
        (b"abc", 0x1c94_221b, [107, 7, 3, 7, 3, 0]),
        (b"kafka", 0xd067_cf64, [580, 80, 4, 0, 4, 1]),
        (b"giberish123456789", 0x8f55_2b0c, [820, 20, 8, 0, 2, 2]),
        (b"1234", 0x9fc9_7b14, [940, 40, 0, 0, 0, 0]),
        (b"234", 0xe7c0_09ca, [666, 66, 2, 6, 2, 2]),
        (b"34", 0x8739_30da, [570, 70, 6, 0, 0, 0]),
        (b"4", 0x5a4b_5ca1, [353, 53, 1, 3, 1, 1]),
        (
            b"PreAmbleWillBeRemoved,ThePrePartThatIs",
            0x7842_4f1c,
            [548, 48, 8, 8, 2, 2],
        ),
        (
            b"reAmbleWillBeRemoved,ThePrePartThatIs",
            0x4a62_b377,
            [455, 55, 11, 5, 5, 2],
        ),
        (
            b"eAmbleWillBeRemoved,ThePrePartThatIs",
            0xe0e4_e09e,
            [446, 46, 10, 6, 4, 1],
        ),
        (
            b"AmbleWillBeRemoved,ThePrePartThatIs",
            0x62b8_b43f,
            [935, 35, 3, 5, 3, 0],
        ),
        (b"", 0x106e_08d9, [681, 81, 9, 1, 3, 0]),
        (b"a", 0xa2d0_b27c, [524, 24, 4, 4, 4, 1]),
        (b"ab", 0x12d8_262a, [434, 34, 2, 4, 2, 2]),
        (b"123456789", 0x9362_de66, [566, 66, 6, 6, 0, 0]),
        (b"\x00\x20", 0x42de_cd0e, [742, 42, 6, 2, 0, 0]),
        (b"foo", 0x23a2_56d0, [616, 16, 8, 6, 2, 2]),
        (b"bar", 0x3af2_4dc1, [145, 45, 9, 5, 3, 0]),
        (b"baz", 0x75a2_56a0, [280, 80, 0, 0, 0, 0]),
        (b"sarama", 0x2df0_f2c7, [511, 11, 3, 1, 3, 0]),
        (b"\0\0\0\0\0\0\0\x01", 0x7d32_dfac, [60, 60, 0, 0, 0, 0]),
        (b"\xa4", 0x15e3_842e, [46, 46, 6, 6, 0, 0]),
    ];

    #[test]
    fn kafkas_partitions_are_kafkas_bit_for_bit() {
        for (key, hash, partitions) in VECTORS {
            assert_eq!(murmur2(key), hash, "{key:?}");
            for (count, partition) in COUNTS.into_iter().zip(partitions) {
                let router = router(Partitioner::Kafka);
                let chosen = router.of_key(key, count).unwrap().get();
                assert_eq!(chosen, partition, "{key:?} of {count}");
            }
        }
    }

    #[test]
    fn a_key_keeps_its_partition_and_an_empty_key_is_a_key() {
        let router = router(Partitioner::Xxh3);
        let never = || unreachable!("it has a key");
        for key in [&b""[..], b"customer-7", b"customer-9"] {
            let first = router.route(Some(key), 7, never).unwrap();
            assert_eq!(router.route(Some(key), 7, never).unwrap(), first);
        }
    }

    #[test]
    fn what_has_no_key_takes_each_partition_in_turn() {
        let router = router(Partitioner::Xxh3);
        let taken: Vec<u32> = (0..6)
            .map(|_| router.route(None, 3, || router.turn(3)).unwrap().get())
            .collect();
        assert_eq!(taken, [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn round_robin_ignores_keys() {
        let router = router(Partitioner::RoundRobin);
        let taken: Vec<u32> = (0..4)
            .map(|_| {
                router
                    .route(Some(b"same"), 3, || router.turn(3))
                    .unwrap()
                    .get()
            })
            .collect();
        assert_eq!(taken, [0, 1, 2, 0]);
    }

    #[test]
    fn a_function_of_the_host_is_asked_and_checked() {
        let by_length = |f: fn(&[u8], u32) -> u32| {
            Router::new(Partitioner::Custom("length".into()), Some(Arc::new(f)))
        };
        let good = by_length(|key, count| key.len() as u32 % count);
        assert_eq!(good.of_key(b"abcdef", 4).unwrap().get(), 2);
        let wild = by_length(|_, count| count);
        assert!(matches!(
            wild.of_key(b"a", 4),
            Err(Error::InvalidSetting {
                setting: "partitioner",
                ..
            })
        ));
    }

    #[test]
    fn a_function_that_was_not_given_is_named() {
        let router = router(Partitioner::Custom("crc-v1".into()));
        let error = router.of_key(b"a", 4).unwrap_err().to_string();
        assert!(error.contains("crc-v1"), "{error}");
    }
}
