//! Models the control flow of a function, including exceptions, and the values that branches pass to blocks.

use wasmparser::{BlockType, Catch, TryTable, ValType};

use crate::{
    guest::{Module, index},
    reach,
    values::{Block, Origin, Value, Values, Variable},
};

pub(super) struct Reader<'m> {
    pub(super) module: &'m Module<'m>,
    pub(super) imported_globals: usize,
    pub(super) values: Values,
    pub(super) variables: Variable,
    pub(super) at: Block,
    pub(super) is_live: bool,
    pub(super) stack: Vec<Value>,
    pub(super) frames: Vec<OpenBlock>,
    /// Handlers for exceptions that a call at the current position may throw.
    pub(super) handlers: Vec<Block>,
}

/// An open block, with the data for its `else` and `end`.
pub(super) struct OpenBlock {
    pub(super) kind: BlockKind,
    /// The block after the `end`, and the variables that this block receives.
    pub(super) next: Block,
    pub(super) results: Vec<Variable>,
    /// The height of the operand stack below the block's parameters.
    pub(super) height: usize,
    pub(super) entered_live: bool,
    pub(super) branched: bool,
}

pub(super) enum BlockKind {
    Block,
    /// A `try_table`. `around` is the number of handlers outside it.
    Try {
        around: usize,
    },
    /// Branches go to the header.
    Loop {
        header: Block,
        params: Vec<Variable>,
    },
    If {
        /// The block that tests the condition.
        head: Block,
        /// The block for a false condition. `None` if the parameter and result types are equal, because an `else` is
        /// then optional. Unless an `else` follows, a false condition branches to the end.
        else_block: Option<Block>,
        params: Vec<Value>,
    },
    Else {
        then_live: bool,
    },
}

impl OpenBlock {
    /// Returns the block that branches target, and the variables that they pass.
    pub(super) fn target(&self) -> (Block, &[Variable]) {
        match &self.kind {
            BlockKind::Loop { header, params } => (*header, params),
            _ => (self.next, &self.results),
        }
    }
}

