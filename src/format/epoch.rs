//! The epochs of a topic: with which partitions and which routing it was written, one after the other.

use std::ops::Range;

use super::Bad;
use super::root::read_count;
use super::wire::{Reader, put_bytes, put_u8, put_u32, put_u64};
use crate::varint;

/// How a topic's partitions are chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Routing {
    #[default]
    Xxh3,
    Kafka,
    RoundRobin,
    /// By a function that the host supplies under this name.
    Custom(String),
}

const XXH3: u8 = 1;
const KAFKA: u8 = 2;
const ROUND_ROBIN: u8 = 3;
const CUSTOM: u8 = 4;

impl Routing {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.put(&mut out);
        out
    }

    pub(crate) fn decode(field: &[u8]) -> Result<Routing, Bad> {
        let mut reader = Reader::new(field);
        let routing = Routing::read(&mut reader)?;
        reader.end().ok_or(Bad::Corrupt)?;
        Ok(routing)
    }

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Routing::Xxh3 => put_u8(out, XXH3),
            Routing::Kafka => put_u8(out, KAFKA),
            Routing::RoundRobin => put_u8(out, ROUND_ROBIN),
            Routing::Custom(name) => {
                put_u8(out, CUSTOM);
                put_bytes(out, name.as_bytes());
            }
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Routing, Bad> {
        match reader.u8().ok_or(Bad::Corrupt)? {
            0 => Err(Bad::Corrupt),
            XXH3 => Ok(Routing::Xxh3),
            KAFKA => Ok(Routing::Kafka),
            ROUND_ROBIN => Ok(Routing::RoundRobin),
            CUSTOM => Ok(Routing::Custom(
                reader.text().ok_or(Bad::Corrupt)?.to_owned(),
            )),
            other => Err(Bad::Newer {
                found: other.into(),
                supported: CUSTOM.into(),
            }),
        }
    }
}

/// May a partition still be written?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteState {
    Open,
    /// Never again; it ends at this offset.
    Sealed {
        end: u64,
    },
}

const OPEN: u8 = 1;
const SEALED: u8 = 2;

/// A partition of an epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EpochPartition {
    /// Never used again.
    pub(crate) id: u32,
    /// The partitions that its keys came from, and where each ended.
    pub(crate) parents: Vec<(u32, u64)>,
    pub(crate) state: WriteState,
}

/// A stretch of a topic's life with one set of partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Epoch {
    /// Never used again.
    pub(crate) id: u32,
    pub(crate) routing: Routing,
    pub(crate) partitions: Vec<EpochPartition>,
}

impl Epoch {
    /// That of a new topic: partitions from 0, all open, without parents.
    pub(crate) fn first(partitions: u32, routing: Routing) -> Epoch {
        let mut epoch = Epoch {
            id: 0,
            routing,
            partitions: Vec::new(),
        };
        epoch.add(0..partitions);
        epoch
    }

    /// More partitions of the same epoch, open and without parents: no order joins them to those that were there.
    pub(crate) fn add(&mut self, ids: Range<u32>) {
        self.partitions.extend(ids.map(|id| EpochPartition {
            id,
            parents: Vec::new(),
            state: WriteState::Open,
        }));
    }
}

/// Id, routing, count of partitions.
const LEAST_EPOCH: usize = 4 + 1 + 1;
/// Id, count of parents, state.
const LEAST_PARTITION: usize = 4 + 1 + 1;
const PARENT_LEN: usize = 4 + 8;

pub(super) fn encode_epochs(epochs: &[Epoch]) -> Vec<u8> {
    let mut out = Vec::new();
    varint::put(&mut out, epochs.len() as u64);
    for epoch in epochs {
        put_u32(&mut out, epoch.id);
        epoch.routing.put(&mut out);
        varint::put(&mut out, epoch.partitions.len() as u64);
        for partition in &epoch.partitions {
            put_partition(&mut out, partition);
        }
    }
    out
}

