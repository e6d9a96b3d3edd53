//! A record batch: header, extension, body.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| thalweg::testing::fuzzing::batch(data));
