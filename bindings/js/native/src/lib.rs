//! The native module of the npm package `glovebox-sandbox`.
//!
//! The module is private to the package, whose TypeScript defines the public API. Values cross as strings, bytes and
//! JSON text, so that one place converts them to JavaScript values. Slow functions take a callback and run on threads
//! of their own: they block neither Node.js's thread nor the four threads of its pool.
//!
//! | module | contents |
//! |---|---|
//! | `threads` | work on other threads, with callbacks to JavaScript |
//! | `port` | the callbacks of executions, which are many and short, and tools that JavaScript answers |
//! | `sandbox` | the engine and the classes |
//! | `execution` | the input of an execution, its cancellation token, its result, and the files that it left |
//! | `error` | the conversion of the engine's errors to the package's |

mod error;
mod execution;
mod port;
mod sandbox;
mod threads;
