//! See `glovebox_tests::fuzz::saved_state`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| glovebox_tests::fuzz::saved_state(data));
