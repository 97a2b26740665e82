//! The adapter component: the routes of `glovebox serve` over `glovebox:sandbox`, for hosts that run components.
//!
//! It exports `wasi:http/incoming-handler` and imports the sandbox. Composed with a provider it is one component that runs
//! wherever a component can answer HTTP requests. Nothing stays from one request to the next: a session is its state,
//! which the client carries, sealed.
//!
//! * [`entry`] is what the component exports; everything else compiles anywhere, and is tested where it is developed.
//! * `router` finds what answers a request: `scripts` or `sessions`, for whom `access` lets in.
//! * `settings` are what the operator says, in environment variables. `policy` holds requests to what is granted.
//! * `wire` is what requests say, `answer` what executions are as JSON. `problem` is why a request was not carried out.
//!
//! The adapter protects the operator from the client: sizes, the policy, and states that it did not seal. What scripts may do is
//! the provider's to hold. Memory of its own, which has the key, is not the provider's: neither scripts nor interpreters
//! reach it.

mod access;
mod answer;
pub mod bindings;
mod convert;
pub mod entry;
#[cfg(target_family = "wasm")]
mod export;
mod http;
mod policy;
mod problem;
mod router;
mod scripts;
mod sessions;
mod settings;
mod wire;
