//! Tests of sessions.

use glovebox::CancelToken;
use glovebox_core::contract::MAX_READ_BYTES;

use super::*;
use crate::wit::{
    sandbox::{HostBlob, HostFiles},
    types::{Checkpoints, FileError, FileKind, IfExists},
};

fn open_with(
    ctx: &mut SandboxCtx,
    policy: Policy,
    options: SessionOptions,
) -> Result<Resource<SessionResource>, SandboxFailure> {
    HostSession::open(ctx, Runtime::Javascript, policy, options)
}

fn json(ctx: &mut SandboxCtx, session: &Resource<SessionResource>, name: &str) -> Option<String> {
    HostSession::get_variable(ctx, same(session), name.into()).unwrap().and_then(|value| value.json)
}

#[test]
fn session_supports_forks_undo_and_resume() {
    let mut ctx = ctx();
    let options = SessionOptions { context: Some(r#"{"n": 5}"#.into()), ..no_options() };
    let session = open_with(&mut ctx, no_policy(), options).unwrap();
    assert_eq!(stdout_in(&mut ctx, &session, "var x = context.n; console.log(x)"), "5\n");
    HostSession::set_variable(&mut ctx, same(&session), "y".into(), "[1, \"é\"]".into()).unwrap();
    assert_eq!(json(&mut ctx, &session, "y").as_deref(), Some("[1,\"é\"]"));
    assert_eq!(json(&mut ctx, &session, "none"), None);
    let mark = HostSession::checkpoint(&mut ctx, same(&session)).unwrap();
    let fork = HostSession::fork(&mut ctx, same(&session)).unwrap();
    stdout_in(&mut ctx, &session, "x = 6");
    assert_eq!(json(&mut ctx, &fork, "x").as_deref(), Some("5"));
    let state = HostSession::hibernate(&mut ctx, same(&session)).unwrap();
    HostSession::undo(&mut ctx, same(&session)).unwrap();
    assert_eq!(json(&mut ctx, &session, "x").as_deref(), Some("5"));
    let listed = HostSession::checkpoints(&mut ctx, same(&session)).unwrap();
    assert!(listed.iter().any(|checkpoint| checkpoint.id == mark && !checkpoint.automatic));
    HostSession::undo_to(&mut ctx, same(&session), mark).unwrap();
    let options = SessionOptions { context: Some("7".into()), ..no_options() };
    let resumed = HostSession::resume(&mut ctx, Runtime::Javascript, same(&state), no_policy(), options).unwrap();
    HostBlob::drop(&mut ctx, state).unwrap();
    assert_eq!(stdout_in(&mut ctx, &resumed, "console.log(x, context)"), "6 7\n");
    let info = HostSession::info(&mut ctx, same(&session)).unwrap();
    assert_eq!((info.executions, info.ended), (1, None));
    HostSession::close(&mut ctx, same(&session)).unwrap();
    HostSession::close(&mut ctx, same(&session)).unwrap();
    assert!(HostSession::info(&mut ctx, same(&session)).unwrap().ended.is_some());
    let after = error_of(HostSession::execute(&mut ctx, same(&session), request("1")));
    assert!(matches!(after, SandboxError::SessionEnded(_)));
    let listed = error_of(HostSession::checkpoints(&mut ctx, same(&session)));
    assert!(matches!(listed, SandboxError::SessionEnded(_)));
    assert!(matches!(error_of(HostSession::files(&mut ctx, session)), SandboxError::SessionEnded(_)));
}

#[test]
fn rollback_is_reported_and_charged() {
    let mut ctx = ctx();
    let policy = Policy {
        session: with_session(|session| session.checkpoints = Some(Checkpoints::Always)).session,
        // No fuel reserve, because a script that ends at its soft limit is not unwound.
        ..limited(|limits| (limits.fuel, limits.fuel_reserve) = (Some(50_000_000), Some(0)))
    };
    let session = open_with(&mut ctx, policy, no_options()).unwrap();
    stdout_in(&mut ctx, &session, "var x = 1");
    let before = ctx.usage().fuel;
    let execution =
        HostSession::execute(&mut ctx, same(&session), request("x = 2; for (;;) try { for (;;); } catch {}"));
    let execution = execution.unwrap();
    assert!(matches!(execution.outcome, Outcome::Exhausted(_)), "{:?}", execution.outcome);
    assert_eq!(execution.rolled_back_to.map(|back| back.executions_lost), Some(0));
    assert!(ctx.usage().fuel - before >= 50_000_000);
    assert_eq!(json(&mut ctx, &session, "x").as_deref(), Some("1"));
}

#[test]
fn invalid_arguments_are_named() {
    let mut ctx = ctx();
    let session = open(&mut ctx);
    let argument = |error| match error {
        SandboxError::InvalidArgument(text) => text,
        other => panic!("{other:?}"),
    };
    for name in ["", "a b", "1x", "a.b", "a\0", "a\n", &"x".repeat(4_097)] {
        assert_eq!(json(&mut ctx, &session, name), None, "no variable has this name: {name:?}");
        let set = error_of(HostSession::set_variable(&mut ctx, same(&session), name.into(), "1".into()));
        assert!(argument(set).starts_with("`name`: "), "{name:?}");
    }
    HostSession::get_variable(&mut ctx, same(&session), "x".repeat(4_096)).unwrap();
    HostSession::get_variable(&mut ctx, same(&session), "größe".into()).unwrap();
    for text in ["", "{", "1 2", "nan", &"[".repeat(200)] {
        let set = error_of(HostSession::set_variable(&mut ctx, same(&session), "x".into(), text.into()));
        assert!(argument(set).starts_with("`json` is not JSON: "), "{text:?}");
        let options = SessionOptions { context: Some(text.into()), ..no_options() };
        assert!(argument(error_of(open_with(&mut ctx, no_policy(), options))).starts_with("`context` is not JSON: "));
    }
    let named = Request { name: Some("a\0".into()), ..request("1") };
    argument(error_of(ctx.run(Runtime::Javascript, named, no_policy())));
    let read_only = error_of(HostSession::set_variable(&mut ctx, same(&session), "undefined".into(), "1".into()));
    assert!(matches!(read_only, SandboxError::Variable(_)), "{read_only:?}");
}

#[test]
fn value_text_is_limited_like_standard_input() {
    let mut ctx = ctx();
    let policy = limited(|limits| limits.stdin_bytes = Some(10));
    for (text, fits) in [("\"1234567\"", true), ("\"12345678\"", true), ("\"123456789\"", false)] {
        let options = SessionOptions { context: Some(text.into()), ..no_options() };
        let opened = open_with(&mut ctx, policy.clone(), options);
        assert_eq!(opened.is_ok(), fits, "{text}");
        if let Ok(session) = opened {
            HostSession::drop(&mut ctx, session).unwrap();
        }
    }
    assert_eq!(ctx.usage().sessions, 0);
    let session = open_with(&mut ctx, policy, no_options()).unwrap();
    let set =
        |ctx: &mut SandboxCtx, text: &str| HostSession::set_variable(ctx, same(&session), "x".into(), text.into());
    set(&mut ctx, "1234567890").unwrap();
    assert!(matches!(error_of(set(&mut ctx, "12345678901")), SandboxError::StdinTooLarge(_)));
}

#[test]
fn invalid_session_bytes_are_not_resumed() {
    let mut ctx = ctx();
    let state = HostBlob::new(&mut ctx).unwrap();
    let resume = |ctx: &mut SandboxCtx, policy: Policy| {
        HostSession::resume(ctx, Runtime::Javascript, same(&state), policy, no_options())
    };
    assert!(matches!(error_of(resume(&mut ctx, no_policy())), SandboxError::NotResumable(_)));
    HostBlob::append(&mut ctx, same(&state), vec![0xff; 1_000]).unwrap();
    assert!(matches!(error_of(resume(&mut ctx, no_policy())), SandboxError::NotResumable(_)));
    assert_eq!((ctx.usage().sessions, ctx.usage().handles), (0, 1));
    // This session needs more memory than the policy allows.
    let session = open(&mut ctx);
    stdout_in(&mut ctx, &session, "var a = new Uint8Array(30 << 20).fill(1); 0");
    let large = HostSession::hibernate(&mut ctx, session).unwrap();
    let small = limited(|limits| limits.memory_bytes = Some(20 << 20));
    let resumed = HostSession::resume(&mut ctx, Runtime::Javascript, same(&large), small, no_options());
    let SandboxError::NotResumable(text) = error_of(resumed) else { panic!("the session was resumed") };
    assert!(text.contains("`limits.memory-bytes` is 20971520"), "{text}");
    let other = HostSession::resume(&mut ctx, Runtime::Python, large, no_policy(), no_options());
    assert!(matches!(error_of(other), SandboxError::NotResumable(_)));
}

#[test]
fn session_is_busy_until_its_started_execution_ends() {
    let mut ctx = ctx();
    let session = open(&mut ctx);
    let resource = ctx.get(&session).unwrap().clone();
    let (stepping, running) = resource.step().unwrap();
    assert!(matches!(resource.step().map_err(SandboxError::from), Err(SandboxError::SessionBusy(_))));
    type SessionOperation = fn(&mut SandboxCtx, Resource<SessionResource>) -> Result<(), SandboxFailure>;
    let operations: [(&str, SessionOperation); 12] = [
        ("execute", |ctx, it| HostSession::execute(ctx, it, request("1")).map(drop)),
        ("get-variable", |ctx, it| HostSession::get_variable(ctx, it, "x".into()).map(drop)),
        ("set-variable", |ctx, it| HostSession::set_variable(ctx, it, "x".into(), "1".into())),
        ("files", |ctx, it| HostSession::files(ctx, it).map(drop)),
        ("write-file", |ctx, it| HostSession::write_file(ctx, it, "f".into(), vec![1], IfExists::Replace)),
        ("rename-file", |ctx, it| HostSession::rename_file(ctx, it, "f".into(), "g".into(), IfExists::Replace)),
        ("delete-file", |ctx, it| HostSession::delete_file(ctx, it, "g".into(), false)),
        ("checkpoint", |ctx, it| HostSession::checkpoint(ctx, it).map(drop)),
        ("checkpoints", |ctx, it| HostSession::checkpoints(ctx, it).map(drop)),
        ("fork", |ctx, it| HostSession::fork(ctx, it).map(drop)),
        ("hibernate", |ctx, it| HostSession::hibernate(ctx, it).map(drop)),
        ("close", |ctx, it| HostSession::close(ctx, it)),
    ];
    for (name, ask) in operations {
        let busy = error_of(ask(&mut ctx, same(&session)));
        assert!(matches!(busy, SandboxError::SessionBusy(_)), "{name}: {busy:?}");
    }
    HostSession::info(&mut ctx, same(&session)).unwrap();
    // The component has dropped the execution, which is still running, so the next call waits for it.
    drop(stepping);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let result = HostSession::get_variable(&mut ctx, same(&session), "x".into());
            assert!(result.is_ok());
        });
        drop(running);
        waiting.join().unwrap();
    });
    for (name, ask) in operations {
        ask(&mut ctx, same(&session)).unwrap_or_else(|error| panic!("{name}: {error:?}"));
    }
}

