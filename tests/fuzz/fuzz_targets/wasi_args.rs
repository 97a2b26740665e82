//! See `glovebox_tests::fuzz::wasi_args`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| glovebox_tests::fuzz::wasi_args(data));
