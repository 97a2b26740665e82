//! Hostile tools, implemented by the component `case-tools`.

use bindings::glovebox::cases::table::{self, CaseTool};

mod bindings {
    wit_bindgen::generate!({
        path: "../case-tools/wit",
        inline: "
            package glovebox:abuse;

            world abuse {
                import glovebox:cases/table@0.1.0;
            }
        ",
        world: "glovebox:abuse/abuse",
        generate_all,
    });
}

fn tool(name: &str, reply: String) -> CaseTool {
    let (name, description) = (name.to_owned(), String::new());
    CaseTool { name, description, schema: None, reply: Some(reply), error: None, delay_ms: 0 }
}

/// Installs the hostile tools in `case-tools`.
pub fn set() {
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    table::set(&[
        tool("large", format!("\"{}\"", "x".repeat(10_000_000))),
        tool("deep", deep),
        tool("empty", String::new()),
        tool("cut", "{\"a\":".to_owned()),
        tool("surrogate", "\"\\ud800\"".to_owned()),
        tool("huge_number", "1e999999".to_owned()),
        CaseTool { error: Some("x".repeat(1_000_000)), ..tool("long_error", String::new()) },
    ]);
}
