//! A segment file: scanned, searched and read.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| thalweg::testing::fuzzing::segment(data));
