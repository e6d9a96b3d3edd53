//! Real files on a real disk (Unix): every system call that the crate makes.

mod file;
mod lock;

use std::fs::{self, DirBuilder, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use self::file::{DiskFile, sync_side_by_side};
use self::lock::DiskLock;
use super::{
    Ahead, DirEntry, File, Identity, Kind, Lock, LockState, OpenMode, Reading, Storage, Syncing,
    create_dirs, retried,
};

/// How often a lock file may be replaced under our feet before we call it taken.
const LOCK_ATTEMPTS: usize = 3;

/// The files of this machine.
#[derive(Debug)]
pub(crate) struct Disk;

impl Storage for Disk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let mut options = careful();
        match mode {
            OpenMode::Read => options.read(true),
            OpenMode::Write => options.read(true).write(true),
            OpenMode::CreateNew => options.read(true).write(true).create_new(true),
        };
        let file = match mode {
            OpenMode::Read | OpenMode::Write => open_unnoted(path, &options),
            OpenMode::CreateNew => open_regular(path, &options),
        };
        Ok(Arc::new(DiskFile(file?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        retried(|| fs::rename(from, to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        retried(|| fs::remove_file(path))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        retried(|| DirBuilder::new().mode(0o700).create(path))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        retried(|| fs::remove_dir(path))
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        retried(|| fs::read_dir(path)?.map(dir_entry).collect())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC);
        let dir = retried(|| options.open(path))?;
        retried(|| dir.sync_all())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        for _ in 0..LOCK_ATTEMPTS {
            let lock = DiskLock::take(path)?;
            // Between opening and locking somebody may have removed the file: then we hold a lock that nobody else sees.
            if lock.check()? == LockState::Held {
                return Ok(Box::new(lock));
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn sync_many(&self, files: &[Arc<dyn File>]) -> Vec<io::Result<()>> {
        sync_side_by_side(files)
    }

    fn sync_behind(&self, file: &Arc<dyn File>) -> Syncing {
        file::sync_behind(file)
    }

    fn read_ahead(&self, reading: Reading) -> Ahead {
        Ahead::on_a_thread(reading)
    }

    fn boot_id(&self) -> Option<u128> {
        parse_boot_id(&fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?)
    }

    fn identity(&self, path: &Path) -> io::Result<Identity> {
        let metadata = retried(|| fs::symlink_metadata(path))?;
        Ok(Identity {
            device: metadata.dev(),
            inode: metadata.ino(),
            born: born(&metadata),
        })
    }

    fn random(&self) -> u128 {
        let mut bytes = [0; 16];
        match fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)) {
            Ok(()) => u128::from_le_bytes(bytes),
            // A jail without devices: the standard library has its own source for the keys of its hash maps.
            Err(_) => u128::from(hash_key()) << 64 | u128::from(hash_key()),
        }
    }

    fn resolve(&self, path: &Path, create: bool) -> io::Result<PathBuf> {
        let path = std::path::absolute(path)?;
        if create {
            create_dirs(self, &real_as_far_as_it_goes(&path)?)?;
        }
        retried(|| fs::canonicalize(&path))
    }

    fn world_writable(&self, path: &Path) -> io::Result<bool> {
        Ok(retried(|| fs::metadata(path))?.mode() & 0o002 != 0)
    }
}

/// The part of the path that exists without links, and the rest as it is: below a link, directories are made where it leads.
fn real_as_far_as_it_goes(path: &Path) -> io::Result<PathBuf> {
    match retried(|| fs::canonicalize(path)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => Ok(real_as_far_as_it_goes(parent)?.join(name)),
            _ => Err(e),
        },
        known => known,
    }
}

/// Options that never follow a link, never wait for the other end of a pipe, and let no child process inherit the file.
fn careful() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600).custom_flags(CAREFUL);
    options
}

const CAREFUL: i32 = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;

/// Reading a file need not be noted in it: nobody asks, and each read would ask for the time.
#[cfg(any(target_os = "linux", target_os = "android"))]
const UNNOTED: i32 = libc::O_NOATIME;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const UNNOTED: i32 = 0;

/// Opens a file of ours without noting when it is read; one of somebody else's may only be opened as usual. (Not for a file that is to be
/// made: where it belongs to somebody else at once, the refusal comes when it is there.)
fn open_unnoted(path: &Path, options: &OpenOptions) -> io::Result<fs::File> {
    let mut unnoted = options.clone();
    unnoted.custom_flags(CAREFUL | UNNOTED);
    match open_regular(path, &unnoted) {
        Err(e) if e.raw_os_error() == Some(libc::EPERM) => open_regular(path, options),
        opened => opened,
    }
}

/// Opens `path` and refuses whatever turns out not to be a regular file.
fn open_regular(path: &Path, options: &OpenOptions) -> io::Result<fs::File> {
    let file = retried(|| options.open(path)).map_err(|e| match e.raw_os_error() {
        // A link, a directory opened for writing, a socket.
        Some(libc::ELOOP | libc::EISDIR | libc::ENXIO | libc::EOPNOTSUPP) => not_a_file(path),
        _ => e,
    })?;
    if retried(|| file.metadata())?.is_file() {
        Ok(file)
    } else {
        Err(not_a_file(path))
    }
}

fn not_a_file(path: &Path) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("{} is not a regular file", path.display()),
    )
}

