//! The footer of a sealed segment: what it holds, and that it is complete.

use super::Bad;
use super::accumulator::{ACCUMULATOR_LEN, Accumulator};
use super::segment::Link;
use super::wire::{Reader, Seed, overwrite, put_u8, put_u16, put_u32, put_u64};

/// The first two bytes of a footer; not those of a record batch.
pub(crate) const FOOTER_SYNC: u16 = u16::from_le_bytes([0x5A, 0xC3]);
/// Bytes of the footer that ends a sealed segment.
pub(crate) const FOOTER_LEN: usize = 8 + 3 * 8 + ACCUMULATOR_LEN;

const SPARSE: u8 = 1;
/// In place of the last offset: the segment holds no record.
const NO_RECORD: u64 = u64::MAX;

/// The last [`FOOTER_LEN`] bytes of a sealed segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    /// The last offset that a record of this segment has or had; `None` if it never held one.
    pub(crate) last: Option<u64>,
    /// Where the partition goes on.
    pub(crate) next_base: u64,
    /// Offsets are missing between its records.
    pub(crate) sparse: bool,
    pub(crate) accumulator: Accumulator,
    /// Of the footer's first byte; the file ends [`FOOTER_LEN`] behind it.
    pub(crate) position: u64,
}

impl Footer {
    /// `salt` is that of the segment's header.
    pub(crate) fn encode(&self, salt: u64) -> [u8; FOOTER_LEN] {
        assert!(
            self.is_sound(),
            "a segment's last offset lies below the next base"
        );
        let mut out = Vec::with_capacity(FOOTER_LEN);
        put_u16(&mut out, FOOTER_SYNC);
        put_u8(&mut out, if self.sparse { SPARSE } else { 0 });
        put_u8(&mut out, 0);
        put_u32(&mut out, 0);
        put_u64(&mut out, self.last.unwrap_or(NO_RECORD));
        put_u64(&mut out, self.next_base);
        put_u64(&mut out, self.position);
        self.accumulator.encode(&mut out);
        let crc = footer_crc(&out, salt, self.position);
        overwrite(&mut out, 4, &crc.to_le_bytes());
        out.try_into()
            .expect("the fields of a footer add up to its length")
    }

    /// The footer at the front of `bytes`, which stand at `position` in the file.
    pub(crate) fn decode(bytes: &[u8], salt: u64, position: u64) -> Result<Footer, Bad> {
        let sync = FOOTER_SYNC.to_le_bytes();
        let known = bytes.len().min(sync.len());
        if bytes.get(..known) != sync.get(..known) {
            return Err(Bad::Corrupt);
        }
        let bytes = bytes
            .get(..FOOTER_LEN)
            .ok_or(Bad::Short { needed: FOOTER_LEN })?;
        let mut reader = Reader::new(bytes);
        let (footer, flags, crc) = read_footer(&mut reader).ok_or(Bad::Corrupt)?;
        if footer_crc(bytes, salt, position) != crc || footer.position != position {
            return Err(Bad::Corrupt);
        }
        if flags & !SPARSE != 0 {
            return Err(Bad::Newer {
                found: flags.into(),
                supported: SPARSE.into(),
            });
        }
        if footer.is_sound() {
            Ok(footer)
        } else {
            Err(Bad::Corrupt)
        }
    }

    /// What the successor's header says of this segment.
    pub(crate) fn link(&self, salt: u64) -> Link {
        Link {
            len: self.file_len(),
            crc: stored_crc(&self.encode(salt)),
        }
    }

    /// Length of the whole file.
    pub(crate) fn file_len(&self) -> u64 {
        self.position.saturating_add(FOOTER_LEN as u64)
    }

    fn is_sound(&self) -> bool {
        i64::try_from(self.next_base).is_ok() && self.last.is_none_or(|last| last < self.next_base)
    }
}

