//! The shim's imports from `glovebox:machine`, and its exports for the guests' code. The weaver connects both.

#![allow(
    unsafe_code,
    unreachable_pub,
    reason = "functions of the woven module are called by raw signatures, and those for the guests exported by name"
)]

use crate::{CallOutcome, Guests, LibraryBytes, UnwindReason, running_guest};

/// The guests in the woven module.
pub(crate) struct WovenModule;

/// The weaver's functions. Pointers refer to the shim's own memory.
mod machine {
    #[link(wasm_import_module = "glovebox:machine")]
    unsafe extern "C" {
        pub safe fn describe_len() -> u32;
        pub fn describe(into: *mut u8);
        pub safe fn memory_size(guest: u32) -> u32;
        pub safe fn memory_grow(guest: u32, pages: u32) -> i32;
        pub safe fn virtual_size(guest: u32) -> u32;
        pub safe fn set_virtual_size(guest: u32, pages: u32);
        pub fn memory_read(guest: u32, at: u32, into: *mut u8, len: usize);
        pub fn memory_write(guest: u32, at: u32, from: *const u8, len: usize);
        pub safe fn memory_fill(guest: u32, at: u32, byte: u32, len: u32);
        pub fn memory_equals(guest: u32, at: u32, with: *const u8, len: usize) -> u32;
        pub safe fn memory_is_zero(guest: u32, at: u32, len: u32) -> u32;
        pub safe fn image_to_guest(guest: u32, offset: u32, at: u32, len: u32);
        pub fn image_to_shim(guest: u32, offset: u32, into: *mut u8, len: usize);
        pub fn library_to_shim(guest: u32, offset: u32, into: *mut u8, len: usize);
        pub safe fn global_get(guest: u32, global: u32) -> u64;
        pub safe fn global_set(guest: u32, global: u32, bits: u64);
        pub safe fn fuel_get() -> i64;
        pub safe fn fuel_set(fuel: i64);
        pub fn call_export(guest: u32, export: u32, args: *const u64, count: usize, result: *mut u64) -> u32;
        pub fn call_table(guest: u32, slot: u32, args: *const u64, count: usize, result: *mut u64) -> u32;
        pub safe fn unwound() -> u32;
    }
}

/// Decodes a call's status and result.
fn called(status: u32, result: u64) -> CallOutcome {
    match status {
        0 => CallOutcome::Nothing,
        // An `i32` occupies the lower half of the 64-bit result.
        1 => CallOutcome::I32(u32::try_from(result & u64::from(u32::MAX)).unwrap_or(u32::MAX)),
        2 => CallOutcome::I64(result),
        3 => CallOutcome::Unwound(match machine::unwound() {
            1 => UnwindReason::Unreachable,
            2 => UnwindReason::CallDepth,
            3 => UnwindReason::Thrown,
            _ => UnwindReason::Requested,
        }),
        _ => CallOutcome::Missing,
    }
}

impl Guests for WovenModule {
    fn describe(&self) -> Vec<u8> {
        let mut text = vec![0; usize::try_from(machine::describe_len()).unwrap_or(0)];
        // SAFETY: `describe` writes `describe_len` bytes, and `text` has that length.
        unsafe { machine::describe(text.as_mut_ptr()) };
        text
    }

    fn memory_size(&self, guest: u32) -> u32 {
        machine::memory_size(guest)
    }

    fn memory_grow(&self, guest: u32, pages: u32) -> bool {
        machine::memory_grow(guest, pages) >= 0
    }

    fn virtual_size(&self, guest: u32) -> u32 {
        machine::virtual_size(guest)
    }

    fn set_virtual_size(&self, guest: u32, pages: u32) {
        machine::set_virtual_size(guest, pages);
    }

    fn memory_read(&self, guest: u32, at: u32, into: &mut [u8]) {
        // SAFETY: `memory_read` writes only to the given bytes.
        unsafe { machine::memory_read(guest, at, into.as_mut_ptr(), into.len()) };
    }

    fn memory_write(&self, guest: u32, at: u32, from: &[u8]) {
        // SAFETY: `memory_write` reads only the given bytes.
        unsafe { machine::memory_write(guest, at, from.as_ptr(), from.len()) };
    }

    fn memory_fill(&self, guest: u32, at: u32, byte: u8, len: u32) {
        machine::memory_fill(guest, at, u32::from(byte), len);
    }

    fn memory_equals(&self, guest: u32, at: u32, with: &[u8]) -> bool {
        // SAFETY: `memory_equals` reads only the given bytes.
        unsafe { machine::memory_equals(guest, at, with.as_ptr(), with.len()) != 0 }
    }

    fn memory_is_zero(&self, guest: u32, at: u32, len: u32) -> bool {
        machine::memory_is_zero(guest, at, len) != 0
    }

    fn image_to_guest(&self, guest: u32, offset: u32, at: u32, len: u32) {
        machine::image_to_guest(guest, offset, at, len);
    }

    fn image_to_shim(&self, guest: u32, offset: u32, into: &mut [u8]) {
        // SAFETY: `image_to_shim` writes only to the given bytes.
        unsafe { machine::image_to_shim(guest, offset, into.as_mut_ptr(), into.len()) };
    }

    fn global_get(&self, guest: u32, global: u32) -> u64 {
        machine::global_get(guest, global)
    }

    fn global_set(&self, guest: u32, global: u32, bits: u64) {
        machine::global_set(guest, global, bits);
    }

    fn fuel(&self) -> i64 {
        machine::fuel_get()
    }

    fn set_fuel(&self, fuel: i64) {
        machine::fuel_set(fuel);
    }

    fn call_export(&self, guest: u32, export: u32, args: &[u64]) -> CallOutcome {
        let mut result = 0;
        // SAFETY: `call_export` reads the arguments and writes one word. During the call, the guest's code calls the
        // exports below, which access nothing that is borrowed here.
        let status = unsafe { machine::call_export(guest, export, args.as_ptr(), args.len(), &raw mut result) };
        called(status, result)
    }

    fn call_table(&self, guest: u32, slot: u32, args: &[u64]) -> CallOutcome {
        let mut result = 0;
        // SAFETY: like `call_export`, `call_table` reads the arguments and writes one word.
        let status = unsafe { machine::call_table(guest, slot, args.as_ptr(), args.len(), &raw mut result) };
        called(status, result)
    }
}

impl LibraryBytes for WovenModule {
    fn read(&self, guest: u32, offset: u32, into: &mut [u8]) {
        // SAFETY: `library_to_shim` writes only to the given bytes.
        unsafe { machine::library_to_shim(guest, offset, into.as_mut_ptr(), into.len()) };
    }
}

#[unsafe(export_name = "glovebox:machine/refuel")]
extern "C" fn refuel() -> i32 {
    running_guest::refuel()
}

#[unsafe(export_name = "glovebox:machine/grow")]
extern "C" fn grow(pages: u32) -> i32 {
    running_guest::grow(pages)
}

/// Exports all functions of WASI preview 1. Each returns the errno, or a negative number to unwind the guest.
macro_rules! export_preview1 {
    ($( $(#[$meta:meta])* fn $name:ident( $($arg:ident: $ty:ty),* ) -> $ret:ty; )*) => {
        $(
            #[unsafe(export_name = concat!("glovebox:wasi/", stringify!($name)))]
            extern "C" fn $name($($arg: $ty),*) -> i32 {
                running_guest::wasi(|wasi, host| wasi.$name(host, $($arg),*).map(u32::from))
            }
        )*
    };
}

glovebox_wasi::wasi_preview1_functions!(export_preview1);
