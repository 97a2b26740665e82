//! Replaces calls of functions with the functions' bodies.
//!
//! The interpreters' compiler inlines only within a source file, and Wasmtime does not inline. A call costs more than
//! most short functions: fuel and stack are checked, and values must leave their registers.
//!
//! All indices stay valid. A function that is no longer used keeps its index and loses its body.

use std::{borrow::Cow, collections::BTreeMap};

use wasm_encoder::{BlockType, CodeSection, Encode};
use wasmparser::{
    BinaryReader, ConstExpr, ElementItems, ExternalKind, FunctionBody, Operator, OperatorsReader, Payload, TableInit,
    ValType,
};

use super::{
    RewriteError,
    function_wrappers::{FunctionType, bodies_of, defined_functions, function_types},
    sections::{SectionChange, Sections},
};

/// Maximum number of operators of a function that is inlined into all callers.
const MAX_SHORT_OPERATORS: usize = 34;
/// Maximum number of operators of such a function without calls and loops.
const MAX_LEAF_OPERATORS: usize = 60;
/// Maximum length of a function with inlined calls, in bytes.
const MAX_CALLER_BYTES: usize = 400 << 10;
/// Maximum number of locals of a function to inline, without its parameters.
const MAX_LOCALS: u32 = 1000;
/// Maximum number of locals of a function with inlined calls. Engines reject functions with more locals.
const MAX_CALLER_LOCALS: usize = 50_000;
/// The bytes that inlining may add to a small module. It may double the length of other modules.
const MIN_BUDGET_BYTES: usize = 64 << 10;
/// Maximum number of bytes to declare and set a local.
const LOCAL_BYTES: usize = 6;
/// Maximum number of bytes to set a local to zero.
const ZERO_BYTES: usize = 22;
/// The number of repetitions. Each repetition inlines the calls within the bodies that the previous one inlined.
const ROUNDS: usize = 3;

/// The body of an unused function: no locals, `unreachable`, `end`.
const UNUSED_BODY: &[u8] = &[0, 0x00, 0x0b];

// Opcodes of generated instructions.
const BLOCK: u8 = 0x02;
const BR: u8 = 0x0c;
const LOCAL_GET: u8 = 0x20;
const LOCAL_SET: u8 = 0x21;
const LOCAL_TEE: u8 = 0x22;

/// Callers with functions that they call.
pub(super) type Calls = std::collections::BTreeSet<(u32, u32)>;

/// Inlines calls between the functions with indices in `ranges`. Each range has the first index and the index after the
/// last.
///
/// A function is inlined if it is short, if only one call refers to it, or if `chosen` contains the caller and the
/// function.
pub(super) fn inline(module: &[u8], ranges: &[(u32, u32)], chosen: &Calls) -> Result<Vec<u8>, RewriteError> {
    let sections = Sections::read(module)?;
    let types = function_types(&sections)?;
    let defined = defined_functions(&sections)?;
    let imported = sections.counts()?.functions.saturating_sub(u32::try_from(defined.len()).unwrap_or(u32::MAX));
    let is_selected = |index: u32| ranges.iter().any(|(first, end)| (*first..*end).contains(&index));
    let mut bodies: Vec<Cow<'_, [u8]>> = bodies_of(&sections)?.into_iter().map(Cow::Borrowed).collect();
    let selected: Vec<(usize, u32, &FunctionType)> = (imported..)
        .zip(&defined)
        .enumerate()
        .filter(|(_, (index, _))| is_selected(*index))
        .filter_map(|(nth, (index, of))| Some((nth, index, types.get(to_usize(*of))?.as_ref()?)))
        .collect();

    let mut fixed = Usage::of_module(&sections)?;
    for (index, body) in (imported..).zip(&bodies).filter(|(index, _)| !is_selected(*index)) {
        fixed.add_calls(index, body)?;
    }
    // Bounds the length of the result, and the time.
    let mut budget = module.len().max(MIN_BUDGET_BYTES);
    for _ in 0..ROUNDS {
        let usage = fixed.with(&selected, &bodies)?;
        let mut callees = BTreeMap::new();
        for (nth, index, of) in &selected {
            let Some(body) = bodies.get(*nth) else { continue };
            let is_single = usage.get(*index) == Uses::OneCall;
            let may_be_long = is_single || chosen.iter().any(|(_, callee)| callee == index);
            if let Some(callee) = Callee::read(body, of, may_be_long)? {
                callees.insert(*index, Callee { is_general: callee.is_general || is_single, ..callee });
            }
        }
        let mut changed = Vec::new();
        for (nth, index, of) in &selected {
            let Some(body) = bodies.get(*nth) else { continue };
            let parameters = u32::try_from(of.0.len()).unwrap_or(u32::MAX);
            changed.extend(expanded(body, *index, parameters, &callees, chosen, &mut budget)?.map(|body| (*nth, body)));
        }
        if changed.is_empty() {
            break;
        }
        for (nth, body) in changed {
            if let Some(place) = bodies.get_mut(nth) {
                *place = Cow::Owned(body);
            }
        }
    }
    let usage = fixed.with(&selected, &bodies)?;
    for (nth, index, _) in selected {
        if let Some(body) = bodies.get_mut(nth).filter(|_| usage.get(index) == Uses::None) {
            *body = Cow::Borrowed(UNUSED_BODY);
        }
    }
    let mut code = CodeSection::new();
    for body in &bodies {
        code.raw(body);
    }
    Ok(sections.rebuild(vec![SectionChange::to(code)]))
}

