//! Indices in the woven module, the translation of input modules' indices, and pristine images of guests.

use std::convert::Infallible;

use wasm_encoder::{
    Function, ValType,
    reencode::{Error, Reencode},
};
use wasmparser::{ConstExpr, DataKind, ElementItems, ElementKind, Operator};

use crate::{
    WeaveError,
    glue::Assembly,
    guest::{Module, ParsedGuest, count, index},
};

/// The indices that generated functions use.
pub(crate) struct Plan<'a> {
    /// The tag of the unwinding exception.
    pub(crate) tag: u32,
    /// The index of the shim's memory. The guests' memories precede the shim's memory, because engines access a
    /// module's first memory fastest, with an encoding that is one byte shorter.
    pub(crate) shim_memory: u32,
    /// The index of the fuel counter, an `i64` global with the remaining fuel minus one.
    pub(crate) fuel: u32,
    /// The index of the `i32` global with the reason for the last unwind.
    pub(crate) reason: u32,
    /// The index of the `i64` global with the remaining native stack in bytes.
    pub(crate) depth: u32,
    /// The index and length of the data segment that contains the description.
    pub(crate) description: (u32, u32),
    pub(crate) guests: Vec<PlacedGuest<'a>>,
}

impl Plan<'_> {
    /// Returns `true` if any guest defines exception tags.
    pub(crate) fn has_tags(&self) -> bool {
        self.guests.iter().any(|guest| !guest.read.module.tags.is_empty())
    }
}

/// A guest and its indices in the woven module.
pub(crate) struct PlacedGuest<'a> {
    pub(crate) read: ParsedGuest<'a>,
    pub(crate) shift: Shift,
    /// The index of the global with the guest's virtual memory size in pages.
    pub(crate) virtual_size: u32,
    /// The index of the data segment with the guest's image.
    pub(crate) image: u32,
    /// The index of the data segment with the guest's library, if the guest has one.
    pub(crate) library: Option<u32>,
}

impl PlacedGuest<'_> {
    /// Returns the index of the guest's memory.
    pub(crate) fn memory(&self) -> u32 {
        self.shift.memories
    }
}

/// The reason why a call was unwound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The shim requested the unwind, and stores the reason itself.
    Requested = 0,
    /// The guest executed `unreachable`.
    Unreachable = 1,
    /// Calls were too deep.
    Depth = 2,
    /// The guest did not catch an exception that it threw.
    Thrown = 3,
}

/// Generated functions. Their indices are assigned before their bodies exist.
pub(crate) struct GeneratedFunctions {
    first: u32,
    functions: Vec<Option<(u32, Function)>>,
}

impl GeneratedFunctions {
    /// Creates an empty list. `first` is the index of the first function.
    pub(crate) fn new(first: u32) -> Self {
        Self { first, functions: Vec::new() }
    }

    /// Reserves the next index.
    pub(crate) fn reserve(&mut self) -> u32 {
        let next = self.next();
        self.functions.push(None);
        next
    }

    /// Returns the first index that is not reserved.
    pub(crate) fn next(&self) -> u32 {
        self.first.saturating_add(count(&self.functions))
    }

    /// Sets the type and body of a reserved function.
    pub(crate) fn define(
        &mut self,
        assembly: &mut Assembly,
        function: u32,
        (parameters, results): (&[ValType], &[ValType]),
        body: Function,
    ) {
        let signature = assembly.signature(parameters, results);
        let at = usize::try_from(function.saturating_sub(self.first)).unwrap_or(usize::MAX);
        if let Some(slot) = self.functions.get_mut(at) {
            *slot = Some((signature, body));
        }
    }

    /// Adds the functions to `assembly`. Returns `None` if a reserved function was not defined.
    pub(crate) fn finish(self, assembly: &mut Assembly) -> Option<()> {
        for function in self.functions {
            let (signature, body) = function?;
            assembly.define(signature, &body);
        }
        Some(())
    }
}

/// The translation of a module's indices. Imported functions are mapped individually. All other indices are shifted by
/// a constant for each index space.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shift {
    /// The new index of each imported function.
    pub(crate) imported_functions: Vec<u32>,
    /// The new index of the module's first own function.
    pub(crate) own_functions: u32,
    pub(crate) types: u32,
    pub(crate) tables: u32,
    pub(crate) memories: u32,
    pub(crate) tags: u32,
    pub(crate) globals: u32,
    pub(crate) elements: u32,
    pub(crate) data: u32,
}

