//! Starts `glovebox serve` as a process, and sends requests to it.

use std::{
    fs,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{self, TEST_TIMEOUT, prepare};

const TOKEN: &str = "a token of the tests";
/// The token of a second tenant, for [`Server::ask_as_other`].
const OTHER_TOKEN: &str = "a second token of the tests";
/// The configuration of the second tenant, to which a test can append settings.
pub(crate) const OTHER: &str =
    "[[tokens]]\nname = \"other\"\nsha256 = \"c843227a0c3577bf2bf9a8b136f4f355c2712ebd0c2fd84ff87a890d35493e0b\"\n";

/// The number of lines from a server's log that a failing test prints.
const LOG_LINES: usize = 100;

/// A server with its own directory of sessions. Dropping it kills the process.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) dir: TempDir,
    /// The last lines of the server's log, which a failing test prints.
    log: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub(crate) fn start(flags: &[&str]) -> Self {
        Self::start_on(tempfile::tempdir().unwrap(), "", flags)
    }

    /// Starts a server with this configuration in `dir`, which may contain the sessions of an earlier server.
    pub(crate) fn start_on(dir: TempDir, config: &str, flags: &[&str]) -> Self {
        Self::start_with(dir, config, flags, &[])
    }

    /// Like `start_on`, with additional environment variables.
    pub(crate) fn start_with(dir: TempDir, config: &str, flags: &[&str], variables: &[(&str, &str)]) -> Self {
        prepare();
        let file = dir.path().join("server.toml");
        fs::write(&file, config).unwrap();
        let store = dir.path().join("store");
        let store: &[&str] = if flags.contains(&"--store") { &[] } else { &["--store", store.to_str().unwrap()] };
        let mut child = Command::new(env!("CARGO_BIN_EXE_glovebox"))
            .args(["serve", "--listen", "127.0.0.1:0", "--config", file.to_str().unwrap()])
            .args(store)
            .args(flags)
            .env("GLOVEBOX_TOKEN", TOKEN)
            .env("GLOVEBOX_LOG", "glovebox=error")
            .envs(variables.iter().copied())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut printed = Vec::new();
        let address = loop {
            let line = lines.next().unwrap_or_else(|| panic!("the server ended: {printed:?}")).unwrap();
            if let Some((_, address)) = line.split_once("listening on http://") {
                break address.parse().unwrap();
            }
            printed.push(line);
        };
        // Read all later output, so that the pipe does not fill up.
        let log = Arc::new(Mutex::new(printed));
        let write = Arc::clone(&log);
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let mut log = write.lock().unwrap();
                log.push(line);
                let surplus = log.len().saturating_sub(LOG_LINES);
                log.drain(..surplus);
            }
        });
        Self { child, address, dir, log }
    }

    /// Returns a request's text.
    pub(crate) fn text(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> String {
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {TOKEN}\r\ncontent-length: {}\r\n",
            self.address,
            body.len()
        );
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head + "\r\n" + body
    }

    /// Sends a request on a new connection.
    pub(crate) fn begin(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
        self.try_begin(method, path, headers, body).unwrap()
    }

    /// Like `begin`, but for a server that may be killed at any moment.
    pub(crate) fn try_begin(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> io::Result<TcpStream> {
        let headers: Vec<_> = headers.iter().copied().chain([("connection", "close")]).collect();
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(TEST_TIMEOUT))?;
        // Errors are ignored: the server may have been killed by now.
        let _ = stream.write_all(self.text(method, path, &headers, body).as_bytes());
        Ok(stream)
    }

    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> Answer {
        Answer::read(self.begin(method, path, &[], body))
    }

    /// Like `ask`, but for the second tenant ([`OTHER`]).
    pub(crate) fn ask_as_other(&self, method: &str, path: &str, body: &str) -> Answer {
        let text = self.text(method, path, &[("connection", "close")], body).replace(TOKEN, OTHER_TOKEN);
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        Answer::read(stream)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask("POST", path, &body.to_string())
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "")
    }

    /// Returns a number from the metrics, or 0 if it is missing.
    pub(crate) fn metric(&self, name: &str) -> i64 {
        let text = self.get("/metrics").text;
        let line = text.lines().find(|line| line.split(' ').next() == Some(name));
        line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
    }

    /// Returns the child processes of the server.
    pub(crate) fn workers(&self) -> Vec<u32> {
        let server = self.child.id();
        let all = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
        all.filter(|pid| parent(*pid) == Some(server)).collect()
    }

    /// Kills the server like `kill -9`.
    pub(crate) fn kill(mut self) -> TempDir {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::mem::replace(&mut self.dir, tempfile::tempdir().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let _ = writeln!(io::stderr(), "the server's log:\n{}", self.log.lock().unwrap().join("\n"));
        }
    }
}

pub(crate) fn kill(pid: u32) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
}

/// Returns a process's parent, unless the process has ended.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The process name before these fields may contain any characters.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    fields.next()?.parse().ok().filter(|_| state != "Z")
}

/// Returns a process's CPU time in kernel ticks.
pub(crate) fn processor_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let mut fields = stat.rsplit_once(") ").unwrap().1.split(' ');
    fields.nth(11).unwrap().parse().unwrap()
}

