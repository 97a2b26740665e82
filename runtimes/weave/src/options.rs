//! How guests are woven in.

/// How guests are woven in.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WeaveOptions {
    /// What calls in a guest may take of the native stack, as it is estimated; whatever would take more unwinds the guest.
    ///
    /// Default: 320 KiB. Of the 10,200 functions that are counted in CPython and QuickJS, Cranelift gives half a frame of 0.53 of the
    /// estimate or less, and few one that is larger; but QuickJS's interpreter itself, which recursion goes through, is one of these:
    /// 1.2 times in Wasmtime 49, 1.5 times in 50. So this fits into the 512 KiB that Wasmtime gives by default, with room for the
    /// shim; V8 gives 984 KiB.
    pub stack_bytes: u32,
    /// Whether fuel is counted. Without it nothing bounds what a script does: for measuring only.
    pub metered: bool,
}

impl Default for WeaveOptions {
    fn default() -> Self {
        Self { stack_bytes: 320 << 10, metered: true }
    }
}
