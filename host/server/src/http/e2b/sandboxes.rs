//! The registry of sandboxes, and authentication of sandbox requests.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, StatusCode, request::Parts},
};
use glovebox::Timestamp;
use glovebox_sessions::SessionId;
use subtle::ConstantTimeEq as _;

use super::form::{not_running, unsupported};
use crate::{
    Door, ServiceError, Tenant,
    http::{Caller, Problem, Shared},
};

/// Maximum total size of a tenant's sandbox descriptions, in bytes.
const MAX_DESCRIPTION_BYTES: usize = 4 << 20;
/// Maximum number of contexts per sandbox with an execution count. The counts need a limit, because a client can delete
/// a context through the session API, which the sandbox does not notice.
const MAX_COUNTED_CONTEXTS: usize = 1_000;
/// The prefix of all sandbox IDs.
const PREFIX: &str = "sb";
/// The length of a sandbox ID in characters. With a dot and a context name of at most 40 characters, it fits into the
/// 64 characters of a session name.
const NAME_CHARS: usize = 20;

/// The sandboxes that this process has created or resumed, keyed by tenant and ID, because several tenants can have a
/// sandbox with the same ID. A sandbox from an earlier run of the server is missing until it is resumed: only its
/// sessions are known, and it counts as paused. Clones share the registry.
#[derive(Clone, Default)]
pub(crate) struct Sandboxes(Arc<Mutex<ByTenant>>);

/// Sandboxes by tenant name, then by ID.
type ByTenant = HashMap<String, HashMap<String, Arc<Sandbox>>>;

pub(super) struct Sandbox {
    pub(super) id: String,
    pub(super) tenant: Tenant,
    /// The access token for requests to the sandbox.
    pub(super) secret: String,
    pub(super) started_at: Timestamp,
    pub(super) description: Description,
    state: Mutex<SandboxState>,
    /// Locked during executions and file operations, because all contexts use the same files.
    pub(super) turn: tokio::sync::Mutex<()>,
}

/// The parameters of the request that created a sandbox.
#[derive(Clone, Debug, Default)]
pub(super) struct Description {
    pub(super) template: String,
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) env: BTreeMap<String, String>,
    /// `true` if a timeout pauses the sandbox instead of ending it.
    pub(super) pauses: bool,
}

impl Description {
    fn bytes(&self) -> usize {
        let entries = self.metadata.iter().chain(&self.env);
        entries.map(|(name, value)| name.len() + value.len()).sum::<usize>() + self.template.len()
    }
}

struct SandboxState {
    ends: Instant,
    ends_at: Timestamp,
    is_paused: bool,
    /// `true` once the first context is open. Until then, the sandbox has no session.
    is_set_up: bool,
    /// Incremented by each pause and each resumption. A task that watches the timeout ends when the round changes.
    round: u64,
    /// The context whose session has the sandbox's files, usually the context of the last execution.
    last: Option<String>,
    /// The number of executions, keyed by context.
    executions: HashMap<String, u64>,
}

impl Sandboxes {
    fn all(&self) -> MutexGuard<'_, ByTenant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a random ID for a new sandbox.
    pub(super) fn new_name() -> String {
        let mut name = format!("{PREFIX}{}", SessionId::random());
        name.truncate(NAME_CHARS);
        name
    }

    /// Returns the sandbox ID and the context name of a session, or `None` if the session does not belong to a sandbox.
    pub(super) fn of_session(id: &SessionId) -> Option<(&str, &str)> {
        let (sandbox, context) = id.as_str().split_once('.')?;
        Self::is_name(sandbox).then_some((sandbox, context))
    }

    /// Returns `true` if `text` has the form of a sandbox ID.
    pub(super) fn is_name(text: &str) -> bool {
        let rest = text.strip_prefix(PREFIX);
        text.len() == NAME_CHARS && rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
    }

    /// Returns the sandboxes with this ID, at most one per tenant.
    pub(super) fn named(&self, id: &str) -> Vec<Arc<Sandbox>> {
        self.all().values().filter_map(|own| own.get(id)).cloned().collect()
    }

