//! A `wasmtime serve` process, and a client for it.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use glovebox_tests::wasmtime_path;
use libtest_mimic::Failed;
use serde_json::Value;

/// The timeout of a request. Fuel bounds all requests, so none takes this long, even on a busy machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(120);

/// A server for one component. Dropping it kills the process.
pub(super) struct Host {
    child: Child,
    address: SocketAddr,
}

impl Host {
    /// Starts a server with environment variables for the component.
    pub(super) fn start(component: &Path, environment: &[(&str, &str)]) -> Result<Self, Failed> {
        let mut command = Command::new(wasmtime_path()?);
        // Wasmtime's cache provides the compiled code.
        command.args([
            "serve",
            "-C",
            "cache=y",
            "-S",
            "cli",
            "--addr",
            "127.0.0.1:0",
            "--max-instance-reuse-count",
            "100",
        ]);
        command.args(["-O", "pooling-max-memories-per-module=2", "-O", "pooling-max-tables-per-module=2"]);
        for (name, value) in environment {
            command.args(["--env", &format!("{name}={value}")]);
        }
        let mut child = command.arg(component).stderr(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(child.stderr.take().ok_or("no standard error")?).lines();
        let mut printed = Vec::new();
        let address = loop {
            let Some(line) = lines.next() else {
                return Err(format!("the server ended: {printed:?}, {:?}", child.wait()?).into());
            };
            let line = line?;
            if let Some((_, address)) = line.split_once("http://") {
                break address.trim_end_matches('/').parse().map_err(|error| format!("{line}: {error}"))?;
            }
            printed.push(line);
        };
        // Drains the pipe. A full pipe would block the server.
        thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Ok(Self { child, address })
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask("POST", path, &[], body.to_string().as_bytes())
    }

    pub(super) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let length = body.len().to_string();
        let headers: Vec<_> = headers.iter().copied().chain([("content-length", length.as_str())]).collect();
        self.raw(method, path, &headers, body)
    }

    /// Sends a request with only these headers, `host` and `connection`.
    pub(super) fn raw(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.begin(method, path, headers).finish(body)
    }

    /// Sends the head of a request, like `raw`.
    pub(super) fn begin(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> BegunRequest {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n", self.address);
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        let mut stream = TcpStream::connect(self.address).expect("the server listens");
        stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a time limit can be set");
        stream.write_all(format!("{head}\r\n").as_bytes()).expect("a request can be sent");
        BegunRequest(stream)
    }
}

/// A request whose head has been sent.
pub(super) struct BegunRequest(TcpStream);

impl BegunRequest {
    /// Sends the body, and reads the answer.
    pub(super) fn finish(mut self, body: &[u8]) -> Answer {
        // The server may reject the request before it has read the whole body.
        let _ = self.0.write_all(body);
        let mut answer = Vec::new();
        // The server may also close the connection before the client has read the whole answer.
        let _ = self.0.read_to_end(&mut answer);
        Answer::parse(&answer)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) text: String,
}

impl Answer {
    fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let (head, text) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Self {
            status: status.unwrap_or_else(|| panic!("no status: {head}")),
            head: head.to_ascii_lowercase(),
            text: text.to_owned(),
        }
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Asserts success and returns the JSON body.
    pub(super) fn done(&self) -> Value {
        assert!(self.status < 300, "{self:?}");
        self.json()
    }

    /// Returns the status, type and detail of a problem document.
    pub(super) fn problem(&self) -> (u16, String, String) {
        assert!(self.head.contains("content-type: application/problem+json"), "{self:?}");
        let json = self.json();
        assert_eq!(json["status"], self.status, "{self:?}");
        assert!(json["title"].is_string(), "{self:?}");
        let text = |name: &str| json[name].as_str().unwrap_or_else(|| panic!("no {name}: {self:?}")).to_owned();
        let (kind, detail) = (text("type"), text("detail"));
        assert!(!detail.starts_with(&kind), "{self:?}");
        (self.status, kind, detail)
    }
}
