//! The simulated disk's files behind the library's back: corruption, golden images, hashes.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

use super::Disk;

/// Files as a test sees and damages them. None of this is a call of the library's: it is on the medium at once, and no fault strikes it.
impl Disk {
    /// All files with their lengths in bytes, in the order of their paths.
    pub fn files(&self) -> Vec<(PathBuf, u64)> {
        self.memory
            .list()
            .into_iter()
            .filter_map(|(path, len)| Some((path, len?)))
            .collect()
    }

    /// A file's bytes.
    pub fn read_file(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        self.memory.read_file(path.as_ref())
    }

    /// Makes a file of these bytes, and the directories above it, or gives the one there is these bytes. Durable at once.
    pub fn write_file(&self, path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
        self.memory.write_file(path.as_ref(), bytes)
    }

    /// Removes a file, or a directory with all that is in it. Durable at once.
    pub fn remove(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.memory.wipe(path.as_ref())
    }

    /// Flips one bit; bit 0 is the lowest of the first byte.
    pub fn flip_bit(&self, path: impl AsRef<Path>, bit: u64) -> io::Result<()> {
        let byte = bit / 8;
        self.memory.edit(path.as_ref(), byte..byte + 1, |bytes| {
            bytes[0] ^= 1 << (bit % 8);
        })
    }

    /// Sets a range of bytes to zero.
    pub fn zero(&self, path: impl AsRef<Path>, range: Range<u64>) -> io::Result<()> {
        self.memory
            .edit(path.as_ref(), range, |bytes| bytes.fill(0))
    }

    /// Exchanges two ranges of `len` bytes that do not overlap, such as sectors.
    pub fn swap(&self, path: impl AsRef<Path>, one: u64, other: u64, len: u64) -> io::Result<()> {
        let (low, high) = (one.min(other), one.max(other));
        if high - low < len || high.checked_add(len).is_none() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.memory.edit(path.as_ref(), low..high + len, |bytes| {
            let (left, right) = bytes.split_at_mut((high - low) as usize);
            left[..len as usize].swap_with_slice(right);
        })
    }

    /// Puts these bytes in place of others: what a misdirected write does. They must lie within the file.
    pub fn replace(&self, path: impl AsRef<Path>, position: u64, bytes: &[u8]) -> io::Result<()> {
        let end = position.saturating_add(bytes.len() as u64);
        self.memory.edit(path.as_ref(), position..end, |there| {
            there.copy_from_slice(bytes);
        })
    }

    /// Cuts the file to `len` bytes, or grows it by zeros.
    pub fn resize(&self, path: impl AsRef<Path>, len: u64) -> io::Result<()> {
        self.memory.resize(path.as_ref(), len)
    }

    /// Appends bytes to the file.
    pub fn extend(&self, path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
        let path = path.as_ref();
        let position = self.memory.read_file(path)?.len() as u64;
        self.memory.resize(path, position + bytes.len() as u64)?;
        self.replace(path, position, bytes)
    }

    /// Gives the file at `onto` the bytes of the one at `from`: a stale version, or a stray one.
    pub fn copy_over(&self, from: impl AsRef<Path>, onto: impl AsRef<Path>) -> io::Result<()> {
        let bytes = self.read_file(from)?;
        self.write_file(onto, &bytes)
    }

    /// Hash of all names and bytes: the same before and after if nothing was modified.
    pub fn hash(&self) -> u64 {
        let mut hash = Xxh3::new();
        for (path, len) in self.memory.list() {
            let name = path.as_os_str().as_encoded_bytes();
            hash.update(&(name.len() as u64).to_le_bytes());
            hash.update(name);
            // A directory is told from an empty file by a length that no file has.
            hash.update(&len.unwrap_or(u64::MAX).to_le_bytes());
            hash.update(&self.read_file(&path).unwrap_or_default());
        }
        hash.digest()
    }

