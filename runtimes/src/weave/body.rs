//! Rewriting the body of one guest's function.
//!
//! Every operator stays, in its order and nesting, so that what a reviewer has to follow is what stands between them:
//!
//! * **Fuel**, exactly as Wasmtime 48 charges it with `consume_fuel` (`fuel_*` in its `func_environ.rs`, `default_operator_cost`
//!   in `tunables.rs`). The counter counts down in a global; a function keeps it in a local, and writes it back before
//!   whatever may look at it: calls, ends, checks that fail.
//! * **Depth**: what a function takes of the native stack, where it can be on the stack any number of times.
//! * `unreachable` becomes an unwinding that the shim can catch; `memory.size` and `memory.grow` go by the virtual size.

use wasm_encoder::{BlockType, Function, ValType, reencode::Reencode};
use wasmparser::{FunctionBody, Operator};

use super::{
    WeaveError, lengths,
    module::Module,
    reach::{Kind, Reach},
    shift::Shift,
};

/// Work in proportion to a length up to this is not checked before it begins, where the length is a constant:
/// `SMALL_BULK_OP_COST` in Wasmtime's `func_environ.rs`.
pub(super) const SMALL_BULK: i64 = 128;

/// What a guest's functions are rewritten to use. Indices are those of the woven module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Work {
    pub(super) fuel: Option<Fuel>,
    pub(super) depth: Option<Depth>,
    pub(super) memory: Option<VirtualMemory>,
    /// The function that unwinds for `unreachable`.
    pub(super) unreachable: Option<u32>,
}

/// Where fuel is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fuel {
    /// The counter: what is left.
    pub(super) global: u32,
    /// `[i64] -> [i64]`: takes a counter that is used up, and gives it filled up or unwinds.
    pub(super) refill: u32,
}

/// Where the depth of calls is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Depth {
    /// What is left of the native stack, in bytes.
    pub(super) global: u32,
    /// The function that unwinds for too deep a call.
    pub(super) overflow: u32,
}

/// Where the size that the guest sees is.
#[derive(Clone, Copy, Debug)]
pub(super) struct VirtualMemory {
    /// It, in pages.
    pub(super) size: u32,
    /// `[i32] -> [i32]`: as `memory.grow`.
    pub(super) grow: u32,
}

/// What a function is beside its body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// How many parameters it has.
    pub(super) parameters: u32,
    /// The type of a block that has the function's results.
    pub(super) results: BlockType,
    /// What a call takes of the native stack, where it is counted.
    pub(super) stack_bytes: Option<i32>,
}

