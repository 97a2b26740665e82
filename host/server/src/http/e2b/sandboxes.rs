//! The sandboxes that there are.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use glovebox::{SessionId, Timestamp};
use subtle::ConstantTimeEq as _;

use crate::{ServiceError, Tenant};

/// How many there are at once, of all tokens. Their sessions are bounded by each token's own quota.
const MAX_SANDBOXES: usize = 10_000;
/// What the name of every one begins with.
const PREFIX: &str = "sb";
/// How many characters a name has.
const NAME_CHARS: usize = 20;

/// The sandboxes that there are, by name. Those of an earlier run of the server are known by their sessions alone, and are paused. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Sandboxes(Arc<Mutex<HashMap<String, Arc<Sandbox>>>>);

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

struct State {
    ends: Instant,
    ends_at: Timestamp,
    is_paused: bool,
    /// Counts how often its time was begun anew.
    round: u64,
    /// The context in which something ran last: the sandbox's files are there.
    last: Option<String>,
    /// How much code ran, by context.
    executions: HashMap<String, u64>,
}

impl Sandboxes {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<Sandbox>>> {
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

    /// The one of this name, whoever's it is.
    pub(super) fn get(&self, id: &str) -> Option<Arc<Sandbox>> {
        self.all().get(id).cloned()
    }

    /// The one of this name, of this tenant.
    pub(super) fn of(&self, tenant: &Tenant, id: &str) -> Option<Arc<Sandbox>> {
        self.get(id).filter(|sandbox| sandbox.tenant.name() == tenant.name())
    }

    /// All of a tenant.
    pub(super) fn all_of(&self, tenant: &Tenant) -> Vec<Arc<Sandbox>> {
        self.all().values().filter(|sandbox| sandbox.tenant.name() == tenant.name()).cloned().collect()
    }

    /// Adds one that runs for so long.
    pub(super) fn add(
        &self,
        id: String,
        tenant: &Tenant,
        description: Description,
        time: Duration,
    ) -> Result<Arc<Sandbox>, ServiceError> {
        let mut all = self.all();
        if all.len() >= MAX_SANDBOXES {
            return Err(ServiceError::TooMany { what: "sandboxes", most: MAX_SANDBOXES });
        }
        let state = State {
            ends: Instant::now(),
            ends_at: Timestamp::now(),
            is_paused: false,
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
        all.insert(id, Arc::clone(&sandbox));
        Ok(sandbox)
    }

    pub(super) fn remove(&self, id: &str) {
        self.all().remove(id);
    }
}

impl Sandbox {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
