//! Optional fields as type, length, bytes: how a structure grows without a new version.

use super::Bad;
use super::wire::Reader;

/// Types from here on may be skipped by who does not know them; a lower one changes the meaning of what it stands in.
const OPTIONAL_FROM: u8 = 128;

/// How many bytes a field's length has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// In record batches and records, where fields are small and many.
    One,
    /// In descriptions of topics.
    Four,
}

/// Calls `each` with every field. Types ascend, each stands once, and 0 is none.
pub(crate) fn walk<'a>(
    bytes: &'a [u8],
    width: Width,
    mut each: impl FnMut(u8, &'a [u8]) -> Result<(), Bad>,
) -> Result<(), Bad> {
    let mut reader = Reader::new(bytes);
    let mut last = 0;
    while !reader.is_empty() {
        let (kind, field) = take(&mut reader, width).ok_or(Bad::Corrupt)?;
        if kind <= last {
            return Err(Bad::Corrupt);
        }
        last = kind;
        each(kind, field)?;
    }
    Ok(())
}

fn take<'a>(reader: &mut Reader<'a>, width: Width) -> Option<(u8, &'a [u8])> {
    let kind = reader.u8()?;
    let len = match width {
        Width::One => u64::from(reader.u8()?),
        Width::Four => u64::from(reader.u32()?),
    };
    Some((kind, reader.take_u64(len)?))
}

/// What to make of a type that the caller does not know; `supported` is the highest one it does.
pub(crate) fn unknown(kind: u8, supported: u8) -> Result<(), Bad> {
    if kind >= OPTIONAL_FROM {
        return Ok(());
    }
    Err(Bad::Newer {
        found: kind.into(),
        supported: supported.into(),
    })
}

/// The whole of a field as one value; `Corrupt` if it is longer or shorter.
pub(crate) fn whole<'a, T>(
    field: &'a [u8],
    read: impl FnOnce(&mut Reader<'a>) -> Option<T>,
) -> Result<T, Bad> {
    let mut reader = Reader::new(field);
    let value = read(&mut reader).ok_or(Bad::Corrupt)?;
    reader.end().ok_or(Bad::Corrupt)?;
    Ok(value)
}

/// Appends a field of up to 255 bytes.
pub(crate) fn put(out: &mut Vec<u8>, kind: u8, field: &[u8]) {
    let len = u8::try_from(field.len()).expect("fields of batches and records have few bytes");
    out.extend_from_slice(&[kind, len]);
    out.extend_from_slice(field);
}

/// Appends a field of up to 4 GiB.
pub(crate) fn put_wide(out: &mut Vec<u8>, kind: u8, field: &[u8]) {
    let len = u32::try_from(field.len()).expect("a topic's settings are far smaller than 4 GiB");
    out.push(kind);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(field);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(bytes: &[u8]) -> Result<Vec<u8>, Bad> {
        let mut seen = Vec::new();
        walk(bytes, Width::One, |kind, _| {
            seen.push(kind);
            Ok(())
        })?;
        Ok(seen)
    }

    #[test]
    fn fields_come_in_ascending_order_and_once() {
        assert_eq!(kinds(&[1, 0, 3, 1, 9, 200, 0]), Ok(vec![1, 3, 200]));
        assert_eq!(kinds(&[3, 0, 1, 0]), Err(Bad::Corrupt));
        assert_eq!(kinds(&[1, 0, 1, 0]), Err(Bad::Corrupt));
        assert_eq!(kinds(&[0, 0]), Err(Bad::Corrupt));
    }

    #[test]
    fn a_field_that_is_cut_is_corrupt() {
        assert_eq!(kinds(&[1]), Err(Bad::Corrupt));
        assert_eq!(kinds(&[1, 3, 0, 0]), Err(Bad::Corrupt));
        let wide = [1, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(walk(&wide, Width::Four, |_, _| Ok(())), Err(Bad::Corrupt));
    }

    #[test]
    fn an_unknown_field_is_newer_below_128_and_skipped_above() {
        let newer = Bad::Newer {
            found: 6,
            supported: 5,
        };
        assert_eq!(unknown(6, 5), Err(newer));
        assert_eq!(
            unknown(127, 5),
            Err(Bad::Newer {
                found: 127,
                supported: 5
            })
        );
        assert_eq!(unknown(128, 5), Ok(()));
    }
}
