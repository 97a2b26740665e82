//! Rewrites the bodies of guest functions.
//!
//! All operators except `memory.size` and `memory.grow` keep their order and nesting. The following code is inserted
//! between them:
//!
//! * **Fuel**, exactly as Wasmtime 48 charges it with `consume_fuel`, at the points that [`charges`](crate::charges)
//!   selects. A global counter contains the remaining fuel minus one. A function caches the counter in a local, and
//!   writes it back before code that may read the global: calls, function ends, and failing checks.
//! * **Depth**: an estimate of the native stack that calls of possibly recursive functions use. One branch at the
//!   function's entry tests both counters. The call does not proceed if one of them is negative.
//! * **Exceptions**: an exception unwinds a woven guest, and no `catch_all` of the guest may intercept it. A clause is
//!   therefore added at the start of each `try_table` that catches everything. The clause passes the unwinding exception
//!   to the function's end, which rethrows it. Both counters are reloaded where exceptions [land](crate::reach).
//! * **`unreachable`**: a call that unwinds the guest precedes the operator, so that only the call into the guest ends.
//! * **Memory**: the replacements of `memory.size` and `memory.grow` use the virtual memory size.

use std::borrow::Cow;

use wasm_encoder::{BlockType, Catch, Function, Instruction, ValType, reencode::Reencode};
use wasmparser::{FunctionBody, Operator};

use crate::{
    WeaveError,
    charges::{Charges, FuelCheck, OperatorCharge, charges},
    guest::Module,
    lengths,
    metered::ENTRY,
    plan::Shift,
    reach,
};

/// The functions, globals and tag that rewritten functions use. All indices refer to the woven module.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Instrumentation {
    pub(crate) fuel: Option<Fuel>,
    pub(crate) depth: Option<Depth>,
    pub(crate) memory: Option<VirtualMemory>,
    /// The index of the function that unwinds the guest, called before each `unreachable`.
    pub(crate) unreachable: Option<u32>,
    /// The tag of the unwinding exception. `None` if the host unwinds guests with traps.
    pub(crate) tag: Option<u32>,
}

/// Indices for fuel metering.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fuel {
    /// The index of the counter global. The counter is the remaining fuel minus one, so it is negative when fuel is
    /// exhausted.
    pub(crate) global: u32,
    /// The index of the function `[i64] -> [i64]` to call with the fuel counter when the fuel or depth counter is
    /// negative. The function returns the refilled counter, or unwinds the guest.
    pub(crate) halt: u32,
}

/// Indices for metering call depth.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Depth {
    /// The index of the global with the remaining native stack in bytes. It is an `i64`, so that one test of its
    /// bitwise OR with the fuel counter checks both.
    pub(crate) global: u32,
    /// The index of the function that unwinds the guest when calls are too deep.
    pub(crate) overflow: u32,
}

/// The indices for the memory size that the guest observes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VirtualMemory {
    /// The index of the global with the size in pages of 64 KiB.
    pub(crate) size: u32,
    /// The index of a function `[i32] -> [i32]` with the semantics of `memory.grow`.
    pub(crate) grow: u32,
}

/// The properties of a function that are not part of its body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FunctionFrame {
    pub(crate) parameters: u32,
    /// The block type with the function's results.
    pub(crate) results: BlockType,
    /// The estimated native stack usage of a call, in bytes. `None` if calls to this function are not metered.
    pub(crate) stack_bytes: Option<i32>,
}

/// A rewritten function.
pub(crate) struct RewrittenFunction {
    pub(crate) code: Function,
    /// The offsets in `code` of the branches that call the host if a counter is negative.
    pub(crate) checks: Vec<u32>,
}

