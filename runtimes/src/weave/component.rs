//! The component.

use std::fmt::Display;

use wasmparser::{Parser, Payload};
use wit_component::ComponentEncoder;

use super::WeaveError;

/// Makes a component of the woven module, as its `component-type` section says.
pub(super) fn component(core: &[u8]) -> Result<Vec<u8>, WeaveError> {
    let mut encoder = ComponentEncoder::default();
    encoder.validate(true).module(core).map_err(failed)?;
    encoder.encode().map_err(failed)
}

/// What a component imports and exports: the names.
pub(super) fn names(component: &[u8]) -> Result<(Vec<String>, Vec<String>), WeaveError> {
    let (mut imports, mut exports, mut depth) = (Vec::new(), Vec::new(), 0u32);
    for payload in Parser::new(0).parse_all(component) {
        match payload.map_err(failed)? {
            // The modules and components in it have items of their own.
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 1 => {
                for import in section {
                    imports.push(import.map_err(failed)?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                for export in section {
                    exports.push(export.map_err(failed)?.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    Ok((imports, exports))
}

/// With all that the encoder says led to it.
fn failed(error: impl Display) -> WeaveError {
    WeaveError::Component(format!("{error:#}"))
}
