//! The sandboxes that there are.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use glovebox::{SessionId, Timestamp};
use subtle::ConstantTimeEq as _;

use crate::{ServiceError, Tenant};

/// The most bytes of metadata and environment variables that one tenant's sandboxes hold.
const MAX_DESCRIPTION_BYTES: usize = 4 << 20;
/// The most contexts of one sandbox whose executions are counted. A context may be deleted as a session, behind the sandbox's back.
const MAX_COUNTED_CONTEXTS: usize = 1_000;
/// What the name of every one begins with.
const PREFIX: &str = "sb";
/// How many characters a name has.
const NAME_CHARS: usize = 20;

/// All sandboxes, by tenant and name: two tenants may have sandboxes of the same name. Sandboxes of an earlier run of the server are known by
/// their sessions alone, and are paused. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Sandboxes(Arc<Mutex<ByTenant>>);

/// Sandboxes by the tenant's name, then by their own.
type ByTenant = HashMap<String, HashMap<String, Arc<Sandbox>>>;

/// A sandbox.
pub(super) struct Sandbox {
    pub(super) id: String,
    pub(super) tenant: Tenant,
    /// Whoever knows it may ask the sandbox.
    pub(super) secret: String,
    pub(super) started_at: Timestamp,
    pub(super) description: Description,
    state: Mutex<State>,
    /// Held while something runs in it, or its files are looked at: its contexts have their files in common.
    pub(super) turn: tokio::sync::Mutex<()>,
}

/// What whoever made it has said of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Description {
    pub(super) template: String,
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) env: BTreeMap<String, String>,
    /// Whether it is paused when its time is over, and not ended.
    pub(super) pauses: bool,
}

impl Description {
    fn bytes(&self) -> usize {
        let entries = self.metadata.iter().chain(&self.env);
        entries.map(|(name, value)| name.len() + value.len()).sum::<usize>() + self.template.len()
    }
}

struct State {
    ends: Instant,
    ends_at: Timestamp,
    is_paused: bool,
    /// Whether its first context is open. Until then it has no session.
    is_set_up: bool,
    /// Counts how often its time was begun anew.
    round: u64,
    /// The context in which something ran last: the sandbox's files are there.
    last: Option<String>,
    /// How much code ran, by context.
    executions: HashMap<String, u64>,
}

impl Sandboxes {
    fn all(&self) -> MutexGuard<'_, ByTenant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A name for a new one.
    pub(super) fn new_name() -> String {
        let mut name = format!("{PREFIX}{}", SessionId::random());
        name.truncate(NAME_CHARS);
        name
    }

    /// The sandbox to which a session belongs, by its name.
    pub(super) fn of_session(id: &SessionId) -> Option<(&str, &str)> {
        let (sandbox, context) = id.as_str().split_once('.')?;
        Self::is_name(sandbox).then_some((sandbox, context))
    }

    /// Whether a text can be a sandbox's name.
    pub(super) fn is_name(text: &str) -> bool {
        let rest = text.strip_prefix(PREFIX);
        text.len() == NAME_CHARS && rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
    }

    /// The sandboxes of this name, at most one of each tenant.
    pub(super) fn named(&self, id: &str) -> Vec<Arc<Sandbox>> {
        self.all().values().filter_map(|own| own.get(id)).cloned().collect()
    }

    /// The tenant's sandbox of this name.
    pub(super) fn of(&self, tenant: &Tenant, id: &str) -> Option<Arc<Sandbox>> {
        self.all().get(tenant.name()).and_then(|own| own.get(id)).cloned()
    }

    /// All sandboxes of a tenant.
    pub(super) fn all_of(&self, tenant: &Tenant) -> Vec<Arc<Sandbox>> {
        self.all().get(tenant.name()).into_iter().flat_map(HashMap::values).cloned().collect()
    }

    /// Whether this sandbox is still there: not ended, and not another one of its name.
    pub(super) fn has(&self, sandbox: &Arc<Sandbox>) -> bool {
        self.of(&sandbox.tenant, &sandbox.id).is_some_and(|found| Arc::ptr_eq(&found, sandbox))
    }

    /// Whether the tenant may have no further sandbox. As each has a session at least, the limit is that of sessions.
    pub(super) fn is_full(&self, tenant: &Tenant) -> bool {
        self.all().get(tenant.name()).is_some_and(|own| own.len() >= tenant.max_sessions())
    }

    /// Adds a sandbox that runs for this time, or returns the one that another request has added meanwhile.
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
        let most = tenant.max_sessions();
        if own.len() >= most {
            return Err(ServiceError::TooMany { what: "sandboxes", most });
        }
        let described: usize = own.values().map(|sandbox| sandbox.description.bytes()).sum();
        if described.saturating_add(description.bytes()) > MAX_DESCRIPTION_BYTES {
            let what = "bytes of sandboxes' metadata and `envVars`";
            return Err(ServiceError::TooMany { what, most: MAX_DESCRIPTION_BYTES });
        }
        let state = State {
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

    /// Removes the tenant's sandbox of this name.
    pub(super) fn remove(&self, tenant: &Tenant, id: &str) {
        let mut all = self.all();
        if let Some(own) = all.get_mut(tenant.name()) {
            own.remove(id);
        }
    }
}

impl Sandbox {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that its first context is open.
    pub(super) fn set_up(&self) {
        self.state().is_set_up = true;
    }

    pub(super) fn is_set_up(&self) -> bool {
        self.state().is_set_up
    }

    /// Whether this is its secret, compared in a time that says nothing of it.
    pub(super) fn is_secret(&self, text: &str) -> bool {
        self.secret.as_bytes().ct_eq(text.as_bytes()).into()
    }

    pub(super) fn is_paused(&self) -> bool {
        self.state().is_paused
    }

    /// Marks it as paused; whether it was not before.
    pub(super) fn pause(&self) -> bool {
        let mut state = self.state();
        state.round += 1;
        !std::mem::replace(&mut state.is_paused, true)
    }

    /// When it ends.
    pub(super) fn ends_at(&self) -> Timestamp {
        self.state().ends_at
    }

    /// Has it run for so long from now on, if that is longer than it would, or `anyway`. Whether it was paused before.
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

    /// Which run of it this is, and how long it has left.
    pub(super) fn round(&self) -> (u64, Duration) {
        let state = self.state();
        (state.round, state.ends.saturating_duration_since(Instant::now()))
    }

    /// The session of a context.
    pub(super) fn session(&self, context: &str) -> Result<SessionId, ServiceError> {
        Ok(SessionId::new(format!("{}.{context}", self.id))?)
    }

    /// The context that has its files.
    pub(super) fn last(&self) -> Option<String> {
        self.state().last.clone()
    }

    pub(super) fn set_last(&self, context: Option<&str>) {
        self.state().last = context.map(str::to_owned);
    }

    /// Counts code that runs in a context.
    pub(super) fn count(&self, context: &str) -> u64 {
        let mut state = self.state();
        if state.executions.len() >= MAX_COUNTED_CONTEXTS && !state.executions.contains_key(context) {
            state.executions.clear();
        }
        let count = state.executions.entry(context.to_owned()).or_default();
        *count += 1;
        *count
    }

    /// Forgets a context.
    pub(super) fn forget(&self, context: &str) {
        let mut state = self.state();
        state.executions.remove(context);
        state.last.take_if(|last| last == context);
    }
}
