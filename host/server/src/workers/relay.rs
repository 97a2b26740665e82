//! The server's side of worker calls: runs tools, sends HTTP requests and accesses stores on behalf of workers.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Weak},
    thread,
    time::{Duration, Instant},
};

use glovebox::{CancelToken, OpenNetwork, Policy, PolicyError, RelayedCall, Stream, Tool, ToolError, ToolErrorKind};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::{Semaphore, oneshot};

use super::{
    call_charge::CallCharge,
    parent_store::Locks,
    peer::{CallHandler, Message, Reply, ReplyBudget},
    protocol::{CallPart, StoreFailure, ToServer, ToolReply},
    slot::LiveWorker,
};
use crate::{
    OnOutput, Service, ServiceError,
    byte_budget::{BudgetExhausted, ChargedBytes},
    grant::narrowed,
    json::JsonCost,
    tenant::BoundedStore,
};

/// Maximum number of tool calls and network requests that run simultaneously for a worker. The worker's engine
/// additionally enforces its own limit.
const MAX_TOOLS: usize = 1_024;
/// The stack size of a tool's thread in bytes, the default of Rust's standard library.
const STACK_BYTES: usize = 2 << 20;
/// Maximum number of open networks per tenant. Exceeds the default number of a tenant's simultaneous executions.
const MAX_NETWORKS: usize = 256;
/// Maximum memory of the parsed policy changes of a tenant's open networks, in bytes.
const MAX_NETWORK_BYTES: usize = 4 << 20;
/// The [`network_changes`] of a request that does not change the network.
const UNCHANGED: &str = "[null,null,null]";
/// The error message for a call that does not fit into the budget.
const NO_ROOM: &str = "the server's memory for calls is full; try again later, or use smaller arguments and results";
/// The error message for a call that would exceed `MAX_TOOLS`.
const TOO_MANY: &str = "too many calls are running on the server; try again later";

/// Tools and output callback of a script that runs in a worker.
pub(super) struct WorkerJobCallbacks {
    tools: HashMap<String, Tool>,
    on_output: Mutex<Option<OnOutput>>,
    memory_bytes: u64,
    /// The memory budget for calls of the tools.
    budget: Option<ReplyBudget>,
}

impl WorkerJobCallbacks {
    pub(super) fn new(
        tools: Vec<Tool>,
        on_output: Option<OnOutput>,
        memory_bytes: u64,
        budget: Option<ReplyBudget>,
    ) -> Self {
        let tools = tools.into_iter().map(|tool| (tool.name().to_owned(), tool)).collect();
        Self { tools, on_output: Mutex::new(on_output), memory_bytes, budget }
    }
}

/// Tenants whose work is forwarded to workers, keyed by name.
#[derive(Default)]
pub(crate) struct Relays(Mutex<HashMap<String, Arc<TenantRelay>>>);

impl Relays {
    pub(super) fn add(&self, tenant: &str, relay: TenantRelay) {
        self.0.lock().insert(tenant.to_owned(), Arc::new(relay));
    }

    fn find(&self, tenant: &str) -> Result<Arc<TenantRelay>, ServiceError> {
        let found = self.0.lock().get(tenant).cloned();
        found.ok_or_else(|| ServiceError::Invalid("a worker named an unknown tenant".to_owned()))
    }
}

/// The policy, store and open networks of a tenant.
pub(super) struct TenantRelay {
    policy: Policy,
    store: Arc<BoundedStore>,
    networks: Mutex<OpenNetworks>,
}

/// A tenant's open networks, oldest first.
#[derive(Default)]
struct OpenNetworks(VecDeque<TenantNetwork>);

/// An open network, with the policy changes for which it was opened.
#[derive(Clone)]
struct TenantNetwork {
    /// The [`network_changes`] of the policy.
    changes: Arc<str>,
    /// The memory that the changes occupy when parsed, in bytes.
    bytes: usize,
    open: OpenNetwork,
    /// `limits.memory_bytes` of the changed policy.
    memory_bytes: u64,
}

impl TenantRelay {
    pub(super) fn new(policy: Policy, store: Arc<BoundedStore>) -> Self {
        Self { policy, store, networks: Mutex::default() }
    }

