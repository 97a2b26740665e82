//! The native module of the npm package `glovebox-sandbox`.
//!
//! The module is private to the package, whose TypeScript code defines the public API. Script values are passed as JSON
//! text, which only the TypeScript code converts. Slow functions take a callback and run on separate threads. They
//! block neither Node.js's main thread nor its pool of four threads.
//!
//! | module | contents |
//! |---|---|
//! | `threads` | work on other threads, with callbacks to JavaScript |
//! | `sandbox` | the engine, sandboxes and sessions |
//! | `execution` | the input, callbacks, cancellation token, result and files of an execution |
//! | `started` | executions whose tool calls JavaScript answers, and their suspension |
//! | `error` | the conversion of the engine's errors to the package's errors |

mod error;
mod execution;
mod sandbox;
mod started;
mod threads;
