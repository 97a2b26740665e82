//! A JSON-RPC 2.0 daemon for programs on this machine, over a socket of the user or over standard input and output.
//!
//! * [`Daemon`]: in-memory sessions for any number of connections, over a [`Tenant`](crate::Tenant).
//! * [`Listener`]: the socket, which only its user can connect to. [`serve`] serves its clients, [`serve_stdio`] a
//!   single client.
//! * [`DaemonConfig`]: limits on clients.
//!
//! A message is a line of JSON. Scripts call the client: `llm_query`, `rlm_query` and `tool` are requests from the
//! daemon.
//!
//! | file | contents |
//! |---|---|
//! | `connection` | dispatch of the messages of one client |
//! | `message`, `params`, `rpc` | messages, parameters and errors |
//! | `lines`, `outbox` | reading and writing of messages in bounded memory |
//! | `methods` | the methods |
//! | `sessions`, `slot`, `worker` | sessions of a client, the queue of each, and interpreters that are started ahead |
//! | `peer`, `router` | calls from scripts to the client |
//! | `socket`, `pipe`, `serve` | connections of clients |

mod config;
mod connection;
mod lines;
mod message;
mod methods;
mod outbox;
mod params;
mod peer;
#[cfg(windows)]
mod pipe;
mod router;
mod rpc;
mod serve;
mod sessions;
mod shared;
mod slot;
#[cfg(unix)]
mod socket;
mod worker;

pub use config::DaemonConfig;
#[cfg(windows)]
pub use pipe::{Listener, serve};
pub use serve::serve_stdio;
#[cfg(unix)]
pub use serve::{serve, serve_stream};
pub use shared::Daemon;
#[cfg(unix)]
pub use socket::{Listener, SocketError};
