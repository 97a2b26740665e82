//! A tools component of version 0.3.0. It offers the host's tools and forwards the calls to them, each while the others
//! wait.

use exports::glovebox::sandbox0_3_0::tools::{CallInfo, Guest};
use glovebox::{
    sandbox0_2_0::types::{CallFailure, Tool},
    sandbox0_3_0::tools,
};

wit_bindgen::generate!({
    path: ["../../../../wit", "../../../../wit/0.3"],
    inline: "
        package example:relay;

        world relay {
            import glovebox:sandbox/tools@0.3.0;
            export glovebox:sandbox/tools@0.3.0;
        }
    ",
    generate_all,
});

struct Relay;
export!(Relay);

impl Guest for Relay {
    fn list_tools() -> Vec<Tool> {
        tools::list_tools()
    }

    async fn call(name: String, arguments: String, info: CallInfo) -> Result<String, CallFailure> {
        let CallInfo { id, session_id, timeout_ms } = info;
        tools::call(name, arguments, tools::CallInfo { id, session_id, timeout_ms }).await
    }
}
