//! What the small files of a log say: `FORMAT`, `CATALOGUE` and the manifest of a partition.

use super::Bad;
use super::wire::{Reader, put_bytes, put_i64, put_u8, put_u16, put_u32, put_u64, put_u128};
use crate::varint;

/// Required feature bits of [`FormatFile`], set durably before their first use.
pub(crate) mod feature {
    /// Transactions were used: the journal may owe something.
    pub(crate) const JOURNAL: u64 = 1;
    /// Some topic has more than one epoch.
    pub(crate) const EPOCHS: u64 = 1 << 1;
    /// Some topic has a key index.
    pub(crate) const KEY_INDEX: u64 = 1 << 2;

    /// All that have a meaning yet.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "reserved: the golden log holds it")
    )]
    pub(crate) const RESERVED: u64 = JOURNAL | EPOCHS | KEY_INDEX;
}

/// The payload of `FORMAT`: what is needed to read the log at all, and which log it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FormatFile {
    pub(crate) major: u16,
    /// Bits of [`feature`]; who does not know one of them must not touch the log.
    pub(crate) required: u64,
    /// Bits that may be ignored.
    pub(crate) optional: u64,
    pub(crate) log: u128,
}

impl FormatFile {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_u16(&mut out, self.major);
        put_u64(&mut out, self.required);
        put_u64(&mut out, self.optional);
        put_u128(&mut out, self.log);
        out
    }

    /// `supported` are the required bits that the caller can deal with. Bytes behind the known fields are a newer version's.
    pub(crate) fn decode(payload: &[u8], supported: u64) -> Result<FormatFile, Bad> {
        let mut reader = Reader::new(payload);
        let major = reader.u16().ok_or(Bad::Corrupt)?;
        if major > super::MAJOR {
            return Err(Bad::Newer {
                found: major.into(),
                supported: super::MAJOR.into(),
            });
        }
        let format = read_format(major, &mut reader).ok_or(Bad::Corrupt)?;
        let unknown = format.required & !supported;
        if unknown != 0 {
            // Told by number, counted from 1: the bits themselves do not fit.
            let found = unknown.trailing_zeros().saturating_add(1);
            let supported = 64_u32.saturating_sub(supported.leading_zeros());
            return Err(Bad::Newer { found, supported });
        }
        Ok(format)
    }
}

fn read_format(major: u16, reader: &mut Reader<'_>) -> Option<FormatFile> {
    Some(FormatFile {
        major,
        required: reader.u64()?,
        optional: reader.u64()?,
        log: reader.u128()?,
    })
}

/// Is a topic there, or going?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TopicState {
    Live,
    /// Its files are being removed; the entry stays until the journal begins at or above this position.
    Deleting {
        journal_end: u64,
    },
}

/// One topic in the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CatalogueEntry {
    pub(crate) topic: u128,
    pub(crate) name: String,
    pub(crate) state: TopicState,
}

/// The payload of `CATALOGUE`: the topics that there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Catalogue {
    pub(crate) entries: Vec<CatalogueEntry>,
}

const LIVE: u8 = 1;
const DELETING: u8 = 2;
/// UUID, length of the name, state.
const LEAST_ENTRY: usize = 16 + 1 + 1;

impl Catalogue {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        varint::put(&mut out, self.entries.len() as u64);
        for entry in &self.entries {
            put_u128(&mut out, entry.topic);
            put_bytes(&mut out, entry.name.as_bytes());
            match entry.state {
                TopicState::Live => put_u8(&mut out, LIVE),
                TopicState::Deleting { journal_end } => {
                    put_u8(&mut out, DELETING);
                    put_u64(&mut out, journal_end);
                }
            }
        }
        out
    }

    pub(crate) fn decode(payload: &[u8]) -> Result<Catalogue, Bad> {
        let mut reader = Reader::new(payload);
        let count = read_count(&mut reader, LEAST_ENTRY).ok_or(Bad::Corrupt)?;
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            entries.push(read_entry(&mut reader)?);
        }
        reader.end().ok_or(Bad::Corrupt)?;
        Ok(Catalogue { entries })
    }
}

