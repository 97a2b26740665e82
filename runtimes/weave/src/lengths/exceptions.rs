//! Exceptions in control flow.

use wasmparser::{Catch, TryTable};

use super::reader::{Kind, Reader};
use crate::{landings, values::Origin};

impl Reader<'_> {
    /// Enters a `try_table`. Each clause gets a block that calls lead to and that leads to the clause's label.
    pub(super) fn enter_try(&mut self, of: &TryTable) {
        let (params, results) = self.block_type(of.ty);
        let (body, next, results) = (self.values.block(), self.values.block(), self.fresh(results.len()));
        self.values.jump(self.at, body);
        self.values.seal(body);
        let around = self.handlers.len();
        // Wasmtime adds the handlers in reverse order.
        for catch in of.catches.iter().rev() {
            let handler = self.values.block();
            self.at = handler;
            let height = self.stack.len();
            for _ in 0..self.carried(catch) {
                self.push(Origin::Computed);
            }
            self.branch(landings::label(catch));
            self.stack.truncate(height);
            self.handlers.push(handler);
        }
        self.enter(Kind::Try { around }, next, results, params.len());
        self.at = body;
    }

    /// Returns the number of values that a clause carries to its label.
    fn carried(&self, catch: &Catch) -> usize {
        match catch {
            Catch::One { tag, .. } => self.module.tag_values(*tag),
            Catch::OneRef { tag, .. } => self.module.tag_values(*tag).saturating_add(1),
            Catch::All { .. } => 0,
            Catch::AllRef { .. } => 1,
        }
    }

    /// Follows a call, which returns or goes to one of the handlers.
    pub(super) fn may_throw(&mut self) {
        if self.handlers.is_empty() {
            return;
        }
        let next = self.values.block();
        for handler in self.handlers.iter().rev() {
            self.values.jump(self.at, *handler);
        }
        self.values.jump(self.at, next);
        self.values.seal(next);
        self.at = next;
    }

    /// Leaves a `try_table` inside `around` handlers, and seals its own handlers.
    pub(super) fn seal_handlers(&mut self, around: usize) {
        for handler in self.handlers.split_off(around.min(self.handlers.len())) {
            self.values.seal(handler);
        }
    }
}
