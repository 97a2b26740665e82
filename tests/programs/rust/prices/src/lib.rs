//! A component that implements tools. Composed with a provider that imports tools, it answers scripts' calls.

use bindings::{
    exports::glovebox::sandbox::tools::{Guest, Tool},
    glovebox::sandbox::types::{CallFailure, ToolError},
};
use serde_json::Value;

mod bindings {
    wit_bindgen::generate!({
        path: "../../../../wit",
        inline: "
            package example:prices;

            world prices {
                export glovebox:sandbox/tools@0.2.0;
            }
        ",
        world: "example:prices/prices",
        generate_all,
    });

    export!(Prices with_types_in self);

    use super::Prices;
}

struct Prices;

impl Guest for Prices {
    fn list_tools() -> Vec<Tool> {
        vec![Tool {
            name: "price".into(),
            description: "What an item costs, in cents.".into(),
            arguments_schema: Some(r#"{"properties": {"item": {"type": "string"}}, "required": ["item"]}"#.into()),
        }]
    }

    fn call(_name: String, arguments: String) -> Result<String, CallFailure> {
        // The provider has validated the arguments against the schema.
        let arguments: Value = serde_json::from_str(&arguments).unwrap_or_default();
        match arguments["item"].as_str() {
            Some("tea") => Ok("320".into()),
            Some("cake") => Ok("450".into()),
            _ => Err(CallFailure { kind: ToolError::Failed, message: "nobody sells this".into() }),
        }
    }
}
