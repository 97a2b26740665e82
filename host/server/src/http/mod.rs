//! The contract as HTTP and JSON.
//!
//! | route | |
//! |---|---|
//! | `POST /v1/execute`, `/v1/validate` | runs or checks a script in a new interpreter |
//! | `GET`, `POST /v1/sessions`; `PUT /v1/sessions/{id}` | lists, opens, imports sessions |
//! | `GET`, `DELETE /v1/sessions/{id}` | describes, closes a session |
//! | `POST /v1/sessions/{id}/execute`, `fork`, `undo`, `checkpoint`, `hibernate` | operations on a session |
//! | `POST /v1/executions/{id}/continue`, `DELETE /v1/executions/{id}` | answers tool calls, cancels |
//! | `GET /v1/sessions/{id}/checkpoints`, `state` | lists checkpoints, exports a session |
//! | `GET`, `PUT /v1/sessions/{id}/variables/{name}` | reads, sets a global variable |
//! | `GET /v1/sessions/{id}/files`; `GET`, `PUT`, `DELETE /v1/sessions/{id}/files/{path}` | files of a session |
//! | `GET /v1/info`, `/v1/openapi.json`, `/metrics`, `/healthz`, `/readyz` | describes the server |
//!
//! Errors are problem documents (RFC 9457), whose `type` is the contract's name of the error. The outcome of a script
//! is never an error.

mod answer;
mod budget;
mod caller;
mod config;
mod counted;
mod e2b;
mod execute;
mod forward;
mod forwarded;
mod from_parent;
mod guard;
mod idempotency;
mod if_match;
mod in_path;
mod names;
mod openapi;
mod output;
mod page;
mod problem;
mod read_body;
mod routes;
mod serve;
mod session_lists;
mod sessions;
mod shared;
mod status;
mod stepping;
mod tokens;
mod tools;
mod wire;

pub(crate) use budget::{BodyBudget, PIECE_BYTES, ReadBody, counted};
pub(crate) use caller::Caller;
pub use config::HttpConfig;
pub(crate) use counted::count_answer;
pub(crate) use idempotency::Answered;
pub(crate) use in_path::{InPath, session_id};
pub(crate) use names::Names;
pub use openapi::document;
pub use problem::Problem;
pub use routes::router;
pub(crate) use routes::worker_router;
pub use serve::{Bound, serve};
pub(crate) use shared::Shared;
pub use tokens::{Tenants, TokenHash};
