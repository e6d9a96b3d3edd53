//! Variable-length integers: small numbers take one byte on disk, large ones up to ten.
//!
//! Unsigned numbers are LEB128: seven bits a byte, lowest first, the top bit set on every byte but the last. Signed ones are
//! folded first (zigzag: 0, −1, 1, −2 … become 0, 1, 2, 3 …), so that small negative numbers stay short.
//!
//! The form is *canonical*: every number has exactly one encoding, the shortest. Reading refuses all others, so two files that
//! say the same are the same bytes, and the length of what was read is known from its value.

/// The most bytes that a number takes: ten times seven bits hold 64.
pub(crate) const MAX_LEN: usize = 10;

/// The top bit of a byte: more bytes follow.
const MORE: u8 = 0x80;

/// Appends `v`.
#[inline]
pub(crate) fn put(out: &mut Vec<u8>, v: u64) {
    if v < u64::from(MORE) {
        out.push(v as u8); // nearly always, and this much is inlined
    } else {
        put_long(out, v);
    }
}

#[inline(never)]
fn put_long(out: &mut Vec<u8>, v: u64) {
    let mut rest = v;
    while rest >= u64::from(MORE) {
        out.push(rest as u8 | MORE);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Appends `v`, folded.
#[inline]
pub(crate) fn put_signed(out: &mut Vec<u8>, v: i64) {
    put(out, fold(v));
}

/// Reads a number from the front of `bytes` and moves `bytes` behind it.
///
/// `None`, with `bytes` left alone, if they end too early, or hold a number that is over 64 bits or longer than it need be.
#[inline]
pub(crate) fn take(bytes: &mut &[u8]) -> Option<u64> {
    // Replay calls this several times a record, nearly always for one byte: that case is inlined, the rest is not.
    let (&first, rest) = bytes.split_first()?;
    if first < MORE {
        *bytes = rest;
        return Some(u64::from(first));
    }
    take_long(bytes)
}

/// Reads a number of one byte or two, as nearly all lengths are: the number, and where what follows it begins. `None` says
/// nothing. (It is given no place to write to, so what it reads can stay in registers.)
#[inline]
pub(crate) fn short_at(bytes: &[u8], at: usize) -> Option<(u32, usize)> {
    let low = *bytes.get(at)?;
    let behind = at.wrapping_add(1); // cannot pass the end of memory: a byte stands at `at`, and below at `behind`
    if low < MORE {
        return Some((low.into(), behind));
    }
    let high = *bytes.get(behind)?;
    // A second byte of zero would make it longer than it need be.
    let sound = high < MORE && high != 0;
    let number = u32::from(low & !MORE) | u32::from(high) << 7;
    sound.then_some((number, behind.wrapping_add(1)))
}

/// As [`take`], for a number that [`put_signed`] wrote.
#[inline]
pub(crate) fn take_signed(bytes: &mut &[u8]) -> Option<i64> {
    take(bytes).map(unfold)
}

/// How many bytes [`put`] appends for `v`: 1 to [`MAX_LEN`].
#[inline]
pub(crate) const fn len(v: u64) -> usize {
    let bits = u64::BITS - (v | 1).leading_zeros(); // zero takes a byte too
    bits.div_ceil(7) as usize
}

/// [`take`] for two bytes and more.
fn take_long(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for (i, &byte) in bytes.iter().take(MAX_LEN).enumerate() {
        value |= u64::from(byte & !MORE) << (7 * i);
        if byte < MORE {
            // A last byte of zero adds nothing: the same number has a shorter form. The tenth has room for bit 63 alone.
            let fits = i + 1 < MAX_LEN || byte == 1;
            if byte == 0 || !fits {
                return None;
            }
            *bytes = bytes.get(i + 1..)?;
            return Some(value);
        }
    }
    None
}

const fn fold(v: i64) -> u64 {
    (v << 1).cast_unsigned() ^ (v >> 63).cast_unsigned()
}

const fn unfold(v: u64) -> i64 {
    (v >> 1).cast_signed() ^ -(v & 1).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(v: u64) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, v);
        out
    }

    fn refused(bytes: &[u8]) -> bool {
        let mut rest = bytes;
        take(&mut rest).is_none() && rest == bytes
    }

    #[test]
    fn known_numbers_have_known_bytes() {
        assert_eq!(encoded(0), [0x00]);
        assert_eq!(encoded(127), [0x7f]);
        assert_eq!(encoded(128), [0x80, 0x01]);
        assert_eq!(encoded(300), [0xac, 0x02]);
        assert_eq!(encoded(16_383), [0xff, 0x7f]);
        assert_eq!(encoded(16_384), [0x80, 0x80, 0x01]);
        let max = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(encoded(u64::MAX), max);
    }

    #[test]
    fn small_signed_numbers_take_one_byte_on_both_sides_of_zero() {
        for (v, byte) in [(0, 0), (-1, 1), (1, 2), (-2, 3), (63, 126), (-64, 127)] {
            let mut out = Vec::new();
            put_signed(&mut out, v);
            assert_eq!(out, [byte], "{v}");
        }
    }

    #[test]
    fn every_power_of_two_and_its_neighbours_come_back() {
        for bit in 0..u64::BITS {
            let power = 1_u64 << bit;
            for v in [power - 1, power, power.wrapping_add(1), u64::MAX - power] {
                let bytes = encoded(v);
                let mut rest = bytes.as_slice();
                assert_eq!(take(&mut rest), Some(v));
                assert!(rest.is_empty());
                assert_eq!(len(v), bytes.len(), "{v}");
            }
        }
    }

    #[test]
    fn a_number_cut_short_is_refused_at_every_length() {
        let bytes = encoded(u64::MAX);
        for end in 0..bytes.len() {
            assert!(refused(&bytes[..end]), "{end}");
        }
    }

    #[test]
    fn a_number_longer_than_it_need_be_is_refused() {
        assert!(refused(&[0x80, 0x00])); // 0
        assert!(refused(&[0xff, 0x00])); // 127
        assert!(refused(&[0x80, 0x80, 0x00])); // 0
        assert!(refused(&[
            0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00
        ]));
    }

    #[test]
    fn a_number_over_64_bits_is_refused() {
        assert!(refused(&[
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02
        ]));
        assert!(refused(&[
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f
        ]));
        assert!(refused(&[0xff; 10]));
        assert!(refused(&[
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x81, 0x00
        ]));
    }

    proptest! {
        #[test]
        fn numbers_come_back_and_what_follows_is_left(v: u64, s: i64, tail: Vec<u8>) {
            let mut bytes = encoded(v);
            put_signed(&mut bytes, s);
            bytes.extend_from_slice(&tail);
            let mut rest = bytes.as_slice();
            prop_assert_eq!(take(&mut rest), Some(v));
            prop_assert_eq!(take_signed(&mut rest), Some(s));
            prop_assert_eq!(rest, tail.as_slice());
        }

        #[test]
        fn what_is_read_from_any_bytes_is_written_as_the_same_bytes(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
            let mut rest = bytes.as_slice();
            if let Some(v) = take(&mut rest) {
                prop_assert_eq!(encoded(v), &bytes[..bytes.len() - rest.len()]);
            } else {
                prop_assert_eq!(rest, bytes.as_slice());
            }
        }

        #[test]
        fn the_short_way_reads_what_the_long_way_reads(bytes in prop::collection::vec(any::<u8>(), 0..4)) {
            let mut rest = bytes.as_slice();
            let long = take(&mut rest).filter(|&v| len(v) <= 2);
            let short = short_at(&bytes, 0);
            prop_assert_eq!(short.map(|(v, _)| u64::from(v)), long);
            if let Some((_, behind)) = short {
                prop_assert_eq!(&bytes[behind..], rest);
            }
        }
    }
}