    /// Copies a directory of the real file system, with all that is in it, to `at` on this disk. Durable at once.
    pub fn import(&self, real: impl AsRef<Path>, at: impl AsRef<Path>) -> io::Result<()> {
        let at = at.as_ref();
        self.memory.make_dir(at)?;
        for entry in fs::read_dir(real)? {
            let entry = entry?;
            let to = at.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                self.import(entry.path(), to)?;
            } else {
                self.write_file(to, &fs::read(entry.path())?)?;
            }
        }
        Ok(())
    }

    /// Copies the directory at `from` on this disk, with all that is in it, to one of the real file system, which is made if it
    /// is missing.
    pub fn export(&self, from: impl AsRef<Path>, real: impl AsRef<Path>) -> io::Result<()> {
        let (from, real) = (Path::new("/").join(from), real.as_ref());
        for (path, len) in self.memory.list() {
            let Ok(below) = path.strip_prefix(&from) else {
                continue;
            };
            match len {
                None => fs::create_dir_all(real.join(below))?,
                Some(_) => fs::write(real.join(below), self.read_file(&path)?)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CrashModel, DiskCall, DiskError, FailedSync, Fault, Variants};
    use super::*;
    use crate::io::{OpenMode, write_full};

    fn disk_with(bytes: &[u8]) -> Disk {
        let disk = Disk::new();
        disk.write_file("/log/f", bytes).unwrap();
        disk
    }

    #[test]
    fn damage_is_on_the_medium_at_once() {
        let disk = disk_with(&[0; 5000]);
        disk.flip_bit("/log/f", 8 * 4999 + 7).unwrap();
        disk.replace("/log/f", 10, b"stray").unwrap();
        let crashed = disk.crash(disk.points(), CrashModel::LostSuffix, 0);
        let bytes = crashed.read_file("/log/f").unwrap();
        assert_eq!((bytes[4999], &bytes[10..15]), (128, &b"stray"[..]));
        let variants = [CrashModel::LostSuffix, CrashModel::LostPages]
            .map(|model| disk.variants(disk.points(), model));
        assert_eq!(variants, [Variants::All(1); 2]);
    }

    #[test]
    fn each_kind_of_damage_does_what_it_says() {
        let disk = disk_with(b"abcdefgh");
        let now = |disk: &Disk| String::from_utf8(disk.read_file("log/f").unwrap()).unwrap();
        disk.swap("/log/f", 6, 0, 2).unwrap();
        assert_eq!(now(&disk), "ghcdefab");
        disk.zero("/log/f", 1..3).unwrap();
        assert_eq!(now(&disk), "g\0\0defab");
        disk.resize("/log/f", 4).unwrap();
        disk.extend("/log/f", b"+").unwrap();
        assert_eq!(now(&disk), "g\0\0d+");
        disk.write_file("/log/g", b"stale").unwrap();
        disk.copy_over("/log/g", "/log/f").unwrap();
        assert_eq!(now(&disk), "stale");
        disk.remove("/log/g").unwrap();
        assert_eq!(disk.files(), [(PathBuf::from("/log/f"), 5)]);
    }

    #[test]
    fn damage_beyond_the_end_is_refused() {
        let disk = disk_with(b"abc");
        assert!(disk.flip_bit("/log/f", 24).is_err());
        assert!(disk.zero("/log/f", 2..4).is_err());
        assert!(disk.replace("/log/f", u64::MAX, b"x").is_err());
        assert!(disk.swap("/log/f", 0, 1, 2).is_err());
        assert!(disk.zero("/log", 0..0).is_err());
    }

    #[test]
    fn the_hash_sees_every_name_and_byte() {
        let disk = disk_with(b"abc");
        let hash = disk.hash();
        assert_eq!(disk_with(b"abc").hash(), hash);
        disk.flip_bit("/log/f", 3).unwrap();
        assert_ne!(disk.hash(), hash);
        disk.flip_bit("/log/f", 3).unwrap();
        assert_eq!(disk.hash(), hash);
        disk.write_file("/log/empty", b"").unwrap();
        assert_ne!(disk.hash(), hash);
    }

    #[test]
    fn a_tree_goes_out_and_comes_back() {
        let real = tempfile::tempdir().unwrap();
        let disk = disk_with(b"abc");
        disk.write_file("/log/deep/er/g", b"").unwrap();
        disk.export("/log", real.path().join("copy")).unwrap();
        let back = Disk::new();
        back.import(real.path().join("copy"), "/log").unwrap();
        assert_eq!(back.hash(), disk.hash());
    }

    #[test]
    fn a_copy_has_the_same_boot_and_another_identity() {
        let disk = disk_with(b"abc");
        let copy = disk.crash_copy(disk.points(), CrashModel::LostPages, 0);
        assert_eq!(copy.boot_id(), disk.boot_id());
        let identity = |disk: &Disk| disk.storage().identity(Path::new("/log/f")).unwrap();
        assert_ne!(identity(&copy), identity(&disk));
    }

    #[test]
    fn faults_reach_the_storage_that_the_library_is_given() {
        let disk = disk_with(b"abc");
        let file = disk
            .storage()
            .open(Path::new("/log/f"), OpenMode::Write)
            .unwrap();
        disk.fail(Fault::sync(
            DiskCall::SyncData,
            FailedSync::Keep,
            DiskError::Io,
        ));
        write_full(&*file, b"x", 0).unwrap();
        assert!(file.sync_data().is_err());
        assert_eq!((disk.struck(), disk.calls()[&DiskCall::SyncData]), (1, 1));
    }
}