impl Shift {
    /// Returns the new index of a function.
    pub(crate) fn function(&self, before: u32) -> u32 {
        match self.imported_functions.get(index(before)) {
            Some(now) => *now,
            None => {
                let imported = u32::try_from(self.imported_functions.len()).unwrap_or(u32::MAX);
                self.own_functions.saturating_add(before.saturating_sub(imported))
            }
        }
    }
}

type ReencodeResult = Result<u32, Error<Infallible>>;

impl Reencode for Shift {
    type Error = Infallible;

    fn function_index(&mut self, before: u32) -> ReencodeResult {
        Ok(self.function(before))
    }

    fn type_index(&mut self, before: u32) -> ReencodeResult {
        Ok(before.saturating_add(self.types))
    }

    fn table_index(&mut self, before: u32) -> ReencodeResult {
        Ok(before.saturating_add(self.tables))
    }

    fn memory_index(&mut self, before: u32) -> ReencodeResult {
        Ok(before.saturating_add(self.memories))
    }

    fn tag_index(&mut self, before: u32) -> ReencodeResult {
        Ok(before.saturating_add(self.tags))
    }

    fn global_index(&mut self, before: u32) -> ReencodeResult {
        Ok(before.saturating_add(self.globals))
    }

    fn element_index(&mut self, before: u32) -> ReencodeResult {
        Ok(before.saturating_add(self.elements))
    }

    fn data_index(&mut self, before: u32) -> ReencodeResult {
        Ok(before.saturating_add(self.data))
    }
}

// Pristine images of guests.
//
// An image consists of a data segment and a list of addresses. When the shim resets the guest, it copies ranges of the
// segment to these addresses.

/// Minimum length of a run of zeros that is omitted, in bytes. Each additional run costs about eight bytes in the
/// description, and two short copies at each reset.
const GAP_BYTES: u32 = 32;

/// An image without its long runs of zeros.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Image {
    /// The bytes of all runs, concatenated.
    pub(crate) bytes: Vec<u8>,
    /// The start address and length of each run, in address order.
    pub(crate) runs: Vec<(u32, u32)>,
}

impl Image {
    pub(crate) fn of(module: &Module<'_>) -> Result<Self, WeaveError> {
        let (mut image, mut end) = (Self::default(), 0);
        for data in &module.data {
            let (start, bytes) = segment(module, data)?;
            if start < end {
                let what = "the module's data segments overlap; only prepared modules can be woven";
                return Err(WeaveError::unsupported(module.name, what));
            }
            end = start.saturating_add(count(bytes));
            image.add(start, bytes);
        }
        Ok(image)
    }

    /// Adds a segment. Its address must be above all previous segments.
    fn add(&mut self, start: u32, bytes: &[u8]) {
        for (at, byte) in (start..).zip(bytes).filter(|(_, byte)| **byte != 0) {
            let zeros =
                self.runs.last().map(|(start, length)| at - (start + length)).filter(|zeros| *zeros < GAP_BYTES);
            match (self.runs.last_mut(), zeros) {
                (Some((_, length)), Some(zeros)) => {
                    *length += zeros + 1;
                    self.bytes.resize(self.bytes.len() + index(zeros), 0);
                }
                _ => self.runs.push((at, 1)),
            }
            self.bytes.push(*byte);
        }
    }

    /// Returns alternating lengths of omitted zeros and of present bytes, starting with zeros.
    pub(crate) fn lengths(&self) -> Vec<u32> {
        let mut end = 0;
        let pair = |(start, length): &(u32, u32)| {
            let zeros = start - std::mem::replace(&mut end, start + length);
            [zeros, *length]
        };
        self.runs.iter().flat_map(pair).collect()
    }
}

/// The function indices in a table, by slot.
pub(crate) type Slots = Vec<Option<u32>>;

