//! The checker can fail: planted faults are caught, and what only looks like one is not.

use crate::source::Source;
use crate::{exports_of, file_faults, layer_faults, module_of, sleep_faults};

fn check(file: &str, text: &str) -> Vec<String> {
    let lib = "pub use log::{Log, topic::Topic as Stream};\nmod private { use log::Hidden; }";
    layer_faults(file, &Source::parse(text), &exports_of(&Source::parse(lib)))
}

#[test]
fn a_lower_layer_that_names_a_higher_one_is_caught_however_it_is_written() {
    let fault = ["src/segment/rewrite.rs: segment (layer 2) names log (layer 4)"];
    for text in [
        "use crate::log::Log;",
        "use crate::{io::File, log::{self, Log}};",
        "use super::super::log::Log;",
        "use super::super::{io, log::Log};",
        "fn f() { let l: crate::log::Log = todo!(); }",
        "fn f<'a>(x: &'a str) -> char { let c = '\"'; crate::log::open(x); 'x' }",
        "mod inner { use super::super::super::log::Log; }",
        "pub(crate) use crate::Log;",
        "use crate::Stream;",
        "#[cfg(not(test))] use crate::log::Log;",
        "#[cfg(test)] mod tests { fn f() {} } use crate::log::Log;",
        "#[cfg(test)] use crate::io::X; fn f() { crate::log::f() }",
        "#[cfg(test)] fn f<A, B>(a: A, b: B) { crate::kafka::f() } use crate::log::Log;",
        "struct S { #[cfg(test)] pub(crate) a: HashMap<(A, B)>, b: crate::log::Log }",
        "/* a /* nested */ comment */ use crate::log::Log;",
        "const S: &str = r#\"a \"quoted\" word\"#; use crate::log::Log;",
    ] {
        assert_eq!(check("src/segment/rewrite.rs", text), fault, "{text}");
    }
}

#[test]
fn comments_strings_and_tests_may_name_anything() {
    for text in [
        "// use crate::log::Log;",
        "/// See [`crate::log::Log`].\nfn f() {}",
        "/* crate::log::Log /* and */ crate::log */",
        "const S: &str = \"\\\" crate::log::Log\";",
        "const S: &[u8] = br##\"crate::log::Log\"# crate::log\"##;",
        "#[cfg(test)] mod tests { use crate::log::Log; }",
        "#[cfg(test)] #[allow(unused)] use crate::log::{Log, Topic};",
        "#[cfg(test)] impl<A, B> X for Y<A, B> { const C: [u8; 2] = crate::log::C; }",
        "#[cfg(test)] pub(crate) fn f<A, B>() where A: X, B: Y { crate::log::f() }",
        "#[cfg(all(test, unix))] fn f() { crate::log::f() }",
        "use crate::io::File; use super::Segment; use self::inner::X; pub(crate) fn f() {}",
    ] {
        assert_eq!(check("src/segment/rewrite.rs", text), [""; 0], "{text}");
    }
}

#[test]
fn neighbours_in_a_layer_do_not_know_each_other() {
    assert_eq!(check("src/offset.rs", "use crate::error::Error;"), [""; 0]);
    assert_eq!(
        check("src/producer/transaction.rs", "use crate::consumer::Batch;"),
        [""; 0]
    );
    let fault = check("src/consumer/batch.rs", "use crate::producer::Producer;");
    assert_eq!(
        fault,
        ["src/consumer/batch.rs: consumer (layer 5) names producer (layer 5)"]
    );
    let fault = check("src/format/mod.rs", "use crate::io::File;");
    assert_eq!(
        fault,
        ["src/format/mod.rs: format (layer 1) names io (layer 1)"]
    );
}

#[test]
fn the_test_kit_names_anything_and_is_named_by_hooks_of_the_log_alone() {
    assert_eq!(
        check("src/testing/mod.rs", "use crate::kafka::Cluster;"),
        [""; 0]
    );
    assert_eq!(
        check("src/log/builder.rs", "use crate::testing::Clock;"),
        [""; 0]
    );
    let hook = "#[cfg(feature = \"testing\")]\nfn hook() {\n    crate::testing::f()\n}\n";
    assert_eq!(check("src/log/mod.rs", hook), [""; 0]);
    let fault = ["src/log/mod.rs: log (layer 4) names testing (beside)"];
    assert_eq!(
        check(
            "src/log/mod.rs",
            &format!("{hook}use crate::testing::Clock;")
        ),
        fault
    );
    assert_eq!(
        check("src/io/mod.rs", hook),
        ["src/io/mod.rs: io (layer 1) names testing (beside)"]
    );
}

#[test]
fn what_has_no_place_is_reported() {
    assert_eq!(
        check("src/util.rs", ""),
        ["src/util.rs: util has no layer; give it one in tests/layers.rs"]
    );
    let fault = check("src/log/mod.rs", "use crate::Hidden;");
    assert_eq!(
        fault,
        ["src/log/mod.rs: names crate::Hidden, which is no module and not exported by lib.rs"]
    );
    assert_eq!(check("src/log/mod.rs", "use crate::*;").len(), 1);
}

#[test]
fn the_rules_of_the_house_can_be_broken() {
    let faults = |file: &str, text: &str| {
        let source = Source::parse(text);
        file_faults(file, text, &source).len() + sleep_faults(file, &source).len()
    };
    assert_eq!(
        faults(
            "src/log/mod.rs",
            "//! Fine: no unsafe, no Instant::now, no thread::sleep.\n"
        ),
        0
    );
    assert_eq!(faults("src/log/mod.rs", "use std::fmt;"), 1);
    assert_eq!(
        faults("src/log/mod.rs", &format!("//! Long.{}", "\n".repeat(501))),
        1
    );
    assert_eq!(
        faults("src/log/mod.rs", "//! Bold.\nfn f() { unsafe { g() } }"),
        1
    );
    assert_eq!(
        faults("src/io/map.rs", "//! Bold.\nfn f() { unsafe { g() } }"),
        0
    );
    assert_eq!(
        faults(
            "src/log/mod.rs",
            "//! Hurried.\nfn f() { std::time::Instant::now(); SystemTime::now(); }"
        ),
        2
    );
    assert_eq!(
        faults("src/clock.rs", "//! Punctual.\nfn f() { Instant::now(); }"),
        0
    );
    assert_eq!(
        faults(
            "src/log/mod.rs",
            "//! Tired.\nuse std::thread::{self, sleep};"
        ),
        1
    );
    assert_eq!(
        faults(
            "src/log/mod.rs",
            "//! Tired.\nfn f() { std::thread::sleep(D); }"
        ),
        1
    );
}

#[test]
fn modules_declared_for_tests_are_test_code() {
    let declared = Source::parse("#[cfg(test)]\nmod faults;\nmod recovery;")
        .test_modules(&module_of("src/segment/mod.rs"));
    assert_eq!(declared, [["segment", "faults"]]);
}
