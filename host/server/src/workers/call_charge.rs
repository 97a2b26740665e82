//! Memory charged for the calls that the server answers for workers.

use std::sync::Arc;

use glovebox::MemoryBudget;
use parking_lot::Mutex;

use super::peer::ReplyBudget;
use crate::byte_budget::{BudgetExhausted, ChargedBytes};

/// Number of copies of a call's arguments in memory: the text, the parsed request, and the body to send.
const COPIES_OF_ARGUMENTS: usize = 3;
/// The estimated memory of a call's thread, connection and headers, in bytes.
const CALL_BYTES: usize = 128 << 10;

/// Memory charged for a tool call or a network request. Includes the call itself, the data that its handler reads, and
/// the result until it is sent to the worker.
#[derive(Debug)]
pub(super) struct CallCharge {
    /// `None` if the service has no budget.
    budget: Option<ReplyBudget>,
    charged: Mutex<ChargedSize>,
}

#[derive(Debug, Default)]
struct ChargedSize {
    bytes: usize,
    held: ChargedBytes,
}

impl CallCharge {
    /// Charges a call with arguments of this length. Fails if the budget has no room.
    pub(super) fn begin(budget: Option<ReplyBudget>, arguments_bytes: usize) -> Result<Arc<Self>, BudgetExhausted> {
        let charge = Self { budget, charged: Mutex::default() };
        charge.grow(CALL_BYTES + COPIES_OF_ARGUMENTS * arguments_bytes)?;
        Ok(Arc::new(charge))
    }

    /// Returns the memory for a result of this length and releases the rest. Fails if the budget has no room.
    pub(super) fn settle(&self, result_bytes: usize) -> Result<ChargedBytes, BudgetExhausted> {
        let held = std::mem::take(&mut self.charged.lock().held);
        match &self.budget {
            Some(ReplyBudget { bytes, tenant }) => bytes.try_resize(Some(tenant), held, result_bytes),
            None => Ok(held),
        }
    }

    fn grow(&self, more: usize) -> Result<(), BudgetExhausted> {
        let Some(ReplyBudget { bytes, tenant }) = &self.budget else { return Ok(()) };
        let mut charged = self.charged.lock();
        let total = charged.bytes.saturating_add(more);
        let room = bytes.try_room(Some(tenant), total.saturating_sub(charged.held.bytes()))?;
        charged.held.join(room);
        charged.bytes = total;
        Ok(())
    }
}

impl MemoryBudget for CallCharge {
    fn charge(&self, bytes: u64) -> bool {
        usize::try_from(bytes).is_ok_and(|bytes| self.grow(bytes).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::byte_budget::ByteBudget;

    #[test]
    fn a_call_is_charged_until_its_result_is_dropped() {
        let bytes = ByteBudget::new(1 << 20, Duration::ZERO, []);
        let budget = Some(ReplyBudget { bytes: bytes.clone(), tenant: "a".to_owned() });
        let used = || (1 << 20) - bytes.free_bytes(None);
        let charge = CallCharge::begin(budget.clone(), 1 << 10).unwrap();
        assert_eq!(used(), CALL_BYTES + 3 * (1 << 10));
        // Many small charges take no more of the budget than one charge of their total size.
        for _ in 0..(512 << 10) {
            assert!(charge.charge(1));
        }
        assert_eq!(used(), CALL_BYTES + (515 << 10));
        assert!(!charge.charge(512 << 10), "the budget is full");
        assert!(CallCharge::begin(budget.clone(), 512 << 10).is_err());
        let held = charge.settle(512 << 10).unwrap();
        assert_eq!(used(), 512 << 10);
        drop((charge, held));
        assert_eq!(used(), 0);
        // A tool can return more than its handler has charged.
        let charge = CallCharge::begin(budget.clone(), 0).unwrap();
        assert_eq!(charge.settle(1 << 20).unwrap().bytes(), 1 << 20);
        let charge = CallCharge::begin(budget, 0).unwrap();
        let _other = bytes.try_room(None, 512 << 10).unwrap();
        assert!(charge.settle(600 << 10).is_err());
        assert_eq!(used(), 512 << 10, "the call's memory must be released");
    }
}
