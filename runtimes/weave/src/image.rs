//! A guest's pristine image and the contents of its segments.
//!
//! The image is a data segment, and the addresses that the shim copies its parts to whenever a guest is reset.

use wasmparser::{ConstExpr, DataKind, ElementItems, ElementKind, Operator};

use crate::{
    WeaveError,
    module::{Module, count, index},
};

/// Shortest run of zeros that is left out. Each additional run costs about eight bytes of description, and two short
/// copies at each reset.
const GAP_BYTES: u32 = 32;

/// The image without its long runs of zeros.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Image {
    /// The remaining bytes, run after run.
    pub(crate) bytes: Vec<u8>,
    /// Start address and length of each run, by ascending address.
    pub(crate) runs: Vec<(u32, u32)>,
}

impl Image {
    pub(crate) fn of(module: &Module<'_>) -> Result<Self, WeaveError> {
        let (mut image, mut end) = (Self::default(), 0);
        for data in &module.data {
            let (start, bytes) = segment(module, data)?;
            if start < end {
                let what = "its data segments overlap; only prepared modules can be woven";
                return Err(WeaveError::unsupported(module.name, what));
            }
            end = start.saturating_add(count(bytes));
            image.add(start, bytes);
        }
        Ok(image)
    }

    /// Adds a segment, which must lie behind all previous ones.
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

    /// Returns alternating lengths: of zeros that were left out, of bytes that are present.
    pub(crate) fn lengths(&self) -> Vec<u32> {
        let mut end = 0;
        let pair = |(start, length): &(u32, u32)| {
            let zeros = start - std::mem::replace(&mut end, start + length);
            [zeros, *length]
        };
        self.runs.iter().flat_map(pair).collect()
    }
}

/// Function indices in a table, by slot.
pub(crate) type Slots = Vec<Option<u32>>;

/// Returns the functions that the element segments put into a table.
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

/// Returns the value of an expression that consists of one `i32.const`.
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
    fn long_zeros_are_left_out_and_short_ones_are_not() {
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
    fn segments_side_by_side_are_one_run() {
        let near = image(&[(0, &[1]), (1, &[2]), (2 + GAP_BYTES - 1, &[3])]);
        assert_eq!(near.runs, [(0, 2 + GAP_BYTES)]);
        let far = image(&[(0, &[1]), (1, &[2]), (2 + GAP_BYTES, &[3])]);
        assert_eq!((far.runs, far.bytes), (vec![(0, 2), (2 + GAP_BYTES, 1)], vec![1, 2, 3]));
    }
}
