//! Encoding of the woven module as a component.

use std::fmt::Display;

use wasmparser::{Parser, Payload};
use wit_component::ComponentEncoder;

use crate::WeaveError;

/// Makes a component of the woven module, according to its `component-type` section.
pub(crate) fn component(core: &[u8]) -> Result<Vec<u8>, WeaveError> {
    let mut encoder = ComponentEncoder::default().validate(true).module(core).map_err(failed)?;
    without_names(encoder.encode().map_err(failed)?)
}

/// Removes the name section, which is 7 KB long and never read.
fn without_names(mut component: Vec<u8>) -> Result<Vec<u8>, WeaveError> {
    let (mut depth, mut end, mut names) = (0u32, 0, None);
    for payload in Parser::new(0).parse_all(&component) {
        let payload = payload.map_err(failed)?;
        let section = payload.as_section().map(|(_, range)| range).filter(|_| depth == 1);
        match &payload {
            Payload::Version { range, .. } if depth == 0 => end = range.end,
            Payload::CustomSection(custom) if depth == 1 && custom.name() == "component-name" => {
                // The section's header lies between the previous section and its contents.
                names = section.as_ref().map(|section| end..section.end);
            }
            _ => {}
        }
        match payload {
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
        end = section.map_or(end, |section| section.end);
    }
    if let Some(names) = names {
        component.drain(names);
    }
    Ok(component)
}

/// Returns the names of a component's imports and of its exports.
pub(crate) fn names(component: &[u8]) -> Result<(Vec<String>, Vec<String>), WeaveError> {
    let (mut imports, mut exports, mut depth) = (Vec::new(), Vec::new(), 0u32);
    for payload in Parser::new(0).parse_all(component) {
        match payload.map_err(failed)? {
            // Nested modules and components have imports and exports of their own.
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

/// Converts an encoder's error, with its whole chain of causes.
fn failed(error: impl Display) -> WeaveError {
    WeaveError::Component(format!("{error:#}"))
}
