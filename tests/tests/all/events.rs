//! Tests the engine's log events, all in one test because a process can only have one subscriber.

use std::sync::Arc;

use glovebox::{IfExists, Language, Request, Sandbox, SandboxBuilder, Step, Tool, ToolAnswer, ToolError};
use glovebox_sessions::{DirectoryStore, NewSession, PruneLimits, SessionId, Sessions};
use glovebox_tests::{CapturedEvents, Event, Recorder, engine, sandbox};
use serde_json::json;

/// Runs a request under a unique session ID, and returns the events with this ID.
fn events(captured: &CapturedEvents, id: &str, run: impl FnOnce()) -> Vec<Event> {
    let _ = captured.take();
    run();
    captured.take().into_iter().filter(|event| event.get("session_id") == id).collect()
}

fn named<'a>(events: &'a [Event], name: &str) -> Vec<&'a Event> {
    events.iter().filter(|event| event.get("message") == name).collect()
}

#[test]
fn executions_are_logged() {
    let captured = Recorder::install();
    for language in Language::ALL {
        let python = language == Language::Python;
        let pick = |one: &'static str, other: &'static str| if python { one } else { other };
        let sandbox = sandbox(language, |policy| {
            policy.limits.fuel = 2_000_000_000;
            policy.limits.memory_bytes = 64 << 20;
            policy.limits.timeout_ms = 5_000;
        });

        let session = sandbox.session().unwrap();
        let seen = events(&captured, session.id(), || {
            session.files().write("f", "", IfExists::Fail).unwrap();
            session.files().read("f").unwrap();
            session.files().list("*").unwrap();
            session.files().rename("f", "g", IfExists::Fail).unwrap();
            session.files().delete("g").unwrap();
        });
        let logged: Vec<_> = seen.iter().map(|event| (event.get("message"), event.get("path"))).collect();
        assert_eq!(
            logged,
            [
                ("session.file.write", "f"),
                ("session.file.read", "f"),
                ("session.file.list", "*"),
                ("session.file.rename", "f"),
                ("session.file.delete", "g"),
            ]
        );

        let id = format!("well-{language}");
        let mut fuel = 0;
        let seen = events(&captured, &id, || {
            let execution = sandbox.run(Request::new(pick("print(1)", "console.log(1)")).session_id(&id)).unwrap();
            assert_eq!(execution.session_id.as_deref(), Some(id.as_str()));
            fuel = execution.fuel_consumed;
        });
        let [start, complete] = seen.as_slice() else { panic!("expected two events, got {seen:#?}") };
        assert_eq!(start.get("message"), "execution.start");
        assert_eq!(start.get("runtime"), language.name());
        assert_eq!(start.get("fuel"), "2000000000");
        assert_eq!(start.get("memory_bytes"), (64 << 20).to_string());
        assert_eq!(start.get("timeout_ms"), "5000");
        assert_eq!(complete.get("message"), "execution.complete");
        assert_eq!(complete.get("runtime"), language.name());
        assert_eq!(complete.get("success"), "true");
        assert_eq!(complete.get("fuel_consumed"), fuel.to_string());
        assert!(complete.get("duration_ms").parse::<f64>().unwrap() > 0.0);

        let id = format!("fails-{language}");
        let seen = events(&captured, &id, || {
            sandbox.run(Request::new(pick("1/0", "null.x")).session_id(&id)).unwrap();
        });
        assert_eq!(named(&seen, "execution.complete")[0].get("success"), "false");
        assert_eq!(seen.len(), 2, "an exception is not a security event: {seen:#?}");

        let id = format!("loops-{language}");
        let seen = events(&captured, &id, || {
            sandbox.run(Request::new(pick("while True: pass", "for (;;);")).session_id(&id)).unwrap();
        });
        assert_eq!(named(&seen, "security.fuel_exhaustion").len(), 1, "{seen:#?}");
        assert_eq!(named(&seen, "security.fuel_exhaustion")[0].level, "WARN");

        let id = format!("grows-{language}");
        let seen = events(&captured, &id, || {
            sandbox
                .run(Request::new(pick("x = 'a' * 100_000_000", "new Uint8Array(100_000_000)")).session_id(&id))
                .unwrap();
        });
        assert_eq!(named(&seen, "security.memory_exhaustion").len(), 1, "{seen:#?}");

        let id = format!("calls-{language}");
        let seen = events(&captured, &id, || {
            let secret = Tool::new("secret", "").handler(|_, _| Err(ToolError::new("hidden words")));
            let mut policy = sandbox.policy().clone();
            policy.limits.tool_calls = 1;
            let builder = Sandbox::builder(engine()).language(language).policy(policy).tool(secret);
            let source = pick(
                "for i in (1, 2):\n    try:\n        tools.secret(word='hush')\n    except tools.ToolError: pass",
                "for (const i of [1, 2]) try { await tools.secret({word: 'hush'}) } catch {}",
            );
            builder.build().unwrap().run(Request::new(source).session_id(&id)).unwrap();
        });
        let logged: Vec<_> = seen.iter().map(|event| event.get("message")).collect();
        let expected =
            ["execution.start", "tool.start", "tool.complete", "security.tools_refused", "execution.complete"];
        assert_eq!(logged, expected, "{seen:#?}");
        assert_eq!((seen[1].get("tool"), seen[1].get("index")), ("secret", "0"));
        assert_eq!((seen[2].get("tool"), seen[2].get("outcome")), ("secret", "ToolError"));
        assert_eq!(seen[3].get("detail"), "refused tool calls: 1");
        let all = format!("{seen:?}");
        assert!(
            !all.contains("hush") && !all.contains("hidden"),
            "events must not contain arguments and results of tools: {all}"
        );

        let id = format!("suspended-{language}");
        let seen = events(&captured, &id, || {
            let mut policy = sandbox.policy().clone();
            policy.limits.timeout_ms = 60_000;
            policy.limits.fuel = 20_000_000_000;
            policy.limits.tool_calls = 2;
            suspend_and_resume(
                Sandbox::builder(engine()).language(language).policy(policy),
                pick(
                    "import asyncio, os\ntry: os.symlink('../../x', 'l'); open('l')\nexcept OSError: pass\n\
                     try: open('../etc/passwd')\nexcept OSError: pass\ntools.log()\n\
                     async def main(): await asyncio.gather(tools.ask.aio(), tools.log.aio(), return_exceptions=True)\n\
                     asyncio.run(main())",
                    "std.open('x/../../etc/passwd', 'r'); std.open('../etc/passwd', 'r');\n\
                     await tools.log(); await Promise.allSettled([tools.ask(), tools.log()])",
                ),
                &id,
            );
        });
        for (name, count) in [
            ("execution.start", 2),
            ("execution.complete", 2),
            ("tool.start", 2),
            ("tool.complete", 2),
            ("security.tools_refused", 1),
            ("security.path_escape", 1),
        ] {
            assert_eq!(named(&seen, name).len(), count, "{name}: {seen:#?}");
        }

        let id = format!("waits-{language}");
        let seen = events(&captured, &id, || {
            let mut limits = sandbox.policy().limits.clone();
            limits.timeout_ms = 100;
            let quick = glovebox_tests::sandbox(language, |policy| policy.limits = limits);
            quick.run(Request::new(pick("import time; time.sleep(9)", "os.sleep(9000)")).session_id(&id)).unwrap();
        });
        assert_eq!(named(&seen, "security.time_exhaustion").len(), 1, "{seen:#?}");

        let id = format!("escapes-{language}");
        let climb = pick(
            "import os\ntry:\n    os.symlink('../../x', 'l'); open('l')\nexcept OSError: pass\nopen('../etc/passwd')",
            "std.open('x/../../etc/passwd', 'r'); std.open('../etc/passwd', 'r')",
        );
        let seen = events(&captured, &id, || {
            sandbox.run(Request::new(climb).session_id(&id)).unwrap();
        });
        assert!(!named(&seen, "security.path_escape").is_empty(), "{seen:#?}");
    }

    // A session's events carry its ID automatically.
    let session = sandbox(Language::JavaScript, |_| {}).session().unwrap();
    let id = session.id().to_owned();
    let seen = events(&captured, &id, || drop(session.execute("1").unwrap()));
    assert_eq!(seen.len(), 2, "{seen:#?}");

    stored_sessions_are_logged(&captured);
}

