//! Runs application components that use the sandbox. Applications have their own limits and can access only the system
//! resources that they are granted.
//!
//! ```no_run
//! use glovebox::{Engine, EngineConfig};
//! use glovebox_component_host::SandboxHost;
//! use glovebox_component_runner::{AppConfig, Applications};
//!
//! let engine = Engine::new(EngineConfig::default())?;
//! let host = SandboxHost::builder(&engine).build()?;
//! let application = Applications::new(&engine)?.load("app.wasm")?;
//! let mut config = AppConfig::default();
//! config.args = vec!["app".into(), "--all".into()];
//! let ended = application.run(&host, &config)?;
//! println!("{} with {} units of fuel", ended.outcome.describe(), ended.fuel_consumed);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Main types:
//!
//! * [`Applications`]: loads components, compiled once and stored in the engine's cache.
//! * [`Application`]: a component that may import WASI 0.2 and `glovebox:sandbox`, in version 0.2.0 or the asynchronous
//!   draft of version 0.3.0. [`run`](Application::run) it as a command, or [`invoke`](Application::invoke) one of
//!   its exports, each time in a new instance.
//! * [`AppConfig`]: arguments, streams, [`AppLimits`], and grants. Nothing is granted by default.
//! * [`AppReport`]: outcome ([`AppOutcome`]) and resource usage.
//! * [`Compiler`]: compiles untrusted components in a child process, within [`CompileLimits`].
//! * [`ToolsComponent`]: a component whose exported tools scripts can call.
//!
//! # Access without grants
//!
//! An application can read the host's clocks, read random numbers from the system's generator, and set timers, which
//! end with its wall-clock limit. All other WASI functions report an absent or forbidden resource. No directory is
//! open, no address can be used, and name lookup fails. The environment and standard input are empty. Output is
//! discarded.
//!
//! # Compilation cost
//!
//! A component is rejected before Wasmtime reads it if compiling it would cost far more than its size suggests.
//! [`LoadError::Excess`] lists the limits. The check counts instances, canonical ABI functions, and the items passed
//! between them. The counts are those of Wasmtime's own instantiation, including arguments and closures. The initial
//! table size is limited as well.
//!
//! The check limits the size of the compiled component, but not the time that Cranelift and the validator need.
//! Measurements on two cores, for files that pass the check:
//!
//! | a component with | bytes | CPU time | memory |
//! |---|---|---|---|
//! | 500 nested loops that change 2,000 local variables | 21 KB | 12 s | 1.5 GB |
//! | 1,000 such loops and 5,000 local variables | 52 KB | over 40 s | over 7 GB |
//! | 1,000 empty functions with 50,000 local variables | 8 KB | 3 s | 40 MB |
//! | 100,000 empty functions | 400 KB | 6 s | 600 MB |
//! | 100,000 function types | 2.3 MB | 10 s | 830 MB |
//! | 1,000,000 elements in a passive segment | 1 MB | 10 s | 2.3 GB |
//! | 900 instances whose arguments have types with 2^17 parts | 51 KB | 22 s | 140 MB |
//! | 200,000 globals that reference a function | 1 MB | none: Cranelift panics | |
//!
//! The size of a file and the number of its items do not predict this cost. Compile untrusted components in a child
//! process with memory and time limits: see [`Compiler`]. A compiled component is at most 1 GiB long.
//!
//! # Not protected
//!
//! * Granted access: a writable directory has no quota, and the network includes everything that this machine can
//!   reach, including the machine itself.
//! * Flaws in Wasmtime's sandbox or in the CPU, which affect guests as well: see [`glovebox`].
//! * Compilation time and memory in this process without a [`Compiler`]. `glovebox run-component` uses one.

mod applications;
mod compiler;
mod config;
mod outcome;
mod preflight;
mod run;
mod store;
mod tools;
mod watch;

pub use applications::{Application, Applications};
pub use compiler::{CompileLimits, Compiler, compile_stdin, transform_stdin};
pub use config::{AppConfig, AppLimits, Directory, DirectoryError, Input, Output, OutputBuffer};
pub use outcome::{AppOutcome, AppReport, InvokeError, LoadError, RunError};
pub use run::Export;
pub use tools::ToolsComponent;
