//! QuickJS-NG, called through its C API.
//!
//! The official builds have a `name` section, so the functions declared in `quickjs.h` and `quickjs-libc.h` can be
//! exported without changing code. [`boot`] creates a runtime and a context, evaluates the boot scripts (`console`,
//! timers, reports), and records the addresses in [`state::Addresses`]. An execution is `JS_Eval`, the remaining jobs
//! and timers, and `fflush`.
//!
//! A session also needs the value of the last statement and variables ([`variables`]), redeclared names ([`declare`]),
//! and interrupts that leave the interpreter usable ([`state`]). These require internal structures, which are
//! located at boot by their effects ([`structures`]). Preparation fails if a structure is not found.
//!
//! The boot scripts do not rely on anything that a script can replace, and share only the recorded addresses with the
//! host. A script that damages the boot scripts damages only its own interpreter.

mod boot;
mod compile;
mod declare;
mod guest;
mod imports;
mod library;
mod report;
mod run;
mod split;
mod state;
mod structures;
mod tokens;
mod variables;
mod wipe;

use compile::CompileOutcome;
use report::{Facts, OUT_OF_MEMORY};
use serde_json::json;
use state::BootedGuest;

use crate::{
    Anchors, Boot, Diagnostic, Driver, DriverError, GuestValue, Interrupt, InterruptWrite, Machine, RaisedOutcome,
    Report, Script, persist::PersistState,
};

pub use library::library;

/// The file name of an image's setup code. Its relative imports are resolved in the workspace.
const SETUP_NAME: &str = "setup.js";

/// The driver of QuickJS-NG.
#[derive(Clone, Copy, Debug)]
pub struct JavaScript {
    build: &'static Build,
    lean: bool,
}

impl JavaScript {
    /// Creates the driver for QuickJS-NG 0.17.0, `qjs-wasi-reactor.wasm`.
    pub fn reactor() -> Self {
        Self { build: &REACTOR_0_17, lean: false }
    }

    /// Creates the driver for QuickJS-NG 0.11.0, `qjs-wasi.wasm`.
    pub fn command() -> Self {
        Self { build: &COMMAND_0_11, lean: false }
    }

    /// With `lean`, boots without Node's modules. Scripts then compile the modules that they use from `/data_js`.
    #[must_use]
    pub fn lean(self, lean: bool) -> Self {
        Self { lean, ..self }
    }
}

impl Boot for JavaScript {
    fn boot_args(&self) -> Vec<String> {
        vec!["quickjs".to_owned()]
    }

    /// Returns no variables: scripts see only variables that their caller set.
    fn boot_env(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn boot_code(&self) -> &[u8] {
        if self.lean { boot::CODE.as_bytes() } else { boot::WHOLE_CODE.as_bytes() }
    }

    fn boot(&self, machine: &mut dyn Machine) -> Result<Anchors, DriverError> {
        boot::boot(machine, self.build, self.lean)
    }

    /// Runs the code as in a session, so that every script sees the code's declarations.
    fn set_up(&self, machine: &mut dyn Machine, anchors: &Anchors, source: &str) -> Result<(), DriverError> {
        self.execute(machine, anchors, &Script::plain(source, SETUP_NAME))?.of_setup()
    }

    fn preload_code(&self, modules: &[String]) -> String {
        modules.iter().map(|module| format!("import {};\n", json!(module))).collect()
    }

    fn settle(&self, machine: &mut dyn Machine, anchors: Anchors) -> Result<Anchors, DriverError> {
        boot::settle(machine, &anchors, self.build)
    }
}

impl Driver for JavaScript {
    fn is_out_of_memory(&self, raised: &RaisedOutcome) -> bool {
        // If there is no memory for the error, the thrown value is an error without text, `null`, or `undefined`.
        let unsayable = raised.type_name == OUT_OF_MEMORY.0 && raised.message == "Invalid error message";
        let thrown_null = raised.type_name.is_empty() && matches!(raised.message.as_str(), "null" | "undefined");
        // The interpreter sometimes appends a location to the message.
        let (type_name, message) = OUT_OF_MEMORY;
        unsayable || thrown_null || (raised.type_name == type_name && raised.message.starts_with(message))
    }