/// Suspends a script while it waits for the tool `ask`, and resumes it. The tool `log` has a handler.
fn suspend_and_resume(builder: SandboxBuilder, source: &str, id: &str) {
    let log = Tool::new("log", "").handler(|_, _| Ok(json!(1)));
    let sandbox = builder.tool(Tool::new("ask", "").stepped()).tool(log).build().unwrap();
    let started = sandbox.start(Request::new(source).session_id(id).suspendable(true)).unwrap();
    started.advance(Vec::new(), None).unwrap();
    let suspended = started.suspend().unwrap();
    let resumed = sandbox.start(suspended.request()).unwrap();
    let Step::NeedsTools(calls) = resumed.advance(Vec::new(), None).unwrap() else { panic!("the script waits") };
    let answers = vec![ToolAnswer::value(calls[0].id, &json!(1))];
    let Step::Done(execution) = resumed.advance(answers, None).unwrap() else { panic!("the script ends") };
    assert!(execution.is_success(), "{execution:?}");
}

fn stored_sessions_are_logged(captured: &CapturedEvents) {
    let dir = tempfile::tempdir().unwrap();
    let sessions = Sessions::builder(Arc::new(DirectoryStore::open(dir.path()).unwrap()))
        .sandbox(sandbox(Language::JavaScript, |_| {}))
        .build();
    let id = SessionId::new("held").unwrap();
    let seen = events(captured, "held", || {
        let session = sessions.open_or_create(id.clone(), NewSession::default()).unwrap();
        sessions.hibernate(&id).unwrap();
        session.execute("1").unwrap();
        sessions.get(&id).unwrap().unwrap();
        sessions.fork(&id, SessionId::new("fork").unwrap()).unwrap();
        sessions.delete(&id).unwrap();
        sessions.delete(&id).unwrap();
    });
    let messages: Vec<&str> = seen.iter().map(|event| event.get("message")).collect();
    let expected = [
        "session.created",
        "session.hibernated",
        "session.resumed",
        "execution.start",
        "execution.complete",
        "session.retrieved",
        // `fork` first retrieves the session.
        "session.retrieved",
        "session.deleted",
    ];
    assert_eq!(messages, expected);
    assert!(seen.iter().all(|event| event.target == "glovebox" && event.level == "INFO"));

    sessions.hibernate_all();
    let mut prune = PruneLimits::default();
    (prune.max_count, prune.dry_run) = (Some(0), true);
    let _ = captured.take();
    sessions.prune(&prune).unwrap();
    // The subscriber also captures events from other tests in this process.
    let seen: Vec<_> =
        captured.take().into_iter().filter(|event| event.get("message").starts_with("session.prune.")).collect();
    let [deleted, complete] = seen.as_slice() else { panic!("expected two events, got {seen:#?}") };
    assert_eq!(deleted.get("message"), "session.prune.delete");
    assert_eq!(["session_id", "reason", "dry_run"].map(|field| deleted.get(field)), ["fork", "count", "true"]);
    assert_eq!(complete.get("message"), "session.prune.complete");
    assert_eq!(["deleted", "skipped", "failed"].map(|field| complete.get(field)), ["1", "0", "0"]);
    assert_eq!(complete.get("reclaimed_bytes"), deleted.get("bytes"));
}
