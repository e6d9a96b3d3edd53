//! Damage to a disk, as a fuzzer spells it: eight bytes for each deed, and bytes to put somewhere.

use std::path::{Path, PathBuf};

use crate::testing::Disk;

/// No more deeds than this: a log that was hit everywhere teaches nothing.
const MOST: usize = 12;

/// Does what `program` says. What does not apply does nothing.
pub(super) fn damage(disk: &Disk, mut program: &[u8]) {
    for _ in 0..MOST {
        let Some((deed, rest)) = program.split_first_chunk::<8>() else {
            return;
        };
        program = rest;
        let files = disk.files();
        let Some((path, len)) = pick(&files, deed[1]) else {
            return;
        };
        let place = u64::from(u16::from_le_bytes([deed[2], deed[3]]));
        let size = u64::from(u16::from_le_bytes([deed[4], deed[5]]));
        let at = place % (len + 1);
        let left = size.min(len - at);
        let _ = match deed[0] % 11 {
            0 => disk.flip_bit(path, at * 8 + size % 8),
            1 => disk.zero(path, at..at + left),
            2 => disk.resize(path, at),
            3 => disk.resize(path, len + size % 5000),
            4 => {
                let bytes = take(&mut program, size);
                disk.replace(path, at, &bytes[..bytes.len().min(left as usize)])
            }
            5 => disk.remove(path),
            6 => match pick(&files, deed[6]) {
                Some((other, _)) => disk.copy_over(other, path),
                None => Ok(()),
            },
            7 => disk.swap(path, at, size % (len + 1), u64::from(deed[6])),
            8 => disk.copy_over(path, renamed(path, deed[6], size)),
            9 => disk.extend(path, take(&mut program, size)),
            _ => {
                disk.set_boot_id(u128::from(deed[6]));
                Ok(())
            }
        };
    }
}

fn pick(files: &[(PathBuf, u64)], by: u8) -> Option<(&Path, u64)> {
    let (path, len) = files.get(usize::from(by) % files.len().max(1))?;
    Some((path, *len))
}

fn take<'p>(program: &mut &'p [u8], size: u64) -> &'p [u8] {
    let len = (size as usize % 64).min(program.len());
    let (taken, rest) = program.split_at(len);
    *program = rest;
    taken
}

/// Another name in the same directory, of the kinds that the library uses.
fn renamed(path: &Path, how: u8, size: u64) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(match how % 6 {
        0 => format!("{name}.tmp"),
        1 => format!("{:020}-00000000.log", size % 64),
        2 => format!("{:020}-{:08x}.log", size % 64, size % 3),
        3 => "MANIFEST".to_owned(),
        4 => name.replace("-00000000", "-00000001"),
        _ => format!("{:020}-00000000.idx", size % 64),
    })
}
