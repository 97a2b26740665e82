//! Control flow through a function, and the values that branches carry.

use wasmparser::{BlockType, ValType};

use super::reader::{Frame, Kind, Reader};
use crate::{
    module::index,
    values::{Block, Variable},
};

impl Reader<'_> {
    /// Follows a fuel check and the epoch check behind it. They change no values, but add blocks between a variable's
    /// use and its definition. That affects whether a loop header is visited.
    pub(super) fn check(&mut self) {
        self.detour(1);
        self.detour(2);
    }

    /// Adds a chain of `blocks` blocks. Control reaches the next block directly or from the end of each of them.
    pub(super) fn detour(&mut self, blocks: usize) {
        let next = self.values.block();
        for _ in 0..blocks {
            let way = self.values.block();
            // The order matters: Cranelift queries predecessors in the order in which they were declared.
            self.values.jump(self.at, way);
            self.values.jump(self.at, next);
            self.values.seal(way);
            self.at = way;
        }
        self.values.jump(self.at, next);
        self.values.seal(next);
        self.at = next;
    }

    pub(super) fn fresh(&mut self, count: usize) -> Vec<Variable> {
        let first = self.variables;
        self.variables = self.variables.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        (first..self.variables).collect()
    }

    pub(super) fn enter(&mut self, kind: Kind, next: Block, results: Vec<Variable>, params: usize) {
        let height = self.stack.len().saturating_sub(params);
        self.frames.push(Frame { kind, next, results, height, entered_live: self.is_live, branched: false });
    }

    /// Defines the variables of a block from the operand stack and jumps there.
    pub(super) fn jump(&mut self, to: Block, carried: &[Variable]) {
        for (variable, value) in carried.iter().zip(self.top(carried.len())) {
            self.values.define(*variable, self.at, value);
        }
        self.values.jump(self.at, to);
    }

    /// Continues in a block without further predecessors, with the given variables on the operand stack.
    pub(super) fn begin(&mut self, block: Block, given: &[Variable]) {
        self.at = block;
        for variable in given {
            let value = self.values.find(*variable, block);
            self.stack.push(value);
        }
    }

    /// Follows a branch to its target.
    pub(super) fn branch(&mut self, relative_depth: u32) {
        let Some(frame) = self.frames.iter_mut().nth_back(index(relative_depth)) else { return };
        frame.branched = true;
        let (to, carried) = (frame.target().0, frame.target().1.to_vec());
        self.jump(to, &carried);
    }

    pub(super) fn carries(&self, relative_depth: u32) -> bool {
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
        let (taken, results) = (self.fresh(params.len()), self.fresh(results.len()));
        self.jump(header, &taken);
        self.enter(Kind::Loop { header, params: taken.clone() }, next, results, params.len());
        self.stack.truncate(self.stack.len().saturating_sub(params.len()));
        self.begin(header, &taken);
        self.check();
    }

    pub(super) fn enter_if(&mut self, of: BlockType) {
        self.stack.pop();
        let (params, results) = self.block_type(of);
        let (then, next, given) = (self.values.block(), self.values.block(), self.fresh(results.len()));
        let head = self.at;
        // With equal parameters and results, `else` is optional: a false condition leads to the end until it appears.
        let otherwise = if params == results {
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
        self.enter(Kind::If { head, otherwise, params: params_held }, next, given, params.len());
        self.at = then;
    }

    pub(super) fn otherwise(&mut self) {
        let then_live = self.is_live;
        let Some(frame) = self.frames.last_mut() else { return };
        if !frame.entered_live {
            return;
        }
        let kind = std::mem::replace(&mut frame.kind, Kind::Else { then_live });
        let Kind::If { head, otherwise, params } = kind else { return };
        let (next, results, height) = (frame.next, frame.results.clone(), frame.height);
        if then_live {
            self.jump(next, &results);
        }
        self.stack.truncate(height);
        self.stack.extend(params);
        let block = otherwise.unwrap_or_else(|| {
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
            Kind::Block | Kind::Try { .. } => frame.branched,
            // Branches go to the loop's header, not to its end.
            Kind::Loop { .. } => false,
            Kind::If { .. } => true,
            Kind::Else { then_live } => frame.branched || then_live,
        };
        let goes_on = self.is_live || is_reached_otherwise;
        if self.is_live {
            self.jump(frame.next, &frame.results);
            self.values.seal(frame.next);
        }
        if let Kind::Try { around } = frame.kind {
            self.seal_handlers(around);
        }
        if goes_on && !self.is_live {
            self.values.seal(frame.next);
        }
        if let Kind::Loop { header, .. } = frame.kind {
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
        // Errors were reported when the operators were read.
        let mut depths: Vec<u32> = Vec::new();
        for depth in targets.targets().flatten().chain([targets.default()]) {
            if !depths.contains(&depth) {
                depths.push(depth);
            }
        }
        let from = self.at;
        for depth in depths {
            // Values that the branch carries are defined in a block on the way.
            if self.carries(depth) {
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
