//! The OpenAPI document, derived from the types.

use std::sync::LazyLock;

use axum::{body::Bytes, http::header, response::IntoResponse};
use utoipa::{
    Modify, OpenApi,
    openapi::security::{Http, HttpAuthScheme, SecurityScheme},
};

use super::{Problem, execute, sessions, status, stepping};

#[derive(OpenApi)]
#[openapi(
    info(title = "Glovebox", description = "Runs untrusted Python and JavaScript. The contract `glovebox:sandbox` as HTTP and JSON."),
    paths(
        execute::fresh, execute::validate, execute::in_session, stepping::go_on, stepping::cancel, sessions::list, sessions::open, sessions::describe, sessions::resume,
        sessions::close, sessions::state, sessions::fork, sessions::undo, sessions::checkpoint, sessions::checkpoints, sessions::hibernate,
        sessions::get_variable, sessions::set_variable, sessions::list_files, sessions::read_file, sessions::write_file,
        sessions::delete_file, status::info, status::health, status::ready, status::metrics, answer
    ),
    modifiers(&Token)
)]
struct Document;

struct Token;

impl Modify for Token {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    }
}

/// Returns the OpenAPI document of the HTTP API.
#[must_use]
pub fn document() -> serde_json::Value {
    let mut document = serde_json::to_value(Document::openapi()).unwrap_or_default();
    describe_octets(&mut document);
    document
}

/// Describes octet streams as binary strings. The derived schema of `Vec<u8>` is an array of integers.
fn describe_octets(part: &mut serde_json::Value) {
    let Some(entries) = part.as_object_mut() else { return };
    for (name, entry) in entries {
        if name != "application/octet-stream" {
            describe_octets(entry);
        } else if let Some(schema) = entry.get_mut("schema") {
            *schema = serde_json::json!({ "format": "binary", "type": "string" });
        }
    }
}

/// Returns the OpenAPI document.
#[utoipa::path(get, path = "/v1/openapi.json", operation_id = "get_openapi", tag = "server",
    responses((status = 200, description = "The document.", body = serde_json::Value), (status = "4XX", description = "The request was refused.", body = Problem)))]
pub(crate) async fn answer() -> impl IntoResponse {
    // Built only once: that costs more than most requests.
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| document().to_string().into());
    ([(header::CONTENT_TYPE, "application/json")], TEXT.clone())
}
