//! See `glovebox_tests::fuzz::suspended`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| glovebox_tests::fuzz::suspended(data));
