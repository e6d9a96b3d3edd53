//! Names on disk: how topics, partitions and segments become file names, and which file names are ours.

use std::ffi::OsStr;

/// Held while a log is open for writing.
pub(crate) const LOCK: &str = "LOCK";
/// Which log this is, and what is needed to read it.
pub(crate) const FORMAT: &str = "FORMAT";
/// Openings, recovery points, closes.
pub(crate) const STATE: &str = "STATE";
/// The topics that there are.
pub(crate) const CATALOGUE: &str = "CATALOGUE";
/// The partition for what is small and must survive.
pub(crate) const LEDGER: &str = "ledger";
/// The partition that transactions are decided in.
pub(crate) const JOURNAL: &str = "journal";
/// Where recovery keeps what it cuts.
pub(crate) const QUARANTINE: &str = "quarantine";
/// One directory for each topic.
pub(crate) const TOPICS: &str = "topics";
/// In a topic's directory: its description.
pub(crate) const CONFIG: &str = "config";
/// In a partition's directory, once something was removed or replaced.
pub(crate) const MANIFEST: &str = "MANIFEST";
/// Ending of what is not complete yet.
pub(crate) const TMP: &str = ".tmp";

const SEGMENT_ENDING: &str = ".log";
const INDEX_ENDING: &str = ".idx";

/// Longest topic name, as in Kafka.
const MAX_TOPIC_NAME: usize = 249;
/// What of an escaped name stands in the directory's: file names end at 255 bytes, and the UUID tells topics apart.
const MAX_ESCAPED: usize = 200;
/// Stands before a capital letter, written small, and before a leading dot. No topic name contains it.
const ESCAPE: char = '%';

/// Kafka's rule: 1 to 249 of `a-z`, `A-Z`, `0-9`, `.`, `_`, `-`, but not `.` or `..`. The error says what is wrong.
pub(crate) fn check_topic_name(name: &str) -> Result<(), &'static str> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if name.is_empty() {
        return Err("a topic name has at least one character");
    }
    if name.len() > MAX_TOPIC_NAME {
        return Err("a topic name has at most 249 characters");
    }
    if !name.bytes().all(allowed) {
        return Err(
            "a topic name consists of letters and digits of ASCII, dot, underscore and hyphen",
        );
    }
    if name == "." || name == ".." {
        return Err("a topic cannot be called . or ..");
    }
    Ok(())
}

/// The directory of a topic below [`TOPICS`]: `<escaped name>-<first 8 hex digits of the UUID>`.
///
/// Capital letters are escaped, since a file system may take two cases for one name. The name is for people: what counts is
/// the description inside, and that this function gives the same name for it.
pub(crate) fn topic_dir(name: &str, topic: u128) -> String {
    let mut escaped = String::with_capacity(MAX_ESCAPED);
    for (at, letter) in name.char_indices() {
        if letter.is_ascii_uppercase() || (at == 0 && letter == '.') {
            escaped.push(ESCAPE);
        }
        escaped.push(letter.to_ascii_lowercase());
    }
    let shown = escaped.get(..MAX_ESCAPED).unwrap_or(&escaped);
    format!("{shown}-{:08x}", topic >> 96)
}

/// Has this name the form that [`topic_dir`] gives? The answer: is it one in the making (ending [`TMP`])?
pub(crate) fn parse_topic_dir(name: &OsStr) -> Option<bool> {
    let name = name.to_str()?;
    let (name, making) = match name.strip_suffix(TMP) {
        Some(name) => (name, true),
        None => (name, false),
    };
    let (escaped, uuid) = name.rsplit_once('-')?;
    parse_hex(uuid)?;
    let allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-%".contains(&byte);
    let ours = !escaped.is_empty()
        && escaped.len() <= MAX_ESCAPED
        && !escaped.starts_with('.')
        && escaped.bytes().all(allowed);
    ours.then_some(making)
}

/// The directory of a partition in its topic's.
pub(crate) fn partition_dir(partition: u32) -> String {
    partition.to_string()
}

/// Digits without a leading zero, at most `i32::MAX`.
pub(crate) fn parse_partition_dir(name: &OsStr) -> Option<u32> {
    let name = name.to_str()?;
    let canonical = name == "0" || !name.starts_with('0');
    let number = u32::try_from(parse_digits(name)?).ok()?;
    (canonical && i32::try_from(number).is_ok()).then_some(number)
}

/// `<20 digits of the base offset>-<8 hex digits of the generation>.log`
pub(crate) fn segment_name(base: u64, generation: u32) -> String {
    format!("{base:020}-{generation:08x}{SEGMENT_ENDING}")
}

/// Base and generation, if the name is exactly what [`segment_name`] gives.
pub(crate) fn parse_segment_name(name: &OsStr) -> Option<(u64, u32)> {
    parse_numbered(name, SEGMENT_ENDING)
}

/// The index of that segment.
pub(crate) fn index_name(base: u64, generation: u32) -> String {
    format!("{base:020}-{generation:08x}{INDEX_ENDING}")
}

