//! The tools that the component's host has, as scripts find them.

use std::{collections::BTreeMap, fmt, rc::Rc};

use glovebox_core::tools::{Checked, catalogue};
#[cfg(any(feature = "tools", test))]
use {
    crate::bindings::types,
    glovebox_core::tools::{Definition, MAX_CATALOGUE_BYTES, MAX_PROVIDER_LEVELS, ToolDefinitionError, weight},
    serde_json::{Value, json},
};

use crate::World;

/// The most tools that there may be (`wit/tools.wit`).
#[cfg(any(feature = "tools", test))]
const MAX_TOOLS: usize = 1_024;

/// The most that all their schemas may take as values, in bytes.
#[cfg(any(feature = "tools", test))]
const MAX_SCHEMAS_WEIGHT: u64 = 32 << 20;

/// The tools, by name, ready to be called. By default there are none.
#[derive(Default)]
pub struct Toolbox(BTreeMap<String, Rc<Checked>>);

impl fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Toolbox").field(&self.0.keys().collect::<Vec<_>>()).finish()
    }
}

impl Toolbox {
    /// The tools that the host has; what is wrong with them, if something is.
    #[cfg(any(feature = "tools", test))]
    pub fn of(world: &World) -> Result<Self, String> {
        world.tools.as_ref().map_or_else(|| Ok(Self::default()), |tools| Self::new(&tools.list()))
    }

    /// None: what compiles schemas is three times as large as all the rest, and left out of a component that imports no tools.
    #[cfg(not(any(feature = "tools", test)))]
    pub fn of(_world: &World) -> Result<Self, String> {
        Ok(Self::default())
    }

    /// Checks the tools and compiles their schemas.
    #[cfg(any(feature = "tools", test))]
    pub(crate) fn new(tools: &[types::Tool]) -> Result<Self, String> {
        if tools.len() > MAX_TOOLS {
            return Err(format!("there are {}, and the most is {MAX_TOOLS}", tools.len()));
        }
        let schemas = tools.iter().filter_map(|tool| tool.arguments_schema.as_ref());
        let bytes = schemas.fold(0u64, |sum, text| sum.saturating_add(weight(text.as_bytes())));
        if bytes > MAX_SCHEMAS_WEIGHT {
            return Err(format!("their schemas would take {bytes} bytes, and the most is {MAX_SCHEMAS_WEIGHT}"));
        }
        let mut entries = BTreeMap::new();
        for types::Tool { name, description, arguments_schema } in tools {
            let schema: Value = match arguments_schema {
                None => json!({ "type": "object" }),
                Some(text) => {
                    let wrong = |error| format!("the schema of `{name}` is no JSON: {error}");
                    serde_json::from_str(text).map_err(wrong)?
                }
            };
            let max_levels = MAX_PROVIDER_LEVELS;
            let definition = Definition { name, description, schema: &schema, is_foreign: true, max_levels };
            let checked = definition.check().map_err(|error| error.to_string())?;
            if entries.insert(name.clone(), Rc::new(checked)).is_some() {
                return Err(ToolDefinitionError::Duplicate(name.clone()).to_string());
            }
        }
        let toolbox = Self(entries);
        let bytes = toolbox.catalogue().len();
        if bytes > MAX_CATALOGUE_BYTES {
            return Err(ToolDefinitionError::TooLarge { bytes, most: MAX_CATALOGUE_BYTES }.to_string());
        }
        Ok(toolbox)
    }

    /// A tool.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Rc<Checked>> {
        self.0.get(name)
    }

    /// What a guest learns about the tools, as JSON text.
    #[must_use]
    pub fn catalogue(&self) -> String {
        catalogue(self.0.values().map(|tool| &**tool))
    }
}
