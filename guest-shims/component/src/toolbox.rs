//! The host's tools, prepared for scripts.

use std::rc::Rc;

use glovebox_core::tools::{Checked, Toolset};
#[cfg(any(feature = "tools", test))]
use {
    crate::bindings::types,
    glovebox_core::tools::{Definition, MAX_PROVIDER_LEVELS, ToolDefinitionError, weight},
    serde_json::{Value, json},
};

use crate::World;

/// Maximum number of tools (`wit/tools.wit`).
#[cfg(any(feature = "tools", test))]
const MAX_TOOLS: usize = 1_024;

/// Maximum memory of all their schemas as values, in bytes.
#[cfg(any(feature = "tools", test))]
const MAX_SCHEMAS_WEIGHT: u64 = 32 << 20;

/// The tools, ready to be called.
pub type Toolbox = Toolset<Rc<Checked>>;

/// Returns the host's tools.
///
/// # Errors
/// A tool is invalid; the text names the problem.
#[cfg(any(feature = "tools", test))]
pub(crate) fn host_toolbox(world: &World) -> Result<Toolbox, String> {
    world.tools.as_ref().map_or_else(|| Ok(Toolbox::default()), |tools| checked(&tools.list()))
}

/// Returns an empty set. The compiler for schemas is three times as large as everything else, so a component without
/// tools omits it.
#[cfg(not(any(feature = "tools", test)))]
pub(crate) fn host_toolbox(_world: &World) -> Result<Toolbox, String> {
    Ok(Toolbox::default())
}

/// Checks the tools and compiles their schemas.
#[cfg(any(feature = "tools", test))]
pub(crate) fn checked(tools: &[types::Tool]) -> Result<Toolbox, String> {
    if tools.len() > MAX_TOOLS {
        return Err(format!("there are {}; the maximum is {MAX_TOOLS}", tools.len()));
    }
    let schemas = tools.iter().filter_map(|tool| tool.arguments_schema.as_ref());
    let bytes = schemas.fold(0u64, |sum, text| sum.saturating_add(weight(text.as_bytes())));
    if bytes > MAX_SCHEMAS_WEIGHT {
        return Err(format!("their schemas would take {bytes} bytes; the maximum is {MAX_SCHEMAS_WEIGHT}"));
    }
    let told = |error: ToolDefinitionError| error.to_string();
    let mut toolbox = Toolbox::default();
    for types::Tool { name, description, arguments_schema } in tools {
        let schema: Value = match arguments_schema {
            None => json!({ "type": "object" }),
            Some(text) => {
                serde_json::from_str(text).map_err(|error| format!("the schema of `{name}` is not JSON: {error}"))?
            }
        };
        let max_levels = MAX_PROVIDER_LEVELS;
        let definition = Definition { name, description, schema: &schema, is_foreign: true, max_levels };
        toolbox.add(name, Rc::new(definition.check().map_err(told)?)).map_err(told)?;
    }
    toolbox.check().map_err(told)?;
    Ok(toolbox)
}
