//! A component that implements tools, with version 0.3.0 of the contract. Its calls can run at the same time.

use exports::glovebox::sandbox0_3_0::tools::{CallInfo, Guest};
use glovebox::sandbox0_2_0::types::{CallFailure, Tool, ToolError};
use serde_json::Value;

wit_bindgen::generate!({
    path: ["../../../../wit", "../../../../wit/0.3"],
    inline: "
        package example:rates;

        world rates {
            export glovebox:sandbox/tools@0.3.0;
        }
    ",
    generate_all,
});

struct Rates;
export!(Rates);

impl Guest for Rates {
    fn list_tools() -> Vec<Tool> {
        vec![Tool {
            name: "rate".into(),
            description: "How many US cents a unit of a currency costs.".into(),
            arguments_schema: Some(r#"{"properties": {"of": {"type": "string"}}, "required": ["of"]}"#.into()),
        }]
    }

    async fn call(_name: String, arguments: String, _info: CallInfo) -> Result<String, CallFailure> {
        // Lets the other calls begin.
        wit_bindgen::yield_async().await;
        // The importer has validated the arguments against the schema.
        let arguments: Value = serde_json::from_str(&arguments).unwrap_or_default();
        match arguments["of"].as_str() {
            Some("EUR") => Ok("117".into()),
            Some("GBP") => Ok("134".into()),
            _ => Err(CallFailure { kind: ToolError::Failed, message: "nobody trades this currency".into() }),
        }
    }
}
