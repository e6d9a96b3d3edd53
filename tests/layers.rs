//! The order of the house: a file of `src` names its own folder and lower layers, never a higher one; and a few rules per file.
//!
//! The sources are read as text: comments and strings are set aside, code under `#[cfg(test)]` too, and what is left is searched for
//! paths that begin with `crate::`, `super::` or `self::`. `lib.rs` is the front door and may name everything.

#[path = "layers/lexer.rs"]
mod lexer;
#[path = "layers/proofs.rs"]
mod proofs;
#[path = "layers/source.rs"]
mod source;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use source::{Source, gated_by_test, gated_by_testing};

/// Bottom-up. The vocabulary of layer 0 refers to itself freely (an error names positions, parsing a position gives an error);
/// above it, neighbours in one layer do not know each other.
const LAYERS: [&[&str]; 7] = [
    &[
        "planted", "varint", "error", "offset", "record", "entry", "clock", "sleepers", "sync",
    ],
    &["format", "io"],
    &["segment", "slotted"],
    &["partition"],
    &["log"],
    &["producer", "consumer"],
    &["worker", "events", "stream", "kafka"],
];
/// They may name anything, and nothing names them, but for the hooks that [`is_testing_hook`] describes.
const BESIDE: [&str; 2] = ["testing", "guide"];
/// The one way within a layer: a transaction takes a consumer's batch. The consumer knows nothing of producers.
const SIDEWAYS: [(&str, &str); 1] = [("producer", "consumer")];

const MAX_LINES: usize = 500;

// ── the rules about names

/// Everything in `file` that breaks the layers. `exports` says in which module lives what `lib.rs` re-exports at the root.
fn layer_faults(file: &str, source: &Source, exports: &BTreeMap<String, String>) -> Vec<String> {
    let module = module_of(file);
    let Some(from) = module.first() else {
        return Vec::new();
    };
    if !is_known(from) {
        return vec![format!(
            "{file}: {from} has no layer; give it one in tests/layers.rs"
        )];
    }
    let mut faults = Vec::new();
    for path in source.paths(&module, gated_by_test) {
        let Some(first) = path.parts.first() else {
            continue;
        };
        let to = if is_known(first) {
            Some(first)
        } else {
            exports.get(first)
        };
        match to {
            None => faults.push(format!(
                "{file}: names crate::{first}, which is no module and not exported by lib.rs"
            )),
            Some(to) if may_name(from, to) || is_testing_hook(file, source, to, path.line) => {}
            Some(to) => faults.push(format!(
                "{file}: {} names {}",
                with_layer(from),
                with_layer(to)
            )),
        }
    }
    faults.dedup();
    faults
}

fn may_name(from: &str, to: &str) -> bool {
    if from == to || BESIDE.contains(&from) {
        return true;
    }
    match (layer_of(from), layer_of(to)) {
        (Some(0), Some(0)) => true,
        (Some(above), Some(below)) => below < above || SIDEWAYS.contains(&(from, to)),
        _ => false,
    }
}

/// A builder takes simulated storage and a clock from the test kit: in `log/builder.rs`, and elsewhere in `log/` in items under
/// `#[cfg(feature = "testing")]`.
fn is_testing_hook(file: &str, source: &Source, to: &str, line: usize) -> bool {
    let gated = || {
        source
            .lines_of(gated_by_testing)
            .iter()
            .any(|lines| lines.contains(&line))
    };
    to == "testing" && (file == "src/log/builder.rs" || (file.starts_with("src/log/") && gated()))
}

fn layer_of(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&name))
}

fn is_known(name: &str) -> bool {
    layer_of(name).is_some() || BESIDE.contains(&name)
}

fn with_layer(name: &str) -> String {
    layer_of(name).map_or(format!("{name} (beside)"), |layer| {
        format!("{name} (layer {layer})")
    })
}

/// `src/segment/rewrite.rs` is `segment::rewrite`, `src/segment/mod.rs` is `segment`, `src/lib.rs` is the root.
fn module_of(file: &str) -> Vec<String> {
    let path = file.trim_start_matches("src/").trim_end_matches(".rs");
    path.split('/')
        .filter(|part| !["mod", "lib"].contains(part))
        .map(str::to_owned)
        .collect()
}

