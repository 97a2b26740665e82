//! The adapter component: the routes of `glovebox serve` over `glovebox:sandbox`, for hosts that run components.
//!
//! The adapter exports `wasi:http/incoming-handler` and imports the sandbox. Composed with a provider, it is one
//! component for any host that lets components answer HTTP requests. No state remains between requests: a session is
//! its sealed state, which the client carries.
//!
//! * [`entry`] implements the component's export; everything else compiles on any target and is tested natively.
//! * `router` selects the handler of a request, in `scripts`, after the access checks.
//! * `policy` reads the operator's settings from environment variables, and checks requests against the grant.
//! * `wire` has the bodies of requests, `answer` the JSON form of executions, and `http` the answers and errors.
//!
//! The adapter protects the operator from clients: it enforces sizes and the policy, and rejects states that it did not
//! seal. The provider confines scripts. The adapter's memory, which holds the key, is separate from the provider's:
//! neither scripts nor interpreters can reach it.

mod answer;
pub mod bindings;
pub mod entry;
mod http;
mod policy;
mod router;
mod scripts;
mod wire;