#[test]
fn session_is_busy_until_a_concurrent_call_is_dropped() {
    let mut ctx = ctx();
    let session = open(&mut ctx);
    let resource = ctx.get(&session).unwrap().clone();
    let first = resource.begin_call().unwrap();
    assert!(matches!(resource.begin_call().map_err(SandboxError::from), Err(SandboxError::SessionBusy(_))));
    let (token, dropped) = (CancelToken::new(), CancelToken::new());
    let (second, running) = (first.second(), resource.run_call(&token, || false));
    first.release();
    // The next call begins, and its thread waits for the dropped call.
    let next = resource.begin_call().unwrap();
    drop((first, second));
    assert!(resource.begin_call().is_err(), "the guards of an earlier call have no effect");
    std::thread::scope(|scope| {
        let ends_early = scope.spawn(|| resource.run_call(&dropped, || dropped.is_cancelled()).is_none());
        dropped.cancel();
        assert!(ends_early.join().unwrap(), "a dropped call does not wait for the others");
        let waiting = scope.spawn(|| resource.run_call(&token, || false).is_some());
        drop(running);
        assert!(waiting.join().unwrap());
    });
    drop(next);
    resource.begin_call().unwrap();
}

#[test]
fn python_and_javascript_sessions_behave_alike() {
    let mut ctx = ctx();
    let session = HostSession::open(&mut ctx, Runtime::Python, no_policy(), no_options()).unwrap();
    let execution = HostSession::execute(&mut ctx, same(&session), request("open('out', 'w').write('x' * 3)")).unwrap();
    assert_eq!(execution.value.and_then(|value| value.json).as_deref(), Some("3"));
    assert_eq!(execution.files_created, ["out"]);
    assert_eq!(execution.session_id, Some(HostSession::id(&mut ctx, same(&session)).unwrap()));
    let files = HostSession::files(&mut ctx, session).unwrap();
    assert_eq!(HostFiles::read(&mut ctx, files, "out".into(), 0, 9).unwrap(), b"xxx");
}

