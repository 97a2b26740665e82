//! Runs application components that use the sandbox, within limits of their own and with nothing of the system that they were
//! not granted.
//!
//! ```no_run
//! use glovebox::{Engine, EngineConfig, component::SandboxHost};
//! use glovebox_application::{AppConfig, Applications};
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
//! * [`Applications`]: loads components, compiled once and kept in the engine's cache.
//! * [`Application`]: a component that may import `glovebox:sandbox` and WASI 0.2; [`run`](Application::run) it as a command, or
//!   [`invoke`](Application::invoke) one of its exports. Each is a new instance.
//! * [`AppConfig`]: its arguments, streams, [`AppLimits`], and what it is granted of the system: nothing by default.
//! * [`Ended`]: what it did ([`AppOutcome`]) and used.
//! * [`ToolsComponent`]: a component whose exported tools scripts may call.
//!
//! # What an application has without being granted anything
//!
//! The host's clocks, and random numbers from the system's generator. Timers, which end with its wall-clock limit. Everything else of
//! WASI answers that it is not there or not permitted: no directory is open, no address may be used, no name is looked up, the
//! environment is empty, standard input is at its end and output goes nowhere.
//!
//! # What it does not protect against
//!
//! * What is granted: a directory that may be written to has no quota, and the network is all that this machine reaches, itself
//!   included.
//! * Flaws in Wasmtime's sandbox or in the CPU, as for the guests: see [`glovebox`].
//! * The time and memory of compiling a component: what is known to be out of proportion is refused beforehand, the rest only the
//!   size of its file bounds.

mod applications;
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
pub use config::{AppConfig, Input, Output, OutputBuffer};
pub use ended::{AppOutcome, Ended};
pub use error::{InvokeError, LoadError, RunError};
pub use exports::Export;
pub use grants::{Directory, DirectoryError};
pub use limits::AppLimits;
pub use tools::ToolsComponent;
