//! A server and a connected client.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex},
};

use glovebox_server::{
    Service, ServiceConfig, Tenant, TenantConfig,
    mcp::{Approve, McpServer, ProcessConfig, UpstreamConfig, UpstreamTransport, Upstreams},
};
use glovebox_sessions::DirectoryStore;
use glovebox_tests::engine;
use rmcp::{
    ClientHandler, RoleClient, ServiceExt as _,
    model::{
        CallToolRequest, CallToolRequestParams, CallToolResult, ClientConfig, ClientRequest, ContentBlock,
        ElicitRequestParams, ElicitResult, ElicitationCapability, ErrorData, ProgressNotificationParam,
        ReadResourceRequestParams, ReadResourceResult, ServerResult,
    },
    service::{
        ClientLifecycleMode, ClientServiceExt as _, NotificationContext, PeerRequestOptions, RequestContext,
        RequestHandle, RunningService,
    },
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

pub(super) use crate::server::support::until;

/// A client that records the notifications and questions that it receives.
#[derive(Clone, Default)]
pub(super) struct Listener {
    pub(super) progress: Arc<Mutex<Vec<ProgressNotificationParam>>>,
    /// The messages of the questions.
    pub(super) questions: Arc<Mutex<Vec<String>>>,
    /// The answers to the next questions. Further questions are not answered. `None` if the client does not support
    /// elicitation.
    pub(super) answers: Option<Arc<Mutex<VecDeque<ElicitResult>>>>,
}

impl ClientHandler for Listener {
    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.progress.lock().unwrap().push(params);
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, .. } = request else { panic!("{request:?}") };
        self.questions.lock().unwrap().push(message);
        let answer = self.answers.as_ref().and_then(|answers| answers.lock().unwrap().pop_front());
        match answer {
            Some(answer) => Ok(answer),
            None => std::future::pending().await,
        }
    }

    fn get_info(&self) -> ClientConfig {
        let mut config = ClientConfig::default();
        config.capabilities.elicitation = self.answers.as_ref().map(|_| ElicitationCapability::new());
        config
    }
}

/// A single-tenant server and its client.
pub(super) struct Mcp {
    pub(super) runtime: Runtime,
    pub(super) client: Option<RunningService<RoleClient, Listener>>,
    pub(super) listener: Listener,
    pub(super) service: Service,
    _dir: TempDir,
}

/// A change to the tenant's configuration.
type TenantChange = Box<dyn FnOnce(&mut TenantConfig)>;

/// The configuration of a test's server.
#[derive(Default)]
pub(super) struct Setup {
    pub(super) change: Option<TenantChange>,
    pub(super) service: ServiceConfig,
    pub(super) lifecycle: Option<ClientLifecycleMode>,
    pub(super) listing: String,
    /// The client's answers to questions. `None` if it does not support elicitation.
    pub(super) answers: Option<Vec<Value>>,
}

pub(super) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

impl Mcp {
    pub(super) fn new() -> Self {
        Self::with(Setup::default())
    }

    pub(super) fn changed(change: impl FnOnce(&mut TenantConfig) + 'static) -> Self {
        Self::with(Setup { change: Some(Box::new(change)), ..Setup::default() })
    }