fn write(
    ctx: &mut SandboxCtx,
    session: &Resource<SessionResource>,
    path: &str,
    bytes: &[u8],
) -> Result<(), SandboxFailure> {
    HostSession::write_file(ctx, same(session), path.into(), bytes.into(), IfExists::Fail)
}

fn kind<T: std::fmt::Debug>(result: Result<T, SandboxFailure>) -> FileError {
    match error_of(result) {
        SandboxError::File(failure) => failure.kind,
        other => panic!("{other:?}"),
    }
}

#[test]
fn snapshot_is_immutable_and_outlives_its_session() {
    let mut ctx = ctx();
    let session = open(&mut ctx);
    write(&mut ctx, &session, "a/b.txt", b"before").unwrap();
    let files = HostSession::files(&mut ctx, same(&session)).unwrap();
    stdout_in(&mut ctx, &session, "std.writeFile('a/b.txt', 'after'); 0");
    HostSession::drop(&mut ctx, session).unwrap();
    let list = HostFiles::list(&mut ctx, same(&files), "**".into()).unwrap();
    let seen: Vec<_> = list.iter().map(|entry| (entry.path.as_str(), entry.kind, entry.size_bytes)).collect();
    assert_eq!(seen, [("a", FileKind::Directory, 0), ("a/b.txt", FileKind::File, 6)]);
    let mut read = |offset, len| HostFiles::read(&mut ctx, same(&files), "a/b.txt".into(), offset, len).unwrap();
    assert_eq!(read(0, u64::MAX), b"before");
    assert_eq!(read(2, 3), b"for");
    assert_eq!(read(6, 1), b"");
    assert_eq!(read(u64::MAX, u64::MAX), b"");
    assert_eq!(HostFiles::stat(&mut ctx, same(&files), String::new()).unwrap().kind, FileKind::Directory);
}