fn dir_entry(entry: io::Result<fs::DirEntry>) -> io::Result<DirEntry> {
    let entry = entry?;
    let found = entry.file_type()?;
    let kind = if found.is_file() {
        Kind::File
    } else if found.is_dir() {
        Kind::Dir
    } else {
        Kind::Other
    };
    Ok(DirEntry {
        name: entry.file_name(),
        kind,
    })
}

/// Birth time in nanoseconds since the epoch, or zero.
fn born(metadata: &fs::Metadata) -> i128 {
    let Ok(created) = metadata.created() else {
        return 0;
    };
    match created.duration_since(UNIX_EPOCH) {
        Ok(after) => after.as_nanos().cast_signed(),
        Err(before) => -before.duration().as_nanos().cast_signed(),
    }
}

/// A UUID as Linux prints it.
fn parse_boot_id(text: &str) -> Option<u128> {
    let digits: String = text.trim().chars().filter(|&c| c != '-').collect();
    // `from_str_radix` alone would take a sign.
    let sound = digits.len() == 32 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    if sound {
        u128::from_str_radix(&digits, 16).ok()
    } else {
        None
    }
}

fn hash_key() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    use super::*;

    fn dir() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    fn kind_of<T>(result: io::Result<T>) -> io::ErrorKind {
        result
            .err()
            .map_or_else(|| panic!("expected an error"), |e| e.kind())
    }

    #[test]
    fn a_link_is_not_followed_when_opened() {
        let dir = dir();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, b"x").unwrap();
        symlink(&file, &link).unwrap();
        for mode in [OpenMode::Read, OpenMode::Write] {
            assert_eq!(kind_of(Disk.open(&link, mode)), io::ErrorKind::InvalidInput);
        }
        assert_eq!(
            kind_of(Disk.open(&link, OpenMode::CreateNew)),
            io::ErrorKind::AlreadyExists
        );
        assert_eq!(kind_of(Disk.lock(&link)), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_pipe_or_a_socket_is_refused_without_waiting() {
        let dir = dir();
        let (pipe, socket) = (dir.path().join("pipe"), dir.path().join("socket"));
        assert!(
            std::process::Command::new("mkfifo")
                .arg(&pipe)
                .status()
                .unwrap()
                .success()
        );
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for path in [pipe, socket] {
            assert_eq!(
                kind_of(Disk.open(&path, OpenMode::Read)),
                io::ErrorKind::InvalidInput
            );
            assert_eq!(
                kind_of(Disk.open(&path, OpenMode::Write)),
                io::ErrorKind::InvalidInput
            );
        }
        assert!(
            Disk.read_dir(dir.path())
                .unwrap()
                .iter()
                .all(|e| e.kind == Kind::Other)
        );
    }

    #[test]
    fn names_need_not_be_utf_8() {
        let dir = dir();
        let path = dir.path().join(std::ffi::OsStr::from_bytes(b"\xff-log"));
        Disk.open(&path, OpenMode::CreateNew).unwrap();
        assert_eq!(
            Disk.read_dir(dir.path()).unwrap()[0].name.as_bytes(),
            b"\xff-log"
        );
    }

    #[test]
    fn files_and_directories_are_private() {
        let dir = dir();
        Disk.create_dir(&dir.path().join("d")).unwrap();
        Disk.open(&dir.path().join("d/f"), OpenMode::CreateNew)
            .unwrap();
        let mode = |name: &str| fs::metadata(dir.path().join(name)).unwrap().mode() & 0o777;
        assert_eq!((mode("d"), mode("d/f")), (0o700, 0o600));
        assert!(!Disk.world_writable(&dir.path().join("d")).unwrap());
    }

    #[test]
    fn one_file_under_two_paths_is_one_lock() {
        let dir = dir();
        let (real, alias) = (dir.path().join("real"), dir.path().join("alias"));
        Disk.create_dir(&real).unwrap();
        symlink(&real, &alias).unwrap();
        let _lock = Disk.lock(&real.join("LOCK")).unwrap();
        assert_eq!(
            kind_of(Disk.lock(&alias.join("LOCK"))),
            io::ErrorKind::WouldBlock
        );
    }

    #[test]
    fn resolving_follows_links_once_and_makes_what_is_missing() {
        let dir = dir();
        let real = fs::canonicalize(dir.path()).unwrap();
        symlink(&real, real.join("alias")).unwrap();
        assert_eq!(
            Disk.resolve(&real.join("alias/a/b"), true).unwrap(),
            real.join("a/b")
        );
        assert_eq!(
            kind_of(Disk.resolve(&real.join("c"), false)),
            io::ErrorKind::NotFound
        );
        assert!(Disk.resolve(Path::new("."), false).unwrap().is_absolute());
    }

    #[test]
    fn a_boot_id_is_32_hexadecimal_digits_or_nothing() {
        assert_eq!(
            parse_boot_id("00000000-0000-0000-0000-0000000000ff\n"),
            Some(255)
        );
        assert_eq!(parse_boot_id("+0000000-0000-0000-0000-0000000000ff"), None);
        assert_eq!(parse_boot_id("ff"), None);
        assert_eq!(parse_boot_id(""), None);
    }

    #[test]
    fn random_numbers_differ() {
        assert_ne!(Disk.random(), Disk.random());
        assert_ne!(hash_key(), hash_key());
    }

    #[test]
    fn a_file_of_somebody_else_is_opened_too() {
        let passwords = Path::new("/etc/passwd"); // of the superuser, and readable
        if passwords.is_file() && !passwords.is_symlink() {
            Disk.open(passwords, OpenMode::Read).unwrap();
        }
    }
}