    /// Returns the network for the tenant's policy with `changes`. Opening it reads secrets from the environment.
    fn network(
        &self,
        changes: &Map<String, Value>,
        open: impl FnOnce(&Policy) -> Result<OpenNetwork, PolicyError>,
    ) -> Result<TenantNetwork, ServiceError> {
        let key = network_changes(changes)?;
        let mut networks = self.networks.lock();
        if let Some(network) = networks.0.iter().find(|network| *network.changes == *key) {
            return Ok(network.clone());
        }
        // The worker has already checked the changes, but workers are not trusted.
        let policy = narrowed(&self.policy, changes)?;
        let open = open(&policy).map_err(glovebox::BuildError::from)?;
        let bytes = JsonCost::of(key.as_bytes()).map_or(usize::MAX, |cost| cost + key.len());
        let network = TenantNetwork { changes: key.into(), bytes, open, memory_bytes: policy.limits.memory_bytes };
        networks.add(network.clone());
        Ok(network)
    }
}

/// Returns the JSON text of the changes that determine a [`TenantNetwork`]. Omits all other changes, such as `args`,
/// because they can be large and differ in each request.
fn network_changes(changes: &Map<String, Value>) -> Result<String, ServiceError> {
    let memory_bytes = changes.get("limits").and_then(|limits| limits.get("memory_bytes"));
    // The placeholders of secrets depend on `entropy`.
    let changes = (changes.get("network"), changes.get("entropy"), memory_bytes);
    serde_json::to_string(&changes).map_err(|error| ServiceError::Invalid(error.to_string()))
}

impl OpenNetworks {
    fn bytes(&self) -> usize {
        self.0.iter().map(|network| network.bytes).sum()
    }

    /// Adds a network. Removes the oldest networks beyond the limits, but never the network of the unchanged policy.
    /// Does not store a network that exceeds `MAX_NETWORK_BYTES` by itself; each call opens such a network again.
    fn add(&mut self, network: TenantNetwork) {
        if network.bytes > MAX_NETWORK_BYTES {
            return;
        }
        while self.0.len() >= MAX_NETWORKS || self.bytes() + network.bytes > MAX_NETWORK_BYTES {
            let Some(oldest) = self.0.iter().position(|other| *other.changes != *UNCHANGED) else { break };
            self.0.remove(oldest);
        }
        self.0.push_back(network);
    }
}

/// The server's side of the socket to a worker.
pub(super) struct ServerSide {
    service: Service,
    live: Weak<LiveWorker>,
    tools: Arc<Semaphore>,
    locks: Arc<Locks>,
}

impl ServerSide {
    pub(super) fn new(service: &Service, live: Weak<LiveWorker>) -> Self {
        Self { service: service.clone(), live, tools: Arc::new(Semaphore::new(MAX_TOOLS)), locks: Arc::default() }
    }
}

impl CallHandler for ServerSide {
    fn answer(self: Arc<Self>, call: Message, cancel: CancelToken, reply: Reply) {
        tokio::spawn(async move {
            let bytes = call.bytes;
            let request = serde_json::from_slice::<ToServer>(&call.json);
            reply.send(match (request, self.live.upgrade()) {
                (Ok(request), Some(live)) => self.carry_out(&live, request, bytes, cancel).await,
                (Ok(_), None) => Err(ServiceError::Draining),
                (Err(error), _) => Err(ServiceError::Invalid(error.to_string())),
            });
        });
    }
}

