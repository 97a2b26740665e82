//! Adapter component that provides the routes of `glovebox serve` over `glovebox:sandbox`, for hosts that run
//! components.
//!
//! The adapter exports `wasi:http/incoming-handler` and imports the sandbox. When it is composed with a provider, the
//! result is one component for any host that lets components answer HTTP requests. No state remains between requests:
//! the client stores a session's sealed state and sends it with each request.
//!
//! * [`entry`] implements the component's export. All other modules compile on any target and are tested natively.
//! * `router` checks access and selects the request's handler in `scripts`.
//! * `policy` reads the operator's settings from environment variables, and checks requests against the grant.
//! * `wire` defines request bodies, `answer` the JSON form of executions, and `http` responses and errors.
//!
//! The adapter protects the operator from clients: it enforces sizes and the policy, and rejects states that it did not
//! seal. The provider confines scripts. The key is in the adapter's memory, which is separate from the provider's
//! memory: neither scripts nor interpreters can access it.

mod answer;
pub mod bindings;
pub mod entry;
mod http;
mod policy;
mod router;
mod scripts;
mod wire;