/// What `lib.rs` re-exports, by name, with the module it comes from.
fn exports_of(lib: &Source) -> BTreeMap<String, String> {
    let of = |path: source::Path| Some((path.name, path.parts.first()?.clone()));
    lib.public_uses().into_iter().filter_map(of).collect()
}

// ── the rules about files

/// What is wrong with one file of `src`, whatever it names.
fn file_faults(file: &str, text: &str, source: &Source) -> Vec<String> {
    let mut faults = Vec::new();
    if !text.starts_with("//! ") {
        faults.push(format!(
            "{file}: does not open with a sentence that says what it is for"
        ));
    }
    if text.lines().count() > MAX_LINES {
        faults.push(format!(
            "{file}: {} lines, more than {MAX_LINES}",
            text.lines().count()
        ));
    }
    if file != "src/io/map.rs" {
        faults.extend(
            source
                .find(&["unsafe"])
                .map(|line| format!("{file}:{line}: unsafe outside src/io/map.rs")),
        );
    }
    if file != "src/clock.rs" {
        let clocks = ["SystemTime", "Instant"]
            .into_iter()
            .flat_map(|clock| source.find(&[clock, "::", "now"]).collect::<Vec<_>>());
        faults.extend(
            clocks
                .map(|line| format!("{file}:{line}: reads the system clock outside src/clock.rs")),
        );
    }
    faults
}

/// Tests and the library wait for something, never for some time.
fn sleep_faults(file: &str, source: &Source) -> Vec<String> {
    let imported = source
        .find(&["thread", "::", "{"])
        .filter(|line| source.find(&["sleep"]).any(|at| at == *line));
    let sleeps: Vec<usize> = source
        .find(&["thread", "::", "sleep"])
        .chain(imported)
        .collect();
    sleeps
        .into_iter()
        .map(|line| format!("{file}:{line}: sleeps"))
        .collect()
}

// ── the tree

fn rust_files(dir: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    let mut pending = vec![root.join(dir)];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(&dir).expect("a directory of the repository can be listed") {
            let path = entry.expect("its entries can be read").path();
            if path.is_dir() && !is_crate_of_its_own(&path) {
                pending.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path
                    .strip_prefix(root)
                    .expect("it lies in the repository")
                    .to_string_lossy()
                    .replace('\\', "/");
                found.push((
                    name,
                    fs::read_to_string(&path).expect("a source file is UTF-8"),
                ));
            }
        }
    }
    found.sort();
    found
}

/// Fuzz targets are another crate, with a build directory inside.
fn is_crate_of_its_own(dir: &Path) -> bool {
    let manifest: PathBuf = dir.join("Cargo.toml");
    manifest.exists()
}

/// Modules that a parent declares as `#[cfg(test)] mod name;`: their files are test code.
fn test_modules(files: &[(String, String)]) -> Vec<Vec<String>> {
    let declared =
        |(file, text): &(String, String)| Source::parse(text).test_modules(&module_of(file));
    files.iter().flat_map(declared).collect()
}

#[test]
fn every_file_names_only_its_own_folder_and_lower_layers() {
    let files = rust_files("src");
    let tests = test_modules(&files);
    let (_, lib) = files
        .iter()
        .find(|(file, _)| file == "src/lib.rs")
        .expect("the crate has a root");
    let exports = exports_of(&Source::parse(lib));
    let is_test = |file: &str| tests.iter().any(|test| module_of(file).starts_with(test));
    let code = files.iter().filter(|(file, _)| !is_test(file));
    let faults: Vec<String> = code
        .flat_map(|(file, text)| layer_faults(file, &Source::parse(text), &exports))
        .collect();
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn every_file_keeps_the_rules_of_the_house() {
    let mut faults = Vec::new();
    for (file, text) in rust_files("src") {
        let source = Source::parse(&text);
        faults.extend(file_faults(&file, &text, &source));
        faults.extend(sleep_faults(&file, &source));
    }
    for (file, text) in rust_files("tests") {
        faults.extend(sleep_faults(&file, &Source::parse(&text)));
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}
