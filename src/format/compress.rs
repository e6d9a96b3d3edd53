//! Compressing the body of a record batch, and undoing it within a bound that is known before.

use super::Bad;

/// How the body of a record batch is stored. All have a number in the format; the features `lz4` and `zstd` bring the code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Codec {
    #[default]
    None,
    Lz4,
    Zstd,
}

/// The highest codec number there is.
pub(crate) const LAST_CODEC: u8 = 2;

impl Codec {
    /// The number on disk. Never changed, only added to.
    pub(crate) fn id(self) -> u8 {
        match self {
            Codec::None => 0,
            Codec::Lz4 => 1,
            Codec::Zstd => 2,
        }
    }

    pub(crate) fn from_id(id: u8) -> Option<Codec> {
        match id {
            0 => Some(Codec::None),
            1 => Some(Codec::Lz4),
            2 => Some(Codec::Zstd),
            _ => None,
        }
    }
}

/// Appends `plain` to `out`, compressed. `false`, and `out` as it was, where that does not make it smaller or the codec was
/// not compiled in.
pub(crate) fn compress(codec: Codec, plain: &[u8], out: &mut Vec<u8>) -> bool {
    let begin = out.len();
    let packed = match codec {
        Codec::None => None,
        Codec::Lz4 => lz4::compress(plain, out),
        Codec::Zstd => zst::compress(plain, out),
    };
    match packed {
        Some(len) if len < plain.len() => {
            out.truncate(begin.saturating_add(len));
            true
        }
        _ => {
            out.truncate(begin);
            false
        }
    }
}

/// The body as it was before [`compress`].
///
/// Nothing is allocated beyond `uncompressed_len`, and nothing at all if that is above `limit` or cannot come out of so few
/// bytes. The result has exactly that length, else the bytes are `Corrupt`. A codec that was not compiled in is `Newer`.
pub(crate) fn decompress(
    codec: Codec,
    stored: &[u8],
    uncompressed_len: u32,
    limit: u64,
) -> Result<Vec<u8>, Bad> {
    if u64::from(uncompressed_len) > limit {
        return Err(Bad::Corrupt);
    }
    let len = usize::try_from(uncompressed_len).map_err(|_| Bad::Corrupt)?;
    match codec {
        Codec::None if stored.len() == len => Ok(stored.to_vec()),
        Codec::None => Err(Bad::Corrupt),
        Codec::Lz4 => lz4::decompress(stored, len),
        Codec::Zstd => zst::decompress(stored, len),
    }
}

/// `len` zeros, or `Corrupt` where so much memory is not to be had.
#[cfg(any(feature = "lz4", feature = "zstd"))]
fn buffer(len: usize) -> Result<Vec<u8>, Bad> {
    let mut out = Vec::new();
    out.try_reserve_exact(len).map_err(|_| Bad::Corrupt)?;
    out.resize(len, 0);
    Ok(out)
}

#[cfg(feature = "lz4")]
mod lz4 {
    use super::Bad;
    use lz4_flex::block;

    /// One byte of a block stands for at most so many.
    const BEST_RATIO: usize = 255;

    pub(super) fn compress(plain: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        let begin = out.len();
        let room = block::get_maximum_output_size(plain.len());
        out.resize(begin.saturating_add(room), 0);
        block::compress_into(plain, out.get_mut(begin..)?).ok()
    }

    pub(super) fn decompress(stored: &[u8], len: usize) -> Result<Vec<u8>, Bad> {
        if len > stored.len().saturating_mul(BEST_RATIO) {
            return Err(Bad::Corrupt);
        }
        let mut out = super::buffer(len)?;
        match block::decompress_into(stored, &mut out) {
            Ok(written) if written == len => Ok(out),
            _ => Err(Bad::Corrupt),
        }
    }
}

#[cfg(feature = "zstd")]
mod zst {
    use super::Bad;
    use zstd::{bulk, zstd_safe};

    /// A good half of the gain at a small part of the cost.
    const LEVEL: i32 = 1;
    /// A block has four bytes at least, and stands for at most 128 KiB.
    const BEST_RATIO: usize = (128 << 10) / 4;

    pub(super) fn compress(plain: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        let begin = out.len();
        let room = zstd_safe::compress_bound(plain.len());
        out.resize(begin.saturating_add(room), 0);
        bulk::compress_to_buffer(plain, out.get_mut(begin..)?, LEVEL).ok()
    }

    pub(super) fn decompress(stored: &[u8], len: usize) -> Result<Vec<u8>, Bad> {
        let told = zstd_safe::get_frame_content_size(stored).map_err(|_| Bad::Corrupt)?;
        if told != u64::try_from(len).ok() || len > stored.len().saturating_mul(BEST_RATIO) {
            return Err(Bad::Corrupt);
        }
        let mut out = super::buffer(len)?;
        match bulk::decompress_to_buffer(stored, out.as_mut_slice()) {
            Ok(written) if written == len => Ok(out),
            _ => Err(Bad::Corrupt),
        }
    }
}