/// How a function is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Uses {
    None,
    OneCall,
    Other,
}

/// The uses of each function by index, including imported ones.
#[derive(Clone)]
struct Usage(Vec<Uses>);

impl Usage {
    /// Returns the uses by exports, globals, tables and the start section.
    fn of_module(sections: &Sections<'_>) -> Result<Self, RewriteError> {
        let mut usage = Self(vec![Uses::None; to_usize(sections.counts()?.functions)]);
        for export in sections.exports()? {
            if export.kind == ExternalKind::Func {
                usage.add(export.index, Uses::Other);
            }
        }
        for section in &sections.0 {
            match &section.payload {
                Payload::StartSection { func, .. } => usage.add(*func, Uses::Other),
                Payload::GlobalSection(globals) => {
                    for global in globals.clone() {
                        usage.add_references(&global?.init_expr)?;
                    }
                }
                Payload::TableSection(tables) => {
                    for table in tables.clone() {
                        if let TableInit::Expr(value) = table?.init {
                            usage.add_references(&value)?;
                        }
                    }
                }
                Payload::ElementSection(segments) => {
                    for segment in segments.clone() {
                        match segment?.items {
                            ElementItems::Functions(functions) => {
                                for function in functions {
                                    usage.add(function?, Uses::Other);
                                }
                            }
                            ElementItems::Expressions(_, values) => {
                                for value in values {
                                    usage.add_references(&value?)?;
                                }
                            }
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(usage)
    }

    /// Adds the uses by a constant expression.
    fn add_references(&mut self, expression: &ConstExpr<'_>) -> Result<(), RewriteError> {
        for operator in expression.get_operators_reader() {
            if let Operator::RefFunc { function_index } = operator? {
                self.add(function_index, Uses::Other);
            }
        }
        Ok(())
    }

    /// Adds the uses by the selected functions.
    fn with(&self, selected: &[(usize, u32, &FunctionType)], bodies: &[Cow<'_, [u8]>]) -> Result<Self, RewriteError> {
        let mut usage = self.clone();
        for (nth, index, _) in selected {
            usage.add_calls(*index, bodies.get(*nth).map_or(&[][..], |body| body))?;
        }
        Ok(usage)
    }

    /// Adds the uses by a function's body.
    fn add_calls(&mut self, own: u32, body: &[u8]) -> Result<(), RewriteError> {
        let mut operators = FunctionBody::new(BinaryReader::new(body, 0)).get_operators_reader()?;
        while !operators.eof() {
            match operators.read()? {
                Operator::Call { function_index } if function_index != own => self.add(function_index, Uses::OneCall),
                Operator::Call { function_index }
                | Operator::ReturnCall { function_index }
                | Operator::RefFunc { function_index } => self.add(function_index, Uses::Other),
                _ => {}
            }
        }
        Ok(())
    }

    fn add(&mut self, index: u32, uses: Uses) {
        if let Some(known) = self.0.get_mut(to_usize(index)) {
            *known = if *known == Uses::None { uses } else { Uses::Other };
        }
    }

    fn get(&self, index: u32) -> Uses {
        self.0.get(to_usize(index)).copied().unwrap_or(Uses::Other)
    }
}

/// A function to inline.
struct Callee<'a> {
    parameters: &'a [ValType],
    result: Option<ValType>,
    /// The types of the locals, without the parameters.
    locals: Vec<ValType>,
    /// The locals that the function may read before it sets them. Counts from zero, without the parameters.
    zeroed: Vec<u32>,
    /// The operators, including the final `end`.
    code: &'a [u8],
    /// `true` if an operator other than the final `end` leaves the function.
    leaves: bool,
    /// `true` if the function is inlined into all callers.
    is_general: bool,
}

impl<'a> Callee<'a> {
    /// Reads a function. Returns `None` if its calls must stay.
    fn read(body: &'a [u8], of: &'a FunctionType, may_be_long: bool) -> Result<Option<Self>, RewriteError> {
        let (parameters, results) = of;
        if results.len() > 1 {
            return Ok(None);
        }
        let function = FunctionBody::new(BinaryReader::new(body, 0));
        let mut locals = Vec::new();
        let mut total = 0u32;
        for group in function.get_locals_reader()? {
            let (count, of) = group?;
            total = total.saturating_add(count);
            if matches!(of, ValType::Ref(_)) || total > MAX_LOCALS {
                return Ok(None);
            }
            locals.resize(to_usize(total), of);
        }
        let mut operators = function.get_operators_reader()?;
        let code = body.get(operators.original_position()..).unwrap_or_default();
        let mut scan = Scan { first: u32::try_from(parameters.len()).unwrap_or(u32::MAX), ..Scan::default() };
        while !operators.eof() {
            if !scan.add(&operators.read()?)? || !(may_be_long || scan.is_short()) {
                return Ok(None);
            }
        }
        let (result, is_general) = (results.first().copied(), scan.is_short());
        Ok(Some(Self { parameters, result, locals, zeroed: scan.zeroed, code, leaves: scan.leaves, is_general }))
    }

    /// Returns the number of parameters and locals.
    fn local_count(&self) -> usize {
        self.parameters.len().saturating_add(self.locals.len())
    }

    /// Estimates the number of bytes that the function adds to a caller.
    fn cost(&self) -> usize {
        let locals = self.local_count().saturating_mul(LOCAL_BYTES);
        let zeroed = self.zeroed.len().saturating_mul(ZERO_BYTES);
        self.code.len().saturating_add(locals).saturating_add(zeroed)
    }

    /// Appends the function to a caller's code. `locals` are the caller's locals to use for the parameters and locals.
    fn append(&self, locals: &[u32], code: &mut Vec<u8>) -> Result<(), RewriteError> {
        let at = |local: u32| locals.get(to_usize(local)).copied().unwrap_or_default();
        let first = u32::try_from(self.parameters.len()).unwrap_or(u32::MAX);
        for parameter in (0..first).rev() {
            code.push(LOCAL_SET);
            at(parameter).encode(code);
        }
        for local in &self.zeroed {
            code.extend_from_slice(match self.locals.get(to_usize(*local)) {
                Some(ValType::I64) => &[0x42, 0],
                Some(ValType::F32) => &[0x43, 0, 0, 0, 0],
                Some(ValType::F64) => &[0x44, 0, 0, 0, 0, 0, 0, 0, 0],
                Some(ValType::V128) => &[0xfd, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
                _ => &[0x41, 0],
            });
            code.push(LOCAL_SET);
            at(first.saturating_add(*local)).encode(code);
        }
        if self.leaves {
            code.push(BLOCK);
            let of = self.result.map(encoded).transpose()?;
            of.map_or(BlockType::Empty, BlockType::Result).encode(code);
        }
        let mut operators = OperatorsReader::new(BinaryReader::new(self.code, 0));
        let (mut depth, mut copied) = (0u32, 0);
        while !operators.eof() {
            let start = operators.original_position();
            let (opcode, operand) = match operators.read()? {
                Operator::LocalGet { local_index } => (LOCAL_GET, at(local_index)),
                Operator::LocalSet { local_index } => (LOCAL_SET, at(local_index)),
                Operator::LocalTee { local_index } => (LOCAL_TEE, at(local_index)),
                Operator::Return => (BR, depth),
                Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } => {
                    depth = depth.saturating_add(1);
                    continue;
                }
                Operator::End => {
                    depth = depth.saturating_sub(1);
                    continue;
                }
                _ => continue,
            };
            code.extend_from_slice(self.code.get(copied..start).unwrap_or_default());
            code.push(opcode);
            operand.encode(code);
            copied = operators.original_position();
        }
        // The final `end` ends the block.
        let end = self.code.len().saturating_sub(usize::from(!self.leaves));
        code.extend_from_slice(self.code.get(copied..end).unwrap_or_default());
        Ok(())
    }
}

/// The properties of a function that determine whether and how to inline it.
#[derive(Default)]
struct Scan {
    /// The index of the first local that is not a parameter.
    first: u32,
    /// The locals that are set, in the order of the operators.
    set: Vec<u32>,
    /// The number of locals that were set at the start of each open block.
    blocks: Vec<usize>,
    zeroed: Vec<u32>,
    leaves: bool,
    operators: usize,
    has_calls_or_loops: bool,
}

impl Scan {
    fn is_short(&self) -> bool {
        self.operators <= if self.has_calls_or_loops { MAX_SHORT_OPERATORS } else { MAX_LEAF_OPERATORS }
    }

    /// Adds the next operator. Returns `false` if a function with this operator cannot be inlined.
    fn add(&mut self, operator: &Operator<'_>) -> Result<bool, RewriteError> {
        let depth = u32::try_from(self.blocks.len()).unwrap_or(u32::MAX);
        match operator {
            Operator::LocalGet { local_index } => {
                let local = local_index.checked_sub(self.first);
                let unset = local.filter(|local| !self.set.contains(local) && !self.zeroed.contains(local));
                self.zeroed.extend(unset);
            }
            Operator::LocalSet { local_index } | Operator::LocalTee { local_index } => {
                let local = local_index.checked_sub(self.first);
                let unset = local.filter(|local| !self.set.contains(local));
                self.set.extend(unset);
            }
            Operator::Loop { .. } => {
                self.has_calls_or_loops = true;
                self.blocks.push(self.set.len());
            }
            Operator::Block { .. } | Operator::If { .. } => self.blocks.push(self.set.len()),
            // Code after a block may be reached without the block's operators.
            Operator::Else => self.set.truncate(self.blocks.last().copied().unwrap_or_default()),
            Operator::End => self.set.truncate(self.blocks.pop().unwrap_or_default()),
            Operator::Br { relative_depth } | Operator::BrIf { relative_depth } => {
                self.leaves |= *relative_depth >= depth
            }
            Operator::BrTable { targets } => {
                self.leaves |= targets.default() >= depth;
                for target in targets.targets() {
                    self.leaves |= target? >= depth;
                }
            }
            Operator::Return => self.leaves = true,
            Operator::Call { .. } | Operator::CallIndirect { .. } => self.has_calls_or_loops = true,
            Operator::TryTable { .. }
            | Operator::Try { .. }
            | Operator::ReturnCall { .. }
            | Operator::ReturnCallIndirect { .. }
            | Operator::ReturnCallRef { .. }
            | Operator::BrOnNull { .. }
            | Operator::BrOnNonNull { .. }
            | Operator::BrOnCast { .. }
            | Operator::BrOnCastFail { .. } => return Ok(false),
            _ => {}
        }
        self.operators = self.operators.saturating_add(1);
        Ok(true)
    }
}

/// Returns a function with inlined calls, or `None` if it has no calls to inline. `own` is the function's index,
/// and `budget` the number of bytes that may still be added.
fn expanded(
    body: &[u8],
    own: u32,
    parameters: u32,
    callees: &BTreeMap<u32, Callee<'_>>,
    chosen: &Calls,
    budget: &mut usize,
) -> Result<Option<Vec<u8>>, RewriteError> {
    let function = FunctionBody::new(BinaryReader::new(body, 0));
    let (mut groups, mut total) = (Vec::new(), parameters);
    for group in function.get_locals_reader()? {
        let (count, of) = group?;
        total = total.saturating_add(count);
        groups.push((count, of));
    }
    let mut operators = function.get_operators_reader()?;
    let (mut code, mut copied) = (Vec::new(), operators.original_position());
    let mut locals = SharedLocals { first: total, types: Vec::new(), by_type: BTreeMap::new() };
    let mut is_changed = false;
    while !operators.eof() {
        let start = operators.original_position();
        let Operator::Call { function_index } = operators.read()? else { continue };
        let callee = callees
            .get(&function_index)
            .filter(|callee| function_index != own && (callee.is_general || chosen.contains(&(own, function_index))));
        let fits = |callee: &&Callee<'_>| {
            let rest = body.len().saturating_sub(start);
            code.len().saturating_add(rest).saturating_add(callee.code.len()) <= MAX_CALLER_BYTES
                && to_usize(locals.next_index()).saturating_add(callee.local_count()) <= MAX_CALLER_LOCALS
        };
        let Some(callee) = callee.filter(fits) else { continue };
        let Some(left) = budget.checked_sub(callee.cost()) else { continue };
        *budget = left;
        code.extend_from_slice(body.get(copied..start).unwrap_or_default());
        callee.append(&locals.take(callee.parameters.iter().chain(&callee.locals)), &mut code)?;
        copied = operators.original_position();
        is_changed = true;
    }
    if !is_changed {
        return Ok(None);
    }
    code.extend_from_slice(body.get(copied..).unwrap_or_default());
    groups.extend(locals.types.into_iter().map(|of| (1, of)));
    let mut made = Vec::with_capacity(code.len());
    u32::try_from(groups.len()).unwrap_or(u32::MAX).encode(&mut made);
    for (count, of) in groups {
        count.encode(&mut made);
        encoded(of)?.encode(&mut made);
    }
    made.extend_from_slice(&code);
    Ok(Some(made))
}

/// The locals that are added to a caller. All calls use the same locals, because one call ends before the next begins.
struct SharedLocals {
    /// The index of the first added local.
    first: u32,
    /// The types of the added locals.
    types: Vec<ValType>,
    /// The indices of the added locals of each type.
    by_type: BTreeMap<ValType, Vec<u32>>,
}

impl SharedLocals {
    /// Returns the index of the next local to add.
    fn next_index(&self) -> u32 {
        self.first.saturating_add(u32::try_from(self.types.len()).unwrap_or(u32::MAX))
    }

    /// Returns a different local for each type.
    fn take<'t>(&mut self, types: impl Iterator<Item = &'t ValType>) -> Vec<u32> {
        let mut taken = Vec::new();
        let mut used: BTreeMap<ValType, usize> = BTreeMap::new();
        for of in types {
            let next = self.next_index();
            let known = self.by_type.entry(*of).or_default();
            let nth = used.entry(*of).or_default();
            let local = known.get(*nth).copied().unwrap_or(next);
            if local == next {
                self.types.push(*of);
                known.push(next);
            }
            *nth = nth.saturating_add(1);
            taken.push(local);
        }
        taken
    }
}

fn encoded(of: ValType) -> Result<wasm_encoder::ValType, RewriteError> {
    wasm_encoder::ValType::try_from(of).map_err(|_| RewriteError::Unsupported(format!("it uses values of type {of}")))
}

fn to_usize(index: u32) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}
