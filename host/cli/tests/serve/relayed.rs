//! Tests the memory of answers that the server reads on behalf of its workers.

use std::{
    fs,
    io::Write as _,
    net::{SocketAddr, TcpListener},
    sync::{Arc, Barrier},
    thread,
};

use serde_json::json;

use crate::{
    server::Server,
    workers::{echo, peak_kib, python, read_request},
};

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
                read_request(&stream);
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
