//! Tests that hostile clients cannot make a server's memory grow by more than `http.bodies_bytes` and 64 MiB. With
//! workers, the measurements do not include interpreters.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::server::{Answer, OTHER, Server, peak_kib, python, until};

/// `http.bodies_bytes` of all servers in these tests.
const ROOM_BYTES: u64 = 64 << 20;
/// Maximum growth of a server's resident memory.
const MAX_GROWTH_KIB: u64 = (ROOM_BYTES + (64 << 20)) >> 10;

/// Starts a server with these additional settings, and executes a script.
fn started(settings: &str, flags: &[&str], variables: &[(&str, &str)]) -> Server {
    let config = format!("[http]\nbodies_bytes = {ROOM_BYTES}\n\n{settings}");
    let server = Server::start_with(tempfile::tempdir().unwrap(), &config, flags, variables);
    executes(&server);
    server
}

fn executes(server: &Server) {
    assert_eq!(server.post("/v1/execute", &python("print(1)")).ok()["stdout"], "1\n");
}

/// Asserts that the server's memory has not grown beyond the maximum since `before`.
fn check_growth(server: &Server, before: u64, attack: &str) {
    let grown = peak_kib(server).saturating_sub(before);
    assert!(grown < MAX_GROWTH_KIB, "{attack}: the server grew by {grown} KiB");
}

/// Requests from clients that do not read the answers.
struct Attack {
    name: &'static str,
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: String,
    /// The number of clients.
    count: usize,
    /// The status of an answer that a client reads.
    status: u16,
    /// The length of an answer that a client reads, in bytes.
    bytes: std::ops::Range<usize>,
}

impl Attack {
    /// Creates an attack that sends a body. Each answer is so long that all answers together exceed the limit.
    fn post(name: &'static str, path: impl Into<String>, body: &Value, count: usize) -> Self {
        Self { method: "POST", body: body.to_string(), ..Self::get(name, path, count) }
    }

    fn get(name: &'static str, path: impl Into<String>, count: usize) -> Self {
        let least = usize::try_from(MAX_GROWTH_KIB << 10).unwrap() / count;
        let (headers, body) = (Vec::new(), String::new());
        Self { name, method: "GET", path: path.into(), headers, body, count, status: 200, bytes: least..usize::MAX }
    }

    fn begin(&self, server: &Server) -> TcpStream {
        let headers: Vec<(&str, &str)> = self.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        server.begin(self.method, &self.path, &headers, &self.body)
    }

    /// Sends one request whose answer is read, and then all requests of the attack.
    fn run(&self, server: &Server, before: u64) {
        let mut answer = Answer::read(self.begin(server));
        until("the memory of the last attack is free", || {
            let is_refused = answer.status == 503;
            if is_refused {
                answer = Answer::read(self.begin(server));
            }
            !is_refused
        });
        let (status, bytes) = (answer.status, answer.text.len());
        let shown: String = answer.text.chars().take(200).collect();
        assert!(
            status == self.status && self.bytes.contains(&bytes),
            "{}: {status}, {bytes} bytes: {shown}",
            self.name
        );
        let unread: Vec<TcpStream> = (0..self.count).map(|_| self.begin(server)).collect();
        // The server builds the answers in this time.
        thread::sleep(Duration::from_secs(1));
        check_growth(server, before, self.name);
        drop(unread);
    }
}

#[test]
fn unread_answers_take_bounded_memory() {
    let settings = "[policy.limits]\ntool_bytes = 8_388_608\ntimeout_ms = 100_000\ntool_timeout_ms = 100_000\n";
    let server = started(settings, &["--workers", "1", "--e2b"], &[]);
    // Create a session with a state of 12 MiB and a file of 8 MB, and a sandbox with many directories.
    server.post("/v1/sessions", &json!({ "id": "s", "language": "python" })).ok();
    let write = "import os; x = os.urandom(12 << 20); open('large', 'w').write('x' * 8_000_000); None";
    let ran = |path: &str, source: &str| {
        let result = server.post(path, &json!({ "source": source })).ok();
        assert_eq!(result["outcome"]["kind"], "completed", "{result}");
    };
    ran("/v1/sessions/s/execute", write);
    let sandbox = server.post("/v2/sandboxes", &json!({ "templateID": "t" })).ok();
    let field = |name: &str| sandbox[name].as_str().unwrap().to_owned();
    let contents = format!("/v1/sessions/{}.python", field("sandboxID"));
    // In JSON, each character of the names occupies six bytes.
    let make = "import os\nfor n in range(400): os.makedirs(f'{n:03}/' + '/'.join(['\\x01' * 200] * 15))";
    ran(&format!("{contents}/execute"), make);
    // Start an execution that waits for the answer to a call with 4 MB of arguments.
    let mut calls = python("tools.ask('x' * 4_000_000)");
    calls["tools"] = json!([{ "name": "ask", "schema": { "properties": { "n": {} }, "required": ["n"] } }]);
    let needs = server.post("/v1/execute", &calls);
    assert_eq!(needs.status, 202);
    let resumed = format!("/v1/executions/{}/continue", needs.json()["execution"].as_str().unwrap());
    let lists = json!({ "path": "/home/user", "depth": 100 });
    let mut lists = Attack::post("ListDir", "/filesystem.Filesystem/ListDir", &lists, 40);
    lists.headers = vec![
        ("content-type", "application/json".to_owned()),
        ("e2b-sandbox-id", field("sandboxID")),
        ("x-access-token", field("envdAccessToken")),
    ];
    let streams = python("import sys\nfor _ in range(3): sys.stdout.write('\\x01' * 600_000)");
    let mut streams = Attack::post("streamed output", "/v1/execute", &streams, 40);
    streams.headers = vec![("accept", "application/x-ndjson".to_owned())];
    let mut returned = python("open('large', 'w').write('x' * 8_000_000)");
    returned["return_files"] = json!(["*"]);
    let mut attacks = vec![
        Attack { status: 202, ..Attack::post("calls of tools", resumed, &json!({ "answers": [] }), 120) },
        Attack::get("state of a session", "/v1/sessions/s/state", 40),
        Attack::get("file", "/v1/sessions/s/files/large", 40),
        Attack::get("list of files", format!("{contents}/files"), 60),
        Attack::post("returned files", "/v1/execute", &returned, 24),
        lists,
        streams,
    ];
    // An error that quoted its whole request would be at least 6 MiB long.
    for letter in ["x", "\u{202e}", "\\u0001"] {
        let mut errors = Attack::post("errors", "/v1/execute", &json!({}), 24);
        errors.body = format!("{{\"{}\": 1}}", letter.repeat((6 << 20) / letter.len()));
        attacks.push(Attack { status: 400, bytes: 100..8 << 10, ..errors });
    }
    let before = peak_kib(&server);
    attacks.iter().for_each(|attack| attack.run(&server, before));
    until("the memory is free", || server.post("/v1/execute", &python("1")).status == 200);
    executes(&server);
}

