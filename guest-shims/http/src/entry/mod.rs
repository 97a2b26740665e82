//! The component's export, in one of two forms:
//!
//! * `blocking`: `wasi:http/incoming-handler` of WASI 0.2.
//! * `concurrent`: `wasi:http/handler` of WASI 0.3, with the feature `concurrent`.

#[cfg(not(feature = "concurrent"))]
mod blocking;
#[cfg(feature = "concurrent")]
mod concurrent;

use std::sync::OnceLock;

use crate::{
    bindings::wasi::{
        cli::environment::get_environment,
        http::types::{ErrorCode, Fields, HeaderError, Method},
    },
    http::{Answer, Problem, Request},
    policy::{self, Settings},
};

/// The number of bytes in one read of a body.
const READ_BYTES: usize = 64 << 10;

/// The component's implementation.
#[derive(Debug)]
pub struct Adapter;

/// Returns the settings, which are read once per instance.
fn settings() -> &'static Result<Settings, Problem> {
    static SETTINGS: OnceLock<Result<Settings, Problem>> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let provided = policy::from_provider(glovebox_guest::default_policy());
        Settings::read(&get_environment(), &provided)
    })
}

/// Converts a request's parts, as the host returns them.
fn head(method: Method, target: Option<String>, authority: Option<String>, headers: Vec<(String, Vec<u8>)>) -> Request {
    let method = match method {
        Method::Get => "GET".into(),
        Method::Head => "HEAD".into(),
        Method::Post => "POST".into(),
        Method::Put => "PUT".into(),
        Method::Delete => "DELETE".into(),
        Method::Connect => "CONNECT".into(),
        Method::Options => "OPTIONS".into(),
        Method::Trace => "TRACE".into(),
        Method::Patch => "PATCH".into(),
        Method::Other(name) => name,
    };
    let path = target.unwrap_or_default().split('?').next().unwrap_or_default().to_owned();
    let headers = headers.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
    Request { method, path, authority, headers }
}

/// Returns a response's headers.
fn fields(answer: &Answer) -> Result<Fields, HeaderError> {
    let length = answer.body.len().to_string();
    // Browsers must never interpret text from a guest as a page of this server.
    let fixed =
        [("content-type", answer.content_type), ("content-length", &length), ("x-content-type-options", "nosniff")];
    let all = fixed.iter().chain(&answer.headers);
    let entries: Vec<_> = all.map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
    Fields::from_list(&entries)
}

fn unreadable_body() -> Problem {
    Problem::invalid("cannot read the request body")
}

fn unwritable_response() -> ErrorCode {
    ErrorCode::InternalError(Some("cannot write the response".into()))
}
