//! Tests the memory and behaviour of a server under load. `GLOVEBOX_TESTS=full` tests the documented limits.

use std::{
    env, fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::server::{Answer, OTHER, Server, anonymous_bytes, python, until};

fn is_full() -> bool {
    env::var_os("GLOVEBOX_TESTS").is_some_and(|set| set == "full")
}

/// By default, glibc retains the memory of large requests.
#[test]
#[cfg(target_env = "gnu")]
fn server_returns_freed_memory_to_the_system() {
    let server = Server::start(&["--workers", "1"]);
    let read = |pid: u32, name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap();
    let set = env::var("MALLOC_MMAP_THRESHOLD_");
    for pid in server.workers().into_iter().chain([server.child.id()]) {
        let environment = read(pid, "environ");
        let threshold = environment.split('\0').find_map(|entry| entry.strip_prefix("MALLOC_MMAP_THRESHOLD_="));
        assert_eq!(threshold, Some(set.as_deref().unwrap_or("1048576")), "{pid}");
    }
    let words = read(server.child.id(), "cmdline");
    let words: Vec<&str> = words.split('\0').collect();
    assert_eq!(words[..2], [env!("CARGO_BIN_EXE_glovebox"), "serve"], "the restart retains the arguments");
    execute(&server);
}

fn execute(server: &Server) {
    assert_eq!(server.post("/v1/execute", &python("print(1)")).ok()["stdout"], "1\n");
}

/// Maximum memory of one connection, whether it is idle or has sent one request.
const CONNECTION_BYTES: u64 = 40 << 10;
/// Maximum memory of a Python session that has run one small script.
const SESSION_BYTES: u64 = 2 << 20;

#[test]
fn ten_thousand_connections_take_bounded_memory() {
    let count = if is_full() { 10_000 } else { 500 };
    let server = Server::start_on(tempfile::tempdir().unwrap(), "[http]\nconnections = 20_000\n", &[]);
    execute(&server);
    let before = anonymous_bytes(server.child.id());
    let info = server.text("GET", "/v1/info", &[], "");
    let mut open = Vec::new();
    for n in 0..count {
        let mut stream = TcpStream::connect(server.address).unwrap();
        // Half of the connections send a request and do not read the response.
        if n % 2 == 0 {
            stream.write_all(info.as_bytes()).unwrap();
        }
        open.push(stream);
    }
    // The last connection receives a response, so the earlier requests have been answered, too.
    let mut last = TcpStream::connect(server.address).unwrap();
    last.write_all(info.as_bytes()).unwrap();
    assert!(last.read(&mut [0; 64]).unwrap() > 0);
    let begun = Instant::now();
    execute(&server);
    assert!(begun.elapsed() < Duration::from_secs(10), "open connections must not delay other requests");
    let each = anonymous_bytes(server.child.id()).saturating_sub(before) / count;
    println!("{count} connections: {each} bytes each");
    assert!(each < CONNECTION_BYTES, "{each} bytes for each of {count}");
    drop(open);
    until("a connection is free", || server.get("/healthz").status == 200);
}

/// Maximum memory of one connection with an incomplete request, as documented.
const INCOMPLETE_BYTES: u64 = 64 << 10;

#[test]
fn incomplete_requests_take_bounded_memory() {
    let count = if is_full() { 1_000 } else { 500 };
    let server = Server::start(&[]);
    execute(&server);
    let before = anonymous_bytes(server.child.id());
    // The last header is incomplete.
    let head = server.text("GET", "/v1/info", &[], "");
    let head = format!("{}\r\nx-many: ", head.trim_end());
    let head = format!("{head}{}", "x".repeat((16 << 10) - 1 - head.len()));
    let mut open: Vec<_> = (0..count).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    for stream in &mut open {
        stream.write_all(head.as_bytes()).unwrap();
    }
    execute(&server);
    let each = anonymous_bytes(server.child.id()).saturating_sub(before) / count;
    println!("{count} incomplete requests: {each} bytes each");
    assert!(each < INCOMPLETE_BYTES, "{each} bytes for each of {count}");
    drop(open);
}

#[test]
fn a_thousand_sessions_take_bounded_memory() {
    let (count, live) = if is_full() { (1_000, 1_000) } else { (60, 60) };
    // The workers share this limit, and session names are not spread evenly over the workers.
    let config = format!("[sessions]\nlive_count = {}\n", 2 * live);
    let server = Server::start_on(tempfile::tempdir().unwrap(), &config, &[]);
    let memory = || {
        let workers = server.workers();
        workers.into_iter().chain([server.child.id()]).map(anonymous_bytes).sum::<u64>()
    };
    let session = |n: u64, method: &str, path: &str, source: &str| {
        server.ask(
            method,
            &format!("/v1/sessions{path}"),
            &json!({ "source": source }).to_string().replace("$", &n.to_string()),
        )
    };
    let open = |n: u64| {
        server.post("/v1/sessions", &json!({ "id": format!("s{n}"), "language": "python" })).ok();
        assert_eq!(session(n, "POST", &format!("/s{n}/execute"), "x = $").status, 200);
    };
    open(0);
    let before = memory();
    (1..count).for_each(open);
    until("all sessions are in memory", || server.metric("glovebox_live_sessions") == i64::from(live));
    let each = memory().saturating_sub(before) / (count - 1);
    println!("{count} sessions: {each} bytes each");
    assert!(each < SESSION_BYTES, "{each} bytes for each of {count}");
    for n in (0..count).step_by(usize::try_from(count / 20).unwrap()) {
        let value = session(n, "POST", &format!("/s{n}/execute"), "x").ok();
        assert_eq!(value["value"]["json"], n, "{value}");
    }
}

#[test]
fn idle_sessions_of_one_token_leave_memory_to_others() {
    let config = format!("[policy.limits]\nsession_total_bytes = 268_435_456\n{OTHER}");
    let server = Server::start_on(tempfile::tempdir().unwrap(), &config, &["--in-process"]);
    let source = json!({ "source": "x = bytes(24 << 20)\nlen(x)" }).to_string();
    // Together, these sessions need more memory than `session_total_bytes`.
    for n in 0..12 {
        server.post("/v1/sessions", &json!({ "id": format!("s{n}"), "language": "python" })).ok();
        let answer = server.ask("POST", &format!("/v1/sessions/s{n}/execute"), &source).ok();
        assert_eq!(answer["value"]["json"], 24 << 20, "{n}: {answer}");
    }
    server.ask_as_other("POST", "/v1/sessions", r#"{"id": "t", "language": "python"}"#).ok();
    let answer = server.ask_as_other("POST", "/v1/sessions/t/execute", &source).ok();
    assert_eq!(answer["value"]["json"], 24 << 20, "{answer}");
    // Evicted sessions are resumed from the store, which takes additional memory.
    for n in 0..12 {
        let answer = server.ask("POST", &format!("/v1/sessions/s{n}/execute"), r#"{"source": "len(x)"}"#).ok();
        assert_eq!(answer["value"]["json"], 24 << 20, "{n}: {answer}");
    }
}

#[test]
fn slow_and_disconnected_clients_do_not_block_other_clients() {
    let server = Server::start_on(tempfile::tempdir().unwrap(), "[admission]\nrunning = 2\n", &[]);
    // These clients request more than they ever read.
    let long = python("print('x' * 900_000)").to_string();
    let slow: Vec<_> =
        (0..8).map(|_| server.begin("POST", "/v1/execute", &[("accept", "text/event-stream")], &long)).collect();
    // These clients send a part of a request, or close the connection after sending a request.
    let whole = server.text("POST", "/v1/execute", &[], &long);
    let half: Vec<_> = (0..8)
        .map(|_| {
            let mut stream = TcpStream::connect(server.address).unwrap();
            stream.write_all(&whole.as_bytes()[..whole.len() - 10]).unwrap();
            stream
        })
        .collect();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(whole.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Both).unwrap();
    }
    let begun = Instant::now();
    execute(&server);
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    until("no execution is running", || server.metric("glovebox_running") == 0);
    drop((slow, half));
    execute(&server);
}

#[test]
fn server_recovers_from_a_flood() {
    let config = "[admission]\nrunning = 2\nwaiting = 4\nwait_ms = 20_000\n";
    let server = Server::start_on(tempfile::tempdir().unwrap(), config, &[]);
    let body = python("sum(range(100_000))").to_string();
    let count = if is_full() { 2_000 } else { 200 };
    let streams: Vec<_> = (0..count).map(|_| server.begin("POST", "/v1/execute", &[], &body)).collect();
    let mut statuses = std::collections::BTreeMap::new();
    for stream in streams {
        *statuses.entry(Answer::read(stream).status).or_insert(0) += 1;
    }
    let known = statuses.keys().all(|status| [200, 429, 503].contains(status));
    assert!(known && statuses.get(&200).is_some_and(|done| *done >= 6), "{statuses:?}");
    assert!(statuses.keys().any(|status| *status != 200), "{statuses:?}");
    execute(&server);
    assert_eq!((server.metric("glovebox_running"), server.metric("glovebox_waiting")), (0, 0));
}

/// Increments counters in sessions until the server is killed. Afterwards, every acknowledged increment must exist, and
/// every existing increment must have been requested.
fn kill_under_load(flags: &[&str], rounds: u32) {
    const SESSIONS: usize = 6;
    let mut server = Server::start(flags);
    for n in 0..SESSIONS {
        server.post("/v1/sessions", &json!({ "id": format!("s{n}"), "language": "python" })).ok();
        server.post(&format!("/v1/sessions/s{n}/execute"), &json!({ "source": "x = 0" })).ok();
    }
    let mut answered = [0_u64; SESSIONS];
    for round in 0..rounds {
        let (killed, has_counted) = (AtomicBool::new(false), AtomicBool::new(false));
        let counted = thread::scope(|scope| {
            let clients: Vec<_> = answered
                .iter()
                .enumerate()
                .map(|(n, before)| {
                    let (server, killed, has_counted) = (&server, &killed, &has_counted);
                    scope.spawn(move || {
                        let mut count = *before;
                        while !killed.load(Ordering::SeqCst) {
                            let source = json!({ "source": "x += 1\nx" }).to_string();
                            let path = format!("/v1/sessions/s{n}/execute");
                            let Ok(answer) = server.try_begin("POST", &path, &[], &source) else { continue };
                            let answer = Answer::read(answer);
                            if answer.status == 200 {
                                count += 1;
                                has_counted.store(true, Ordering::SeqCst);
                                assert_eq!(answer.json()["value"]["json"], count, "session {n}");
                            }
                        }
                        count
                    })
                })
                .collect();
            let begun = Instant::now();
            while !has_counted.load(Ordering::SeqCst) && begun.elapsed() < Duration::from_secs(60) {
                thread::sleep(Duration::from_millis(5));
            }
            thread::sleep(Duration::from_millis(300 + u64::from(round) * 70));
            crate::server::kill(server.child.id());
            killed.store(true, Ordering::SeqCst);
            clients.into_iter().map(|client| client.join().unwrap()).collect::<Vec<_>>()
        });
        let dir = server.kill();
        server = Server::start_on(dir, "", flags);
        for (n, count) in counted.iter().enumerate() {
            let now = server.post(&format!("/v1/sessions/s{n}/execute"), &json!({ "source": "x" })).ok();
            let now = now["value"]["json"].as_u64().unwrap();
            assert!(now == *count || now == count + 1, "session {n} has {now}, and {count} were answered");
            answered[n] = now;
        }
        assert!(answered.iter().sum::<u64>() > 0, "nothing was counted");
    }
}

#[test]
fn killed_server_keeps_acknowledged_sessions() {
    kill_under_load(&["--in-process"], if is_full() { 8 } else { 2 });
}

#[test]
fn killed_server_with_workers_keeps_acknowledged_sessions() {
    kill_under_load(&["--workers", "2"], if is_full() { 8 } else { 1 });
}
