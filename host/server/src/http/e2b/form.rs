//! JSON form of E2B's sandbox API, and its errors.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use glovebox::Untrusted;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;

use super::{
    contexts::is_env_name,
    sandboxes::{Description, Sandbox},
};
use crate::{ServiceError, http::Problem, json::entries_at_most};

/// The version from which clients infer the supported features: plain uploads, but no later features.
const ENVD_VERSION: &str = "0.5.7";
/// A sandbox's default timeout in seconds.
const DEFAULT_TIME_S: u64 = 300;
/// A sandbox's maximum timeout in seconds.
const MAX_TIME_S: u64 = 86_400;
/// Maximum number of entries in the metadata or the environment.
const MAX_ENTRIES: usize = 256;
/// Maximum total size of the entries in the metadata or the environment, in bytes.
const MAX_ENTRY_BYTES: usize = 64 << 10;

/// The parameters of a new sandbox. Other fields are ignored, for example network settings: only the tenant's policy
/// grants network access.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct NewSandbox {
    #[serde(rename = "templateID")]
    template_id: String,
    timeout: Option<u64>,
    auto_pause: bool,
    #[serde(deserialize_with = "few_entries")]
    metadata: BTreeMap<String, String>,
    #[serde(deserialize_with = "few_entries")]
    env_vars: BTreeMap<String, String>,
    mcp: Option<serde::de::IgnoredAny>,
    volume_mounts: Option<Vec<serde::de::IgnoredAny>>,
}

impl NewSandbox {
    pub(super) fn parts(self) -> Result<(Description, Duration), E2bError> {
        if self.mcp.is_some() {
            return Err(E2bError::unsupported("`mcp`"));
        }
        if self.volume_mounts.is_some_and(|mounts| !mounts.is_empty()) {
            return Err(E2bError::unsupported("`volumeMounts`"));
        }
        check_entries("metadata", &self.metadata)?;
        check_entries("envVars", &self.env_vars)?;
        if let Some(name) = self.env_vars.keys().find(|name| !is_env_name(name)) {
            return Err(E2bError::invalid(format!(
                "`{}` in `envVars` is not a valid name; use a name without `=` and NUL",
                glovebox::escaped(name)
            )));
        }
        let mut template = self.template_id;
        template.truncate(template.floor_char_boundary(256));
        let (metadata, env, pauses) = (self.metadata, self.env_vars, self.auto_pause);
        Ok((Description { template, metadata, env, pauses }, time(self.timeout)?))
    }
}

/// Metadata or environment entries. Deserialization fails at the first entry above the limit of [`check_entries`].
#[derive(Debug, Deserialize)]
pub(super) struct Entries(#[serde(deserialize_with = "few_entries")] pub(super) BTreeMap<String, String>);

fn few_entries<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    entries_at_most::<D, String, MAX_ENTRIES>(deserializer)
}

pub(super) fn check_entries(name: &str, entries: &BTreeMap<String, String>) -> Result<(), E2bError> {
    let bytes: usize = entries.iter().map(|(name, value)| name.len() + value.len()).sum();
    if entries.len() > MAX_ENTRIES || bytes > MAX_ENTRY_BYTES {
        return Err(E2bError::invalid(format!(
            "`{name}` has {} entries and {bytes} bytes; the limits are {MAX_ENTRIES} entries and \
             {MAX_ENTRY_BYTES} bytes",
            entries.len()
        )));
    }
    Ok(())
}

/// The parameters of a request that sets a sandbox's timeout, in seconds.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Timeout {
    pub(super) timeout: Option<u64>,
}

/// Converts a sandbox's timeout from seconds. `None` selects the default. Fails if the timeout exceeds the maximum.
pub(super) fn time(seconds: Option<u64>) -> Result<Duration, E2bError> {
    match seconds.unwrap_or(DEFAULT_TIME_S) {
        seconds if seconds <= MAX_TIME_S => Ok(Duration::from_secs(seconds)),
        seconds => Err(E2bError::invalid(format!("`timeout` is {seconds} s; the maximum is {MAX_TIME_S} s"))),
    }
}

/// A sandbox with its access tokens, for the client that creates or connects to it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SandboxAnswer {
    #[serde(rename = "templateID")]
    template_id: String,
    #[serde(rename = "sandboxID")]
    sandbox_id: String,
    #[serde(rename = "clientID")]
    client_id: &'static str,
    envd_version: &'static str,
    envd_access_token: String,
    traffic_access_token: String,
    domain: Option<String>,
}

impl From<&Arc<Sandbox>> for SandboxAnswer {
    fn from(sandbox: &Arc<Sandbox>) -> Self {
        Self {
            template_id: sandbox.description.template.clone(),
            sandbox_id: sandbox.id.clone(),
            client_id: "glovebox",
            envd_version: ENVD_VERSION,
            envd_access_token: sandbox.secret.clone(),
            traffic_access_token: sandbox.secret.clone(),
            domain: None,
        }
    }
}