    pub(super) fn with(setup: Setup) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let service = Service::new(engine().clone(), setup.service).unwrap();
        let store = DirectoryStore::open(dir.path().join("sessions")).unwrap();
        let mut config = TenantConfig::new("mcp", Arc::new(store));
        if let Some(change) = setup.change {
            change(&mut config);
        }
        let tenant = Tenant::new(&service, config);
        let answer = |answer| serde_json::from_value::<ElicitResult>(answer).unwrap();
        let answers = setup.answers.map(|answers| Arc::new(Mutex::new(answers.into_iter().map(answer).collect())));
        let (runtime, listener) = (runtime(), Listener { answers, ..Listener::default() });
        let server = McpServer::new(tenant, &setup.listing);
        let lifecycle = setup.lifecycle.unwrap_or(ClientLifecycleMode::Initialize);
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let client = runtime.block_on(async {
            tokio::spawn(async move {
                if let Ok(running) = server.serve(ours).await {
                    let _ = running.waiting().await;
                }
            });
            listener.clone().serve_with_lifecycle(theirs, lifecycle).await.unwrap()
        });
        Self { runtime, client: Some(client), listener, service, _dir: dir }
    }

    pub(super) fn client(&self) -> &RunningService<RoleClient, Listener> {
        self.client.as_ref().unwrap()
    }

    pub(super) fn call(&self, name: &'static str, arguments: Value) -> CallToolResult {
        let params = CallToolRequestParams::new(name).with_arguments(arguments.as_object().unwrap().clone());
        self.runtime.block_on(self.client().call_tool(params)).unwrap()
    }

    /// Calls a tool and asserts that it succeeds.
    pub(super) fn ok(&self, name: &'static str, arguments: Value) -> CallToolResult {
        let result = self.call(name, arguments);
        assert_ne!(result.is_error, Some(true), "{result:?}");
        assert!(result.structured_content.is_some(), "{result:?}");
        result
    }

    /// Calls a tool, asserts that it fails, and returns the message for the model.
    pub(super) fn refused(&self, name: &'static str, arguments: Value) -> String {
        let result = self.call(name, arguments);
        assert_eq!((result.is_error, &result.structured_content), (Some(true), &None), "{result:?}");
        text(&result)
    }

    pub(super) fn python(&self, code: &str) -> CallToolResult {
        self.call("run_code", json!({ "language": "python", "code": code }))
    }

    /// Opens a Python session and returns its ID.
    pub(super) fn session(&self) -> String {
        structured(&self.ok("session_open", json!({ "language": "python" })))["session"].as_str().unwrap().to_owned()
    }

    pub(super) fn in_session(&self, session: &str, code: &str) -> CallToolResult {
        self.call("run_code", json!({ "language": "python", "session": session, "code": code }))
    }

    /// Starts a tool call without waiting for its result.
    pub(super) fn begin(&self, name: &'static str, arguments: Value) -> RequestHandle<RoleClient> {
        self.begin_call(CallToolRequestParams::new(name).with_arguments(arguments.as_object().unwrap().clone()))
    }

    /// Like `begin`, with all parameters of the call.
    pub(super) fn begin_call(&self, params: CallToolRequestParams) -> RequestHandle<RoleClient> {
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let options = PeerRequestOptions::no_options();
        self.runtime.block_on(self.client().send_cancellable_request(request, options)).unwrap()
    }

    /// Waits for the result of a call from `begin`.
    pub(super) fn end(&self, handle: RequestHandle<RoleClient>) -> CallToolResult {
        match self.runtime.block_on(handle.await_response()).unwrap() {
            ServerResult::CallToolResult(result) => result,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn read(&self, uri: &str) -> Result<ReadResourceResult, String> {
        let read = self.client().read_resource(ReadResourceRequestParams::new(uri));
        self.runtime.block_on(read).map_err(|error| error.to_string())
    }

    /// Returns the number of running executions.
    pub(super) fn running(&self) -> i64 {
        let text = self.service.metrics_text();
        let line = text.lines().find(|line| line.starts_with("glovebox_running "));
        line.unwrap_or_else(|| panic!("{text}")).rsplit(' ').next().unwrap().parse().unwrap()
    }
}

/// Returns a result's texts, joined by newlines.
pub(super) fn text(result: &CallToolResult) -> String {
    result.content.iter().filter_map(|block| block.as_text()).map(|text| &*text.text).collect::<Vec<_>>().join("\n")
}

pub(super) fn structured(result: &CallToolResult) -> &Value {
    result.structured_content.as_ref().unwrap_or_else(|| panic!("{result:?}"))
}

/// Returns the media types of a result's images, and the addresses of its links.
pub(super) fn pictures_and_links(result: &CallToolResult) -> (Vec<String>, Vec<String>) {
    let (mut pictures, mut links) = (Vec::new(), Vec::new());
    for block in &result.content {
        match block {
            ContentBlock::Image(image) => pictures.push(image.mime_type.clone()),
            ContentBlock::ResourceLink(link) => links.push(link.uri.clone()),
            _ => {}
        }
    }
    (pictures, links)
}

/// A Python script that acts as an upstream server. The body for `tools/call` can read `name` and `arguments`, and
/// answers with `say`.
pub(super) struct UpstreamScript {
    pub(super) dir: TempDir,
}

impl UpstreamScript {
    pub(super) fn new(tools: &Value, call: &str) -> Self {
        let list = "say({'tools': json.load(open(os.path.join(os.path.dirname(__file__), 'tools.json')))})";
        let made = Self::answering(list, call);
        std::fs::write(made.dir.path().join("tools.json"), tools.to_string()).unwrap();
        made
    }

    /// Like `new`, but with a body for `tools/list` too.
    pub(super) fn answering(list: &str, call: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let indented = |body: &str| body.lines().map(|line| format!("        {line}\n")).collect::<String>();
        let script = format!(
            "import json, os, sys, threading, time\nlock = threading.Lock()\n\
             def put(m):\n    with lock: sys.stdout.write(json.dumps(m) + '\\n'); sys.stdout.flush()\n\
             def handle(m):\n    def say(r): put({{'jsonrpc': '2.0', 'id': m['id'], 'result': r}})\n\
             \x20   def text(t): say({{'content': [{{'type': 'text', 'text': t}}]}})\n\
             \x20   if m['method'] == 'initialize':\n\
             \x20       say({{'protocolVersion': '2025-06-18', 'capabilities': {{'tools': {{}}}}, 'serverInfo': {{'name': 'i', 'version': '1'}}}})\n\
             \x20   elif m['method'] == 'tools/list':\n{}\
             \x20   elif m['method'] == 'tools/call':\n        name, arguments = m['params']['name'], m['params']['arguments']\n{}\
             for line in sys.stdin:\n    m = json.loads(line)\n    if 'id' in m: threading.Thread(target=handle, args=(m,), daemon=True).start()\n\
             \x20   elif m['method'] == 'notifications/cancelled': open(os.path.join(os.path.dirname(__file__), 'cancelled'), 'w').close()\n",
            indented(list),
            indented(call),
        );
        std::fs::write(dir.path().join("server.py"), script).unwrap();
        Self { dir }
    }

    pub(super) fn config(&self, name: &str) -> UpstreamConfig {
        let args = vec![self.dir.path().join("server.py").to_str().unwrap().to_owned()];
        let process = ProcessConfig { command: "python3".into(), args, env: BTreeMap::new(), cwd: None };
        UpstreamConfig {
            name: name.into(),
            transport: UpstreamTransport::Process(process),
            tools: None,
            approve: Approve::Never,
        }
    }
}

/// Starts the upstream servers.
pub(super) fn start(runtime: &Runtime, configs: Vec<UpstreamConfig>, result_bytes: u64) -> Result<Upstreams, String> {
    runtime.block_on(Upstreams::start(configs, result_bytes)).map_err(|error| error.to_string())
}