fn read_footer(reader: &mut Reader<'_>) -> Option<(Footer, u8, u32)> {
    reader.u16()?;
    let flags = reader.u8()?;
    reader.u8()?;
    let crc = reader.u32()?;
    let last = reader.u64()?;
    let footer = Footer {
        last: (last != NO_RECORD).then_some(last),
        next_base: reader.u64()?,
        sparse: flags & SPARSE != 0,
        position: reader.u64()?,
        accumulator: Accumulator::read(reader)?,
    };
    Some((footer, flags, crc))
}

fn stored_crc(bytes: &[u8; FOOTER_LEN]) -> u32 {
    let [_, _, _, _, a, b, c, d, ..] = *bytes;
    u32::from_le_bytes([a, b, c, d])
}

/// Over everything but the checksum itself.
fn footer_crc(bytes: &[u8], salt: u64, position: u64) -> u32 {
    let (front, back) = (bytes.get(..4), bytes.get(8..));
    Seed::new(salt, position).crc(&[front.unwrap_or_default(), back.unwrap_or_default()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::batch::SYNC;
    use proptest::prelude::*;

    const SALT: u64 = 77;

    fn footer() -> Footer {
        let mut accumulator = Accumulator::default();
        accumulator.add(3, 1, 2, 3, Some(4), false);
        Footer {
            last: Some(9),
            next_base: 20,
            sparse: true,
            accumulator,
            position: 4096,
        }
    }

    #[test]
    fn a_footer_comes_back() {
        let bytes = footer().encode(SALT);
        assert_eq!(Footer::decode(&bytes, SALT, 4096), Ok(footer()));
        assert_eq!(footer().link(SALT).len, 4096 + FOOTER_LEN as u64);
        assert_eq!(footer().link(SALT).crc.to_le_bytes(), bytes[4..8]);
    }

    #[test]
    fn a_segment_that_never_held_a_record_has_no_last_offset() {
        let empty = Footer {
            last: None,
            next_base: 0,
            accumulator: Accumulator::default(),
            ..footer()
        };
        assert_eq!(Footer::decode(&empty.encode(SALT), SALT, 4096), Ok(empty));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let bytes = footer().encode(SALT);
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                Footer::decode(&bad, SALT, 4096),
                Err(Bad::Corrupt),
                "bit {bit}"
            );
        }
        for cut in 0..bytes.len() {
            let short = Err(Bad::Short { needed: FOOTER_LEN });
            assert_eq!(Footer::decode(&bytes[..cut], SALT, 4096), short);
        }
    }

    #[test]
    fn a_footer_in_a_wrong_file_or_place_and_a_batch_do_not_pass() {
        let bytes = footer().encode(SALT);
        assert_eq!(Footer::decode(&bytes, SALT + 1, 4096), Err(Bad::Corrupt));
        assert_eq!(Footer::decode(&bytes, SALT, 4097), Err(Bad::Corrupt));
        assert_ne!(FOOTER_SYNC, SYNC);
        assert_eq!(
            Footer::decode(&[0; FOOTER_LEN], SALT, 4096),
            Err(Bad::Corrupt)
        );
        assert_eq!(
            Footer::decode(&[0xFF; FOOTER_LEN], SALT, 4096),
            Err(Bad::Corrupt)
        );
    }

    #[test]
    fn an_unknown_required_flag_is_newer() {
        let mut bytes = footer().encode(SALT);
        bytes[2] |= 2;
        let crc = footer_crc(&bytes, SALT, 4096);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        let newer = Bad::Newer {
            found: 3,
            supported: 1,
        };
        assert_eq!(Footer::decode(&bytes, SALT, 4096), Err(newer));
    }

    proptest! {
        #[test]
        fn any_bytes_give_an_answer(mut bytes in prop::collection::vec(any::<u8>(), 0..100), sync: bool) {
            if sync {
                bytes.splice(..0, FOOTER_SYNC.to_le_bytes());
            }
            prop_assert!(Footer::decode(&bytes, SALT, 0).is_err());
        }
    }
}
