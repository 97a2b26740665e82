//! Runs application components that use the sandbox, within limits of their own and with nothing of the system that they were
//! not granted.
//!
//! ```no_run
//! use glovebox::{Engine, EngineConfig, component::SandboxHost};
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
//! The types to know:
//!
//! * [`Applications`]: loads components, compiled once and stored in the engine's cache.
//! * [`Application`]: a component that may import `glovebox:sandbox` and WASI 0.2; [`run`](Application::run) it as a command, or
//!   [`invoke`](Application::invoke) one of its exports. Each is a new instance.
//! * [`AppConfig`]: its arguments, streams, [`AppLimits`], and what it is granted of the system: nothing by default.
//! * [`Ended`]: what it did ([`AppOutcome`]) and used.
//! * [`Compiler`]: compiles strangers' components in a process of its own, within [`CompileLimits`].
//! * [`ToolsComponent`]: a component whose exported tools scripts may call.
//!
//! # What an application has without being granted anything
//!
//! The host's clocks, and random numbers from the system's generator. Timers, which end with its wall-clock limit. Everything else of
//! WASI answers that it is not there or not permitted: no directory is open, no address may be used, no name is looked up, the
//! environment is empty, standard input is at its end and output goes nowhere.
//!
//! # What compiling takes
//!
//! A component is refused before Wasmtime reads it where compiling it would be out of all proportion: [`LoadError::Excess`] has the
//! limits. What its instances, the functions of the canonical ABI and what these hand each other multiply to is counted as Wasmtime
//! would carry it out, arguments and closures included, and its tables may not begin with millions of elements.
//!
//! That bounds what is made of a component, not how long Cranelift and the validator work. Measured on two cores, of files that are admitted:
//!
//! | a component with | bytes | CPU time | memory |
//! |---|---|---|---|
//! | 500 loops within each other that change 2,000 local variables | 21 KB | 12 s | 1.5 GB |
//! | 1,000 such loops and 5,000 variables | 52 KB | over 40 s | over 7 GB |
//! | 1,000 empty functions of 50,000 local variables | 8 KB | 3 s | 40 MB |
//! | 100,000 empty functions | 400 KB | 6 s | 600 MB |
//! | 100,000 function types | 2.3 MB | 10 s | 830 MB |
//! | 1,000,000 elements in a passive segment | 1 MB | 10 s | 2.3 GB |
//! | 900 instances whose arguments have types of 2^17 parts | 51 KB | 22 s | 140 MB |
//! | 200,000 globals that refer to a function | 1 MB | none: Cranelift panics | |
//!
//! Nothing in such a file says so beforehand. So a stranger's component is compiled in a process of its own with limits on memory
//! and time: [`Compiler`]. What comes out of it is at most 1 GiB.
//!
//! //! # What it does not protect against
//!
//! * What is granted: a directory that may be written to has no quota, and the network is all that this machine reaches, itself
//!   included.
//! * Flaws in Wasmtime's sandbox or in the CPU, as for the guests: see [`glovebox`].
//! * The time and memory of compiling a component in this process, where no [`Compiler`] is given; `glovebox run-component` gives one.

mod applications;
mod compiler;
mod config;
mod ended;
mod engine;
mod error;
mod exports;
mod grants;
mod invoke;
mod limiter;
mod limits;
mod preflight;
mod run;
mod state;
mod tools;
mod watch;

pub use applications::{Application, Applications};
pub use compiler::{CompileLimits, Compiler, compile_stdin, transform_stdin};
pub use config::{AppConfig, Input, Output, OutputBuffer};
pub use ended::{AppOutcome, Ended};
pub use error::{InvokeError, LoadError, RunError};
pub use exports::Export;
pub use grants::{Directory, DirectoryError};
pub use limits::AppLimits;
pub use tools::ToolsComponent;
