//! A daemon with a new socket, and its clients.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use glovebox_server::{
    NoStore, Service, ServiceConfig, Tenant, TenantConfig,
    daemon::{Daemon, DaemonConfig, Listener, serve},
};
use glovebox_tests::engine;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The configuration of a test's daemon.
#[derive(Default)]
pub(super) struct Setup {
    pub(super) config: Option<DaemonConfig>,
    pub(super) policy: glovebox::Policy,
}

/// A running daemon, stopped on drop.
pub(super) struct Running {
    pub(super) socket: PathBuf,
    pub(super) service: Service,
    pub(super) daemon: Daemon,
    pub(super) dir: TempDir,
    runtime: Option<tokio::runtime::Runtime>,
    serving: Option<tokio::task::JoinHandle<()>>,
}

/// Returns the default configuration, changed by `change`.
pub(super) fn config(change: impl FnOnce(&mut DaemonConfig)) -> Setup {
    let mut config = DaemonConfig::default();
    change(&mut config);
    Setup { config: Some(config), ..Setup::default() }
}

impl Running {
    pub(super) fn new() -> Self {
        Self::with(Setup::default())
    }

    pub(super) fn with(setup: Setup) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("d.sock");
        let service = Service::new(engine().clone(), ServiceConfig::default()).unwrap();
        let mut config = TenantConfig::new("daemon", Arc::new(NoStore));
        config.policy = setup.policy;
        let tenant = Tenant::new(&service, config);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (daemon, serving) = runtime.block_on(async {
            let listener = Listener::bind(&socket).unwrap();
            let daemon = Daemon::new(&tenant, setup.config.unwrap_or_default());
            let served = daemon.clone();
            (daemon, tokio::spawn(async move { serve(&served, listener).await }))
        });
        Self { socket, service, daemon, dir, runtime: Some(runtime), serving: Some(serving) }
    }

    pub(super) fn client(&self) -> Client {
        Client::connect(&self.socket)
    }

    /// Connects a client and opens a session.
    pub(super) fn opened(&self) -> Client {
        let mut client = self.client();
        client.ok("initialize", json!({}));
        client
    }

    /// Returns the number of running executions.
    pub(super) fn executing(&self) -> i64 {
        let text = self.service.metrics_text();
        let line = text.lines().find(|line| line.starts_with("glovebox_running ")).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// Returns `true` if the daemon stops without a request within 30 seconds.
    pub(super) fn has_stopped(&mut self) -> bool {
        let (Some(runtime), Some(serving)) = (&self.runtime, self.serving.take()) else { return true };
        runtime.block_on(async { tokio::time::timeout(Duration::from_secs(30), serving).await.is_ok() })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.daemon.stop();
        if let Some(runtime) = self.runtime.take() {
            runtime.block_on(async {
                self.service.drain(Duration::from_secs(1)).await;
                if let Some(serving) = self.serving.take() {
                    let _ = tokio::time::timeout(Duration::from_secs(30), serving).await;
                }
            });
            runtime.shutdown_timeout(Duration::from_secs(1));
        }
    }
}

pub(super) struct Client {
    pub(super) stream: UnixStream,
    reader: BufReader<UnixStream>,
    count: u64,
    /// Messages that arrived while a test waited for another message.
    pub(super) others: Vec<Value>,
}

impl Client {
    pub(super) fn connect(socket: &std::path::Path) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        Self { stream, reader, count: 0, others: Vec::new() }
    }

    /// Sends a raw line.
    pub(super) fn send(&mut self, line: &str) {
        self.stream.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Returns the next message, or `None` at the end of the stream.
    pub(super) fn receive(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))),
        }
    }

    /// Sends a line and returns the answer.
    pub(super) fn answer(&mut self, line: &str) -> Value {
        self.send(line);
        self.receive().expect("an answer")
    }

    /// Sends a request and returns its ID.
    pub(super) fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.count += 1;
        let id = self.count;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string());
        id
    }

    /// Waits for the answer to a request.
    pub(super) fn end(&mut self, id: u64) -> Value {
        if let Some(at) = self.others.iter().position(|message| message["id"] == id && message["method"].is_null()) {
            return self.others.remove(at);
        }
        loop {
            let message =
                self.receive().unwrap_or_else(|| panic!("no answer to request {id}; received {:?}", self.others));
            if message["id"] == id && message["method"].is_null() {
                return message;
            }
            self.others.push(message);
        }
    }

    /// Returns the daemon's next request or notification.
    pub(super) fn asked(&mut self) -> Value {
        if let Some(at) = self.others.iter().position(|message| message["method"].is_string()) {
            return self.others.remove(at);
        }
        loop {
            let message = self.receive().expect("a request");
            if message["method"].is_string() {
                return message;
            }
            self.others.push(message);
        }
    }

    pub(super) fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        self.end(id)
    }

    /// Sends a request that must succeed, and returns its result.
    pub(super) fn ok(&mut self, method: &str, params: Value) -> Value {
        let mut answer = self.call(method, params);
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].take()
    }

    /// Sends a request that must fail, and returns the error's code, name and message.
    pub(super) fn refused(&mut self, method: &str, params: Value) -> (i64, String, String) {
        let answer = self.call(method, params);
        assert!(answer.get("result").is_none(), "{answer}");
        refusal(&answer)
    }

    /// Executes a script and returns its standard output.
    pub(super) fn prints(&mut self, code: &str) -> String {
        let result = self.ok("execute", json!({ "code": code }));
        assert_eq!(result["error"], Value::Null, "{result}");
        result["stdout"].as_str().unwrap().to_owned()
    }
}

/// Answers a request of the daemon.
pub(super) fn reply(client: &mut Client, request: &Value, result: Value) {
    client.send(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }).to_string());
}

pub(super) fn refusal(answer: &Value) -> (i64, String, String) {
    let error = &answer["error"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (error["code"].as_i64().unwrap_or_default(), text(&error["data"]["code"]), text(&error["message"]))
}

pub(super) fn until(what: &str, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
