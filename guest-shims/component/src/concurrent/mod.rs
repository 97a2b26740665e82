//! Version 0.3.0 of the contract, whose functions are asynchronous.
//!
//! The provider runs one execution at a time. Its guest has a stack in the component, so the execution's task blocks while
//! it waits, and the component model starts no other asynchronous call of the component meanwhile. Other components
//! continue to run, such as the callers and the tools that the execution waits for. They can call the synchronous
//! functions of the contract meanwhile. If a tool waits for an asynchronous function, it waits until the timeout of its
//! call: the provider cannot detect this, because it does not see a call that has not started.
//!
//! * `blocking`: waits of the running task.
//! * `imports`: the clocks and the tools.
//! * `streams`: the streams that the provider returns and reads.
//! * `entry`: the exports.
//!
//! A task cannot observe its cancellation while it blocks, because the component model delivers cancellations to idle
//! tasks only. A dropped call to `execute` therefore ends when its script ends. A dropped `started`, in contrast, cancels
//! its script at the next wait or slice of fuel. A tool's timeout takes effect when the tool has reacted to the
//! cancellation, because hosts do not enable the asynchronous form of `subtask.cancel` by default.

mod blocking;
mod entry;
pub(super) mod imports;
mod streams;