fn read_entry(reader: &mut Reader<'_>) -> Result<CatalogueEntry, Bad> {
    let topic = reader.u128().ok_or(Bad::Corrupt)?;
    let name = reader.text().ok_or(Bad::Corrupt)?.to_owned();
    let state = match reader.u8().ok_or(Bad::Corrupt)? {
        0 => return Err(Bad::Corrupt),
        LIVE => TopicState::Live,
        DELETING => TopicState::Deleting {
            journal_end: reader.u64().ok_or(Bad::Corrupt)?,
        },
        other => {
            return Err(Bad::Newer {
                found: other.into(),
                supported: DELETING.into(),
            });
        }
    };
    Ok(CatalogueEntry { topic, name, state })
}

/// Files that are replaced by one: written, but the old ones may not be gone yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Swap {
    /// Base and generation of the one.
    pub(crate) live: (u64, u32),
    pub(crate) replaced: Vec<(u64, u32)>,
}

/// The payload of a partition's manifest; absent until something was removed, replaced or compacted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// The first offset that may be read.
    pub(crate) log_start: u64,
    /// No generation above this one was ever made live.
    pub(crate) highest_generation: u32,
    /// At most one is open at a time.
    pub(crate) swap: Option<Swap>,
    /// How far the partition is compacted.
    pub(crate) clean: Option<Clean>,
}

/// What compaction has reached, and when there is something to do that no append brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clean {
    /// No record below this offset has the key of an earlier one.
    pub(crate) below: u64,
    /// When the first of the tombstones below may go, in milliseconds since the epoch.
    pub(crate) horizon: Option<i64>,
}

/// Base and generation.
const SEGMENT_LEN: usize = 12;

impl Manifest {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_u64(&mut out, self.log_start);
        put_u32(&mut out, self.highest_generation);
        put_u8(&mut out, self.swap.is_some().into());
        if let Some(swap) = &self.swap {
            put_segment(&mut out, swap.live);
            varint::put(&mut out, swap.replaced.len() as u64);
            for replaced in &swap.replaced {
                put_segment(&mut out, *replaced);
            }
        }
        put_u8(&mut out, self.clean.is_some().into());
        if let Some(clean) = &self.clean {
            put_u64(&mut out, clean.below);
            put_u8(&mut out, clean.horizon.is_some().into());
            if let Some(horizon) = clean.horizon {
                put_i64(&mut out, horizon);
            }
        }
        out
    }

    pub(crate) fn decode(payload: &[u8]) -> Result<Manifest, Bad> {
        let mut reader = Reader::new(payload);
        let manifest = read_manifest(&mut reader).ok_or(Bad::Corrupt)?;
        reader.end().ok_or(Bad::Corrupt)?;
        Ok(manifest)
    }
}

fn put_segment(out: &mut Vec<u8>, (base, generation): (u64, u32)) {
    put_u64(out, base);
    put_u32(out, generation);
}

fn read_segment(reader: &mut Reader<'_>) -> Option<(u64, u32)> {
    Some((reader.u64()?, reader.u32()?))
}

fn read_manifest(reader: &mut Reader<'_>) -> Option<Manifest> {
    let log_start = reader.u64()?;
    let highest_generation = reader.u32()?;
    let swap = match reader.u8()? {
        0 => None,
        1 => Some(read_swap(reader)?),
        _ => return None,
    };
    let clean = match reader.u8()? {
        0 => None,
        1 => Some(read_clean(reader)?),
        _ => return None,
    };
    Some(Manifest {
        log_start,
        highest_generation,
        swap,
        clean,
    })
}

fn read_clean(reader: &mut Reader<'_>) -> Option<Clean> {
    let below = reader.u64()?;
    let horizon = match reader.u8()? {
        0 => None,
        1 => Some(reader.i64()?),
        _ => return None,
    };
    Some(Clean { below, horizon })
}

fn read_swap(reader: &mut Reader<'_>) -> Option<Swap> {
    let live = read_segment(reader)?;
    let count = read_count(reader, SEGMENT_LEN)?;
    let mut replaced = Vec::with_capacity(count);
    for _ in 0..count {
        replaced.push(read_segment(reader)?);
    }
    Some(Swap { live, replaced })
}

