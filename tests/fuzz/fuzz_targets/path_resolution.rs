//! See `glovebox_tests::fuzz::path_resolution`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| glovebox_tests::fuzz::path_resolution(data));
