//! Which lengths are constants to Wasmtime.
//!
//! Work in proportion to a constant length is charged without a check, if it is little. Wasmtime sees a constant wherever its
//! compiler's frontend does: also one that comes through locals, and through blocks. So whoever charges as it does has to see the
//! same, no less and no more. This follows `code_translator.rs` of its crate `wasmtime-internal-cranelift`, version 48, as far as
//! the values of variables and of the operand stack go.

use std::collections::HashMap;

use wasmparser::{BlockType, FuncType, ModuleArity, Operator, ValType};

use super::{
    WeaveError, body,
    module::{Module, index},
    values::{Block, Origin, Value, Values, Variable},
};

/// Lengths, by the places of the operators that they belong to.
pub(super) type Constants = HashMap<usize, i32>;

/// The constant lengths of a function's operators.
pub(super) fn constants(
    module: &Module<'_>,
    parameters: u32,
    locals: &[(u32, wasm_encoder::ValType)],
    operators: &[Operator<'_>],
) -> Result<Constants, WeaveError> {
    if !operators.iter().any(has_length) {
        return Ok(Constants::new());
    }
    let mut reader = Reader::new(module, parameters, locals);
    let mut lengths = Constants::new();
    for (place, operator) in operators.iter().enumerate() {
        if has_length(operator)
            && reader.is_live
            && let Some(length) = reader.stack.last()
        {
            match reader.values.origin(*length) {
                Origin::Constant(length) => _ = lengths.insert(place, length),
                Origin::Computed | Origin::Same(_) => {}
                Origin::Obscure => return Err(reader.unsupported("a length that may be a constant")),
            }
        }
        reader.read(operator)?;
    }
    Ok(lengths)
}

fn has_length(operator: &Operator<'_>) -> bool {
    body::is_bulk(operator) || matches!(operator, Operator::MemoryGrow { .. })
}

/// What `else` and `end` have to know of what they end.
struct Frame {
    kind: Kind,
    /// What comes behind the end, and what it is given.
    next: Block,
    results: Vec<Variable>,
    /// The height of the operand stack below what the frame takes.
    height: usize,
    entered_live: bool,
    branched: bool,
}

enum Kind {
    Block,
    /// Branches go to the header.
    Loop {
        header: Block,
        params: Vec<Variable>,
    },
    If {
        /// Where the condition is looked at.
        head: Block,
        /// What is run if it is not met, where this is known before `else` comes: without one, control goes behind the end.
        otherwise: Option<Block>,
        params: Vec<Value>,
    },
    Else {
        then_live: bool,
    },
}

impl Frame {
    /// Where branches go, and what they carry.
    fn target(&self) -> (Block, &[Variable]) {
        match &self.kind {
            Kind::Loop { header, params } => (*header, params),
            _ => (self.next, &self.results),
        }
    }
}

struct Reader<'m> {
    module: &'m Module<'m>,
    imported_globals: usize,
    values: Values,
    variables: Variable,
    at: Block,
    is_live: bool,
    stack: Vec<Value>,
    frames: Vec<Frame>,
}

impl<'m> Reader<'m> {
    fn new(module: &'m Module<'m>, parameters: u32, locals: &[(u32, wasm_encoder::ValType)]) -> Self {
        let mut values = Values::default();
        let (entry, exit) = (values.block(), values.block());
        values.seal(entry);
        let mut variables = parameters;
        for parameter in 0..parameters {
            let value = values.value(Origin::Computed);
            values.define(parameter, entry, value);
        }
        for (count, ty) in locals {
            // One for all of a group.
            let zero =
                values.value(if *ty == wasm_encoder::ValType::I32 { Origin::Constant(0) } else { Origin::Computed });
            for _ in 0..*count {
                values.define(variables, entry, zero);
                variables = variables.saturating_add(1);
            }
        }
        let imported_globals =
            module.imports.iter().filter(|import| matches!(import.ty, wasmparser::TypeRef::Global(_))).count();
        let mut reader = Self {
            module,
            imported_globals,
            values,
            variables,
            at: entry,
            is_live: true,
            stack: vec![],
            frames: vec![],
        };
        // What it returns is not looked at.
        reader.enter(Kind::Block, exit, vec![], 0);
        reader
    }

