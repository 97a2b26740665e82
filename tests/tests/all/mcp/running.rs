//! Tests progress, cancellation and files while a script runs, and the server's shutdown.

use std::time::{Duration, Instant};

use serde_json::json;

use super::support::{Mcp, structured, text, until};

const SLEEPS: &str = "import time\nprint('begun')\ntime.sleep(300)";

/// Returns a server whose scripts may run for ten minutes.
fn patient() -> Mcp {
    Mcp::changed(|config| config.policy.limits.timeout_ms = 600_000)
}

#[test]
fn progress_reports_time_and_last_line() {
    let mcp = patient();
    let code = "import time\nfor i in range(6):\n    print('step', i, '\\x1b[2J', flush=True)\n    time.sleep(0.2)";
    let begun = Instant::now();
    let result = mcp.call("run_code", json!({ "language": "python", "code": code, "timeout_ms": 90_000 }));
    let took = begun.elapsed();
    assert_eq!(result.is_error, Some(false), "{result:?}");
    let progress = mcp.listener.progress.lock().unwrap().clone();
    let (first, last) = (&progress[0], progress.last().unwrap());
    // The script takes at least 1.2 s, and there is a message every 250 ms.
    let max = usize::try_from(took.as_millis() / 250).unwrap() + 2;
    assert!((2..=max).contains(&progress.len()), "{took:?} {progress:?}");
    assert!(last.progress > first.progress && last.total == Some(90.0));
    let message = last.message.as_deref().unwrap();
    assert!(message.contains(" s: step ") && message.ends_with("\\u{1b}[2J"), "{message}");
}

#[test]
fn cancelled_call_ends_its_script() {
    let mcp = patient();
    let session = mcp.session();
    for session in [None, Some(&session)] {
        let handle = mcp.begin("run_code", json!({ "language": "python", "code": SLEEPS, "session": session }));
        until("it runs", || mcp.running() == 1);
        let begun = Instant::now();
        mcp.runtime.block_on(handle.cancel(Some("enough".into()))).unwrap();
        until("it has ended", || mcp.running() == 0);
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    }
    let result = mcp.in_session(&session, "6 * 7");
    assert_eq!(structured(&result)["value"], "42", "{result:?}");
}

#[test]
fn disconnecting_ends_the_clients_scripts() {
    let mut mcp = patient();
    let _handle = mcp.begin("run_code", json!({ "language": "python", "code": SLEEPS }));
    until("it runs", || mcp.running() == 1);
    let begun = Instant::now();
    mcp.runtime.block_on(mcp.client.take().unwrap().cancel()).unwrap();
    until("it has ended", || mcp.running() == 0);
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[test]
fn stopping_service_cancels_and_rejects_calls() {
    let mcp = patient();
    let handle = mcp.begin("run_code", json!({ "language": "python", "code": SLEEPS }));
    until("it runs", || mcp.running() == 1);
    mcp.runtime.block_on(mcp.service.drain(Duration::from_millis(10)));
    let result = mcp.end(handle);
    assert_eq!(structured(&result)["outcome"], "cancelled", "{result:?}");
    let refused = mcp.refused("run_code", json!({ "language": "python", "code": "1" }));
    assert!(refused.starts_with("unavailable: the server is shutting down"), "{refused}");
}

#[test]
fn files_of_a_call_are_written_before_it_runs() {
    let mcp = Mcp::new();
    let files = json!([{ "path": "in/a.txt", "text": "é" }, { "path": "b.bin", "base64": "AP8=" }]);
    let code = "print(open('in/a.txt').read(), open('b.bin', 'rb').read())";
    let run = |session: Option<&str>| {
        mcp.ok("run_code", json!({ "language": "python", "code": code, "files": files, "session": session }))
    };
    assert_eq!(text(&run(None)), "é b'\\x00\\xff'\n");
    let session = mcp.session();
    assert_eq!(text(&run(Some(&session))), "é b'\\x00\\xff'\n");
    assert_eq!(text(&run(Some(&session))), "é b'\\x00\\xff'\n", "files of the previous call are replaced");
    for (files, expected) in [
        (json!([{ "path": "../x", "text": "" }]), "../x"),
        (json!([{ "path": "a" }]), "file `a`: send either"),
        (json!([{ "path": "a", "base64": "!" }]), "file `a`: cannot decode `base64`"),
    ] {
        for session in [None, Some(&session)] {
            let refused = mcp
                .refused("run_code", json!({ "language": "python", "code": "1", "files": files, "session": session }));
            assert!(refused.contains(expected), "{refused}");
        }
    }
}
