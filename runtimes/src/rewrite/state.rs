//! Detects state that a module can change.

use wasmparser::{Operator, Payload};

use super::{RewriteError, sections::Sections};

/// Returns `true` if a module's code can change only one memory and the instance's globals, so that restoring them
/// resets the instance.
///
/// Tables and passive segments are also part of an instance's state. An embedder cannot restore them, because it cannot
/// determine whether a segment was dropped.
///
/// # Errors
/// Fails if the bytes are not a well-formed core module.
pub fn changes_only_memory_and_globals(module: &[u8]) -> Result<bool, RewriteError> {
    let sections = Sections::read(module)?;
    let counts = sections.counts()?;
    let imported = [counts.imported_tables, counts.imported_memories, counts.imported_globals];
    if counts.memories > 1 || imported != [0; 3] {
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
            // `memory.init` is not in this list, because it changes only the memory. Without `data.drop`,
            // `memory.init` always has the same effect.
            | Op::DataDrop { .. }
    )
}