/// Returns a field of a process's status.
pub(crate) fn status(pid: u32, name: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name} in {status}")).trim().to_owned()
}

/// Returns a process's resident memory that is neither shared nor backed by a file.
pub(crate) fn anonymous_bytes(pid: u32) -> u64 {
    status(pid, "RssAnon").split(' ').next().unwrap().parse::<u64>().unwrap() * 1024
}

/// Returns the maximum resident memory of the server so far, without its workers.
pub(crate) fn peak_kib(server: &Server) -> u64 {
    status(server.child.id(), "VmHWM").split(' ').next().unwrap().parse().unwrap()
}

/// Waits until a condition holds. Panics with `what` after the timeout.
pub(crate) fn until(what: &str, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < TEST_TIMEOUT, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A response. Status 0 means that no response arrived.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn read(mut stream: TcpStream) -> Self {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let all = String::from_utf8_lossy(&bytes).into_owned();
        let (head, text) = all.split_once("\r\n\r\n").unwrap_or_default();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
        Self { status, text: text.to_owned() }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the JSON of a successful response.
    pub(crate) fn ok(&self) -> Value {
        assert!(matches!(self.status, 200 | 201), "{self:?}");
        self.json()
    }

    /// Returns the status and type of a problem response.
    pub(crate) fn problem(&self) -> (u16, String) {
        (self.status, self.json()["type"].as_str().unwrap().to_owned())
    }
}

/// Returns a request to run a Python script.
pub(crate) fn python(source: &str) -> Value {
    json!({ "language": "python", "source": source })
}

/// Runs a script in a session.
pub(crate) fn in_session(server: &Server, id: &str, source: &str) -> Answer {
    server.post(&format!("/v1/sessions/{id}/execute"), &json!({ "source": source }))
}

/// Starts a trace collector that accepts every request. Returns its address and the received bytes.
fn collector() -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let taken = Arc::new(Mutex::new(Vec::new()));
    let take = Arc::clone(&taken);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, take) = (stream.unwrap(), Arc::clone(&take));
            thread::spawn(move || collect(BufReader::new(stream), &take));
        }
    });
    (address, taken)
}

/// Accepts the requests of one connection and appends their bytes to `taken`.
fn collect(mut reader: BufReader<TcpStream>, taken: &Mutex<Vec<u8>>) {
    loop {
        let (mut head, mut length) = (String::new(), 0);
        while reader.read_line(&mut head).unwrap() > 2 {
            let line = head.lines().last().unwrap().to_ascii_lowercase();
            if let Some(bytes) = line.strip_prefix("content-length: ") {
                length = bytes.parse().unwrap();
            }
        }
        if head.is_empty() {
            return;
        }
        assert!(head.starts_with("POST /v1/traces HTTP/1.1"), "{head}");
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        taken.lock().unwrap().extend(body);
        let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
        reader.get_mut().write_all(answer.as_bytes()).unwrap();
    }
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn traces_contain_request_spans_without_secrets() {
    for workers in [["--in-process"].as_slice(), &["--workers", "1"]] {
        let (address, taken) = collector();
        let endpoint = format!("http://{address}");
        let flags = [&["--otlp", &*endpoint], workers].concat();
        let mut server = Server::start(&flags);
        let parent = [("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")];
        let source = json!({ "language": "python", "source": "print('a secret source')" }).to_string();
        assert_eq!(Answer::read(server.begin("POST", "/v1/execute", &parent, &source)).status, 200);
        server.post("/v1/sessions", &json!({ "id": "a-secret-session", "language": "python" })).ok();
        let executed = server
            .post("/v1/sessions/a-secret-session/execute", &json!({ "source": "raise ValueError('a secret error')" }));
        assert_eq!(executed.status, 200);
        support::interrupt(&server.child);
        assert_eq!(support::wait(&mut server.child), 0);
        let taken = taken.lock().unwrap().clone();
        // Trace and span IDs of the client.
        for id in [
            0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128.to_be_bytes().as_slice(),
            &0xb7ad_6b71_6920_3331_u64.to_be_bytes(),
        ] {
            assert!(has(&taken, id), "{workers:?}");
        }
        let spans = ["POST /v1/execute", "POST /v1/sessions/{id}/execute", "queue", "execution", "completed", "raised"];
        for name in spans.into_iter().chain((workers == ["--in-process"]).then_some("store")) {
            assert!(has(&taken, name.as_bytes()), "no `{name}`: {workers:?}");
        }
        for secret in ["a secret source", "a-secret-session", "a secret error", "a token of the tests"] {
            assert!(!has(&taken, secret.as_bytes()), "`{secret}`: {workers:?}");
        }
    }
}

#[test]
fn unavailable_trace_collector_does_not_block_requests() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let down = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    for address in [silent.local_addr().unwrap(), down] {
        let mut server = Server::start(&["--otlp", &format!("http://{address}")]);
        for _ in 0..100 {
            let answer = server.post("/v1/execute", &json!({ "language": "python", "source": "print(1)" }));
            assert_eq!(answer.ok()["stdout"], "1\n");
        }
        let begun = Instant::now();
        support::interrupt(&server.child);
        assert_eq!(support::wait(&mut server.child), 0);
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    }
}
