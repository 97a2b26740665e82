//! Tests with local servers that send exact bytes.

mod limits;
mod redirects;
mod secrets;
mod urls;

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use glovebox::{CallMemory, CancelToken, Entropy, NetworkPolicy, SecretPolicy, ToolError, ToolMemory};
use serde_json::{Value, json};

use crate::{
    client::{Client, ResolveFuture, Resolver},
    message::{self, CallContext},
    secrets::Secrets,
};

/// A test server that records requests. Its thread runs until the process exits.
#[derive(Clone)]
struct Server {
    port: u16,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Starts a server. `answer` writes the response to each request; then the connection is closed.
    fn new(answer: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (port, heard) = (listener.local_addr().unwrap().port(), Arc::new(Mutex::new(Vec::new())));
        let server = Self { port, heard };
        let (answer, written) = (Arc::new(answer), Arc::clone(&server.heard));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (answer, heard) = (Arc::clone(&answer), Arc::clone(&written));
                thread::spawn(move || {
                    let mut stream = stream.unwrap();
                    let request = read_request(&mut stream);
                    heard.lock().unwrap().push(request.clone());
                    answer(&request, &mut stream);
                    let _ = stream.shutdown(Shutdown::Write);
                });
            }
        });
        server
    }

    /// Starts a server that sends the same bytes in response to every request.
    fn saying(response: impl Into<Vec<u8>>) -> Self {
        let response = response.into();
        Self::new(move |_, stream| drop(stream.write_all(&response)))
    }

    /// Starts a server that responds with status 200 and this body.
    fn with_body(body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        Self::saying([head.as_bytes(), body].concat())
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

fn read_request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let read = stream.read(&mut chunk).unwrap_or(0);
        bytes.extend_from_slice(&chunk[..read]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let length =
            text.to_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        let is_whole = text.find("\r\n\r\n").is_some_and(|head| bytes.len() >= head + 4 + length.unwrap_or(0));
        if is_whole || read == 0 {
            return text;
        }
    }
}

/// Returns a policy that allows every path on these servers.
fn policy(servers: &[&Server]) -> NetworkPolicy {
    let allow = servers.iter().map(|server| server.url("/*"));
    let mut policy = NetworkPolicy::allowing(allow);
    policy.allow_private = vec!["127.0.0.0/8".into()];
    policy
}

fn secrets(policy: &NetworkPolicy) -> Secrets {
    Secrets::read_from(&policy.secrets, Entropy::Host, &|name| (name == "REAL").then(|| SECRET.to_owned())).unwrap()
}

const SECRET: &str = "s3cr3t-value-of-tests";

fn client(policy: &NetworkPolicy) -> Client {
    Client::new(policy, secrets(policy)).unwrap()
}

fn call() -> CallContext {
    call_within(&account(1 << 30))
}

/// Returns a memory account for an execution's calls, with `room_bytes` left.
fn account(room_bytes: u64) -> Arc<ToolMemory> {
    let account = Arc::new(ToolMemory::default());
    account.set_room(room_bytes);
    account
}

fn call_within(account: &Arc<ToolMemory>) -> CallContext {
    let memory = CallMemory::new(Arc::clone(account), None);
    CallContext { cancel: CancelToken::new(), deadline: Instant::now() + Duration::from_secs(20), memory }
}

/// Performs a request and returns what the script would receive.
fn ask(client: &Client, request: &Value) -> Result<Value, String> {
    let answer = message::fetch(client, &call(), &request.to_string());
    answer.map(|text| serde_json::from_str(&text).unwrap()).map_err(|fault| ToolError::from(fault).to_string())
}

fn get(client: &Client, url: &str) -> Result<Value, String> {
    ask(client, &json!({ "url": url }))
}

/// Returns a resolver with fixed answers. Each lookup of a name returns the name's next answer. The last answer
/// repeats.
fn resolver(names: &[(&str, &[&[&str]])]) -> Arc<Resolver> {
    let addresses = |list: &&[&str]| list.iter().map(|text| text.parse().unwrap()).collect();
    let entries = names.iter().map(|(name, answers)| ((*name).to_owned(), answers.iter().map(addresses).collect()));
    let names: Mutex<BTreeMap<String, Vec<Vec<IpAddr>>>> = Mutex::new(entries.collect());
    Arc::new(move |name: &str| -> ResolveFuture {
        let mut names = names.lock().unwrap();
        let answers = names.get_mut(name);
        let found = answers.map(|answers| if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() });
        Box::pin(async move { found.ok_or_else(|| std::io::Error::other("no such name")) })
    })
}

fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}
