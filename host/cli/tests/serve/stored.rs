//! Tests that suspended executions in the store survive the server, and continue at most once, no matter when the
//! server is killed.

use std::{
    collections::HashMap,
    fs,
    io::Write as _,
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    relayed::read_request,
    server::{Answer, OTHER, Server, in_session, kill},
};

/// The flags of servers with workers and without.
const FLAGS: [&[&str]; 2] = [&["--workers", "2"], &["--in-process"]];

/// Returns the ID of a stored execution and its first call.
fn stored(answer: &Answer) -> (String, Value) {
    assert_eq!((answer.status, &answer.json()["type"]), (202, &json!("suspended")), "{answer:?}");
    (answer.json()["id"].as_str().unwrap().to_owned(), answer.json()["calls"][0].clone())
}

fn resume(server: &Server, id: &str, call: u64, value: &str) -> Answer {
    server.post(&format!("/v1/suspended/{id}"), &json!({ "answers": [{ "id": call, "value": value }] }))
}

/// Returns the number of stored executions.
fn count(server: &Server) -> usize {
    server.get("/v1/suspended").ok()["suspended"].as_array().unwrap().len()
}

fn survive(mut dir: TempDir, store: &[&str]) {
    let source = "import random\nprint(random.random())\nwith open('out', 'w') as out:\n    \
                  out.write(open('given').read() + tools.ask(q=1) + tools.ask(q=2))";
    let request = json!({
        "language": "python", "source": source, "tools": [{ "name": "ask" }], "files": { "given": "file" },
        "return_files": ["out"], "suspend": true,
    });
    let key = dir.path().join("key");
    fs::write(&key, "7".repeat(64)).unwrap();
    let config = format!("key_file = {:?}\n{OTHER}", key.to_str().unwrap());
    for flags in FLAGS {
        let flags = [flags, store].concat();
        let server = Server::start_on(dir, &config, &flags);
        let (first, call) = stored(&server.post("/v1/execute", &request));
        assert_eq!(call, json!({ "id": 0, "name": "ask", "arguments": { "q": 1 } }), "{flags:?}");
        let theirs = server.ask_as_other("GET", &format!("/v1/suspended/{first}"), "");
        assert_eq!(theirs.problem(), (404, "not-found".into()), "{flags:?}");
        server.workers().into_iter().for_each(kill);
        dir = server.kill();

        // A server with other flags can resume the execution.
        let others = [FLAGS[usize::from(flags.contains(&"--workers"))], store].concat();
        let server = Server::start_on(dir, &config, &others);
        assert_eq!(count(&server), 1, "{others:?}");
        let (second, _) = stored(&resume(&server, &first, 0, "1"));
        dir = server.kill();
        let server = Server::start_on(dir, &config, &flags);
        assert_eq!(resume(&server, &first, 0, "1").problem(), (404, "not-found".into()), "{flags:?}");
        let done = resume(&server, &second, 1, "2").ok();
        assert_eq!(done["files"]["out"], "ZmlsZTEy", "{flags:?}: {done}");
        assert_eq!(count(&server), 0, "{flags:?}");
        dir = server.kill();
    }
}

#[test]
fn stored_executions_survive_workers_and_server() {
    survive(tempfile::tempdir().unwrap(), &[]);
    let dir = tempfile::tempdir().unwrap();
    let url = format!("file://{}", dir.path().join("objects").to_str().unwrap());
    survive(dir, &["--store", &url]);
    let dir = tempfile::tempdir().unwrap();
    let apart = dir.path().join("apart");
    survive(dir, &["--suspended-store", apart.to_str().unwrap()]);
}

#[test]
fn suspended_executions_can_have_their_own_store() {
    let dir = tempfile::tempdir().unwrap();
    let apart = dir.path().join("apart");
    let server = Server::start_on(dir, "", &["--in-process", "--suspended-store", apart.to_str().unwrap()]);
    let body = json!({ "source": "tools.ask(q=1)", "tools": [{ "name": "ask" }], "suspend": true });
    let (id, _) = stored(&server.post("/v1/execute", &body));
    let dir = server.kill();
    assert!(apart.join("default/suspended").join(format!("{id}.session")).exists());
    assert!(!dir.path().join("store/default/suspended").exists());
}