    fn unsupported(&self, what: &str) -> WeaveError {
        WeaveError::unsupported(self.module.name, what)
    }

    fn fresh(&mut self, count: usize) -> Vec<Variable> {
        let first = self.variables;
        self.variables = self.variables.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        (first..self.variables).collect()
    }

    fn enter(&mut self, kind: Kind, next: Block, results: Vec<Variable>, params: usize) {
        let height = self.stack.len().saturating_sub(params);
        self.frames.push(Frame { kind, next, results, height, entered_live: self.is_live, branched: false });
    }

    fn push(&mut self, origin: Origin) {
        let value = self.values.value(origin);
        self.stack.push(value);
    }

    fn top(&self, count: usize) -> Vec<Value> {
        self.stack.get(self.stack.len().saturating_sub(count)..).unwrap_or_default().to_vec()
    }

    /// Gives what a block takes, and goes there from here.
    fn jump(&mut self, to: Block, carried: &[Variable]) {
        for (variable, value) in carried.iter().zip(self.top(carried.len())) {
            self.values.define(*variable, self.at, value);
        }
        self.values.jump(self.at, to);
    }

    /// Goes on in a block that nothing else jumps to, with what it was given.
    fn begin(&mut self, block: Block, given: &[Variable]) {
        self.at = block;
        for variable in given {
            let value = self.values.find(*variable, block);
            self.stack.push(value);
        }
    }

    /// Leads a branch to where it goes.
    fn branch(&mut self, relative_depth: u32) {
        let Some(frame) = self.frames.iter_mut().nth_back(index(relative_depth)) else { return };
        frame.branched = true;
        let (to, carried) = (frame.target().0, frame.target().1.to_vec());
        self.jump(to, &carried);
    }

    fn carries(&self, relative_depth: u32) -> bool {
        self.frames.iter().nth_back(index(relative_depth)).is_some_and(|frame| !frame.target().1.is_empty())
    }

