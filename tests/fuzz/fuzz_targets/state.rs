//! The STATE file, in a log whose records are known.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| thalweg::testing::fuzzing::state(data));
