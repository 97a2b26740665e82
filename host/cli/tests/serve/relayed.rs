//! Tests the tool calls and network requests that the server performs on behalf of its workers.

use std::{
    fs,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Barrier},
    thread,
};

use serde_json::{Value, json};

use crate::server::{Server, in_session, kill, peak_kib, python, until};

/// Reads a request. Returns its body, or its header `x-key` if it has no body. Fails if the client closes the connection
/// before the request is complete.
pub(crate) fn read_request(stream: &TcpStream) -> io::Result<String> {
    let mut lines = BufReader::new(stream);
    let (mut length, mut key, mut head) = (0, String::new(), String::new());
    while lines.read_line(&mut head)? > 2 {
        let (name, value) = head.split_once(": ").unwrap_or_default();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap(),
            "x-key" => key = value.trim().to_owned(),
            _ => {}
        }
        head.clear();
    }
    if !head.ends_with('\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut body = vec![0; length];
    lines.read_exact(&mut body)?;
    Ok(if length == 0 { key } else { String::from_utf8(body).unwrap() })
}

/// Starts a service that answers each request with its body, or with its header `x-key` if it has no body.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let Ok(body) = read_request(&stream) else { continue };
            let answer =
                format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    address
}

#[test]
fn server_answers_tools_of_scripts_in_workers() {
    let echo = echo();
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    fs::write(&secret, format!("whsec_{}", "A".repeat(32))).unwrap();
    let config = format!("[tools]\ncallbacks = [\"http://{echo}/*\"]\nsecret_file = {:?}\n", secret.to_str().unwrap());
    let server = Server::start_on(dir, &config, &["--workers", "2"]);
    let callback = json!({ "name": "there", "callback": format!("http://{echo}/f") });
    let mut body = python("print(tools.there(a=2**70)['arguments'])");
    body["tools"] = json!([callback]);
    assert_eq!(server.post("/v1/execute", &body).ok()["stdout"], "{'a': 1180591620717411303424}\n");

    // The client answers tool calls, in a new interpreter and in a session.
    server.post("/v1/sessions", &json!({ "id": "s", "language": "python" })).ok();
    for path in ["/v1/execute", "/v1/sessions/s/execute"] {
        let mut body = json!({
            "source": "open('out.txt', 'w').write(tools.ask(1)); print('done')",
            "tools": [{ "name": "ask", "schema": { "properties": { "n": {} }, "required": ["n"] } }, callback],
            "return_files": ["*.txt"],
        });
        if path == "/v1/execute" {
            body["language"] = "python".into();
        }
        let needs = server.post(path, &body);
        assert_eq!((needs.status, &needs.json()["calls"][0]["arguments"]), (202, &json!({ "n": 1 })));
        let id = needs.json()["execution"].as_str().unwrap().to_owned();
        let go_on =
            |answers: Value| server.post(&format!("/v1/executions/{id}/continue"), &json!({ "answers": answers }));
        assert_eq!(go_on(json!([{ "id": 7, "value": 1 }])).problem(), (400, "invalid-argument".into()));
        let done = go_on(json!([{ "id": 0, "value": "text" }])).ok();
        assert_eq!((&done["stdout"], &done["files"]["out.txt"]), (&json!("done\n"), &json!("dGV4dA==")));
    }
    // The first execution is cancelled, and the worker of the second execution is killed.
    let mut body = python("tools.ask()");
    body["tools"] = json!([{ "name": "ask" }]);
    let ids = [(); 2].map(|()| server.post("/v1/execute", &body).json()["execution"].as_str().unwrap().to_owned());
    assert_eq!(server.ask("DELETE", &format!("/v1/executions/{}", ids[0]), "").status, 200);
    server.workers().into_iter().for_each(kill);
    until("the end is known", || {
        let gone = server.post(&format!("/v1/executions/{}/continue", ids[1]), &json!({}));
        assert!(
            [(500, "worker-died".into()), (503, "unavailable".into()), (404, "not-found".into())]
                .contains(&gone.problem())
        );
        gone.status == 404
    });
}

