//! Detects lengths that Wasmtime recognizes as constant.
//!
//! Wasmtime charges bulk operators with a small constant length without a check. The frontend of Wasmtime's compiler
//! detects constants, even through locals and blocks. To charge the same amounts, this module must detect exactly the
//! same constants. This module tracks the values of variables and of the operand stack like `code_translator.rs` in
//! version 48 of the `wasmtime-internal-cranelift` crate.

mod blocks;

use std::collections::HashMap;

use blocks::{BlockKind, Reader};
use wasmparser::{BlockType, FuncType, ModuleArity, Operator};

use crate::{
    WeaveError,
    guest::{Module, index},
    metered,
    values::{Origin, Value, Values},
};

/// Constant lengths, by operator position.
pub(crate) type Constants = HashMap<usize, i32>;

/// Returns the constant lengths of a function's operators.
pub(crate) fn constants(
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
            && let Some(length) = reader.length()?
        {
            lengths.insert(place, length);
        }
        reader.read(operator)?;
    }
    Ok(lengths)
}

/// Returns `true` if an operator's cost or check depends on the number on top of the stack.
fn has_length(operator: &Operator<'_>) -> bool {
    metered::is_bulk(operator) || matches!(operator, Operator::MemoryGrow { .. })
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
            // All locals in a group share one value, as in Cranelift.
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
            handlers: vec![],
        };
        // Pass no result variables, because the results of the function are not needed.
        reader.enter(BlockKind::Block, exit, vec![], 0);
        reader.check();
        reader
    }

    /// Returns the length on top of the stack if it is constant. Other lengths are checked at run time.
    fn length(&mut self) -> Result<Option<i32>, WeaveError> {
        let Some(top) = self.stack.last() else { return Ok(None) };
        let length = match self.values.origin(*top) {
            Origin::Constant(length) => Some(length),
            Origin::Computed | Origin::Same(_) => None,
            Origin::Obscure => {
                return Err(self.unsupported("an operator whose length may be constant is not supported"));
            }
        };
        Ok(length)
    }

    fn unsupported(&self, what: &str) -> WeaveError {
        WeaveError::unsupported(self.module.name, what)
    }

    fn push(&mut self, origin: Origin) {
        let value = self.values.value(origin);
        self.stack.push(value);
    }

    fn top(&self, count: usize) -> Vec<Value> {
        self.stack.get(self.stack.len().saturating_sub(count)..).unwrap_or_default().to_vec()
    }

    fn read(&mut self, operator: &Operator<'_>) -> Result<(), WeaveError> {
        match operator {
            Operator::Else => self.enter_else(),
            Operator::End => self.end(),
            Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } | Operator::TryTable { .. }
                if !self.is_live =>
            {
                let nowhere = self.at;
                self.enter(BlockKind::Block, nowhere, vec![], 0);
            }
            _ if !self.is_live => {}
            Operator::Block { blockty } => {
                let (params, results) = self.block_type(*blockty);
                let (next, results) = (self.values.block(), self.new_variables(results.len()));
                self.enter(BlockKind::Block, next, results, params.len());
            }
            Operator::TryTable { try_table } => self.enter_try(try_table),
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
            Operator::Throw { .. } | Operator::ThrowRef => {
                self.may_throw();
                self.is_live = false;
            }
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
            Operator::CallIndirect { type_index, .. } => {
                // Table elements are initialized lazily, which adds a block to each access.
                self.add_chain(1);
                self.call(self.module.types.get(index(*type_index)), 1);
            }
            Operator::MemoryGrow { .. } => {
                if self.length()?.is_none() {
                    self.check();
                }
                self.compute(1, 1);
            }
            _ if metered::is_bulk(operator) => self.bulk(operator)?,
            Operator::TableGet { .. } | Operator::TableSet { .. } => {
                return Err(self.unsupported("table operators are not supported in code with checked lengths"));
            }
            other => {
                let arity = other.operator_arity(&NoTypes);
                let (taken, given) =
                    arity.ok_or_else(|| self.unsupported(&format!("the operator `{other:?}` is not supported")))?;
                self.compute(index(taken), index(given));
            }
        }
        Ok(())
    }

    fn bulk(&mut self, operator: &Operator<'_>) -> Result<(), WeaveError> {
        if !matches!(operator, Operator::MemoryCopy { .. } | Operator::MemoryFill { .. } | Operator::MemoryInit { .. })
        {
            return Err(self.unsupported("table operators are not supported in code with checked lengths"));
        }
        let is_small = self.length()?.is_some_and(|length| i64::from(length.cast_unsigned()) <= metered::SMALL_BULK);
        if !is_small {
            self.check();
        }
        self.compute(3, 0);
        Ok(())
    }

    fn call(&mut self, of: Option<&FuncType>, beside: usize) {
        self.may_throw();
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

    /// Returns the origin of a global's value. The values of immutable globals with constant initializers are known at
    /// compile time.
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

/// Module information for operators whose arity does not depend on the module's types.
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

#[cfg(test)]
mod tests {
    use wasmparser::Operator;

    use super::constants;
    use crate::guest::Module;

    /// Returns the constant length of the last `memory.fill` in a function with this body, parameter 0, and locals 1 to
    /// 3.
    fn length(body: &str) -> Result<Option<i32>, String> {
        let text = format!(
            "(module (import \"env\" \"base\" (global $base i32)) (memory 1) (table 1 funcref)
               (global $fixed i32 (i32.const 40)) (global $copy i32 (global.get $base))
               (global $own (mut i32) (i32.const 7)) (tag)
               (func (param i32) (local i32 i32 i32) {body}))"
        );
        let wasm = wat::parse_str(text).unwrap();
        let module = Module::read("the module", &wasm).unwrap();
        let operators: Vec<Operator<'_>> =
            module.bodies[0].get_operators_reader().unwrap().into_iter().collect::<Result<_, _>>().unwrap();
        let locals = [(3, wasm_encoder::ValType::I32)];
        let lengths = constants(&module, 1, &locals, &operators).map_err(|error| error.to_string())?;
        let fill = operators.iter().rposition(|operator| matches!(operator, Operator::MemoryFill { .. })).unwrap();
        Ok(lengths.get(&fill).copied())
    }

    /// Like `length`, but `before` precedes the address and the byte.
    fn after(before: &str, length_of: &str) -> Option<i32> {
        length(&format!("{before} i32.const 0 i32.const 0 {length_of} memory.fill")).unwrap()
    }

    #[test]
    fn constants_are_tracked_through_locals_and_the_stack() {
        assert_eq!(after("", "i32.const 5"), Some(5));
        assert_eq!(after("", "i32.const 5 nop"), Some(5));
        assert_eq!(after("", "i32.const 5 i32.const 9 local.set 1"), Some(5));
        assert_eq!(after("i32.const 5 local.set 1", "local.get 1"), Some(5));
        assert_eq!(after("", "i32.const 5 local.tee 1"), Some(5));
        // The local is never set, so it is zero.
        assert_eq!(after("", "local.get 2"), Some(0));
        assert_eq!(after("", "global.get $fixed"), Some(40));
        assert_eq!(after("", "block (result i32) i32.const 5 end"), Some(5));
    }

    #[test]
    fn computed_values_are_not_constants() {
        assert_eq!(after("", "local.get 0"), None);
        assert_eq!(after("", "i32.const 2 i32.const 3 i32.add"), None);
        assert_eq!(after("", "global.get $own"), None);
        assert_eq!(after("", "global.get $base"), None);
        assert_eq!(after("local.get 0 local.set 1", "local.get 1"), None);
    }

    #[test]
    fn merged_paths_keep_only_equal_constants() {
        let either = |then: &str, otherwise: &str| {
            after(&format!("i32.const 5 local.set 1 local.get 0 if {then} else {otherwise} end"), "local.get 1")
        };
        assert_eq!(either("nop", "nop"), Some(5));
        assert_eq!(either("local.get 0 local.set 1", "nop"), None);
        // Two equal constants on different paths do not count as a constant.
        assert_eq!(either("i32.const 5 local.set 1", "nop"), None);
        // A path that does not reach the label is ignored.
        assert_eq!(either("i32.const 6 local.set 1 return", "nop"), Some(5));
        assert_eq!(either("i32.const 6 local.set 1", "unreachable"), Some(6));
    }

    #[test]
    fn loops_forget_earlier_constants() {
        let turn = "local.get 0 br_if 0";
        // Inside the loop, the loop's back edges are not known yet.
        let within = format!("i32.const 5 local.set 1 loop i32.const 0 i32.const 0 local.get 1 memory.fill {turn} end");
        assert_eq!(length(&within).unwrap(), None);
        // After the loop, the result depends on whether the variable was used inside the loop.
        assert_eq!(after(&format!("i32.const 5 local.set 1 loop local.get 1 drop {turn} end"), "local.get 1"), Some(5));
        assert_eq!(after(&format!("i32.const 5 local.set 1 loop {turn} end"), "local.get 1"), None);
    }

    #[test]
    fn exceptions_keep_locals_from_before_the_call() {
        let caught = |inside: &str| {
            after(&format!("i32.const 5 local.set 1 block try_table (catch_all 0) {inside} end end"), "local.get 1")
        };
        assert_eq!(caught("i32.const 0 call 0"), Some(5));
        assert_eq!(caught("i32.const 0 call 0 i32.const 6 local.set 1"), None);
        assert_eq!(caught("i32.const 0 call 0 i32.const 6 local.set 1 return"), Some(5));
        assert_eq!(caught("i32.const 6 local.set 1 i32.const 0 call 0 return"), Some(6));
        assert_eq!(caught("i32.const 6 local.set 1 throw 0"), Some(6));
        // Cranelift uses zero in a block without predecessors.
        assert_eq!(caught("i32.const 6 local.set 1 return"), Some(0));
    }

    #[test]
    fn undecidable_lengths_are_rejected() {
        for (length_of, what) in
            [("global.get $copy", "may be constant"), ("i32.const 0 table.get 0 drop i32.const 5", "table operators")]
        {
            let refused = length(&format!("i32.const 0 i32.const 0 {length_of} memory.fill")).unwrap_err();
            assert!(refused.contains(what), "{refused}");
        }
    }
}
