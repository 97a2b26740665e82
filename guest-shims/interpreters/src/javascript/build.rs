//! The differences between the supported builds of QuickJS-NG.

/// The facts about one pinned binary. Table slots are specific to the binary; preparation calls each and checks its
/// effect, so a wrong one is detected there.
#[derive(Debug)]
pub(super) struct Build {
    /// The function that runs the C library's constructors. `_start` and `qjs_init` are never called.
    pub(super) initialise: &'static str,
    /// The function that installs the module loader; its signature follows from `module_loader`.
    pub(super) set_module_loader: &'static str,
    /// Table slots of `js_module_loader` and, where the build has it, `js_module_check_attributes`.
    pub(super) module_loader: &'static [u32],
    /// Table slot of `js_std_promise_rejection_tracker`.
    pub(super) rejection_tracker: u32,
}

/// `qjs-wasi-reactor.wasm` of QuickJS-NG 0.17.0.
pub(super) static REACTOR_0_17: Build = Build {
    initialise: "_initialize",
    set_module_loader: "JS_SetModuleLoaderFunc2",
    module_loader: &[70, 71],
    rejection_tracker: 72,
};

/// `qjs-wasi.wasm` of QuickJS-NG 0.11.0.
pub(super) static COMMAND_0_11: Build = Build {
    initialise: "__wasm_call_ctors",
    set_module_loader: "JS_SetModuleLoaderFunc",
    module_loader: &[2],
    rejection_tracker: 3,
};