#[test]
fn stored_executions_in_sessions_survive_workers_and_server() {
    let mut dir = tempfile::tempdir().unwrap();
    for (n, flags) in FLAGS.into_iter().enumerate() {
        let session = format!("s{n}");
        let server = Server::start_on(dir, "", flags);
        server.post("/v1/sessions", &json!({ "id": session, "language": "python" })).ok();
        in_session(&server, &session, "x = ['before']").ok();
        let body = json!({
            "source": "x.append(tools.ask(q=1))\nprint(x)", "tools": [{ "name": "ask" }], "suspend": true,
        });
        let (id, _) = stored(&server.post(&format!("/v1/sessions/{session}/execute"), &body));
        dir = server.kill();
        let server = Server::start_on(dir, "", flags);
        assert_eq!(resume(&server, &id, 0, "after").ok()["stdout"], "['before', 'after']\n", "{flags:?}");
        assert_eq!(resume(&server, &id, 0, "after").problem(), (404, "not-found".into()), "{flags:?}");
        assert_eq!(in_session(&server, &session, "len(x)").ok()["value"]["json"], 2, "{flags:?}");
        dir = server.kill();
    }
}

/// The number of requests for each `n` in the arguments of a tool.
type Counts = Arc<Mutex<HashMap<u64, usize>>>;

/// Starts a service that answers and counts the calls of a tool.
fn counting() -> (SocketAddr, Counts) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, counts) = (listener.local_addr().unwrap(), Counts::default());
    let counted = Arc::clone(&counts);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // A server that is killed while it sends a call leaves an incomplete request.
            let Ok(body) = read_request(&stream) else { continue };
            let body: Value = serde_json::from_str(&body).unwrap();
            *counted.lock().unwrap().entry(body["arguments"]["n"].as_u64().unwrap()).or_default() += 1;
            // The server may have been killed by now.
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nnull");
        }
    });
    (address, counts)
}

#[test]
fn effects_of_a_stored_execution_happen_at_most_once_if_the_server_is_killed() {
    let (address, counts) = counting();
    let mut dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    fs::write(&secret, format!("whsec_{}", "A".repeat(32))).unwrap();
    let config =
        format!("[tools]\ncallbacks = [\"http://{address}/*\"]\nsecret_file = {:?}\n", secret.to_str().unwrap());
    let pay = json!({ "name": "pay", "callback": format!("http://{address}/pay") });
    for n in 0..8 {
        let server = Server::start_on(dir, &config, &["--in-process"]);
        // Replaying this script takes a few milliseconds, so that some kills happen before it continues.
        let request = json!({
            "language": "python", "source": format!("sum(range(200_000))\ntools.ask()\ntools.pay(n={n})\ntools.ask()"),
            "tools": [{ "name": "ask" }, pay], "suspend": true,
        });
        let (first, _) = stored(&server.post("/v1/execute", &request));
        let body = json!({ "answers": [{ "id": 0, "value": "yes" }] }).to_string();
        let requests: Vec<_> =
            (0..2).map(|_| server.begin("POST", &format!("/v1/suspended/{first}"), &[], &body)).collect();
        thread::sleep(Duration::from_millis(n * 8));
        dir = server.kill();
        drop(requests);

        let server = Server::start_on(dir, &config, &["--in-process"]);
        let again = resume(&server, &first, 0, "yes");
        let paid = || counts.lock().unwrap().get(&n).copied().unwrap_or_default();
        if again.status == 202 {
            assert_eq!(paid(), 1, "{n}: the script continued only now");
        } else {
            assert_eq!(again.problem(), (404, "not-found".into()), "{n}");
            assert!(paid() <= 1, "{n}: {}", paid());
        }
        dir = server.kill();
    }
}