impl ServerSide {
    async fn carry_out(
        &self,
        live: &Arc<LiveWorker>,
        request: ToServer,
        bytes: Vec<u8>,
        cancel: CancelToken,
    ) -> Result<Message, ServiceError> {
        match request {
            ToServer::Ready { confinement } => live.ready(confinement),
            ToServer::Sessions { count, bytes } => {
                *live.sessions.lock() = (count, bytes);
            }
            ToServer::Output { execution, is_stderr } => {
                let job = live.job(execution);
                let stream = if is_stderr { Stream::Stderr } else { Stream::Stdout };
                let pass = move || {
                    let Some(job) = job else { return };
                    if let Some(on_output) = &mut *job.on_output.lock() {
                        on_output(stream, &bytes);
                    }
                };
                Service::blocking(pass).await?;
            }
            ToServer::Tool { execution, name, call } => {
                let (job, text) = (live.job(execution), text(bytes)?);
                let budget = job.as_ref().and_then(|job| job.budget.clone());
                let run = move |text: String, charge: Arc<CallCharge>| match job
                    .as_ref()
                    .and_then(|job| Some((job, job.tools.get(&name)?)))
                {
                    Some((job, tool)) => tool.answer(relayed(call, cancel, job.memory_bytes, charge), text),
                    None => Err(ToolError::new("the execution has ended")),
                };
                return Ok(self.call(budget, text, run).await);
            }
            ToServer::OpenNetwork { tenant, changes } => {
                let (relay, engine) = (self.service.relays().find(&tenant)?, self.service.0.engine.clone());
                let open = move || relay.network(&changes, |policy| engine.open_network(policy));
                let network = Service::blocking(open).await??;
                return Ok(Message::reply(network.open.environment(), Vec::new()));
            }
            ToServer::Fetch { tenant, changes, call } => {
                let (relay, text) = (self.service.relays().find(&tenant)?, text(bytes)?);
                let (engine, budget) = (self.service.0.engine.clone(), ReplyBudget::of(&self.service, &tenant));
                let run = move |text: String, charge: Arc<CallCharge>| {
                    let network = relay.network(&changes, |policy| engine.open_network(policy));
                    let network = network.map_err(|error| ToolError::new(error.public()))?;
                    network.open.fetch(relayed(call, cancel, network.memory_bytes, charge), text)
                };
                return Ok(self.call(budget, text, run).await);
            }
            ToServer::Store { tenant, operation } => {
                let (relay, locks) = (self.service.relays().find(&tenant)?, Arc::clone(&self.locks));
                let work = move || locks.perform(&tenant, &relay.store, operation, &bytes);
                let done = Service::blocking(work).await?;
                return Ok(
                    done.unwrap_or_else(|error| Message::reply(&Err::<(), _>(StoreFailure::from(error)), Vec::new()))
                );
            }
        }
        Ok(Message::reply(&(), Vec::new()))
    }

    /// Performs a call with `run`, and charges it to `budget` until its reply is sent.
    async fn call(
        &self,
        budget: Option<ReplyBudget>,
        arguments: String,
        run: impl FnOnce(String, Arc<CallCharge>) -> Result<String, ToolError> + Send + 'static,
    ) -> Message {
        match self.run_tool(budget, arguments, run).await {
            Ok((result, held)) => Message::reply(&ToolReply::Done, result.into_bytes()).holding(held),
            Err(error) => Message::reply(&ToolReply::Failed(error), Vec::new()),
        }
    }

    /// Runs a tool on a dedicated thread, because tools can block for a long time. Returns its result and the memory
    /// charged for it.
    async fn run_tool(
        &self,
        budget: Option<ReplyBudget>,
        arguments: String,
        run: impl FnOnce(String, Arc<CallCharge>) -> Result<String, ToolError> + Send + 'static,
    ) -> Result<(String, ChargedBytes), ToolError> {
        let no_room = |BudgetExhausted| ToolError::of(ToolErrorKind::Limit, NO_ROOM);
        let too_many = || ToolError::of(ToolErrorKind::Limit, TOO_MANY);
        let charge = CallCharge::begin(budget, arguments.len()).map_err(no_room)?;
        let permit = Arc::clone(&self.tools).try_acquire_owned().map_err(|_| too_many())?;
        let (sender, receiver) = oneshot::channel();
        let charged = Arc::clone(&charge);
        let work = move || {
            let _permit = permit;
            let _ = sender.send(run(arguments, charged));
        };
        let thread = thread::Builder::new().name("tool".into()).stack_size(STACK_BYTES);
        thread.spawn(work).map_err(|_| too_many())?;
        // A panic in the tool drops the sender without a result.
        let result = receiver.await.unwrap_or_else(|_| Err(ToolError::new("the tool panicked")))?;
        let held = charge.settle(result.len()).map_err(no_room)?;
        Ok((result, held))
    }
}

fn text(bytes: Vec<u8>) -> Result<String, ServiceError> {
    String::from_utf8(bytes).map_err(|error| ServiceError::Invalid(error.to_string()))
}

