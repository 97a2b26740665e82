//! A server on its own port, and a client for HTTP on any stream.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    ops::Deref,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use glovebox::SessionKey;
use glovebox_server::{
    Audit, Service, ServiceConfig, Tenant, TenantConfig,
    http::{self, BoundServer, HttpConfig, Tenants, TokenHash},
};
use glovebox_sessions::DirectoryStore;
use glovebox_tests::engine;
use serde_json::Value;
use tempfile::TempDir;

pub(super) const TOKEN: &str = "a token of the tests";

/// A change to a tenant's configuration.
type TenantChange = Box<dyn FnOnce(&mut TenantConfig)>;

/// The configuration of a test's server.
#[derive(Default)]
pub(super) struct Setup {
    pub(super) service: ServiceConfig,
    pub(super) http: HttpConfig,
    /// Changes the first tenant's configuration.
    pub(super) tenant: Option<TenantChange>,
    /// A second tenant's token.
    pub(super) other: Option<&'static str>,
    /// The key of both tenants.
    pub(super) key: Option<SessionKey>,
    /// The store's directory. A server that starts with the directory of an earlier server finds its sessions.
    pub(super) dir: Option<Arc<TempDir>>,
}

/// A running server, shut down on drop.
pub(super) struct Server {
    client: Client<TcpStream>,
    pub(super) address: SocketAddr,
    pub(super) service: Service,
    pub(super) tenant: Tenant,
    pub(super) dir: Arc<TempDir>,
    audit: Arc<Mutex<Vec<u8>>>,
    runtime: Option<tokio::runtime::Runtime>,
    serving: Option<tokio::task::JoinHandle<()>>,
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Server {
    pub(super) fn start(setup: Setup) -> Self {
        let Setup { mut service, http, tenant: change, other, key, dir } = setup;
        let dir = dir.unwrap_or_else(|| Arc::new(tempfile::tempdir().unwrap()));
        let log = Shared::default();
        service.audit = Some(Audit::new(log.clone(), false));
        let service = Service::new(engine().clone(), service).unwrap();
        let tenant = |name: &str, change: Option<TenantChange>| {
            let store = DirectoryStore::open(dir.path().join(name)).unwrap();
            let suspended = DirectoryStore::open(dir.path().join(format!("{name}-suspended"))).unwrap();
            let mut config = TenantConfig::new(name, Arc::new(store));
            config.suspended_store = Some(Arc::new(suspended));
            config.key = key.clone();
            if let Some(change) = change {
                change(&mut config);
            }
            Tenant::new(&service, config)
        };
        let one = tenant("one", change);
        let mut tenants = Tenants::default();
        tenants.add(TokenHash::of(TOKEN), one.clone());
        if let Some(token) = other {
            tenants.add(TokenHash::of(token), tenant("other", None));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let bound = runtime.block_on(BoundServer::new(([127, 0, 0, 1], 0).into())).unwrap();
        let address = bound.address;
        let serving = {
            let (service, routes) = (service.clone(), http::router(&service, tenants, &http, address));
            runtime.spawn(async move { http::serve(bound, &service, routes, &http).await })
        };
        let headers = vec![("host", address.to_string()), ("authorization", format!("Bearer {TOKEN}"))];
        let client = Client::new(headers, move || {
            let stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            stream
        });
        Self {
            client,
            address,
            service,
            tenant: one,
            dir,
            audit: log.0,
            runtime: Some(runtime),
            serving: Some(serving),
        }
    }

    /// Returns the audit log's entries.
    pub(super) fn audited(&self) -> Vec<Value> {
        let text = String::from_utf8(self.audit.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Shuts the server down as Ctrl-C does, and returns the store's directory.
    pub(super) fn stop(mut self, wait: Duration) -> Arc<TempDir> {
        self.shut_down(wait);
        Arc::clone(&self.dir)
    }

    fn shut_down(&mut self, wait: Duration) {
        let (Some(runtime), Some(serving)) = (self.runtime.take(), self.serving.take()) else { return };
        runtime.block_on(async {
            self.service.drain(wait).await;
            serving.await.unwrap();
        });
        let report = self.tenant.sessions().hibernate_all();
        assert!(report.errors.is_empty(), "{:?}", report.errors);
    }
}

impl Deref for Server {
    type Target = Client<TcpStream>;

    fn deref(&self) -> &Client<TcpStream> {
        &self.client
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shut_down(Duration::ZERO);
    }
}

/// A client that sends each request on a new connection.
pub(crate) struct Client<S> {
    connect: Box<dyn Fn() -> S + Send + Sync>,
    /// Headers of each request that does not set them itself.
    headers: Vec<(&'static str, String)>,
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn new(headers: Vec<(&'static str, String)>, connect: impl Fn() -> S + Send + Sync + 'static) -> Self {
        Self { connect: Box::new(connect), headers }
    }

    pub(crate) fn connect(&self) -> S {
        (self.connect)()
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], b"")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask("POST", path, &[], body.to_string().as_bytes())
    }

    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        Answer::read(self.begin(method, path, headers, body))
    }

    /// Like `ask`, but does not wait for the answer.
    pub(crate) fn begin(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> S {
        let has = |name: &str| headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
        let is_wanted = |name: &str| !has(name) && (name != "authorization" || !has("x-api-key"));
        let more = self.headers.iter().filter(|(name, _)| is_wanted(name)).map(|(name, value)| (*name, value.as_str()));
        let headers: Vec<_> = more.chain(headers.iter().copied()).collect();
        self.send(&request(method, path, &headers, body))
    }

    /// Sends raw bytes on a new connection.
    pub(crate) fn send(&self, bytes: &[u8]) -> S {
        let mut stream = self.connect();
        // A server that rejects a request early may already have closed the connection.
        let _ = stream.write_all(bytes);
        stream
    }

    /// Starts an execution whose output is streamed, and returns its ID.
    pub(crate) fn stream(&self, path: &str, body: &Value) -> (Chunks<S>, String) {
        Chunks::started(self.begin("POST", path, &[LINES], body.to_string().as_bytes()))
    }
}

/// The header that requests a streamed response.
pub(crate) const LINES: (&str, &str) = ("accept", "application/x-ndjson");

/// Returns the bytes of a request that closes its connection.
pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    [head.as_bytes(), b"\r\n", body].concat()
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn read(mut stream: impl Read) -> Self {
        let mut bytes = Vec::new();
        // If the server resets the connection, the answer consists of the bytes received before.
        let _ = stream.read_to_end(&mut bytes);
        let at = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        let at = at.unwrap_or_else(|| panic!("no answer: {}", String::from_utf8_lossy(&bytes)));
        let head = String::from_utf8(bytes[..at].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut answer = Self { status, head, body: bytes[at + 4..].to_vec() };
        if answer.header("transfer-encoding") == Some("chunked") {
            answer.body = unchunked(&answer.body);
        }
        answer
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers(name).first().copied()
    }

    /// Returns every value of a header, in order.
    pub(crate) fn headers(&self, name: &str) -> Vec<&str> {
        let given = self.head.lines().filter_map(|line| line.split_once(": "));
        given.filter(|(given, _)| *given == name).map(|(_, value)| value).collect()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Asserts that the response is successful, and returns its JSON body.
    pub(crate) fn ok(&self) -> Value {
        assert!(matches!(self.status, 200 | 201), "{} {}", self.status, String::from_utf8_lossy(&self.body));
        self.json()
    }

    /// Returns the status and type of a problem document, and asserts that the document is complete.
    pub(crate) fn problem(&self) -> (u16, String) {
        let problem = self.json();
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        assert_eq!(problem["status"], self.status, "{problem}");
        assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{problem}");
        assert_eq!(
            problem["retry_after"].as_u64().map(|after| after.to_string()).as_deref(),
            self.header("retry-after")
        );
        (self.status, problem["type"].as_str().unwrap().to_owned())
    }
}

/// The chunks of a streamed response, each read as soon as it arrives.
pub(crate) struct Chunks<S> {
    reader: BufReader<S>,
    text: Vec<u8>,
}

impl<S: Read> Chunks<S> {
    /// Reads the head of a successful response.
    pub(crate) fn new(stream: S) -> Self {
        let mut reader = BufReader::new(stream);
        let (mut head, mut line) = (String::new(), String::new());
        while line != "\r\n" {
            line.clear();
            assert!(reader.read_line(&mut line).unwrap() > 0, "no response: {head}");
            head += &line;
        }
        assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("transfer-encoding: chunked"), "{head}");
        Self { reader, text: Vec::new() }
    }

    /// Reads the first chunk of an execution, and returns the execution's ID.
    pub(crate) fn started(stream: S) -> (Self, String) {
        let mut chunks = Self::new(stream);
        let first = chunks.next().unwrap();
        assert_eq!(first["type"], "started", "{first}");
        (chunks, first["execution"].as_str().unwrap().to_owned())
    }
}

impl<S: Read> Iterator for Chunks<S> {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(at) = self.text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.text.drain(..=at).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let mut size = String::new();
            self.reader.read_line(&mut size).unwrap();
            let size = usize::from_str_radix(size.trim(), 16).unwrap_or_else(|error| panic!("{error}: {size:?}"));
            let mut piece = vec![0; size + 2];
            self.reader.read_exact(&mut piece).unwrap();
            if size == 0 {
                return None;
            }
            self.text.extend_from_slice(&piece[..size]);
        }
    }
}

fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(at) = bytes.windows(2).position(|window| window == b"\r\n") {
        let len = usize::from_str_radix(std::str::from_utf8(&bytes[..at]).unwrap(), 16).unwrap();
        whole.extend_from_slice(&bytes[at + 2..at + 2 + len]);
        bytes = &bytes[at + 4 + len..];
    }
    whole
}

/// Waits until a condition holds; `what` describes it.
pub(crate) fn until(what: &str, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns a metric's value.
pub(super) fn metric(server: &Server, name: &str) -> i64 {
    let text = server.service.metrics_text();
    let line = text.lines().find(|line| line.split(' ').next() == Some(name));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).rsplit(' ').next().unwrap().parse().unwrap()
}