/// Returns the functions in a table, as initialized by the element segments.
pub(crate) fn slots(module: &Module<'_>, table: u32) -> Result<Slots, WeaveError> {
    let size = module.tables.get(index(table)).map_or(0, |table| table.ty.initial);
    let mut slots = vec![None; usize::try_from(size).unwrap_or(0)];
    for element in &module.elements {
        let ElementKind::Active { table_index, offset_expr } = &element.kind else { continue };
        if table_index.unwrap_or(0) != table {
            continue;
        }
        let Some(start) = constant(offset_expr) else {
            return Err(WeaveError::unsupported(module.name, "an element segment has no constant offset"));
        };
        for (at, function) in (index(start)..).zip(functions(module, &element.items)?) {
            if let Some(slot) = slots.get_mut(at) {
                *slot = function;
            }
        }
    }
    Ok(slots)
}

fn functions(module: &Module<'_>, items: &ElementItems<'_>) -> Result<Vec<Option<u32>>, WeaveError> {
    let listed: Result<Vec<_>, wasmparser::Error> = match items {
        ElementItems::Functions(items) => items.clone().into_iter().map(|function| function.map(Some)).collect(),
        ElementItems::Expressions(_, items) => {
            items.clone().into_iter().map(|expression| reference(&expression?)).collect()
        }
    };
    listed.map_err(WeaveError::invalid(module.name))
}

fn reference(expression: &ConstExpr<'_>) -> Result<Option<u32>, wasmparser::Error> {
    Ok(match expression.get_operators_reader().read()? {
        Operator::RefFunc { function_index } => Some(function_index),
        _ => None,
    })
}

/// Returns the value of an expression that consists of a single `i32.const`.
pub(crate) fn constant(expression: &ConstExpr<'_>) -> Option<u32> {
    let mut reader = expression.get_operators_reader();
    match (reader.read(), reader.read()) {
        (Ok(Operator::I32Const { value }), Ok(Operator::End)) => Some(value.cast_unsigned()),
        _ => None,
    }
}

/// Returns the address and contents of an active data segment. The module has only one memory.
pub(crate) fn segment<'a>(module: &Module<'_>, data: &wasmparser::Data<'a>) -> Result<(u32, &'a [u8]), WeaveError> {
    let place = match &data.kind {
        DataKind::Active { offset_expr, .. } => constant(offset_expr),
        DataKind::Passive => None,
    };
    let start = place.filter(|start| start.checked_add(count(data.data)).is_some());
    start.map(|start| (start, data.data)).ok_or_else(|| {
        WeaveError::unsupported(
            module.name,
            "a data segment has no constant offset; only prepared modules can be woven",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::{GAP_BYTES, Image};

    fn image(segments: &[(u32, &[u8])]) -> Image {
        let mut image = Image::default();
        segments.iter().for_each(|(start, bytes)| image.add(*start, bytes));
        image
    }

    #[test]
    fn only_long_runs_of_zeros_are_omitted() {
        for zeros in [GAP_BYTES - 1, GAP_BYTES, GAP_BYTES + 1] {
            let between = vec![0; zeros as usize];
            let image = image(&[(100, &[&[0, 0, 7][..], &between, &[8, 9], &[0; 4]].concat())]);
            let far = 102 + 1 + zeros;
            if zeros < GAP_BYTES {
                assert_eq!(image.runs, [(102, zeros + 3)]);
                assert_eq!(image.bytes, [&[7][..], &between, &[8, 9]].concat());
                assert_eq!(image.lengths(), [102, zeros + 3]);
            } else {
                assert_eq!(image.runs, [(102, 1), (far, 2)]);
                assert_eq!(image.bytes, [7, 8, 9]);
                assert_eq!(image.lengths(), [102, 1, zeros, 2]);
            }
        }
        assert_eq!(image(&[(100, &[0; 99])]), Image::default());
    }

    #[test]
    fn adjacent_segments_are_merged() {
        let near = image(&[(0, &[1]), (1, &[2]), (2 + GAP_BYTES - 1, &[3])]);
        assert_eq!(near.runs, [(0, 2 + GAP_BYTES)]);
        let far = image(&[(0, &[1]), (1, &[2]), (2 + GAP_BYTES, &[3])]);
        assert_eq!((far.runs, far.bytes), (vec![(0, 2), (2 + GAP_BYTES, 1)], vec![1, 2, 3]));
    }
}