/// The function rewritten.
pub(super) fn rewrite(
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
    let mut writer = Writer::new(work, frame, locals, count, &operators);
    writer.begin();
    for (place, operator) in operators.iter().enumerate() {
        let again = shift.instruction(operator.clone()).map_err(WeaveError::encoding(module.name))?;
        writer.operator(operator, constants.get(&place).copied(), &again);
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

/// What has to be known of a function before the first operator is written.
#[derive(Default)]
struct Survey {
    /// Something branches to the function's end, past what is written before it.
    branches_out: bool,
    /// Something does work in proportion to a number that is not known.
    has_lengths: bool,
}

impl Survey {
    fn of(operators: &[Operator<'_>]) -> Self {
        let (mut survey, mut depth) = (Self::default(), 0u32);
        for operator in operators {
            survey.has_lengths |= is_bulk(operator);
            match operator {
                Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } => depth += 1,
                Operator::End => depth = depth.saturating_sub(1),
                Operator::Br { relative_depth } | Operator::BrIf { relative_depth } => {
                    survey.branches_out |= *relative_depth == depth;
                }
                Operator::BrTable { targets } => {
                    // That they can be read was seen when the operators were.
                    let mut all = targets.targets().flatten().chain([targets.default()]);
                    survey.branches_out |= all.any(|target| target == depth);
                }
                _ => {}
            }
        }
        survey
    }
}

struct Writer<'w> {
    code: Function,
    work: &'w Work,
    frame: Frame,
    reach: Reach,
    /// Charged since the last time that the counter was brought up to date.
    pending: i64,
    /// The function's code is in a block of its own, so that branches to its end come past what follows the block.
    is_wrapped: bool,
    /// Locals of ours, where they are used: the counter, the stack that is left, and a length.
    fuel: u32,
    depth: u32,
    length: u32,
}

impl<'w> Writer<'w> {
    fn new(work: &'w Work, frame: Frame, mut locals: Locals, count: u32, operators: &[Operator<'_>]) -> Self {
        let survey = Survey::of(operators);
        let is_counted = work.depth.is_some() && frame.stack_bytes.is_some();
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
        let depth = local(is_counted, ValType::I32);
        let length = local(work.fuel.is_some() && survey.has_lengths, ValType::I32);
        let is_wrapped = (work.fuel.is_some() || is_counted) && survey.branches_out;
        let code = Function::new(locals);
        Self { code, work, frame, reach: Reach::new(), pending: 0, is_wrapped, fuel, depth, length }
    }

    fn begin(&mut self) {
        self.enter_depth();
        // A call costs its function 1, before anything in it is looked at.
        if let Some(fuel) = self.work.fuel {
            self.code.instructions().global_get(fuel.global).i64_const(1).i64_sub().local_tee(self.fuel);
            self.check_top(fuel);
        }
        if self.is_wrapped {
            self.code.instructions().block(self.frame.results);
        }
    }

    fn operator(&mut self, operator: &Operator<'_>, length: Option<i32>, again: &wasm_encoder::Instruction<'_>) {
        if !self.reach.is_live() {
            return self.dead(operator, again);
        }
        self.pending += cost(operator);
        match operator {
            Operator::Block { .. } => {
                self.copy(again);
                self.reach.enter(Kind::Block);
            }
            Operator::Loop { .. } => {
                self.charge();
                self.copy(again);
                self.reach.enter(Kind::Loop);
                self.check();
            }
            Operator::If { .. } => {
                self.charge();
                self.copy(again);
                self.reach.enter(Kind::If);
            }
            Operator::Else => {
                self.charge();
                self.copy(again);
                self.reach.otherwise();
            }
            Operator::End => self.end(again),
            Operator::Br { relative_depth } => {
                self.charge();
                self.copy(again);
                self.reach.branch(*relative_depth);
                self.reach.stop();
            }
            Operator::BrIf { relative_depth } => {
                self.charge();
                self.copy(again);
                self.reach.branch(*relative_depth);
            }
            Operator::BrTable { targets } => {
                self.charge();
                self.copy(again);
                targets.targets().flatten().chain([targets.default()]).for_each(|target| self.reach.branch(target));
                self.reach.stop();
            }
            Operator::Return | Operator::ReturnCall { .. } | Operator::ReturnCallIndirect { .. } => {
                self.charge_and_save();
                self.leave_depth();
                self.copy(again);
                self.reach.stop();
            }
            Operator::Unreachable => {
                self.charge_and_save();
                if let Some(unwind) = self.work.unreachable {
                    self.code.instructions().call(unwind);
                }
                self.copy(again);
                self.reach.stop();
            }
            Operator::Call { .. } | Operator::CallIndirect { .. } => {
                self.charge_and_save();
                self.copy(again);
                self.reload();
            }
            _ if is_bulk(operator) => {
                self.bulk(length);
                self.copy(again);
            }
            Operator::MemoryGrow { .. } => self.grow(length, again),
            Operator::MemorySize { .. } => match self.work.memory {
                Some(memory) => _ = self.code.instructions().global_get(memory.size),
                None => self.copy(again),
            },
            _ => self.copy(again),
        }
    }

    /// What is never run stays, for the types of what follows it.
    fn dead(&mut self, operator: &Operator<'_>, again: &wasm_encoder::Instruction<'_>) {
        match operator {
            Operator::Block { .. } => self.reach.enter(Kind::Block),
            Operator::Loop { .. } => self.reach.enter(Kind::Loop),
            Operator::If { .. } => self.reach.enter(Kind::If),
            Operator::Else => self.reach.otherwise(),
            Operator::End => return self.end(again),
            _ => {}
        }
        self.copy(again);
    }

    fn copy(&mut self, again: &wasm_encoder::Instruction<'_>) {
        self.code.instruction(again);
    }

    fn end(&mut self, again: &wasm_encoder::Instruction<'_>) {
        let falls_through = self.reach.is_live();
        // Where only one way leads here, its charges can wait.
        if falls_through && self.reach.is_join() {
            self.charge();
        }
        if self.reach.leave() {
            if self.is_wrapped {
                self.charge();
                self.code.instructions().end();
            }
            if self.reach.is_live() {
                self.charge_and_save();
                self.leave_depth();
            }
        }
        self.copy(again);
    }

    /// Before an operator whose work is in proportion to the number on top of the stack, which may be known.
    fn bulk(&mut self, length: Option<i32>) {
        if self.work.fuel.is_none() {
            return;
        }
        if let Some(length) = length {
            let length = i64::from(length.cast_unsigned());
            self.pending += length;
            if length > SMALL_BULK {
                self.check();
            }
            return;
        }
        self.charge();
        let mut code = self.code.instructions();
        code.local_tee(self.length);
        code.local_get(self.fuel).local_get(self.length).i64_extend_i32_u().i64_sub().local_set(self.fuel);
        self.check();
    }

    fn grow(&mut self, pages: Option<i32>, again: &wasm_encoder::Instruction<'_>) {
        // Pages are free, but the check is not left out where their number is not known.
        if pages.is_none() {
            self.check();
        }
        let Some(memory) = self.work.memory else { return self.copy(again) };
        self.charge_and_save();
        self.code.instructions().call(memory.grow);
        self.reload();
    }

    /// Brings the local counter up to date.
    fn charge(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        if self.work.fuel.is_some() && pending != 0 {
            self.code.instructions().local_get(self.fuel).i64_const(pending).i64_sub().local_set(self.fuel);
        }
    }

    /// Brings the global counter up to date: the local one is not used after this, or is loaded first.
    fn charge_and_save(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        let Some(fuel) = self.work.fuel else { return };
        let mut code = self.code.instructions();
        code.local_get(self.fuel);
        if pending != 0 {
            code.i64_const(pending).i64_sub();
        }
        code.global_set(fuel.global);
    }

    fn reload(&mut self) {
        if let Some(fuel) = self.work.fuel {
            self.code.instructions().global_get(fuel.global).local_set(self.fuel);
        }
    }

    /// Looks whether anything is left.
    fn check(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        let Some(fuel) = self.work.fuel else { return };
        let mut code = self.code.instructions();
        code.local_get(self.fuel);
        if pending != 0 {
            code.i64_const(pending).i64_sub().local_tee(self.fuel);
        }
        self.check_top(fuel);
    }

    /// The same where the counter is on top of the stack too, and is taken from there.
    fn check_top(&mut self, fuel: Fuel) {
        let mut code = self.code.instructions();
        code.i64_const(0).i64_le_s().if_(BlockType::Empty);
        code.local_get(self.fuel).call(fuel.refill).local_set(self.fuel).end();
    }

    fn enter_depth(&mut self) {
        let (Some(depth), Some(bytes)) = (self.work.depth, self.frame.stack_bytes) else { return };
        let mut code = self.code.instructions();
        code.global_get(depth.global).i32_const(bytes).i32_sub().local_tee(self.depth);
        code.i32_const(0).i32_lt_s().if_(BlockType::Empty).call(depth.overflow).end();
        code.local_get(self.depth).global_set(depth.global);
    }

    fn leave_depth(&mut self) {
        let (Some(depth), Some(bytes)) = (self.work.depth, self.frame.stack_bytes) else { return };
        self.code.instructions().local_get(self.depth).i32_const(bytes).i32_add().global_set(depth.global);
    }
}

/// Whether an operator does work in proportion to the number on top of the stack, and costs as much.
pub(super) fn is_bulk(operator: &Operator<'_>) -> bool {
    matches!(
        operator,
        Operator::MemoryCopy { .. }
            | Operator::MemoryFill { .. }
            | Operator::MemoryInit { .. }
            | Operator::TableCopy { .. }
            | Operator::TableFill { .. }
            | Operator::TableInit { .. }
            | Operator::TableGrow { .. }
    )
}

/// What an operator costs by itself.
fn cost(operator: &Operator<'_>) -> i64 {
    match operator {
        Operator::Nop
        | Operator::Drop
        | Operator::Block { .. }
        | Operator::Loop { .. }
        | Operator::Unreachable
        | Operator::Return
        | Operator::Else
        | Operator::End => 0,
        _ => 1,
    }
}