/// The description of a sandbox.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DetailAnswer {
    #[serde(rename = "templateID")]
    template_id: String,
    #[serde(rename = "sandboxID")]
    pub(super) sandbox_id: String,
    #[serde(rename = "clientID")]
    client_id: &'static str,
    pub(super) started_at: String,
    end_at: String,
    envd_version: &'static str,
    /// A nominal number: sandboxes share the machine's processors without reservation.
    cpu_count: u32,
    #[serde(rename = "memoryMB")]
    memory_mb: u64,
    #[serde(rename = "diskSizeMB")]
    disk_size_mb: u64,
    pub(super) state: &'static str,
    pub(super) metadata: BTreeMap<String, String>,
}

impl DetailAnswer {
    pub(super) fn new(sandbox: &Sandbox) -> Self {
        let limits = &sandbox.tenant.policy().limits;
        Self {
            template_id: sandbox.description.template.clone(),
            sandbox_id: sandbox.id.clone(),
            client_id: "glovebox",
            started_at: sandbox.started_at.to_string(),
            end_at: sandbox.ends_at().to_string(),
            envd_version: ENVD_VERSION,
            cpu_count: 1,
            memory_mb: limits.memory_bytes >> 20,
            disk_size_mb: limits.workspace_bytes >> 20,
            state: if sandbox.is_paused() { "paused" } else { "running" },
            metadata: sandbox.description.metadata.clone(),
        }
    }

    /// Describes a paused sandbox from an earlier run of the server, of which only the stored sessions are known.
    pub(super) fn left(tenant: &crate::Tenant, sandbox_id: &str, since: String) -> Self {
        let limits = &tenant.policy().limits;
        Self {
            template_id: String::new(),
            sandbox_id: sandbox_id.to_owned(),
            client_id: "glovebox",
            started_at: since.clone(),
            end_at: since,
            envd_version: ENVD_VERSION,
            cpu_count: 1,
            memory_mb: limits.memory_bytes >> 20,
            disk_size_mb: limits.workspace_bytes >> 20,
            state: "paused",
            metadata: BTreeMap::new(),
        }
    }
}

/// A problem document with the fields `code` and `message`, which E2B clients read.
pub(super) struct E2bError(pub(super) Problem);

impl E2bError {
    pub(super) fn new(status: StatusCode, kind: &str, detail: impl Into<Untrusted>) -> Self {
        Self(Problem::new(status, kind, detail))
    }

    pub(super) fn invalid(detail: impl Into<Untrusted>) -> Self {
        Self(Problem::invalid(detail))
    }

    /// Creates the error for an unknown sandbox. E2B clients recognize the wording.
    pub(super) fn no_sandbox(id: &str) -> Self {
        let detail = format!("the sandbox `{}` was not found", glovebox::escaped(id));
        Self::new(StatusCode::NOT_FOUND, "not-found", detail)
    }

    /// Creates the error for a sandbox that is not running, with the same status as E2B's proxy.
    pub(super) fn not_running(id: &str) -> Self {
        let detail =
            format!("the sandbox `{}` is not running; connect to it, or create another one", glovebox::escaped(id));
        Self::new(StatusCode::BAD_GATEWAY, "not-running", detail)
    }

    pub(super) fn unsupported(what: &str) -> Self {
        let detail = format!("{what} is not supported; docs/e2b.md lists the supported features");
        Self::new(StatusCode::NOT_IMPLEMENTED, "unsupported", detail)
    }

    /// Creates the error for a request to a path that Glovebox does not support.
    pub(super) fn unsupported_path(uri: &axum::http::Uri) -> Self {
        Self::unsupported(&format!("`{}`", glovebox::escaped(uri.path())))
    }

    /// Converts the error into a response to a procedure call. Error codes in the Connect protocol are strings.
    pub(super) fn of_call(self) -> Response {
        let code = match self.0.status {
            400 | 413 | 422 => "invalid_argument",
            401 => "unauthenticated",
            404 => "not_found",
            409 => "already_exists",
            429 => "resource_exhausted",
            501 => "unimplemented",
            500 => "internal",
            _ => "unavailable",
        };
        let Problem { kind, status, title, detail, retry_after, diagnostics: _ } = &self.0;
        let detail = detail.to_string();
        let body = json!({ "code": code, "message": detail, "type": kind, "status": status, "title": title, "detail": detail, "retry_after": retry_after });
        let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, Json(body)).into_response()
    }
}

impl From<ServiceError> for E2bError {
    fn from(error: ServiceError) -> Self {
        Self(error.into())
    }
}

impl From<Problem> for E2bError {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl IntoResponse for E2bError {
    fn into_response(self) -> Response {
        let mut body = serde_json::to_value(&self.0).unwrap_or_default();
        if let Some(object) = body.as_object_mut() {
            object.insert("code".to_owned(), self.0.status.into());
            object.insert("message".to_owned(), self.0.detail.to_string().into());
        }
        let mut response = self.0.into_response();
        *response.body_mut() = body.to_string().into();
        // E2B uses this header to mark responses after which clients can retry.
        response.headers_mut().insert("should-retry", HeaderValue::from_static("false"));
        response.headers_mut().remove(header::CONTENT_LENGTH);
        response
    }
}
