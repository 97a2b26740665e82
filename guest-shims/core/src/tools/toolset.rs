//! The set of tools that scripts may call.

use std::{collections::BTreeMap, fmt, ops::Deref};

use serde_json::{Value, json};

use super::{Checked, MAX_CATALOGUE_BYTES, ToolDefinitionError};

/// Tools by name.
#[derive(Clone)]
pub struct Toolset<T>(BTreeMap<String, T>);

impl<T> Default for Toolset<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> fmt::Debug for Toolset<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Toolset").field(&self.0.keys().collect::<Vec<_>>()).finish()
    }
}

impl<T: Deref<Target: AsRef<Checked>>> Toolset<T> {
    /// Adds a tool.
    ///
    /// # Errors
    /// The name is taken.
    pub fn add(&mut self, name: &str, tool: T) -> Result<(), ToolDefinitionError> {
        match self.0.insert(name.to_owned(), tool) {
            None => Ok(()),
            Some(_) => Err(ToolDefinitionError::Duplicate(name.to_owned())),
        }
    }

    /// Rejects a set with a catalogue that is too long.
    pub fn check(&self) -> Result<(), ToolDefinitionError> {
        match self.catalogue().len() {
            bytes if bytes > MAX_CATALOGUE_BYTES => {
                Err(ToolDefinitionError::TooLarge { bytes, most: MAX_CATALOGUE_BYTES })
            }
            _ => Ok(()),
        }
    }

    /// Returns the tool of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&T> {
        self.0.get(name)
    }

    /// Returns the guest's list of tools, as JSON text.
    #[must_use]
    pub fn catalogue(&self) -> String {
        let tools: Vec<&Value> = self.0.values().map(|tool| tool.deref().as_ref().description()).collect();
        json!({ "tools": tools }).to_string()
    }
}