impl Reader<'_> {
    /// Models a fuel check and the epoch check after it. The checks change no values, but add blocks between a
    /// variable's definition and its use. These blocks affect whether a loop header is visited.
    pub(super) fn check(&mut self) {
        self.add_chain(1);
        self.add_chain(2);
    }

    /// Adds a chain of `blocks` blocks and the block after the chain. Each block in the chain can branch to the block
    /// after the chain.
    pub(super) fn add_chain(&mut self, blocks: usize) {
        let next = self.values.block();
        for _ in 0..blocks {
            let way = self.values.block();
            // The order matters, because Cranelift queries predecessors in declaration order.
            self.values.jump(self.at, way);
            self.values.jump(self.at, next);
            self.values.seal(way);
            self.at = way;
        }
        self.values.jump(self.at, next);
        self.values.seal(next);
        self.at = next;
    }

    pub(super) fn new_variables(&mut self, count: usize) -> Vec<Variable> {
        let first = self.variables;
        self.variables = self.variables.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        (first..self.variables).collect()
    }

    pub(super) fn enter(&mut self, kind: BlockKind, next: Block, results: Vec<Variable>, params: usize) {
        let height = self.stack.len().saturating_sub(params);
        self.frames.push(OpenBlock { kind, next, results, height, entered_live: self.is_live, branched: false });
    }

    /// Defines the variables that a block receives from the operand stack, and jumps to the block.
    pub(super) fn jump(&mut self, to: Block, carried: &[Variable]) {
        for (variable, value) in carried.iter().zip(self.top(carried.len())) {
            self.values.define(*variable, self.at, value);
        }
        self.values.jump(self.at, to);
    }

    /// Continues in a block whose predecessors are all known, with the given variables on the operand stack.
    pub(super) fn begin(&mut self, block: Block, given: &[Variable]) {
        self.at = block;
        for variable in given {
            let value = self.values.find(*variable, block);
            self.stack.push(value);
        }
    }

    /// Models a branch to its target.
    pub(super) fn branch(&mut self, relative_depth: u32) {
        let Some(frame) = self.frames.iter_mut().nth_back(index(relative_depth)) else { return };
        frame.branched = true;
        let (to, carried) = (frame.target().0, frame.target().1.to_vec());
        self.jump(to, &carried);
    }

    pub(super) fn has_values(&self, relative_depth: u32) -> bool {
        self.frames.iter().nth_back(index(relative_depth)).is_some_and(|frame| !frame.target().1.is_empty())
    }

    pub(super) fn block_type(&self, of: BlockType) -> (Vec<ValType>, Vec<ValType>) {
        match of {
            BlockType::Empty => (vec![], vec![]),
            BlockType::Type(result) => (vec![], vec![result]),
            BlockType::FuncType(number) => {
                let of = self.module.types.get(index(number));
                of.map_or_else(Default::default, |of| (of.params().to_vec(), of.results().to_vec()))
            }
        }
    }

    pub(super) fn enter_loop(&mut self, of: BlockType) {
        let (params, results) = self.block_type(of);
        let (header, next) = (self.values.block(), self.values.block());
        let (taken, results) = (self.new_variables(params.len()), self.new_variables(results.len()));
        self.jump(header, &taken);
        self.enter(BlockKind::Loop { header, params: taken.clone() }, next, results, params.len());
        self.stack.truncate(self.stack.len().saturating_sub(params.len()));
        self.begin(header, &taken);
        self.check();
    }

    pub(super) fn enter_if(&mut self, of: BlockType) {
        self.stack.pop();
        let (params, results) = self.block_type(of);
        let (then, next, given) = (self.values.block(), self.values.block(), self.new_variables(results.len()));
        let head = self.at;
        // If the parameters equal the results, `else` is optional. Unless an `else` follows, a false condition branches
        // to the end.
        let else_block = if params == results {
            self.jump(next, &given);
            None
        } else {
            let block = self.values.block();
            self.values.jump(head, block);
            self.values.seal(block);
            Some(block)
        };
        self.values.jump(head, then);
        self.values.seal(then);
        let params_held = self.top(params.len());
        self.enter(BlockKind::If { head, else_block, params: params_held }, next, given, params.len());
        self.at = then;
    }

    pub(super) fn enter_else(&mut self) {
        let then_live = self.is_live;
        let Some(frame) = self.frames.last_mut() else { return };
        if !frame.entered_live {
            return;
        }
        let kind = std::mem::replace(&mut frame.kind, BlockKind::Else { then_live });
        let BlockKind::If { head, else_block, params } = kind else { return };
        let (next, results, height) = (frame.next, frame.results.clone(), frame.height);
        if then_live {
            self.jump(next, &results);
        }
        self.stack.truncate(height);
        self.stack.extend(params);
        let block = else_block.unwrap_or_else(|| {
            let block = self.values.block();
            self.values.move_jump(head, next, block);
            self.values.seal(block);
            block
        });
        self.at = block;
        self.is_live = true;
    }

    pub(super) fn end(&mut self) {
        let Some(frame) = self.frames.pop() else { return };
        if !frame.entered_live {
            return;
        }
        let is_reached_otherwise = match frame.kind {
            BlockKind::Block | BlockKind::Try { .. } => frame.branched,
            // Branches target the loop's header, not its end.
            BlockKind::Loop { .. } => false,
            BlockKind::If { .. } => true,
            BlockKind::Else { then_live } => frame.branched || then_live,
        };
        let goes_on = self.is_live || is_reached_otherwise;
        if self.is_live {
            self.jump(frame.next, &frame.results);
            self.values.seal(frame.next);
        }
        if let BlockKind::Try { around } = frame.kind {
            self.seal_handlers(around);
        }
        if goes_on && !self.is_live {
            self.values.seal(frame.next);
        }
        if let BlockKind::Loop { header, .. } = frame.kind {
            self.values.seal(header);
        }
        self.stack.truncate(frame.height);
        self.is_live = goes_on;
        if goes_on {
            self.begin(frame.next, &frame.results);
        }
    }

    pub(super) fn branch_table(&mut self, targets: &wasmparser::BrTable<'_>) {
        self.stack.pop();
        // Ignore errors, because they were already reported when the operators were read.
        let mut depths: Vec<u32> = Vec::new();
        for depth in targets.targets().flatten().chain([targets.default()]) {
            if !depths.contains(&depth) {
                depths.push(depth);
            }
        }
        let from = self.at;
        for depth in depths {
            // A branch that passes values defines them in an intermediate block.
            if self.has_values(depth) {
                let way = self.values.block();
                self.values.jump(from, way);
                self.values.seal(way);
                self.at = way;
            }
            self.branch(depth);
            self.at = from;
        }
        self.is_live = false;
    }
}

impl Reader<'_> {
    /// Enters a `try_table`. Each clause has a block that is reachable from calls and jumps to the clause's label.
    pub(super) fn enter_try(&mut self, of: &TryTable) {
        let (params, results) = self.block_type(of.ty);
        let (body, next, results) = (self.values.block(), self.values.block(), self.new_variables(results.len()));
        self.values.jump(self.at, body);
        self.values.seal(body);
        let around = self.handlers.len();
        // Wasmtime adds the handlers in reverse order.
        for catch in of.catches.iter().rev() {
            let handler = self.values.block();
            self.at = handler;
            let height = self.stack.len();
            for _ in 0..self.value_count(catch) {
                self.push(Origin::Computed);
            }
            self.branch(reach::label(catch));
            self.stack.truncate(height);
            self.handlers.push(handler);
        }
        self.enter(BlockKind::Try { around }, next, results, params.len());
        self.at = body;
    }

    /// Returns the number of values that a clause passes to its label.
    fn value_count(&self, catch: &Catch) -> usize {
        match catch {
            Catch::One { tag, .. } => self.module.tag_values(*tag),
            Catch::OneRef { tag, .. } => self.module.tag_values(*tag).saturating_add(1),
            Catch::All { .. } => 0,
            Catch::AllRef { .. } => 1,
        }
    }

    /// Models a call, which returns or continues at one of the handlers.
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

    /// Leaves a `try_table` with `around` handlers outside it, and seals its own handlers.
    pub(super) fn seal_handlers(&mut self, around: usize) {
        for handler in self.handlers.split_off(around.min(self.handlers.len())) {
            self.values.seal(handler);
        }
    }
}
