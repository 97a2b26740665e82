//! Rewriting the body of one guest's function.
//!
//! Every operator stays, in its order and nesting, so that what a reviewer has to follow is what stands between them:
//!
//! * **Fuel**, exactly as Wasmtime 48 charges it with `consume_fuel`, where [`charges`](crate::charges) planned it. The counter counts
//!   down in a global; a function keeps it in a local, and writes it back before whatever may look at it: calls, ends, checks
//!   that fail.
//! * **Depth**: what a function takes of the native stack, where it can be on the stack any number of times. One branch at its
//!   beginning looks at both counters, which are less than zero where it may not go on.
//! * **Exceptions**: what unwinds a guest is an exception, too, and no `catch_all` of the guest's may end that. So the first clause of each
//!   `try_table` that catches everything leads ours to the function's end, where it is thrown on. Where exceptions
//!   [land](crate::landings) both counters are loaded again.
//! * `unreachable` becomes an unwinding that the shim can catch; `memory.size` and `memory.grow` go by the virtual size.

use std::borrow::Cow;

use wasm_encoder::{BlockType, Catch, Function, Instruction, ValType, reencode::Reencode};
use wasmparser::{FunctionBody, Operator};

use crate::{
    WeaveError,
    charges::{Charges, Look, Step, charges},
    cost::ENTRY,
    landings, lengths,
    module::Module,
    shift::Shift,
};

/// What a guest's functions are rewritten to use. Indices are those of the woven module.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    pub(crate) fuel: Option<Fuel>,
    pub(crate) depth: Option<Depth>,
    pub(crate) memory: Option<VirtualMemory>,
    /// The function that unwinds for `unreachable`.
    pub(crate) unreachable: Option<u32>,
    /// The tag of the exception that unwinds.
    pub(crate) tag: u32,
}

/// Where fuel is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fuel {
    /// The counter: one less than what is left.
    pub(crate) global: u32,
    /// `[i64] -> [i64]`: takes the counter where one of both is less than zero, and gives it filled up or unwinds.
    pub(crate) halt: u32,
}

/// Where the depth of calls is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Depth {
    /// What is left of the native stack, in bytes: an `i64`, of which a few bits are used.
    pub(crate) global: u32,
    /// The function that unwinds for too deep a call.
    pub(crate) overflow: u32,
}

/// Where the size that the guest sees is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VirtualMemory {
    /// It, in pages.
    pub(crate) size: u32,
    /// `[i32] -> [i32]`: as `memory.grow`.
    pub(crate) grow: u32,
}

/// What a function is beside its body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    /// How many parameters it has.
    pub(crate) parameters: u32,
    /// The type of a block that has the function's results.
    pub(crate) results: BlockType,
    /// What a call takes of the native stack, where it is counted.
    pub(crate) stack_bytes: Option<i32>,
}

/// The function rewritten.
pub(crate) fn rewrite(
    module: &Module<'_>,
    body: &FunctionBody<'_>,
    frame: Frame,
    work: &Work,
    shift: &mut Shift,
) -> Result<Function, WeaveError> {
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
    Ok(writer.code)
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
    work: &'w Work,
    frame: Frame,
    /// The function's code is in a block of its own, so that branches to its end come past what follows the block.
    is_wrapped: bool,
    /// That block is in another, which gives the exception that unwinds.
    rethrows: bool,
    /// Exceptions land somewhere.
    catches: bool,
    /// How many blocks of the function are open.
    nesting: u32,
    /// The counter is in the global, and not in the local.
    is_saved: bool,
    /// Locals of ours, where they are used: the counter, the stack that was left for this call, and a length.
    fuel: u32,
    depth: u32,
    length: u32,
}

