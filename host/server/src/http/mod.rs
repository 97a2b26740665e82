//! The sandbox API over HTTP and JSON.
//!
//! | route | |
//! |---|---|
//! | `POST /v1/execute`, `/v1/validate` | runs or checks a script in a new interpreter |
//! | `GET`, `POST /v1/sessions`; `PUT /v1/sessions/{id}` | lists, opens or imports sessions |
//! | `GET`, `DELETE /v1/sessions/{id}` | describes or closes a session |
//! | `POST /v1/sessions/{id}/execute`, `validate`, `fork`, `undo`, `checkpoint`, `hibernate` | operations on a session |
//! | `POST /v1/executions/{id}/continue`, `DELETE /v1/executions/{id}` | answers tool calls, or cancels an execution |
//! | `POST /v1/executions/{id}/suspend`, `/v1/executions/resume` | suspends an execution as bytes, or resumes it |
//! | `GET /v1/suspended`; `GET`, `POST`, `DELETE /v1/suspended/{id}` | suspended executions that the server stores |
//! | `GET /v1/sessions/{id}/checkpoints`, `state` | lists checkpoints, or exports a session |
//! | `GET`, `PUT /v1/sessions/{id}/variables/{name}` | reads or sets a global variable |
//! | `GET /v1/sessions/{id}/files`; `GET`, `PUT`, `DELETE /v1/sessions/{id}/files/{path}` | files of a session |
//! | `GET /v1/info`, `/v1/openapi.json`, `/metrics`, `/healthz`, `/readyz` | describes the server |
//!
//! [`HttpConfig`] can add the web page at `/` and the routes for E2B clients. [`serve()`] listens on a TCP port, and
//! [`serve_socket`] on a Unix socket to which only the current user can connect ([`SocketListener`]).
//!
//! Errors are problem documents (RFC 9457), whose `type` is the error's name in the contract if it has one. The outcome
//! of a script is never an error.

mod answer;
mod budget;
mod e2b;
mod execute;
mod guard;
mod idempotency;
mod output;
mod page;
mod parameters;
mod routes;
mod serve;
mod sessions;
#[cfg(unix)]
mod socket;
mod stored;
mod suspend;
mod tokens;
mod tools;
mod wire;

pub use answer::Problem;
pub(crate) use budget::{BodyBudget, PIECE_BYTES, ReadBody, charged_bytes, count_answer};
pub(crate) use guard::Names;
pub(crate) use idempotency::IdempotencyStore;
pub(crate) use parameters::{InPath, InQuery};
pub(crate) use routes::Shared;
#[cfg(unix)]
pub use routes::socket_router;
pub use routes::{document, router};
#[cfg(unix)]
pub use serve::serve_socket;
pub use serve::{BoundServer, HttpConfig, serve};
#[cfg(unix)]
pub use socket::{SocketError, SocketListener};
pub(crate) use tokens::Caller;
pub use tokens::{Tenants, TokenHash};
