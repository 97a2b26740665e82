//! JSON messages and error responses of E2B's sandbox API.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use glovebox_core::entries_at_most;
use serde::{Deserialize, Serialize};

use super::sandboxes::{Description, Sandbox};
use crate::http::Problem;

/// The reported version, from which clients infer the supported features: plain uploads, but no later features.
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
    #[serde(deserialize_with = "entries_at_most::<_, String, _, MAX_ENTRIES>")]
    metadata: BTreeMap<String, String>,
    #[serde(deserialize_with = "entries_at_most::<_, String, _, MAX_ENTRIES>")]
    env_vars: BTreeMap<String, String>,
    mcp: Option<serde::de::IgnoredAny>,
    volume_mounts: Option<Vec<serde::de::IgnoredAny>>,
}

impl NewSandbox {
    pub(super) fn parts(self) -> Result<(Description, Duration), Problem> {
        if self.mcp.is_some() {
            return Err(unsupported("`mcp`"));
        }
        if self.volume_mounts.is_some_and(|mounts| !mounts.is_empty()) {
            return Err(unsupported("`volumeMounts`"));
        }
        check_entries("metadata", &self.metadata)?;
        check_env("envVars", &self.env_vars)?;
        let mut template = self.template_id;
        template.truncate(template.floor_char_boundary(256));
        let (metadata, env, pauses) = (self.metadata, self.env_vars, self.auto_pause);
        Ok((Description { template, metadata, env, pauses }, time(self.timeout)?))
    }
}

/// Environment variables. Deserialization fails at the first entry above the limit.
#[derive(Debug, Deserialize)]
pub(super) struct Entries(
    #[serde(deserialize_with = "entries_at_most::<_, String, _, MAX_ENTRIES>")] pub(super) BTreeMap<String, String>,
);

fn check_entries(field: &str, entries: &BTreeMap<String, String>) -> Result<(), Problem> {
    let bytes: usize = entries.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > MAX_ENTRY_BYTES {
        return Err(Problem::invalid(format!(
            "`{field}` is {bytes} bytes long; the maximum is {MAX_ENTRY_BYTES}; send less"
        )));
    }
    Ok(())
}

/// Checks environment variables: their size, and that no name is empty or contains `=` or NUL.
pub(super) fn check_env(field: &str, env: &BTreeMap<String, String>) -> Result<(), Problem> {
    check_entries(field, env)?;
    match env.keys().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
        None => Ok(()),
        Some(name) => Err(Problem::invalid(format!(
            "`{}` in `{field}` is not a valid name; use a non-empty name without `=` or NUL",
            glovebox::escaped(name)
        ))),
    }
}

/// The parameters of a request that sets a sandbox's timeout, in seconds.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Timeout {
    pub(super) timeout: Option<u64>,
}

/// Converts a sandbox's timeout from seconds. `None` selects the default. Fails if the timeout exceeds the maximum.
pub(super) fn time(seconds: Option<u64>) -> Result<Duration, Problem> {
    match seconds.unwrap_or(DEFAULT_TIME_S) {
        seconds if seconds <= MAX_TIME_S => Ok(Duration::from_secs(seconds)),
        seconds => Err(Problem::invalid(format!("`timeout` is {seconds} s; the maximum is {MAX_TIME_S} s"))),
    }
}

/// A sandbox with its access tokens, for the client that creates the sandbox or connects to it.
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
    sandbox_id: String,
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
        let Description { template, metadata, .. } = sandbox.description.clone();
        Self {
            template_id: template,
            end_at: sandbox.ends_at().to_string(),
            state: sandbox.state_name(),
            metadata,
            ..Self::paused(&sandbox.tenant, &sandbox.id, sandbox.started_at.to_string())
        }
    }

    /// Describes a paused sandbox from an earlier run of the server, of which only the stored sessions are known.
    pub(super) fn paused(tenant: &crate::Tenant, sandbox_id: &str, since: String) -> Self {
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

/// Returns the problem for an unknown sandbox. E2B clients recognize the wording.
pub(super) fn no_sandbox(id: &str) -> Problem {
    let detail = format!("the sandbox `{}` was not found", glovebox::escaped(id));
    Problem::new(StatusCode::NOT_FOUND, "not-found", detail)
}

/// Returns the problem for a sandbox that is not running, with the same status as E2B's proxy.
pub(super) fn not_running(id: &str) -> Problem {
    let detail =
        format!("the sandbox `{}` is not running; connect to it, or create another one", glovebox::escaped(id));
    Problem::new(StatusCode::BAD_GATEWAY, "not-running", detail)
}

pub(super) fn unsupported(what: &str) -> Problem {
    let detail = format!("{what} is not supported; docs/e2b.md lists the supported features");
    Problem::new(StatusCode::NOT_IMPLEMENTED, "unsupported", detail)
}

/// A problem document with the fields that E2B clients read.
#[derive(Serialize)]
struct E2bProblem<'a, C> {
    code: C,
    message: String,
    #[serde(flatten)]
    problem: &'a Problem,
}

/// Adds the fields `code` and `message` to a problem document.
pub(super) async fn describe(mut response: Response) -> Response {
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        replace_body(&mut response, problem.status, &problem);
        // E2B uses this header to mark responses after which clients can retry.
        response.headers_mut().insert("should-retry", HeaderValue::from_static("false"));
    }
    response
}

/// Like [`describe`], for a procedure call. Error codes in the Connect protocol are strings.
pub(super) async fn describe_call(mut response: Response) -> Response {
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        let code = match problem.status {
            400 | 413 | 422 => "invalid_argument",
            401 => "unauthenticated",
            404 => "not_found",
            409 => "already_exists",
            429 => "resource_exhausted",
            501 => "unimplemented",
            500 => "internal",
            _ => "unavailable",
        };
        replace_body(&mut response, code, &problem);
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    response
}

fn replace_body(response: &mut Response, code: impl Serialize, problem: &Problem) {
    let body = E2bProblem { code, message: problem.detail.to_string(), problem };
    *response.body_mut() = serde_json::to_vec(&body).unwrap_or_default().into();
    response.headers_mut().remove(header::CONTENT_LENGTH);
}
