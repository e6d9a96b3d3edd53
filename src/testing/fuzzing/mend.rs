//! Puts right checksums into bytes that may be anything, as far as they have the shape that a checksum belongs to.

use crate::format::batch::{self, HEADER_LEN};
use crate::format::footer::{FOOTER_LEN, FOOTER_SYNC};
use crate::format::state::ENTRY_SYNC;
use crate::format::wire::{HEAD_FIXED_LEN, Seed, crc};

/// The head of a file: its length and its checksum, if all of it is there.
pub(super) fn head(bytes: &mut [u8]) -> Option<usize> {
    let len = usize::from(u16::from_le_bytes([*bytes.get(10)?, *bytes.get(11)?]));
    let head = bytes.get_mut(..len).filter(|_| len >= HEAD_FIXED_LEN)?;
    let sum = crc(&[&head[..12], &head[HEAD_FIXED_LEN..]].concat());
    head[12..HEAD_FIXED_LEN].copy_from_slice(&sum.to_le_bytes());
    Some(len)
}

/// The record batch at the front of `bytes`, which stands at `position`: the sync word, and both checksums. Its length.
pub(super) fn batch(bytes: &mut [u8], salt: u64, position: u64) -> Option<usize> {
    bytes
        .get_mut(..2)?
        .copy_from_slice(&batch::SYNC.to_le_bytes());
    let (_, _, total) = batch::hop(bytes)?;
    let ext_len = usize::from(u16::from_le_bytes([bytes[34], bytes[35]]));
    let body_start = HEADER_LEN + ext_len;
    let total = usize::try_from(total).ok()?;
    if let Some(body) = bytes.get(body_start..total) {
        let sum = crc(body);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
    }
    let ext = bytes.get(HEADER_LEN..body_start)?;
    let sum = Seed::new(salt, position).crc(&[&bytes[..4], &bytes[8..HEADER_LEN], ext]);
    bytes[4..8].copy_from_slice(&sum.to_le_bytes());
    Some(total)
}

/// A whole segment file: head, batches one after the other, footer. The salt is the one that it says.
pub(super) fn segment(bytes: &mut [u8]) -> Option<()> {
    let mut at = head(bytes)?;
    let salt = u64::from_le_bytes(bytes.get(96..104)?.try_into().ok()?);
    while at < bytes.len() {
        let position = at as u64;
        let rest = &mut bytes[at..];
        if rest.starts_with(&FOOTER_SYNC.to_le_bytes()) {
            let footer = rest.get_mut(..FOOTER_LEN)?;
            footer[24..32].copy_from_slice(&position.to_le_bytes());
            let sum = Seed::new(salt, position).crc(&[&footer[..4], &footer[8..]]);
            footer[4..8].copy_from_slice(&sum.to_le_bytes());
            return Some(());
        }
        at = at.checked_add(batch(rest, salt, position)?)?;
    }
    Some(())
}

/// A whole `STATE` file: head, then each entry where the one before ends.
pub(super) fn state(bytes: &mut [u8]) -> Option<()> {
    let mut at = head(bytes)?;
    let salt = u64::from_le_bytes(bytes.get(16..24)?.try_into().ok()?);
    while at < bytes.len() {
        let position = at as u64;
        let entry = &mut bytes[at..];
        let payload = entry.get(8..12)?.try_into().ok()?;
        let len = usize::try_from(u32::from_le_bytes(payload)).ok()?;
        let entry = entry.get_mut(..len.checked_add(12)?)?;
        entry[..2].copy_from_slice(&ENTRY_SYNC.to_le_bytes());
        let sum = Seed::new(salt, position).crc(&[&entry[..4], &entry[8..]]);
        entry[4..8].copy_from_slice(&sum.to_le_bytes());
        at += entry.len();
    }
    Some(())
}