/// Rewrites a function.
pub(crate) fn rewrite(
    module: &Module<'_>,
    body: &FunctionBody<'_>,
    frame: FunctionFrame,
    work: &Instrumentation,
    shift: &mut Shift,
) -> Result<RewrittenFunction, WeaveError> {
    let wrong = WeaveError::invalid(module.name);
    let (locals, count) = read_locals(body, frame.parameters, shift).map_err(WeaveError::encoding(module.name))?;
    let operators: Vec<_> =
        body.get_operators_reader().and_then(|reader| reader.into_iter().collect()).map_err(&wrong)?;
    let constants = match work.fuel {
        Some(_) => lengths::constants(module, frame.parameters, &locals, &operators)?,
        None => lengths::Constants::new(),
    };
    let charges = charges(&operators, &constants, work.memory.is_some());
    let mut writer = Writer::new(work, frame, locals, count, &charges);
    writer.begin(charges.first);
    let last = operators.len().saturating_sub(1);
    for (place, (operator, step)) in operators.iter().zip(&charges.steps).enumerate() {
        let again = shift.instruction(operator.clone()).map_err(WeaveError::encoding(module.name))?;
        if place == last {
            writer.finish(*step, &again);
        } else {
            writer.operator(operator, *step, &again);
        }
    }
    Ok(RewrittenFunction { code: writer.code, checks: writer.checks })
}

type Locals = Vec<(u32, ValType)>;

fn read_locals(
    body: &FunctionBody<'_>,
    parameters: u32,
    shift: &mut Shift,
) -> Result<(Locals, u32), wasm_encoder::reencode::Error> {
    let (mut locals, mut total) = (Vec::new(), parameters);
    for group in body.get_locals_reader()? {
        let (count, of) = group?;
        total = total.saturating_add(count);
        locals.push((count, shift.val_type(of)?));
    }
    Ok((locals, total))
}

struct Writer<'w> {
    code: Function,
    /// The offsets of the branches of checks.
    checks: Vec<u32>,
    work: &'w Instrumentation,
    frame: FunctionFrame,
    /// `true` if a generated block contains the function's code, so that branches to the function's end reach the code
    /// after the block.
    is_wrapped: bool,
    /// `true` if a second generated block around the first block receives the unwinding exception, so that the code
    /// after the second block rethrows the exception.
    rethrows: bool,
    /// `true` if the function contains a clause that catches exceptions.
    catches: bool,
    /// The number of open blocks.
    nesting: u32,
    /// `true` if the counter's current value is in the global, not in the local.
    is_saved: bool,
    /// The indices of generated locals: the fuel counter, the stack that remained before this call, and a length.
    /// Unused locals are not declared.
    fuel: u32,
    depth: u32,
    length: u32,
}

impl<'w> Writer<'w> {
    fn new(work: &'w Instrumentation, frame: FunctionFrame, mut locals: Locals, count: u32, charges: &Charges) -> Self {
        let is_counted = work.depth.is_some() && frame.stack_bytes.is_some();
        let knows_depth = is_counted || (work.depth.is_some() && charges.catches);
        let has_lengths = charges.steps.iter().any(|step| step.check == FuelCheck::CheckLength);
        let mut next = count;
        let mut local = |is_used: bool, of: ValType| {
            let this = next;
            if is_used {
                locals.push((1, of));
                next = next.saturating_add(1);
            }
            this
        };
        let fuel = local(work.fuel.is_some(), ValType::I64);
        let depth = local(knows_depth, ValType::I64);
        let length = local(work.fuel.is_some() && has_lengths, ValType::I32);
        let rethrows = charges.catches_all && work.tag.is_some();
        let is_wrapped = rethrows || ((work.fuel.is_some() || knows_depth) && charges.branches_out);
        Self {
            code: Function::new(locals),
            checks: Vec::new(),
            work,
            frame,
            is_wrapped,
            rethrows,
            catches: charges.catches,
            nesting: 0,
            is_saved: false,
            fuel,
            depth,
            length,
        }
    }

    fn begin(&mut self, charge: i64) {
        let counted = self.enter_depth();
        let mut code = self.code.instructions();
        if let Some(fuel) = self.work.fuel {
            code.global_get(fuel.global).i64_const(ENTRY).i64_sub().local_tee(self.fuel);
            if let Some(depth) = counted {
                code.global_get(depth.global).i64_or();
            }
            self.check_top(fuel);
            self.charge(charge);
        } else if let Some(depth) = counted {
            code.global_get(depth.global).i64_const(0).i64_lt_s();
            code.if_(BlockType::Empty).call(depth.overflow).end();
        }
        if self.rethrows {
            self.code.instructions().block(BlockType::Result(ValType::EXNREF));
        }
        if self.is_wrapped {
            self.code.instructions().block(self.frame.results);
        }
    }