fn relayed(call: CallPart, cancel: CancelToken, memory_bytes: u64, charge: Arc<CallCharge>) -> RelayedCall {
    let CallPart { index, session, time_ms } = call;
    // Clamp the time to a day, longer than any call, so that the deadline cannot overflow.
    let time = Duration::from_millis(time_ms).min(Duration::from_secs(24 * 60 * 60));
    let deadline = Instant::now() + time;
    RelayedCall { index, session_id: session, cancel, deadline, memory_bytes, budget: Some(charge) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use glovebox::NetworkPolicy;
    use serde_json::json;

    use super::*;
    use crate::NoStore;

    fn relay() -> TenantRelay {
        let mut policy = Policy::default();
        policy.network = NetworkPolicy::allowing(["https://api.example.com/v1/*"]);
        TenantRelay::new(policy, Arc::new(BoundedStore::new(Arc::new(NoStore), 0)))
    }

    fn no_network() -> OpenNetwork {
        OpenNetwork::new(BTreeMap::new(), |_, _| Ok(String::new()))
    }

    fn opened(relay: &TenantRelay, changes: Value) -> TenantNetwork {
        let Value::Object(changes) = changes else { panic!("{changes} is not an object") };
        relay.network(&changes, |_| Ok(no_network())).unwrap()
    }

    /// Returns the `network_changes` of the open networks.
    fn stored(networks: &OpenNetworks) -> Vec<&str> {
        networks.0.iter().map(|network| &*network.changes).collect()
    }

    #[test]
    fn requests_share_a_network_unless_they_change_it() {
        let relay = relay();
        for n in 0..10 {
            let args = vec![n.to_string(); 1_000];
            opened(
                &relay,
                json!({ "args": args, "env": { "A": n.to_string() }, "limits": { "timeout_ms": 1_000 + n } }),
            );
        }
        assert_eq!(stored(&relay.networks.lock()), [UNCHANGED]);
        for (changes, key) in [
            (json!({ "network": { "request_count": 1 } }), r#"[{"request_count":1},null,null]"#),
            (json!({ "entropy": { "seeded": 7 } }), r#"[null,{"seeded":7},null]"#),
            (json!({ "limits": { "memory_bytes": 67_108_864 } }), "[null,null,67108864]"),
        ] {
            for args in ["a", "b"] {
                let mut changes = changes.clone();
                changes["args"] = json!([args]);
                assert_eq!(&*opened(&relay, changes).changes, key);
            }
        }
        assert_eq!(opened(&relay, json!({ "limits": { "memory_bytes": 67_108_864 } })).memory_bytes, 67_108_864);
        assert_eq!(relay.networks.lock().0.len(), 4);
        let Value::Object(beyond) = json!({ "network": { "request_count": 51 } }) else { panic!("not an object") };
        assert!(relay.network(&beyond, |_| Ok(no_network())).is_err(), "the server checks the changes again");
    }

    #[test]
    fn number_of_open_networks_is_limited() {
        let relay = relay();
        opened(&relay, json!({}));
        let mut count = 1;
        for time in 1..=MAX_NETWORKS {
            opened(&relay, json!({ "network": { "timeout_ms": time } }));
            count = (count + 1).min(MAX_NETWORKS);
            assert_eq!(relay.networks.lock().0.len(), count, "{time}");
        }
        let networks = relay.networks.lock();
        assert_eq!(
            stored(&networks)[..2],
            [UNCHANGED, r#"[{"timeout_ms":2},null,null]"#],
            "the oldest change is removed"
        );
    }

    #[test]
    fn size_of_open_networks_is_limited() {
        let mut networks = OpenNetworks::default();
        let mut add = |changes: &str, bytes: usize| {
            networks.add(TenantNetwork { changes: changes.into(), bytes, open: no_network(), memory_bytes: 0 });
            stored(&networks).join(" ")
        };
        assert_eq!(add("a", MAX_NETWORK_BYTES - 1), "a");
        assert_eq!(add("b", 1), "a b");
        assert_eq!(add("c", 1), "b c", "the oldest is removed");
        assert_eq!(add("d", MAX_NETWORK_BYTES), "d");
        assert_eq!(add("e", MAX_NETWORK_BYTES + 1), "d", "one that exceeds the limit by itself is not stored");
        assert_eq!(add(UNCHANGED, 1), UNCHANGED);
        assert_eq!(add("f", MAX_NETWORK_BYTES - 1), format!("{UNCHANGED} f"));
        assert_eq!(add("g", 2), format!("{UNCHANGED} g"));
        // Policy changes can be long, because a list can repeat a value.
        let relay = relay();
        for n in 1..=20 {
            opened(&relay, json!({ "network": { "methods": vec!["GET"; 5_000], "timeout_ms": n } }));
            assert!(relay.networks.lock().bytes() <= MAX_NETWORK_BYTES, "{n}");
        }
        assert_eq!(relay.networks.lock().0.len(), 5);
    }
}