impl<'w> Writer<'w> {
    fn new(work: &'w Work, frame: Frame, mut locals: Locals, count: u32, charges: &Charges) -> Self {
        let is_counted = work.depth.is_some() && frame.stack_bytes.is_some();
        let knows_depth = is_counted || (work.depth.is_some() && charges.catches);
        let has_lengths = charges.steps.iter().any(|step| step.look == Look::CheckLength);
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
        let rethrows = charges.catches_all;
        let is_wrapped = rethrows || ((work.fuel.is_some() || knows_depth) && charges.branches_out);
        let catches = charges.catches;
        let code = Function::new(locals);
        Self { code, work, frame, is_wrapped, rethrows, catches, nesting: 0, is_saved: false, fuel, depth, length }
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

    fn operator(&mut self, operator: &Operator<'_>, step: Step, again: &Instruction<'_>) {
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
            // What is never run stays, for the types of what follows it.
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
                    self.land(Step::default());
                }
                self.look(step);
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
            _ if step.look != Look::No => {
                self.look(step);
                self.charge(step.after);
                self.copy(again);
            }
            _ => {
                self.copy(again);
                self.charge(step.after);
            }
        }
    }

    /// The function's own `end`.
    fn finish(&mut self, step: Step, again: &Instruction<'_>) {
        if step.syncs {
            self.sync();
        }
        if self.is_wrapped {
            self.code.instructions().end();
        }
        if step.lands {
            self.land(Step { stays_saved: true, ..step });
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

    /// A `try_table` with so many blocks around it. What unwinds goes to the block around all of them.
    fn try_table(&mut self, before: &wasmparser::TryTable, again: &Instruction<'_>, around: u32) {
        let Instruction::TryTable(of, catches) = again else { return self.copy(again) };
        if !before.catches.iter().any(landings::catches_all) {
            return self.copy(again);
        }
        // The innermost block of ours around the function's code has its label.
        let ours = Catch::OneRef { tag: self.work.tag, label: around.saturating_add(1) };
        let catches: Vec<Catch> = std::iter::once(ours).chain(catches.iter().cloned()).collect();
        self.copy(&Instruction::TryTable(*of, Cow::Owned(catches)));
    }

    /// Where exceptions land: both counters are what they are in their globals, less what calls took that never returned.
    fn land(&mut self, step: Step) {
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

    /// Brings the global counter up to date, and uses the local one on.
    fn sync(&mut self) {
        if let Some(fuel) = self.work.fuel.filter(|_| !self.is_saved) {
            self.code.instructions().local_get(self.fuel).global_set(fuel.global);
        }
    }

    fn copy(&mut self, again: &Instruction<'_>) {
        self.code.instruction(again);
    }

    fn grow(&mut self, step: Step, again: &Instruction<'_>) {
        let Some(memory) = self.work.memory else {
            self.look(step);
            self.charge(step.after);
            return self.copy(again);
        };
        if step.look == Look::No {
            self.save(step.before);
        } else {
            self.look(step);
            self.save(0);
        }
        self.code.instructions().call(memory.grow);
        self.resume(step);
    }

    /// Charges the local counter.
    fn charge(&mut self, amount: i64) {
        if self.work.fuel.is_some() && amount != 0 {
            self.code.instructions().local_get(self.fuel).i64_const(amount).i64_sub().local_set(self.fuel);
        }
    }

    /// Charges, and brings the global counter up to date: the local one is loaded before it is used again.
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

    /// After a call.
    fn resume(&mut self, step: Step) {
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

    /// Charges, and looks whether anything is left, where that is planned.
    fn look(&mut self, step: Step) {
        let Some(fuel) = self.work.fuel.filter(|_| step.look != Look::No) else { return };
        let mut code = self.code.instructions();
        if step.look == Look::CheckLength {
            code.local_tee(self.length);
        }
        code.local_get(self.fuel);
        if step.look == Look::CheckLength {
            code.local_get(self.length).i64_extend_i32_u().i64_sub();
        }
        if step.before != 0 {
            code.i64_const(step.before).i64_sub();
        }
        if step.look == Look::CheckLength || step.before != 0 {
            code.local_tee(self.fuel);
        }
        self.check_top(fuel);
    }

    /// Looks where the counter is on top of the stack too, and is taken from there; or something that is less than zero with it.
    fn check_top(&mut self, fuel: Fuel) {
        let mut code = self.code.instructions();
        code.i64_const(0).i64_lt_s().if_(BlockType::Empty);
        code.local_get(self.fuel).call(fuel.halt).local_set(self.fuel).end();
    }

    /// Takes the function's share of the stack, if it is counted.
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
