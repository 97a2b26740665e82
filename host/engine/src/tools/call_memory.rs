//! The memory for the data of one tool call, in the process that runs its handler.

use std::{fmt, sync::Arc};

use super::{ReservedMemory, ToolMemory};

/// The memory budget of a process that answers the calls of many scripts
/// ([`RelayedCall::budget`](super::RelayedCall::budget)).
pub trait MemoryBudget: fmt::Debug + Send + Sync {
    /// Charges another `bytes` for the call. Returns `false`, and charges nothing, if the budget is exhausted. The
    /// owner of the budget releases the bytes after the call.
    fn charge(&self, bytes: u64) -> bool;
}

/// The memory available to a handler: the execution's remaining memory (`limits.memory_bytes`), and a budget of the
/// process, if there is one.
#[derive(Clone, Debug)]
pub struct CallMemory {
    account: Arc<ToolMemory>,
    budget: Option<Arc<dyn MemoryBudget>>,
}

/// The error for insufficient memory for a handler's data. The error text continues a sentence whose subject is the
/// data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallMemoryError {
    /// The data does not fit into the execution's memory.
    #[error("does not fit into the remaining `limits.memory_bytes`; read earlier responses first")]
    Limit,
    /// The data does not fit into the budget of the process.
    #[error("does not fit into the server's memory; try again later, or request less")]
    Budget,
}

impl CallMemory {
    /// Combines the memory of an execution's calls with a budget of the process.
    #[must_use]
    pub fn new(account: Arc<ToolMemory>, budget: Option<Arc<dyn MemoryBudget>>) -> Self {
        Self { account, budget }
    }

    /// Reserves `bytes` of the execution's memory until the returned value is dropped, and charges them to the budget.
    ///
    /// # Errors
    /// Fails if too little of the execution's memory or of the budget is left.
    pub fn hold(&self, bytes: u64) -> Result<ReservedMemory, CallMemoryError> {
        let held = self.account.hold(bytes).ok_or(CallMemoryError::Limit)?;
        match &self.budget {
            Some(budget) if !budget.charge(bytes) => Err(CallMemoryError::Budget),
            _ => Ok(held),
        }
    }
}