#[test]
fn read_size_is_limited() {
    let mut ctx = ctx();
    let session = open(&mut ctx);
    let max = usize::try_from(MAX_READ_BYTES).unwrap();
    for (length, given) in [(max - 1, max - 1), (max, max), (max + 1, max)] {
        let bytes = vec![1; length];
        let blob = HostBlob::new(&mut ctx).unwrap();
        HostBlob::append(&mut ctx, same(&blob), bytes).unwrap();
        assert_eq!(HostBlob::read(&mut ctx, same(&blob), 0, u64::MAX).unwrap().len(), given);
        assert_eq!(HostBlob::read(&mut ctx, same(&blob), length as u64 - 1, 9).unwrap(), [1]);
        let write = HostSession::write_file_from;
        write(&mut ctx, same(&session), "large".into(), same(&blob), IfExists::Replace).unwrap();
        HostBlob::drop(&mut ctx, blob).unwrap();
        let files = HostSession::files(&mut ctx, same(&session)).unwrap();
        let read = HostFiles::read(&mut ctx, same(&files), "large".into(), 0, u64::MAX).unwrap();
        assert_eq!(read.len(), given);
        HostFiles::drop(&mut ctx, files).unwrap();
    }
}

#[test]
fn file_errors_give_the_reason() {
    let mut ctx = ctx();
    let session = open(&mut ctx);
    write(&mut ctx, &session, "dir/file", b"1").unwrap();
    for path in ["", "/etc/passwd", "../x", "a/../../x", "a\0"] {
        assert_eq!(kind(write(&mut ctx, &session, path, b"")), FileError::InvalidPath, "{path:?}");
    }
    assert_eq!(kind(write(&mut ctx, &session, "dir/file", b"2")), FileError::Exists);
    assert_eq!(kind(write(&mut ctx, &session, "dir/file/x", b"2")), FileError::WrongKind);
    let rename = |ctx: &mut SandboxCtx, from: &str, to: &str| {
        HostSession::rename_file(ctx, same(&session), from.into(), to.into(), IfExists::Fail)
    };
    assert_eq!(kind(rename(&mut ctx, "none", "x")), FileError::NotFound);
    assert_eq!(kind(rename(&mut ctx, "dir/file", "dir")), FileError::Exists);
    let delete = |ctx: &mut SandboxCtx, path: &str, recursive| {
        HostSession::delete_file(ctx, same(&session), path.into(), recursive)
    };
    assert_eq!(kind(delete(&mut ctx, "dir", false)), FileError::WrongKind);
    delete(&mut ctx, "dir", true).unwrap();
    assert_eq!(kind(delete(&mut ctx, "dir", true)), FileError::NotFound);
    let long = "x".repeat(1 << 20);
    let SandboxError::File(failure) = error_of(write(&mut ctx, &session, &long, b"")) else {
        panic!("the error is not `File`")
    };
    assert!(failure.path.len() <= 4_096 && failure.message.len() <= 4_096, "long texts are truncated in the error");
    let big = vec![0; (64 << 20) + 1];
    assert_eq!(kind(write(&mut ctx, &session, "big", &big)), FileError::NoSpace);
    let files = HostSession::files(&mut ctx, session).unwrap();
    for pattern in ["/x", "..", "[", "{a"] {
        assert_eq!(kind(HostFiles::list(&mut ctx, same(&files), pattern.into())), FileError::InvalidPath, "{pattern}");
    }
    assert_eq!(kind(HostFiles::read(&mut ctx, same(&files), "none".into(), 0, 1)), FileError::NotFound);
    assert_eq!(kind(HostFiles::stat(&mut ctx, files, "none".into())), FileError::NotFound);
}

#[test]
fn file_list_has_at_most_ten_thousand_entries() {
    let mut ctx = host(|policy| policy.limits.workspace_inodes = 20_000, |_| {}).ctx();
    let session = open(&mut ctx);
    let mut listed = |count: u32| {
        stdout_in(&mut ctx, &session, &format!("for (let i = 0; i < {count}; i++) std.writeFile('' + i, 'x'); 0"));
        let files = HostSession::files(&mut ctx, same(&session)).unwrap();
        let list = HostFiles::list(&mut ctx, same(&files), "*".into());
        HostFiles::drop(&mut ctx, files).unwrap();
        list.map(|list| list.len())
    };
    assert_eq!(listed(9_999).unwrap(), 9_999);
    assert_eq!(listed(10_000).unwrap(), 10_000);
    assert_eq!(kind(listed(10_001)), FileError::Refused);
}
