//! Options for weaving.

/// Options for weaving.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WeaveOptions {
    /// Estimated limit of native stack for nested calls in a guest, in bytes. A call that exceeds it unwinds the guest.
    ///
    /// Default: 320 KiB. Cranelift gives half of the 10,200 counted functions of CPython and QuickJS a frame of at most
    /// 0.53 of the estimate. A few frames are larger, among them the interpreter loop of QuickJS, which takes part in
    /// every recursion: 1.2 times the estimate in Wasmtime 49, 1.5 times in 50. The limit therefore fits into
    /// Wasmtime's default stack of 512 KiB, with room for the shim. V8 gives 984 KiB.
    pub stack_bytes: u32,
    /// Meters fuel. Without metering a script can run forever, so disable it for measurements only.
    pub metered: bool,
}

impl Default for WeaveOptions {
    fn default() -> Self {
        Self { stack_bytes: 320 << 10, metered: true }
    }
}
