//! The native module of the npm package `glovebox-sandbox`.
//!
//! The module is private to the package, whose TypeScript defines the public API. Values of scripts cross as JSON text,
//! which only the TypeScript converts. Slow functions take a callback and run on separate
//! threads. They block neither Node.js's main thread nor its pool of four threads.
//!
//! | module | contents |
//! |---|---|
//! | `threads` | work on other threads, with callbacks to JavaScript |
//! | `sandbox` | the engine and the classes |
//! | `execution` | the input of an execution, its callbacks, its cancellation token, its result, and the files that it left |
//! | `started` | executions whose tool calls JavaScript answers, and their suspension |
//! | `error` | the conversion of the engine's errors to the package's |

mod error;
mod execution;
mod sandbox;
mod started;
mod threads;
