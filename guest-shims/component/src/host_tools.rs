//! The tools that the component imports.

use crate::{
    ToolHost,
    bindings::{glovebox::sandbox::tools, types},
};

/// Whoever exports `glovebox:sandbox/tools` to this component.
#[derive(Clone, Copy, Debug)]
pub struct HostTools;

impl ToolHost for HostTools {
    fn list(&self) -> Vec<types::Tool> {
        tools::list_tools()
    }

    fn call(&self, name: &str, arguments: &str) -> Result<String, types::CallFailure> {
        tools::call(name, arguments)
    }
}
