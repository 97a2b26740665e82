//! The tools of conformance cases, for providers that import tools. The case runner sets the tools through `table`, and
//! scripts call them through `tools`.

use std::cell::RefCell;

use bindings::{
    exports::glovebox::{
        cases::table::{CaseTool, Guest as Table},
        sandbox::tools::{Guest as Tools, Tool},
    },
    glovebox::sandbox::types::{CallFailure, ToolError},
    wasi::clocks::monotonic_clock,
};

mod bindings {
    wit_bindgen::generate!({
        path: ["../../../../wit", "wit"],
        inline: "
            package glovebox:case-tools;

            world case-tools {
                import wasi:clocks/monotonic-clock@0.2.12;
                export glovebox:cases/table@0.1.0;
                export glovebox:sandbox/tools@0.2.0;
            }
        ",
        world: "glovebox:case-tools/case-tools",
        generate_all,
    });

    export!(CaseTools with_types_in self);

    use super::CaseTools;
}

thread_local! {
    static TOOLS: RefCell<Vec<CaseTool>> = const { RefCell::new(Vec::new()) };
}

struct CaseTools;

impl Table for CaseTools {
    fn set(tools: Vec<CaseTool>) {
        TOOLS.set(tools);
    }
}

impl Tools for CaseTools {
    fn list_tools() -> Vec<Tool> {
        let as_tool = |tool: &CaseTool| Tool {
            name: tool.name.clone(),
            description: tool.description.clone(),
            arguments_schema: tool.schema.clone(),
        };
        TOOLS.with_borrow(|tools| tools.iter().map(as_tool).collect())
    }

    fn call(name: String, arguments: String) -> Result<String, CallFailure> {
        let tool = TOOLS.with_borrow(|tools| tools.iter().find(|tool| tool.name == name).cloned());
        let Some(tool) = tool else {
            return Err(CallFailure { kind: ToolError::Unknown, message: format!("the case has no tool `{name}`") });
        };
        if tool.delay_ms > 0 {
            monotonic_clock::subscribe_duration(tool.delay_ms * 1_000_000).block();
        }
        match (tool.error, tool.reply) {
            (Some(message), _) => Err(CallFailure { kind: ToolError::Failed, message }),
            (None, Some(reply)) => Ok(reply),
            (None, None) => Ok(arguments),
        }
    }
}
