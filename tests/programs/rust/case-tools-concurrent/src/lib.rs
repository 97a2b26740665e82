//! The tools of conformance cases, for providers that import version 0.3.0 of the tools. The case runner sets the tools through `table`, and
//! scripts call them through `tools`.

use std::cell::RefCell;

use bindings::{
    exports::glovebox::{
        cases::table::{CaseTool, Guest as Table},
        sandbox0_3_0::tools::{CallInfo, Guest as Tools},
    },
    glovebox::sandbox0_2_0::types::{CallFailure, Tool, ToolError},
    wasi::clocks0_3_0::monotonic_clock,
};

mod bindings {
    wit_bindgen::generate!({
        path: ["../../../../wit", "../../../../wit/0.3", "../case-tools/wit"],
        inline: "
            package glovebox:case-tools;

            world case-tools {
                import wasi:clocks/monotonic-clock@0.3.0;
                export glovebox:cases/table@0.1.0;
                export glovebox:sandbox/tools@0.3.0;
            }

            package wasi:clocks@0.3.0 {
                interface types {
                    type duration = u64;
                }

                interface monotonic-clock {
                    use types.{duration};

                    wait-for: async func(how-long: duration);
                }
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

    async fn call(name: String, arguments: String, _info: CallInfo) -> Result<String, CallFailure> {
        let tool = TOOLS.with_borrow(|tools| tools.iter().find(|tool| tool.name == name).cloned());
        let Some(tool) = tool else {
            return Err(CallFailure { kind: ToolError::Unknown, message: format!("the case has no tool `{name}`") });
        };
        if tool.delay_ms > 0 {
            monotonic_clock::wait_for(tool.delay_ms * 1_000_000).await;
        }
        match (tool.error, tool.reply) {
            (Some(message), _) => Err(CallFailure { kind: ToolError::Failed, message }),
            (None, Some(reply)) => Ok(reply),
            (None, None) => Ok(arguments),
        }
    }
}