    /// Returns the tenant's sandbox with this ID.
    pub(super) fn of(&self, tenant: &Tenant, id: &str) -> Option<Arc<Sandbox>> {
        self.all().get(tenant.name()).and_then(|own| own.get(id)).cloned()
    }

    pub(super) fn all_of(&self, tenant: &Tenant) -> Vec<Arc<Sandbox>> {
        self.all().get(tenant.name()).into_iter().flat_map(HashMap::values).cloned().collect()
    }

    /// Returns `true` if this sandbox is still registered: it has neither ended nor been replaced by another sandbox
    /// with the same ID.
    pub(super) fn has(&self, sandbox: &Arc<Sandbox>) -> bool {
        self.of(&sandbox.tenant, &sandbox.id).is_some_and(|found| Arc::ptr_eq(&found, sandbox))
    }

    /// Returns `true` if the tenant has as many sandboxes as its session quota allows. Each sandbox needs at least one
    /// session.
    pub(super) fn is_full(&self, tenant: &Tenant) -> bool {
        self.all().get(tenant.name()).is_some_and(|own| own.len() >= tenant.max_sessions())
    }

    /// Adds a sandbox that runs for `time`. If another request has added it in the meantime, returns that sandbox.
    /// Fails if the tenant has too many sandboxes, or if their descriptions are too large.
    pub(super) fn add(
        &self,
        id: String,
        tenant: &Tenant,
        description: Description,
        time: Duration,
    ) -> Result<Arc<Sandbox>, ServiceError> {
        let mut all = self.all();
        let own = all.entry(tenant.name().to_owned()).or_default();
        if let Some(sandbox) = own.get(&id) {
            return Ok(Arc::clone(sandbox));
        }
        let max = tenant.max_sessions();
        if own.len() >= max {
            return Err(ServiceError::TooMany { what: "sandboxes", max, remedy: "end one first" });
        }
        let described: usize = own.values().map(|sandbox| sandbox.description.bytes()).sum();
        if described.saturating_add(description.bytes()) > MAX_DESCRIPTION_BYTES {
            let what = "bytes of sandboxes' metadata and `envVars`";
            let remedy = "end a sandbox or send less metadata";
            return Err(ServiceError::TooMany { what, max: MAX_DESCRIPTION_BYTES, remedy });
        }
        let state = SandboxState {
            ends: Instant::now(),
            ends_at: Timestamp::now(),
            is_paused: false,
            is_set_up: false,
            round: 0,
            last: None,
            executions: HashMap::new(),
        };
        let sandbox = Arc::new(Sandbox {
            tenant: tenant.clone(),
            secret: SessionId::random().to_string(),
            started_at: Timestamp::now(),
            description,
            state: Mutex::new(state),
            turn: tokio::sync::Mutex::default(),
            id: id.clone(),
        });
        sandbox.extend(time, true);
        own.insert(id, Arc::clone(&sandbox));
        Ok(sandbox)
    }

    pub(super) fn remove(&self, tenant: &Tenant, id: &str) {
        let mut all = self.all();
        if let Some(own) = all.get_mut(tenant.name()) {
            own.remove(id);
        }
    }
}

impl Sandbox {
    fn state(&self) -> MutexGuard<'_, SandboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the first context is open, and which context has the sandbox's files.
    pub(super) fn set_up(&self, last: Option<&str>) {
        let mut state = self.state();
        (state.is_set_up, state.last) = (true, last.map(str::to_owned));
    }

    pub(super) fn is_set_up(&self) -> bool {
        self.state().is_set_up
    }

    /// Returns `true` if `text` is the access token. Compares in constant time.
    fn is_secret(&self, text: &str) -> bool {
        self.secret.as_bytes().ct_eq(text.as_bytes()).into()
    }

    pub(super) fn is_paused(&self) -> bool {
        self.state().is_paused
    }

