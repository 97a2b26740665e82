//! The native module of the npm package `glovebox-sandbox`.
//!
//! It is private to the package, whose TypeScript says what users see. Values cross as strings, bytes and JSON text, so that there is one
//! place that turns them into JavaScript's. What takes time takes a callback, and runs on a thread of its own: Node.js's thread never
//! waits, and neither do the four of its pool.
//!
//! | module | what is in it |
//! |---|---|
//! | `job` | work on another thread, and what JavaScript is told of it |
//! | `port` | the same for executions, which are many and short |
//! | `threads` | the threads for that |
//! | `engine`, `sandbox`, `session`, `execution`, `token` | the classes |
//! | `left_files` | the files that an execution left |
//! | `input`, `tool` | what JavaScript gives for an execution, and for a tool |
//! | `error` | the package's errors for the engine's |

mod engine;
mod error;
mod execution;
mod input;
mod job;
mod left_files;
mod port;
mod sandbox;
mod session;
mod threads;
mod token;
mod tool;
