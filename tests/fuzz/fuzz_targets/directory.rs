//! A whole log, damaged as the input says.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| thalweg::testing::fuzzing::directory(data));
