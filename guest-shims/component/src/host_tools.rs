//! The imported tools.

use crate::{
    ToolHost,
    bindings::{glovebox::sandbox::tools, types},
};

/// The exporter of `glovebox:sandbox/tools` to this component.
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