    pub(super) fn state_name(&self) -> &'static str {
        if self.is_paused() { "paused" } else { "running" }
    }

    /// Marks the sandbox as paused. Returns `false` if it was already paused.
    pub(super) fn pause(&self) -> bool {
        let mut state = self.state();
        state.round += 1;
        !std::mem::replace(&mut state.is_paused, true)
    }

    pub(super) fn ends_at(&self) -> Timestamp {
        self.state().ends_at
    }

    /// Resumes a paused sandbox, and sets the timeout to `time` from now. Shortens the timeout of a running sandbox
    /// only if `anyway` is set. Returns `true` if the sandbox was paused.
    pub(super) fn extend(&self, time: Duration, anyway: bool) -> bool {
        let mut state = self.state();
        let ends = Instant::now() + time;
        let was_paused = std::mem::replace(&mut state.is_paused, false);
        if anyway || was_paused || ends > state.ends {
            let time_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            state.ends = ends;
            state.ends_at = Timestamp::from_unix_ms(Timestamp::now().unix_ms().saturating_add(time_ms));
        }
        if was_paused {
            state.round += 1;
        }
        was_paused
    }

    /// Returns the counter of pauses and resumptions, and the remaining time until the timeout.
    pub(super) fn round(&self) -> (u64, Duration) {
        let state = self.state();
        (state.round, state.ends.saturating_duration_since(Instant::now()))
    }

    /// Returns the ID of a context's session.
    pub(super) fn session(&self, context: &str) -> Result<SessionId, ServiceError> {
        Ok(SessionId::new(format!("{}.{context}", self.id))?)
    }

    /// Returns the context that has the sandbox's files.
    pub(super) fn last(&self) -> Option<String> {
        self.state().last.clone()
    }

    pub(super) fn set_last(&self, context: Option<&str>) {
        self.state().last = context.map(str::to_owned);
    }

    /// Counts an execution in a context and returns its number, starting at 1. If there are too many contexts, all
    /// counts restart.
    pub(super) fn count(&self, context: &str) -> u64 {
        let mut state = self.state();
        if state.executions.len() >= MAX_COUNTED_CONTEXTS && !state.executions.contains_key(context) {
            state.executions.clear();
        }
        let count = state.executions.entry(context.to_owned()).or_default();
        *count += 1;
        *count
    }

    /// Removes a context's execution count, and forgets that the context has the sandbox's files.
    pub(super) fn forget(&self, context: &str) {
        let mut state = self.state();
        state.executions.remove(context);
        state.last.take_if(|last| last == context);
    }
}

/// The tenant of a request to the sandbox API, and the registry of sandboxes. The tenant is extracted like [`Caller`],
/// which also accepts the `X-API-Key` header of E2B clients.
pub(super) struct ApiCaller {
    pub(super) tenant: Tenant,
    pub(super) sandboxes: Sandboxes,
}

impl FromRequestParts<Shared> for ApiCaller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Problem> {
        let Caller(tenant) = Caller::from_request_parts(parts, shared).await?;
        Ok(Self { tenant: tenant.for_door(Door::E2b), sandboxes: shared.sandboxes.clone() })
    }
}

/// The running sandbox that a request addresses, extracted from the headers `E2b-Sandbox-Id` and `X-Access-Token` or
/// `E2B-Traffic-Access-Token`.
pub(super) struct RequestedSandbox(pub(super) Arc<Sandbox>);

impl FromRequestParts<Shared> for RequestedSandbox {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Problem> {
        // E2B clients always send the header. Only browser requests to `download_url` or `upload_url` omit it.
        let Some(id) = text(&parts.headers, "e2b-sandbox-id") else {
            return Err(unsupported("a request without the header `E2b-Sandbox-Id`, for example to a `download_url`,"));
        };
        let named = shared.sandboxes.named(id);
        if named.is_empty() {
            return Err(not_running(id));
        }
        let given = ["x-access-token", "e2b-traffic-access-token"].iter().find_map(|name| text(&parts.headers, name));
        // Several tenants can have a sandbox with this ID. The access token selects one.
        let sandbox = given.and_then(|given| named.into_iter().find(|sandbox| sandbox.is_secret(given)));
        let Some(sandbox) = sandbox else {
            let detail = "wrong access token for this sandbox; connect to the sandbox again";
            return Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail));
        };
        if sandbox.is_paused() {
            return Err(not_running(id));
        }
        // `ReadBody` charges the body to this tenant's share of the memory budget.
        parts.extensions.insert(sandbox.tenant.clone());
        Ok(Self(sandbox))
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