/// How many items of at least `least` bytes follow; `None` where so many cannot be in what is left.
pub(super) fn read_count(reader: &mut Reader<'_>, least: usize) -> Option<usize> {
    let count = usize::try_from(reader.varint()?).ok()?;
    let needed = count.checked_mul(least)?;
    (needed <= reader.rest().len()).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn format() -> FormatFile {
        FormatFile {
            major: 0,
            required: feature::RESERVED,
            optional: 1 << 60,
            log: 7,
        }
    }

    fn catalogue() -> Catalogue {
        let entry = |topic, name: &str, state| CatalogueEntry {
            topic,
            name: name.into(),
            state,
        };
        Catalogue {
            entries: vec![
                entry(1, "orders", TopicState::Live),
                entry(u128::MAX, "orders", TopicState::Deleting { journal_end: 9 }),
            ],
        }
    }

    fn manifest() -> Manifest {
        let swap = Swap {
            replaced: vec![(0, 0), (100, 3)],
            live: (0, 4),
        };
        Manifest {
            log_start: 5,
            highest_generation: 4,
            swap: Some(swap),
            clean: Some(Clean {
                below: 9,
                horizon: Some(-3),
            }),
        }
    }

    #[test]
    fn the_small_files_come_back() {
        assert_eq!(
            FormatFile::decode(&format().encode(), u64::MAX),
            Ok(format())
        );
        assert_eq!(Catalogue::decode(&catalogue().encode()), Ok(catalogue()));
        assert_eq!(Manifest::decode(&manifest().encode()), Ok(manifest()));
        let without_horizon = Clean {
            below: 9,
            horizon: None,
        };
        for clean in [None, Some(without_horizon)] {
            let plain = Manifest {
                swap: None,
                clean,
                ..manifest()
            };
            assert_eq!(Manifest::decode(&plain.encode()), Ok(plain));
        }
        let none = Catalogue::default();
        assert_eq!(Catalogue::decode(&none.encode()), Ok(none));
    }

    #[test]
    fn a_required_feature_that_is_not_supported_is_newer() {
        let found = FormatFile::decode(&format().encode(), feature::JOURNAL);
        assert_eq!(
            found,
            Err(Bad::Newer {
                found: 2,
                supported: 1
            })
        );
        let found = FormatFile::decode(&format().encode(), 0);
        assert_eq!(
            found,
            Err(Bad::Newer {
                found: 1,
                supported: 0
            })
        );
        let next = FormatFile {
            major: 1,
            ..format()
        };
        let found = FormatFile::decode(&next.encode(), u64::MAX);
        assert_eq!(
            found,
            Err(Bad::Newer {
                found: 1,
                supported: 0
            })
        );
    }

    #[test]
    fn every_cut_is_corrupt() {
        let (format, catalogue, manifest) =
            (format().encode(), catalogue().encode(), manifest().encode());
        for cut in 0..format.len() {
            assert_eq!(
                FormatFile::decode(&format[..cut], u64::MAX),
                Err(Bad::Corrupt)
            );
        }
        for cut in 0..catalogue.len() {
            assert_eq!(Catalogue::decode(&catalogue[..cut]), Err(Bad::Corrupt));
        }
        for cut in 0..manifest.len() {
            assert_eq!(Manifest::decode(&manifest[..cut]), Err(Bad::Corrupt));
        }
    }

    #[test]
    fn more_items_than_bytes_are_refused_before_memory_is_taken() {
        let mut bytes = Vec::new();
        varint::put(&mut bytes, u64::MAX);
        assert_eq!(Catalogue::decode(&bytes), Err(Bad::Corrupt));
        let mut bytes = Manifest {
            swap: None,
            clean: None,
            ..manifest()
        }
        .encode();
        bytes.truncate(bytes.len() - 2);
        bytes.push(1);
        put_segment(&mut bytes, (0, 4));
        varint::put(&mut bytes, 1 << 40);
        assert_eq!(Manifest::decode(&bytes), Err(Bad::Corrupt));
    }

    #[test]
    fn a_state_of_a_topic_to_come_is_newer() {
        let mut bytes = catalogue().encode();
        let at = 1 + 16 + 7;
        assert_eq!(bytes[at], LIVE);
        bytes[at] = 3;
        assert_eq!(
            Catalogue::decode(&bytes),
            Err(Bad::Newer {
                found: 3,
                supported: 2
            })
        );
    }

    proptest! {
        #[test]
        fn any_bytes_give_an_answer(bytes: Vec<u8>) {
            let _ = FormatFile::decode(&bytes, u64::MAX);
            if let Ok(found) = Catalogue::decode(&bytes) {
                prop_assert_eq!(found.encode(), bytes.clone());
            }
            if let Ok(found) = Manifest::decode(&bytes) {
                prop_assert_eq!(found.encode(), bytes);
            }
        }
    }
}