    fn read(&mut self, operator: &Operator<'_>) -> Result<(), WeaveError> {
        match operator {
            Operator::Else => self.otherwise(),
            Operator::End => self.end(),
            Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } if !self.is_live => {
                let nowhere = self.at;
                self.enter(Kind::Block, nowhere, vec![], 0);
            }
            _ if !self.is_live => {}
            Operator::Block { blockty } => {
                let (params, results) = self.block_type(*blockty);
                let (next, results) = (self.values.block(), self.fresh(results.len()));
                self.enter(Kind::Block, next, results, params.len());
            }
            Operator::Loop { blockty } => self.enter_loop(*blockty),
            Operator::If { blockty } => self.enter_if(*blockty),
            Operator::Br { relative_depth } => {
                self.branch(*relative_depth);
                self.is_live = false;
            }
            Operator::BrIf { relative_depth } => {
                self.stack.pop();
                self.branch(*relative_depth);
                let next = self.values.block();
                self.values.jump(self.at, next);
                self.values.seal(next);
                self.at = next;
            }
            Operator::BrTable { targets } => self.branch_table(targets),
            Operator::Return
            | Operator::Unreachable
            | Operator::ReturnCall { .. }
            | Operator::ReturnCallIndirect { .. } => self.is_live = false,
            Operator::LocalGet { local_index } => {
                let value = self.values.find(*local_index, self.at);
                self.stack.push(value);
            }
            Operator::LocalSet { local_index } | Operator::LocalTee { local_index } => {
                if let Some(value) = self.stack.last() {
                    self.values.define(*local_index, self.at, *value);
                }
                if matches!(operator, Operator::LocalSet { .. }) {
                    self.stack.pop();
                }
            }
            Operator::I32Const { value } => self.push(Origin::Constant(*value)),
            Operator::GlobalGet { global_index } => {
                let origin = self.global(*global_index);
                self.push(origin);
            }
            Operator::Call { function_index } => self.call(self.module.function_type(*function_index), 0),
            Operator::CallIndirect { type_index, .. } => self.call(self.module.types.get(index(*type_index)), 1),
            other => {
                let arity = other.operator_arity(&NoTypes);
                let (taken, given) = arity.ok_or_else(|| self.unsupported(&format!("the operator `{other:?}`")))?;
                self.compute(index(taken), index(given));
            }
        }
        Ok(())
    }

    fn block_type(&self, of: BlockType) -> (Vec<ValType>, Vec<ValType>) {
        match of {
            BlockType::Empty => (vec![], vec![]),
            BlockType::Type(result) => (vec![], vec![result]),
            BlockType::FuncType(number) => {
                let of = self.module.types.get(index(number));
                of.map_or_else(Default::default, |of| (of.params().to_vec(), of.results().to_vec()))
            }
        }
    }

    fn enter_loop(&mut self, of: BlockType) {
        let (params, results) = self.block_type(of);
        let (header, next) = (self.values.block(), self.values.block());
        let (taken, results) = (self.fresh(params.len()), self.fresh(results.len()));
        self.jump(header, &taken);
        self.enter(Kind::Loop { header, params: taken.clone() }, next, results, params.len());
        self.stack.truncate(self.stack.len().saturating_sub(params.len()));
        self.begin(header, &taken);
    }

    fn enter_if(&mut self, of: BlockType) {
        self.stack.pop();
        let (params, results) = self.block_type(of);
        let (then, next, given) = (self.values.block(), self.values.block(), self.fresh(results.len()));
        let head = self.at;
        // Where it gives what it takes there may be no `else`.
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
        let kept = self.top(params.len());
        self.enter(Kind::If { head, otherwise, params: kept }, next, given, params.len());
        self.at = then;
    }

    fn otherwise(&mut self) {
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

    fn end(&mut self) {
        let Some(frame) = self.frames.pop() else { return };
        if !frame.entered_live {
            return;
        }
        let is_reached_otherwise = match frame.kind {
            Kind::Block => frame.branched,
            // Branches go to its beginning.
            Kind::Loop { .. } => false,
            Kind::If { .. } => true,
            Kind::Else { then_live } => frame.branched || then_live,
        };
        let goes_on = self.is_live || is_reached_otherwise;
        if self.is_live {
            self.jump(frame.next, &frame.results);
        }
        if goes_on {
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

    fn branch_table(&mut self, targets: &wasmparser::BrTable<'_>) {
        self.stack.pop();
        // That they can be read was seen when the operators were.
        let mut depths: Vec<u32> = Vec::new();
        for depth in targets.targets().flatten().chain([targets.default()]) {
            if !depths.contains(&depth) {
                depths.push(depth);
            }
        }
        let from = self.at;
        for depth in depths {
            // What is carried is given on the way.
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

    fn call(&mut self, of: Option<&FuncType>, beside: usize) {
        if let Some(of) = of {
            self.compute(of.params().len().saturating_add(beside), of.results().len());
        }
    }

    fn compute(&mut self, taken: usize, given: usize) {
        self.stack.truncate(self.stack.len().saturating_sub(taken));
        for _ in 0..given {
            self.push(Origin::Computed);
        }
    }

    /// The value of a global: one that never changes is known when the code is compiled.
    fn global(&self, number: u32) -> Origin {
        let own = index(number).checked_sub(self.imported_globals).and_then(|own| self.module.globals.get(own));
        let Some(global) = own.filter(|global| !global.ty.mutable) else { return Origin::Computed };
        let mut operators = global.init_expr.get_operators_reader().into_iter().flatten();
        match (operators.next(), operators.next()) {
            (Some(Operator::I32Const { value }), Some(Operator::End)) => Origin::Constant(value),
            _ => Origin::Obscure,
        }
    }
}

/// For operators that take and give the same whatever the module is.
struct NoTypes;

impl ModuleArity for NoTypes {
    fn sub_type_at(&self, _: u32) -> Option<&wasmparser::SubType> {
        None
    }

    fn tag_type_arity(&self, _: u32) -> Option<(u32, u32)> {
        None
    }

    fn type_index_of_function(&self, _: u32) -> Option<u32> {
        None
    }

    fn func_type_of_cont_type(&self, _: &wasmparser::ContType) -> Option<&FuncType> {
        None
    }

    fn sub_type_of_ref_type(&self, _: &wasmparser::RefType) -> Option<&wasmparser::SubType> {
        None
    }

    fn control_stack_height(&self) -> u32 {
        0
    }

    fn label_block(&self, _: u32) -> Option<(BlockType, wasmparser::FrameKind)> {
        None
    }
}