/// Starts a service that answers each request with `count` copies of `text`.
fn repeating(text: &'static str, count: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let bytes = text.len() * count;
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\nconnection: close\r\n\r\n");
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(text.repeat(count).as_bytes()));
        }
    });
    address
}

/// The placeholders of 32 MiB of short secrets occupy 192 MiB.
#[test]
fn placeholders_of_secrets_take_bounded_memory() {
    const SECRET: &str = "secret-1";
    let service = repeating(SECRET, (32 << 20) / SECRET.len());
    let settings = format!(
        "[policy.network]\nallow = [\"http://{service}/*\"]\nallow_private = [\"127.0.0.0/8\"]\nresponse_bytes = {}\n\
         timeout_ms = 100_000\n\n[policy.limits]\ntimeout_ms = 100_000\n\n\
         [policy.network.secrets]\nKEY = {{ env = \"SERVICE_KEY\", host = \"127.0.0.1\" }}\n",
        32 << 20
    );
    // A worker would need memory for a second copy of the response, and refuse it before the placeholders are inserted.
    let server = started(&settings, &["--in-process"], &[("SERVICE_KEY", SECRET)]);
    let before = peak_kib(&server);
    let source = format!(
        "import urllib.request\ntry: print(len(urllib.request.urlopen('http://{service}/').read()))\n\
         except Exception as error: print(error)"
    );
    let printed = server.post("/v1/execute", &python(&source)).ok()["stdout"].as_str().unwrap().to_owned();
    assert!(printed.contains("exceeds 33554432 bytes") && printed.contains("placeholders"), "{printed}");
    check_growth(&server, before, "placeholders");
    executes(&server);
}

/// Returns the total size of all files in a directory, in bytes.
fn size_of(dir: &Path) -> u64 {
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size_of(&entry.path()),
        found => found.map_or(0, |metadata| metadata.len()),
    };
    fs::read_dir(dir).unwrap().map(|entry| size(entry.unwrap())).sum()
}

#[test]
fn hibernated_forks_take_bounded_memory_and_storage() {
    const STORED_BYTES: u64 = 64 << 20;
    let settings = format!("{OTHER}stored_bytes = {STORED_BYTES}\n");
    let server = started(&settings, &["--workers", "1"], &[]);
    let before = peak_kib(&server);
    let ask = |path: &str, body: &Value| server.ask_as_other("POST", &format!("/v1/sessions{path}"), &body.to_string());
    ask("", &json!({ "id": "s", "language": "python" })).ok();
    ask("/s/execute", &json!({ "source": "import os; x = os.urandom(12 << 20); None" })).ok();
    // Without a limit, the store would contain 180 MiB.
    let forks = (0..14).map(|n| {
        let fork = ask("/s/fork", &json!({ "id": format!("f{n}") }));
        if fork.status == 201 {
            assert_eq!(ask(&format!("/f{n}/hibernate"), &json!({})).status, 200);
        } else {
            assert_eq!(fork.problem(), (429, "quota-exceeded".into()));
        }
        fork.status == 201
    });
    let saved = forks.filter(|is_saved| *is_saved).count();
    assert!((1..5).contains(&saved), "{saved} forks are saved");
    let stored = size_of(&server.dir.path().join("store"));
    assert!(stored < STORED_BYTES + (1 << 20), "{stored} bytes");
    check_growth(&server, before, "forks");
    executes(&server);
}