    fn operator(&mut self, operator: &Operator<'_>, step: OperatorCharge, again: &Instruction<'_>) {
        if step.syncs {
            self.sync();
        }
        let around = self.nesting;
        match operator {
            Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } | Operator::TryTable { .. } => {
                self.nesting = around.saturating_add(1);
            }
            Operator::End => self.nesting = around.saturating_sub(1),
            _ => {}
        }
        match operator {
            // Copy unreachable operators, because the types of later operators depend on them.
            _ if !step.is_live => self.copy(again),
            Operator::TryTable { try_table } => {
                self.try_table(try_table, again, around);
                self.charge(step.after);
            }
            Operator::End if step.lands => {
                self.copy(again);
                self.land(step);
            }
            Operator::Throw { .. } | Operator::ThrowRef => {
                self.save(step.before);
                self.copy(again);
            }
            Operator::Loop { .. } => {
                self.copy(again);
                if step.lands {
                    self.land(OperatorCharge::default());
                }
                self.check_fuel(step);
                self.charge(step.after);
            }
            Operator::Return | Operator::ReturnCall { .. } | Operator::ReturnCallIndirect { .. } => {
                self.save(step.before);
                self.leave_depth();
                self.copy(again);
            }
            Operator::Unreachable => {
                self.save(step.before);
                if let Some(unwind) = self.work.unreachable {
                    self.code.instructions().call(unwind);
                }
                self.copy(again);
            }
            Operator::Call { .. } | Operator::CallIndirect { .. } => {
                self.save(step.before);
                self.copy(again);
                self.resume(step);
            }
            Operator::MemoryGrow { .. } => self.grow(step, again),
            Operator::MemorySize { .. } => match self.work.memory {
                Some(memory) => _ = self.code.instructions().global_get(memory.size),
                None => self.copy(again),
            },
            _ if step.check != FuelCheck::No => {
                self.check_fuel(step);
                self.charge(step.after);
                self.copy(again);
            }
            _ => {
                self.copy(again);
                self.charge(step.after);
            }
        }
    }

    /// Writes the end of the function.
    fn finish(&mut self, step: OperatorCharge, again: &Instruction<'_>) {
        if step.syncs {
            self.sync();
        }
        if self.is_wrapped {
            self.code.instructions().end();
        }
        if step.lands {
            self.land(OperatorCharge { stays_saved: true, ..step });
        }
        if step.is_live {
            self.save(step.before);
            self.leave_depth();
        }
        if self.rethrows {
            self.code.instructions().return_().end().throw_ref();
        }
        self.copy(again);
    }

    /// Writes a `try_table` inside `around` blocks. Adds a clause that passes the unwinding exception to the outermost
    /// generated block.
    fn try_table(&mut self, before: &wasmparser::TryTable, again: &Instruction<'_>, around: u32) {
        let Instruction::TryTable(of, catches) = again else { return self.copy(again) };
        let Some(tag) = self.work.tag.filter(|_| before.catches.iter().any(reach::catches_all)) else {
            return self.copy(again);
        };
        // The label of the outer generated block.
        let ours = Catch::OneRef { tag, label: around.saturating_add(1) };
        let catches: Vec<Catch> = std::iter::once(ours).chain(catches.iter().cloned()).collect();
        self.copy(&Instruction::TryTable(*of, Cow::Owned(catches)));
    }

    /// Writes the code at a landing of exceptions. The code reloads the fuel counter and releases the stack of the
    /// calls that did not return.
    fn land(&mut self, step: OperatorCharge) {
        self.resume(step);
        if let Some(depth) = self.work.depth {
            let mut code = self.code.instructions();
            code.local_get(self.depth);
            if let Some(bytes) = self.frame.stack_bytes {
                code.i64_const(i64::from(bytes)).i64_sub();
            }
            code.global_set(depth.global);
        }
    }

    /// Writes the local counter to the global. The local remains valid.
    fn sync(&mut self) {
        if let Some(fuel) = self.work.fuel.filter(|_| !self.is_saved) {
            self.code.instructions().local_get(self.fuel).global_set(fuel.global);
        }
    }

    fn copy(&mut self, again: &Instruction<'_>) {
        self.code.instruction(again);
    }

    fn grow(&mut self, step: OperatorCharge, again: &Instruction<'_>) {
        let Some(memory) = self.work.memory else {
            self.check_fuel(step);
            self.charge(step.after);
            return self.copy(again);
        };
        if step.check == FuelCheck::No {
            self.save(step.before);
        } else {
            self.check_fuel(step);
            self.save(0);
        }
        self.code.instructions().call(memory.grow);
        self.resume(step);
    }

    /// Subtracts `amount` from the local counter.
    fn charge(&mut self, amount: i64) {
        if self.work.fuel.is_some() && amount != 0 {
            self.code.instructions().local_get(self.fuel).i64_const(amount).i64_sub().local_set(self.fuel);
        }
    }

    /// Subtracts `amount` from the counter and writes the result to the global. The local must be reloaded before its
    /// next use.
    fn save(&mut self, amount: i64) {
        let Some(fuel) = self.work.fuel else { return };
        let mut code = self.code.instructions();
        match (std::mem::take(&mut self.is_saved), amount) {
            (true, 0) => return,
            (true, _) => _ = code.global_get(fuel.global),
            (false, _) => _ = code.local_get(self.fuel),
        }
        if amount != 0 {
            code.i64_const(amount).i64_sub();
        }
        code.global_set(fuel.global);
    }

    /// Reloads the local counter after a call, unless it is saved again before its next use.
    fn resume(&mut self, step: OperatorCharge) {
        let Some(fuel) = self.work.fuel else { return };
        self.is_saved = step.stays_saved;
        if self.is_saved {
            return;
        }
        let mut code = self.code.instructions();
        code.global_get(fuel.global);
        if step.after != 0 {
            code.i64_const(step.after).i64_sub();
        }
        code.local_set(self.fuel);
    }

    /// Charges and checks the remaining fuel, if the plan contains a check at this operator.
    fn check_fuel(&mut self, step: OperatorCharge) {
        let Some(fuel) = self.work.fuel.filter(|_| step.check != FuelCheck::No) else { return };
        let mut code = self.code.instructions();
        if step.check == FuelCheck::CheckLength {
            code.local_tee(self.length);
        }
        code.local_get(self.fuel);
        if step.check == FuelCheck::CheckLength {
            code.local_get(self.length).i64_extend_i32_u().i64_sub();
        }
        if step.before != 0 {
            code.i64_const(step.before).i64_sub();
        }
        if step.check == FuelCheck::CheckLength || step.before != 0 {
            code.local_tee(self.fuel);
        }
        self.check_top(fuel);
    }

    /// Calls `halt` if the value on top of the stack is negative. The value is the fuel counter, or its bitwise OR with
    /// the depth counter.
    fn check_top(&mut self, fuel: Fuel) {
        let mut code = self.code.instructions();
        code.i64_const(0).i64_lt_s();
        self.checks.push(u32::try_from(self.code.byte_len()).unwrap_or(u32::MAX));
        let mut code = self.code.instructions();
        code.if_(BlockType::Empty).local_get(self.fuel).call(fuel.halt).local_set(self.fuel).end();
    }

    /// Reserves the function's stack usage if its calls are metered.
    fn enter_depth(&mut self) -> Option<Depth> {
        let depth = self.work.depth?;
        let mut code = self.code.instructions();
        let Some(bytes) = self.frame.stack_bytes else {
            if self.catches {
                code.global_get(depth.global).local_set(self.depth);
            }
            return None;
        };
        code.global_get(depth.global).local_tee(self.depth).i64_const(i64::from(bytes)).i64_sub();
        code.global_set(depth.global);
        Some(depth)
    }

    fn leave_depth(&mut self) {
        let (Some(depth), Some(_)) = (self.work.depth, self.frame.stack_bytes) else { return };
        self.code.instructions().local_get(self.depth).global_set(depth.global);
    }
}