#[test]
fn server_sends_requests_of_scripts_in_workers() {
    let echo = echo();
    let config = "[policy.network.secrets]\nKEY = { env = \"GLOVEBOX_TOKEN\", host = \"127.0.0.1\" }\n";
    let allowed = format!("http://{echo}/*");
    let flags = ["--workers", "1", "--allow-net", &allowed, "--allow-private-net", "127.0.0.0/8"];
    let server = Server::start_on(tempfile::tempdir().unwrap(), config, &flags);
    let source = format!(
        "import os, urllib.request\nkey = os.environ['KEY']\nask = urllib.request.Request('http://{echo}/a', headers={{'x-key': key}})\n\
         print(urllib.request.urlopen(ask).read().decode() == key, len(key) > 8)"
    );
    // The service receives the secret. In its answer, the script receives the placeholder instead of the secret.
    let done = server.post("/v1/execute", &python(&source)).ok();
    assert_eq!((&done["stdout"], &done["stderr"]), (&json!("True True\n"), &json!("")));
    server.post("/v1/sessions", &json!({ "id": "s", "language": "python" })).ok();
    assert_eq!(in_session(&server, "s", &source).ok()["stdout"], "True True\n");
    let refused =
        server.post("/v1/execute", &python("import urllib.request\nurllib.request.urlopen('http://127.0.0.1:1/')"));
    assert!(refused.ok()["stderr"].as_str().unwrap().contains("not allowed"), "{refused:?}");
}

/// The number of concurrent calls.
const CALLS: usize = 32;
/// The length of an answer in bytes.
const LONG: usize = 4_000_000;

/// Starts a service that answers `CALLS` requests at the same time. It holds back the last byte of each answer until it
/// has sent the rest of all answers. A closed connection does not delay the other answers.
fn held_back() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let all = Arc::new(Barrier::new(CALLS));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, all) = (stream.unwrap(), Arc::clone(&all));
            thread::spawn(move || {
                let _ = read_request(&stream);
                all.wait();
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {LONG}\r\nconnection: close\r\n\r\n\"");
                let begun =
                    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all("x".repeat(LONG - 2).as_bytes()));
                all.wait();
                let _ = begun.and_then(|()| stream.write_all(b"\""));
            });
        }
    });
    address
}

/// The server reads only as many answers at the same time as fit into its memory for clients.
#[test]
fn answers_for_workers_take_bounded_memory() {
    let (held_back, echo) = (held_back(), echo());
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    fs::write(&secret, format!("whsec_{}", "A".repeat(32))).unwrap();
    let config = format!(
        "[http]\nbodies_bytes = 8_388_608\n\n\
         [policy.limits]\ntimeout_ms = 100_000\ntool_timeout_ms = 100_000\ntool_calls_at_once = {CALLS}\n\n\
         [policy.network]\nallow = [\"http://{held_back}/*\", \"http://{echo}/*\"]\n\
         allow_private = [\"127.0.0.0/8\"]\ntimeout_ms = 100_000\n\n\
         [tools]\ncallbacks = [\"http://{held_back}/*\", \"http://{echo}/*\"]\nsecret_file = {:?}\n",
        secret.to_str().unwrap()
    );
    let server = Server::start_on(dir, &config, &["--workers", "1"]);
    let call = |source: &str| {
        let mut body = python(source);
        let tool = |name: &str, address: SocketAddr| json!({ "name": name, "callback": format!("http://{address}/f") });
        body["tools"] = json!([tool("long", held_back), tool("short", echo)]);
        server.post("/v1/execute", &body).ok()["stdout"].as_str().unwrap().to_owned()
    };
    let fetch = |source: &str| {
        let body = json!({ "language": "javascript", "source": source });
        server.post("/v1/execute", &body).ok()["stdout"].as_str().unwrap().to_owned()
    };
    let call_short = || call("print(tools.short(a=1)['arguments'])");
    let fetch_short =
        || fetch(&format!("console.log((await fetch('http://{echo}/', {{ headers: {{ 'x-key': 'k' }} }})).status)"));
    assert_eq!((call_short().as_str(), fetch_short().as_str()), ("{'a': 1}\n", "200\n"));
    let before = peak_kib(&server);
    let check = |printed: &str| {
        assert!(printed.contains("does not fit into the server's memory; try again later"), "{printed}");
        let more = peak_kib(&server) - before;
        assert!(more < (8 + 64) << 10, "{more} KiB for answers that have no room");
    };
    check(&call(&format!(
        "import asyncio\nasync def main():\n    \
         return await asyncio.gather(*(tools.long.aio() for _ in range({CALLS})), return_exceptions=True)\n\
         print(*(repr(result)[:300] for result in asyncio.run(main())), sep='\\n')"
    )));
    check(&fetch(&format!(
        "const all = await Promise.allSettled(Array.from({{ length: {CALLS} }}, () => fetch('http://{held_back}/')));\n\
         for (const one of all) console.log(one.status, String(one.reason));"
    )));
    assert_eq!((call_short().as_str(), fetch_short().as_str()), ("{'a': 1}\n", "200\n"), "the memory is free again");
}