    /// Seeds the state of `Math.random` in the context.
    fn reseed(&self, machine: &mut dyn Machine, anchors: &Anchors) -> Result<(), DriverError> {
        let mut seed = [0; 8];
        machine.fill_random(&mut seed)?;
        if seed == [0; 8] {
            // An xorshift generator never leaves the all-zero state.
            seed[0] = 1;
        }
        Ok(machine.write(anchors.get("random_state")?, &seed)?)
    }

    fn execute(
        &self,
        machine: &mut dyn Machine,
        anchors: &Anchors,
        script: &Script<'_>,
    ) -> Result<Report, DriverError> {
        let mut booted = BootedGuest::new(machine, anchors, self.build)?;
        let Some(max) = script.persisted_bytes else { return booted.execute(script) };
        let persisting = PersistState::begin(&mut booted, max)?;
        let report = booted.execute(script)?;
        persisting.end(&mut booted, &report, self)?;
        Ok(report)
    }

    fn interrupt(&self, anchors: &Anchors, interrupt: Interrupt) -> Result<Vec<InterruptWrite>, DriverError> {
        state::interrupt_writes(anchors, interrupt)
    }

    fn get_variable(
        &self,
        machine: &mut dyn Machine,
        anchors: &Anchors,
        name: &str,
    ) -> Result<Result<Option<GuestValue>, RaisedOutcome>, DriverError> {
        BootedGuest::new(machine, anchors, self.build)?.get_variable(name)
    }

    fn set_variable(
        &self,
        machine: &mut dyn Machine,
        anchors: &Anchors,
        name: &str,
        json: &str,
    ) -> Result<Result<(), RaisedOutcome>, DriverError> {
        BootedGuest::new(machine, anchors, self.build)?.set_variable(name, json)
    }

    fn validate(
        &self,
        machine: &mut dyn Machine,
        anchors: &Anchors,
        script: &Script<'_>,
    ) -> Result<Vec<Diagnostic>, DriverError> {
        let mut booted = BootedGuest::new(machine, anchors, self.build)?;
        // Parsing needs no imports. Without a loader, the parser opens no files.
        booted.guest.load_modules(false)?;
        let compiled = booted.compile(script)?;
        booted.guest.load_modules(true)?;
        Ok(match compiled {
            CompileOutcome::Program(program, _) => {
                booted.guest.free(program)?;
                Vec::new()
            }
            CompileOutcome::Failed(thrown, facts) => {
                booted.guest.free(thrown)?;
                if facts.is_missing_module() {
                    return Ok(Vec::new());
                }
                vec![facts.into_diagnostic(script)]
            }
            CompileOutcome::OutOfMemory => vec![Facts::out_of_memory().into_diagnostic(script)],
        })
    }

    /// Does nothing: JavaScript has no exit handlers, and every execution has already flushed its files.
    fn close(&self, _machine: &mut dyn Machine, _anchors: &Anchors) -> Result<(), DriverError> {
        Ok(())
    }
}

/// The properties of a pinned binary. Table slots are specific to the binary. Preparation calls each slot and checks
/// its effect, so a wrong slot is detected.
#[derive(Debug)]
struct Build {
    /// The function that runs the C library's constructors. `_start` and `qjs_init` are never called.
    initialise: &'static str,
    /// The function that installs the module loader. The length of `module_loader` determines its signature.
    set_module_loader: &'static str,
    /// The table slots of `js_module_loader` and, if the build has it, `js_module_check_attributes`.
    module_loader: &'static [u32],
    /// The table slot of `js_std_promise_rejection_tracker`.
    rejection_tracker: u32,
    /// `true` if the engine calls the boot scripts to find the names of callees for error messages.
    names_callees: bool,
    /// `true` if the engine has its own allocator for small blocks.
    has_arenas: bool,
}

/// The build `qjs-wasi-reactor.wasm` of QuickJS-NG 0.17.0.
static REACTOR_0_17: Build = Build {
    initialise: "_initialize",
    set_module_loader: "JS_SetModuleLoaderFunc2",
    module_loader: &[70, 71],
    rejection_tracker: 72,
    names_callees: true,
    has_arenas: true,
};

/// The build `qjs-wasi.wasm` of QuickJS-NG 0.11.0.
static COMMAND_0_11: Build = Build {
    initialise: "__wasm_call_ctors",
    set_module_loader: "JS_SetModuleLoaderFunc",
    module_loader: &[2],
    rejection_tracker: 3,
    names_callees: false,
    has_arenas: false,
};