/// Base and generation, if the name is exactly what [`index_name`] gives.
pub(crate) fn parse_index_name(name: &OsStr) -> Option<(u64, u32)> {
    parse_numbered(name, INDEX_ENDING)
}

fn parse_numbered(name: &OsStr, ending: &str) -> Option<(u64, u32)> {
    let name = name.to_str()?.strip_suffix(ending)?;
    let (base, generation) = name.split_once('-')?;
    (base.len() == 20).then_some(())?;
    let base = parse_digits(base)?;
    let generation = parse_hex(generation)?;
    (i64::try_from(base).is_ok()).then_some((base, generation))
}

/// `str::parse` would take a sign.
fn parse_digits(digits: &str) -> Option<u64> {
    let only_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    only_digits.then_some(digits)?.parse().ok()
}

/// Exactly eight, in small letters.
fn parse_hex(digits: &str) -> Option<u32> {
    let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let form = digits.len() == 8 && digits.bytes().all(hex);
    form.then(|| u32::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_segment_name_comes_back_and_nothing_like_it_does() {
        let name = segment_name(42, 0xab);
        assert_eq!(name, "00000000000000000042-000000ab.log");
        assert_eq!(parse_segment_name(OsStr::new(&name)), Some((42, 0xab)));
        assert_eq!(
            parse_index_name(OsStr::new(&index_name(42, 1))),
            Some((42, 1))
        );
        for other in [
            "+0000000000000000042-000000ab.log",
            "00000000000000000042-000000AB.log",
            "00000000000000000042-00000ab.log",
            "0000000000000000042-000000ab.log",
            "00000000000000000042-000000ab.log.tmp",
            "00000000000000000042-000000ab.idx",
            "00000000000000000042-+00000ab.log",
            "99999999999999999999-00000000.log",
            "09223372036854775808-00000000.log",
            " 0000000000000000042-000000ab.log",
            "",
        ] {
            assert_eq!(parse_segment_name(OsStr::new(other)), None, "{other}");
        }
    }

    #[test]
    fn a_partition_is_named_by_its_number_and_nothing_else() {
        for number in [0, 7, 10, i32::MAX as u32] {
            assert_eq!(
                parse_partition_dir(OsStr::new(&partition_dir(number))),
                Some(number)
            );
        }
        for other in [
            "",
            "00",
            "07",
            "+7",
            "-1",
            "2147483648",
            "7 ",
            "٣",
            "MANIFEST",
        ] {
            assert_eq!(parse_partition_dir(OsStr::new(other)), None, "{other}");
        }
    }

    #[test]
    fn topic_names_follow_kafkas_rule() {
        let longest = "a".repeat(249);
        for name in [
            "a", "orders", "A.b_c-9", "...", ".x", "__x", "con", "x.tmp", &longest,
        ] {
            assert_eq!(check_topic_name(name), Ok(()), "{name}");
        }
        let too_long = "a".repeat(250);
        for name in [
            "", ".", "..", "a/b", "../x", "a b", "ä", "a\0", "%a", "🦀", &too_long,
        ] {
            assert!(check_topic_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn topics_that_differ_by_case_get_directories_that_differ_without_it() {
        let topic = 0x0123_4567_89ab_cdef_u128 << 64;
        assert_eq!(topic_dir("orders", topic), "orders-01234567");
        assert_eq!(topic_dir("Orders", topic), "%orders-01234567");
        assert_eq!(topic_dir(".x.Y", topic), "%.x.%y-01234567");
    }

    #[test]
    fn names_that_are_not_of_the_form_are_not_ours() {
        assert_eq!(parse_topic_dir(OsStr::new("orders-01234567")), Some(false));
        assert_eq!(
            parse_topic_dir(OsStr::new("orders-01234567.tmp")),
            Some(true)
        );
        for other in [
            "orders",
            "orders-0123456",
            "Orders-01234567",
            "-01234567",
            ".x-01234567",
            "a/b-01234567",
        ] {
            assert_eq!(parse_topic_dir(OsStr::new(other)), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn an_accepted_name_stays_one_step_below_its_parent(name in ".{0,300}", topic: u128) {
            if check_topic_name(&name).is_ok() {
                let dir = topic_dir(&name, topic);
                prop_assert!(dir.len() + TMP.len() <= 255);
                prop_assert!(!dir.starts_with('.') && !dir.contains(['/', '\\', '\0']));
                prop_assert_eq!(parse_topic_dir(OsStr::new(&dir)), Some(false));
            }
        }

        #[test]
        fn every_topic_name_has_a_directory_that_parses(name in "[a-zA-Z0-9._-]{1,249}", topic: u128) {
            prop_assume!(name != "." && name != "..");
            let dir = topic_dir(&name, topic);
            prop_assert_eq!(parse_topic_dir(OsStr::new(&dir)), Some(false), "{}", dir);
        }
    }
}
