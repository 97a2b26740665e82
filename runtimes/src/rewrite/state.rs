//! State of an instance that its code can change.

use wasmparser::{Operator, Payload};

use super::{RewriteError, sections::Sections};

/// Returns `true` if a module's code can change only one memory and the globals of its instance, so that restoring
/// these resets the instance.
///
/// Tables and passive segments are also part of an instance's state, and an embedder cannot tell whether a segment was
/// dropped.
pub fn changes_only_memory_and_globals(module: &[u8]) -> Result<bool, RewriteError> {
    let sections = Sections::read(module)?;
    let has_imported_state =
        super::inspect(module)?.imports.iter().any(|import| import.kind != super::ItemKind::Function);
    if sections.memories()?.len() > 1 || has_imported_state {
        return Ok(false);
    }
    for section in &sections.0 {
        let Payload::CodeSectionStart { range, .. } = &section.payload else { continue };
        let reader = wasmparser::BinaryReader::new(module.get(range.clone()).unwrap_or_default(), range.start);
        for body in wasmparser::CodeSectionReader::new(reader)? {
            for operator in body?.get_operators_reader()? {
                if changes_other_state(&operator?) {
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}

fn changes_other_state(operator: &Operator<'_>) -> bool {
    use Operator as Op;
    matches!(
        operator,
        Op::TableSet { .. }
            | Op::TableFill { .. }
            | Op::TableGrow { .. }
            | Op::TableCopy { .. }
            | Op::TableInit { .. }
            | Op::TableAtomicSet { .. }
            | Op::TableAtomicRmwXchg { .. }
            | Op::TableAtomicRmwCmpxchg { .. }
            | Op::ElemDrop { .. }
            | Op::DataDrop { .. }
            // The effect depends on whether the segment was dropped, and instances share the segment.
            | Op::MemoryInit { .. }
    )
}
