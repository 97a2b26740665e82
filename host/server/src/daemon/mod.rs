//! JSON-RPC 2.0 over a socket of the user's own, or over standard input and output: the daemon of programs on this machine.
//!
//! * [`Daemon`]: sessions in memory for any number of connections, over a [`Tenant`](crate::Tenant).
//! * [`Listener`]: the socket, which only its user may connect to. [`serve`] answers there, [`serve_stdio`] one client.
//! * [`DaemonConfig`]: bounds of what clients may do.
//!
//! A message is a line of JSON, either way. Scripts ask the client: `llm_query`, `rlm_query` and `tool` are requests of the server's.
//!
//! | file | what it is |
//! |---|---|
//! | `connection` | one client: reads messages, and begins what they ask for |
//! | `message`, `params`, `rpc` | what messages are, and what is wrong with them |
//! | `lines`, `outbox` | how they come and go, in bounded memory |
//! | `methods` | what is asked |
//! | `sessions`, `slot`, `worker` | a client's sessions, whose turn it is in one, and the interpreters that are ready for them |
//! | `peer`, `router` | what scripts ask the client |
//! | `socket`, `pipe`, `serve` | where clients come from |

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