fn put_partition(out: &mut Vec<u8>, partition: &EpochPartition) {
    put_u32(out, partition.id);
    varint::put(out, partition.parents.len() as u64);
    for (id, end) in &partition.parents {
        put_u32(out, *id);
        put_u64(out, *end);
    }
    match partition.state {
        WriteState::Open => put_u8(out, OPEN),
        WriteState::Sealed { end } => {
            put_u8(out, SEALED);
            put_u64(out, end);
        }
    }
}

pub(super) fn decode_epochs(field: &[u8]) -> Result<Vec<Epoch>, Bad> {
    let mut reader = Reader::new(field);
    let count = read_count(&mut reader, LEAST_EPOCH).ok_or(Bad::Corrupt)?;
    let epochs = (0..count)
        .map(|_| read_epoch(&mut reader))
        .collect::<Result<_, _>>()?;
    reader.end().ok_or(Bad::Corrupt)?;
    Ok(epochs)
}

fn read_epoch(reader: &mut Reader<'_>) -> Result<Epoch, Bad> {
    let id = reader.u32().ok_or(Bad::Corrupt)?;
    let routing = Routing::read(reader)?;
    let count = read_count(reader, LEAST_PARTITION).ok_or(Bad::Corrupt)?;
    let partitions = (0..count)
        .map(|_| read_partition(reader))
        .collect::<Result<_, _>>()?;
    Ok(Epoch {
        id,
        routing,
        partitions,
    })
}

fn read_partition(reader: &mut Reader<'_>) -> Result<EpochPartition, Bad> {
    let id = reader.u32().ok_or(Bad::Corrupt)?;
    let parents = read_parents(reader).ok_or(Bad::Corrupt)?;
    let state = match reader.u8().ok_or(Bad::Corrupt)? {
        0 => return Err(Bad::Corrupt),
        OPEN => WriteState::Open,
        SEALED => WriteState::Sealed {
            end: reader.u64().ok_or(Bad::Corrupt)?,
        },
        other => {
            return Err(Bad::Newer {
                found: other.into(),
                supported: SEALED.into(),
            });
        }
    };
    Ok(EpochPartition { id, parents, state })
}

fn read_parents(reader: &mut Reader<'_>) -> Option<Vec<(u32, u64)>> {
    let count = read_count(reader, PARENT_LEN)?;
    (0..count)
        .map(|_| Some((reader.u32()?, reader.u64()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn epochs() -> Vec<Epoch> {
        let mut first = Epoch::first(2, Routing::Custom("by country".into()));
        first.partitions[1].state = WriteState::Sealed { end: 77 };
        let grown = EpochPartition {
            id: 2,
            parents: vec![(0, 5), (1, 77)],
            state: WriteState::Open,
        };
        let second = Epoch {
            id: 1,
            routing: Routing::Kafka,
            partitions: vec![grown],
        };
        vec![first, second]
    }

    #[test]
    fn epochs_come_back() {
        assert_eq!(decode_epochs(&encode_epochs(&epochs())), Ok(epochs()));
    }

    #[test]
    fn every_cut_is_corrupt() {
        let bytes = encode_epochs(&epochs());
        for cut in 0..bytes.len() {
            assert_eq!(
                decode_epochs(&bytes[..cut]),
                Err(Bad::Corrupt),
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn a_routing_to_come_is_newer() {
        assert_eq!(
            Routing::decode(&[5]),
            Err(Bad::Newer {
                found: 5,
                supported: 4
            })
        );
        assert_eq!(Routing::decode(&[0]), Err(Bad::Corrupt));
        assert_eq!(Routing::decode(&[XXH3, 0]), Err(Bad::Corrupt));
    }

    proptest! {
        #[test]
        fn any_bytes_give_an_answer(bytes: Vec<u8>) {
            if let Ok(found) = decode_epochs(&bytes) {
                prop_assert_eq!(encode_epochs(&found), bytes);
            }
        }
    }
}