#[cfg(not(feature = "lz4"))]
use absent as lz4;
#[cfg(not(feature = "zstd"))]
use absent as zst;

/// Stands for a codec that was not compiled in.
#[cfg(not(all(feature = "lz4", feature = "zstd")))]
mod absent {
    use super::{Bad, LAST_CODEC};

    pub(super) fn compress(_: &[u8], _: &mut Vec<u8>) -> Option<usize> {
        None
    }

    pub(super) fn decompress(_: &[u8], _: usize) -> Result<Vec<u8>, Bad> {
        Err(Bad::Newer {
            found: LAST_CODEC.into(),
            supported: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codecs_keep_their_numbers() {
        for id in 0..=LAST_CODEC {
            assert_eq!(Codec::from_id(id).map(Codec::id), Some(id));
        }
        assert_eq!(Codec::from_id(LAST_CODEC + 1), None);
    }

    #[test]
    fn what_is_not_compressed_has_exactly_the_length_it_says() {
        assert_eq!(decompress(Codec::None, b"abc", 3, 10), Ok(b"abc".to_vec()));
        assert_eq!(decompress(Codec::None, b"abc", 4, 10), Err(Bad::Corrupt));
        assert_eq!(decompress(Codec::None, b"abc", 3, 2), Err(Bad::Corrupt));
    }

    #[cfg(not(feature = "lz4"))]
    #[test]
    fn a_codec_that_was_not_compiled_in_is_newer_and_compresses_nothing() {
        let mut out = b"before".to_vec();
        assert!(!compress(Codec::Lz4, &[0; 1000], &mut out));
        assert_eq!(out, b"before");
        let found = decompress(Codec::Lz4, b"abc", 3, 10);
        assert!(matches!(found, Err(Bad::Newer { .. })));
    }

    #[cfg(any(feature = "lz4", feature = "zstd"))]
    mod compiled {
        use super::*;

        fn codecs() -> Vec<Codec> {
            let mut codecs = Vec::new();
            if cfg!(feature = "lz4") {
                codecs.push(Codec::Lz4);
            }
            if cfg!(feature = "zstd") {
                codecs.push(Codec::Zstd);
            }
            codecs
        }

        fn packed(codec: Codec, plain: &[u8]) -> Vec<u8> {
            let mut out = Vec::new();
            assert!(compress(codec, plain, &mut out));
            out
        }

        #[test]
        fn what_was_compressed_comes_back() {
            for codec in codecs() {
                let plain = b"again and again and again and again and again".repeat(9);
                let len = u32::try_from(plain.len()).unwrap();
                let stored = packed(codec, &plain);
                assert_eq!(decompress(codec, &stored, len, len.into()), Ok(plain));
            }
        }

        #[test]
        fn a_length_that_is_not_the_true_one_is_corrupt() {
            for codec in codecs() {
                let stored = packed(codec, &[7; 4000]);
                for len in [0, 1, 3999, 4001, u32::MAX] {
                    let found = decompress(codec, &stored, len, u64::MAX);
                    assert_eq!(found, Err(Bad::Corrupt), "{codec:?} {len}");
                }
                assert_eq!(decompress(codec, &stored, 4000, 3999), Err(Bad::Corrupt));
            }
        }

        #[test]
        fn what_gets_as_small_as_it_can_comes_back_too() {
            for codec in codecs() {
                let len = 20 << 20;
                let stored = packed(codec, &vec![0; len as usize]);
                let plain = decompress(codec, &stored, len, len.into());
                assert!(plain.is_ok_and(|plain| plain.len() == len as usize));
            }
        }

        #[test]
        fn a_bomb_is_refused_by_its_declared_size() {
            for codec in codecs() {
                let stored = packed(codec, &vec![0; 1 << 20]);
                assert!(stored.len() < (1 << 20) / 200);
                // Declared small, it is not let out; declared as it is, it is above the limit.
                assert_eq!(decompress(codec, &stored, 1000, 1 << 16), Err(Bad::Corrupt));
                assert_eq!(
                    decompress(codec, &stored, 1 << 20, 1 << 16),
                    Err(Bad::Corrupt)
                );
            }
        }

        #[test]
        fn every_cut_and_every_flipped_bit_gives_an_answer() {
            for codec in codecs() {
                let plain = b"one two three one two three one two three four".repeat(3);
                let len = u32::try_from(plain.len()).unwrap();
                let stored = packed(codec, &plain);
                for cut in 0..stored.len() {
                    assert_eq!(
                        decompress(codec, &stored[..cut], len, 4096),
                        Err(Bad::Corrupt)
                    );
                }
                for bit in 0..stored.len() * 8 {
                    let mut bad = stored.clone();
                    bad[bit / 8] ^= 1 << (bit % 8);
                    // Checksums are elsewhere: it may be other bytes, but not more of them.
                    let found = decompress(codec, &bad, len, 4096);
                    assert!(found.is_err() || found.is_ok_and(|out| out.len() == plain.len()));
                }
            }
        }
    }
}
