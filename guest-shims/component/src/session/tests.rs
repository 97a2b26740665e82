//! Tests of sessions with the guests of [`fake`](crate::tests::fake), without an interpreter.

use std::rc::Rc;

use super::*;
use crate::{
    Guests, Runtime, World,
    bindings::types::{Outcome, Rollback},
    tests::fake::{Fake, IMAGE, IMAGE_AT, SEED_AT, closed_world, runtime},
    tests::{execute, limits, no_policy, printed, request, sandbox_in},
};

/// A provider's sessions, with the fake's first guest as their runtime.
struct Space {
    fake: Rc<Fake>,
    world: World,
    /// The runtime of all sessions. They share it, as in a provider, because it records which guest is in its memory.
    runtime: Rc<Runtime>,
    sessions: Rc<Sessions>,
}

impl Space {
    fn new() -> Self {
        let (fake, world) = closed_world();
        Self { fake, world, runtime: runtime(0), sessions: Rc::default() }
    }

    fn sandbox(&self, policy: types::Policy) -> Sandbox {
        Sandbox { runtime: Rc::clone(&self.runtime), ..sandbox_in(&self.world, policy).unwrap() }
    }

    fn open_with(&self, policy: types::Policy) -> Result<Session, SandboxError> {
        Session::open(&self.sessions, self.sandbox(policy), &no_options())
    }

    fn open(&self) -> Session {
        self.open_with(no_policy()).unwrap()
    }

    fn resume(&self, bytes: &[u8], policy: types::Policy) -> Result<Session, SandboxError> {
        Session::resume(&self.sessions, self.sandbox(policy), bytes, &no_options())
    }
}

fn no_options() -> SessionOptions {
    SessionOptions { context: None, tools: None }
}

fn checkpoints(checkpoints: types::Checkpoints, on_unwind: types::OnUnwind) -> types::Policy {
    let session = types::SessionPolicy {
        checkpoints: Some(checkpoints),
        checkpoint_auto_bytes: None,
        checkpoints_retained: None,
        on_unwind: Some(on_unwind),
    };
    types::Policy { session: Some(session), ..no_policy() }
}

fn run(session: &Session, source: &str) -> types::Execution {
    session.execute(request(source)).unwrap().to_wit()
}

/// Runs a script that must complete, and returns its output.
fn says(session: &Session, source: &str) -> String {
    let execution = run(session, source);
    assert_eq!(execution.outcome, Outcome::Completed);
    printed(&execution).trim_end().to_owned()
}

#[test]
fn session_keeps_variables_and_files() {
    let space = Space::new();
    let session = space.open();
    let first = run(&session, "set 5000 7\nwrite a.txt");
    assert_eq!((first.session_id.as_deref(), first.rolled_back_to), (Some("session-1"), None));
    assert_eq!(says(&session, "show 5000"), "7");
    assert_eq!(session.files().unwrap().list("*").unwrap().len(), 1);
    let info = session.info();
    assert_eq!((info.id.as_str(), info.executions, info.memory_bytes, info.ended), ("session-1", 2, 65_536, None));
}

#[test]
fn large_session_leaves_no_data_to_a_small_one() {
    let space = Space::new();
    let (large, small) = (space.open(), space.open());
    run(&small, "set 5000 1");
    // The secret fills the real memory starting at address 1024, including the bytes beyond the virtual size.
    run(&large, "grow 5\nfill 1024 250");
    assert!(space.fake.memory_grow(0, 3));
    run(&large, "fill 1024 250");
    assert_eq!(space.fake.real_memory(0).iter().filter(|byte| **byte == 250).count(), 9 * 65_536 - 1024);
    assert_eq!(says(&small, "show 5000\ngrow 0"), "1\n1");
    let memory = space.fake.real_memory(0);
    assert!(!memory.contains(&250), "the whole real memory is reset");
    assert_eq!(memory.len(), 9 * 65_536);
    assert_eq!(memory[IMAGE_AT as usize..][..4], IMAGE);
    assert_eq!(
        says(&large, "show 5000\nshow 393215\ngrow 0"),
        "250\n250\n6",
        "the large session has all of its memory"
    );
    drop(large);
    execute(&space.sandbox(no_policy()), "print x");
    assert!(!space.fake.real_memory(0).contains(&250));
    assert_eq!(says(&small, "show 5000"), "1");
}

#[test]
fn continuing_the_current_session_copies_no_memory() {
    let space = Space::new();
    let session = space.open_with(checkpoints(types::Checkpoints::Never, types::OnUnwind::RollBack)).unwrap();
    run(&session, "set 5000 1");
    // Write a byte beyond the virtual size. The byte remains there until another guest uses the memory.
    assert!(space.fake.memory_grow(0, 1));
    space.fake.memory_write(0, 70_000, b"x");
    run(&session, "set 5001 1");
    assert_eq!(space.fake.real_memory(0)[70_000], b'x', "the memory is not copied");
    let other = space.open();
    assert_eq!(space.fake.real_memory(0)[70_000], 0);
    drop(other);
    assert_eq!(says(&session, "show 5000\nshow 5001"), "1\n1");
}

#[test]
fn guest_of_another_runtime_leaves_the_session_resident() {
    let space = Space::new();
    let session = space.open();
    run(&session, "set 5000 1");
    let before = space.fake.real_memory(0);
    let sandbox = Sandbox { runtime: runtime(1), ..space.sandbox(no_policy()) };
    execute(&sandbox, "set 5000 9");
    assert!(space.fake.real_memory(0) == before);
    assert_eq!(says(&session, "show 5000"), "1");
}

#[test]
fn unwound_session_is_rolled_back() {
    let space = Space::new();
    let session = space.open();
    run(&session, "set 5000 1\nwrite held");
    for ends in ["spin", "abort", "deep"] {
        let execution = run(&session, &format!("set 5000 2\nwrite lost\ngrow 2\n{ends}"));
        assert!(matches!(execution.rolled_back_to, Some(Rollback { executions_lost: 0, .. })), "{ends}");
        assert_eq!(says(&session, "show 5000\ngrow 0"), "1\n1", "{ends}");
        assert_eq!(session.files().unwrap().list("*").unwrap().len(), 1, "{ends}");
    }
    let info = session.info();
    assert_eq!((info.rollbacks, info.executions), (3, 4));
    let raised = run(&session, "set 5000 3\nraise");
    assert_eq!(
        (raised.rolled_back_to, says(&session, "show 5000").as_str()),
        (None, "3"),
        "an exception does not roll back"
    );
}

#[test]
fn unwound_session_without_checkpoint_ends() {
    let space = Space::new();
    for policy in [
        checkpoints(types::Checkpoints::Never, types::OnUnwind::RollBack),
        checkpoints(types::Checkpoints::Always, types::OnUnwind::End),
    ] {
        let session = space.open_with(policy).unwrap();
        assert_eq!(run(&session, "abort").rolled_back_to, None);
        let refused = |result: Result<(), SandboxError>| matches!(result, Err(SandboxError::SessionEnded(_)));
        assert!(refused(session.execute(request("")).map(drop)));
        assert!(refused(session.files().map(drop)));
        assert!(refused(session.fork().map(drop)));
        assert!(refused(session.checkpoints().map(drop)));
        assert!(refused(session.undo().map(drop)));
        assert!(refused(session.hibernate().map(drop)));
        assert!(refused(session.get_variable("5000").map(drop)));
        assert!(session.info().ended.is_some());
        assert!(session.close().is_ok());
    }
}

#[test]
fn guest_exit_ends_the_session() {
    let session = Space::new().open();
    assert_eq!(run(&session, "leave 3").outcome, Outcome::Exited(3));
    assert_eq!(session.info().ended.as_deref(), Some("exited with 3"));
    let session = Space::new().open();
    assert_eq!(run(&session, "exit 3").outcome, Outcome::Exited(3));
    assert_eq!(session.info().ended, None, "a reported exit does not end the session");
}

#[test]
fn undo_restores_previous_and_named_checkpoints() {
    let space = Space::new();
    let session = space.open();
    assert!(matches!(session.undo(), Err(SandboxError::NoCheckpoint(_))));
    run(&session, "set 5000 1");
    let named = session.checkpoint().unwrap();
    assert_eq!(session.checkpoint().unwrap(), named, "an unchanged state needs no second checkpoint");
    run(&session, "set 5000 2");
    let other = space.open();
    run(&other, "set 5000 9");
    session.undo().unwrap();
    assert_eq!(says(&session, "show 5000"), "1");
    run(&session, "set 5000 3");
    run(&session, "set 5000 4");
    session.undo_to(named).unwrap();
    assert_eq!((says(&session, "show 5000").as_str(), session.info().executions), ("1", 2));
    assert!(matches!(session.undo_to(99), Err(SandboxError::NoCheckpoint(_))));
    assert_eq!(says(&other, "show 5000"), "9");
}

#[test]
fn changes_to_image_pages_are_saved_and_undone() {
    let space = Space::new();
    let session = space.open();
    let (within, beside) = (IMAGE_AT + 1, IMAGE_AT + 99);
    let both = |session: &Session| says(session, &format!("show {within}\nshow {beside}")).replace('\n', " ");
    let (image, begun) = (both(&session), session.checkpoint().unwrap());
    run(&session, &format!("set {within} 1\nset {beside} 2"));
    let named = session.checkpoint().unwrap();
    let (fork, bytes) = (session.fork().unwrap(), session.hibernate().unwrap());
    let resumed = space.resume(bytes.as_slice(), no_policy()).unwrap();
    run(&session, &format!("set {within} 3\nset {beside} 4"));
    assert_eq!([&session, &fork, &resumed, &session].map(both), ["3 4", "1 2", "1 2", "3 4"]);
    session.undo_to(named).unwrap();
    assert_eq!(both(&session), "1 2");
    session.undo_to(begun).unwrap();
    assert_eq!(both(&session), image);
}

#[test]
fn undo_reverts_file_changes_of_the_host() {
    let session = Space::new().open();
    session.write_file("a/b.txt", b"1", types::IfExists::Fail).unwrap();
    session.rename_file("a/b.txt", "c.txt", types::IfExists::Fail).unwrap();
    let paths = |session: &Session| -> Vec<String> {
        session.files().unwrap().list("**").unwrap().into_iter().map(|entry| entry.path).collect()
    };
    assert_eq!(paths(&session), ["a", "c.txt"]);
    let refused = session.write_file("c.txt", b"2", types::IfExists::Fail).unwrap_err();
    assert!(matches!(refused, SandboxError::File(failure) if failure.kind == types::FileError::Exists));
    let missing = session.delete_file("none", false).unwrap_err();
    assert!(matches!(missing, SandboxError::File(failure) if failure.kind == types::FileError::NotFound));
    session.delete_file("a", true).unwrap();
    assert_eq!(paths(&session), ["c.txt"]);
    assert_eq!(session.files().unwrap().read("c.txt", 0, 9).unwrap(), b"1");
    session.undo().unwrap();
    assert_eq!(paths(&session), ["a", "c.txt"], "the last change is undone");
}

#[test]
fn fork_is_independent_and_draws_other_random_numbers() {
    let space = Space::new();
    let session = space.open();
    run(&session, "set 5000 1");
    let seed = |space: &Space| space.fake.real_memory(0)[SEED_AT as usize..][..8].to_vec();
    let own = seed(&space);
    let fork = session.fork().unwrap();
    let forked = seed(&space);
    let again = session.fork().unwrap();
    let seeds = [own, forked, seed(&space)];
    assert!(seeds[0] != seeds[1] && seeds[1] != seeds[2] && seeds[0] != seeds[2], "{seeds:?}");
    run(&fork, "set 5000 2");
    assert_eq!([&session, &fork, &again].map(|session| says(session, "show 5000")), ["1", "2", "1"]);
    assert_eq!(fork.info().checkpoints, 1, "the fork's own first checkpoint");
    assert_ne!(fork.id(), session.id());
}

#[test]
fn resume_restores_everything_and_rejects_mismatches() {
    let space = Space::new();
    let session = space.open();
    run(&session, "grow 2\nset 150000 7\nwrite a.txt\nwrite b.txt");
    let bytes = session.hibernate().unwrap();
    assert_eq!(bytes.as_slice(), session.hibernate().unwrap().as_slice(), "equal sessions produce equal bytes");
    run(&session, "set 150000 8");
    let elsewhere = Space::new();
    let resumed = elsewhere.resume(bytes.as_slice(), no_policy()).unwrap();
    assert_eq!(says(&resumed, "show 150000\ngrow 0"), "7\n3");
    assert_eq!((resumed.info().executions, resumed.files().unwrap().list("*").unwrap().len()), (2, 2));
    let refused = |bytes: &[u8], policy| match elsewhere.resume(bytes, policy) {
        Err(SandboxError::NotResumable(text)) => text,
        other => panic!("{other:?}"),
    };
    assert!(refused(b"", no_policy()).contains("not a hibernated session"));
    let mut damaged = bytes.as_slice().to_vec();
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    assert!(refused(&damaged, no_policy()).contains("checksum"));
    let narrow = limits(|limits| limits.workspace_inodes = Some(1));
    assert!(refused(bytes.as_slice(), narrow).contains("limits.workspace-inodes"));
    // The session also needs enough memory.
    for (pages, fits) in [(4, true), (3, true), (2, false)] {
        let other = Space::new();
        other.fake.max_pages.set(pages);
        assert_eq!(other.resume(bytes.as_slice(), no_policy()).is_ok(), fits, "{pages}");
    }
}

#[test]
fn session_count_and_bytes_are_limited() {
    let space = Space::new();
    let policy = || limits(|limits| limits.session_count = Some(2));
    let first = space.open_with(policy()).unwrap();
    let second = space.open_with(policy()).unwrap();
    assert!(matches!(space.open_with(policy()), Err(SandboxError::TooManySessions(_))), "over");
    assert!(matches!(first.fork(), Err(SandboxError::TooManySessions(_))), "over");
    drop(second);
    let second = space.open_with(policy()).unwrap();
    second.close().unwrap();
    assert!(space.open_with(policy()).is_ok(), "usable after");
    run(&first, "grow 4");
    let held = first.info().held_bytes;
    assert!(held >= 4 * 65_536, "{held}");
    let total = |max| limits(|limits| limits.session_total_bytes = Some(max));
    assert!(space.open_with(total(held - 1)).is_err(), "over");
    assert!(space.open_with(total(held)).is_ok(), "at");
    drop(first);
    assert!(space.open_with(total(held - 1)).is_ok(), "usable after");
}

#[test]
fn session_growth_respects_the_common_limit() {
    let space = Space::new();
    let total = || limits(|limits| limits.session_total_bytes = Some(5 * 65_536));
    let (first, second) = (space.open_with(total()).unwrap(), space.open_with(total()).unwrap());
    assert_ne!(says(&first, "grow 3"), "-1", "under");
    assert_eq!(says(&first, "grow 2"), "-1", "over the limit, which includes files and output");
    assert_eq!(says(&second, "grow 2"), "-1", "the limit is shared by all sessions");
    assert_ne!(says(&second, "grow 1"), "-1", "under");
    let held = first.info().held_bytes + second.info().held_bytes;
    assert!((4 * 65_536..=5 * 65_536).contains(&held), "{held}");
    first.close().unwrap();
    assert_ne!(says(&second, "grow 2"), "-1", "usable after");
}

#[test]
fn while_an_execution_is_started_the_session_is_busy() {
    let space = Space::new();
    let session = space.open();
    let started = session.start(request("set 5000 1")).unwrap();
    assert!(matches!(session.execute(request("")), Err(SandboxError::SessionBusy(_))));
    assert!(matches!(session.close(), Err(SandboxError::SessionBusy(_))));
    assert_eq!((session.id().as_str(), session.info().executions), ("session-1", 0));
    started.advance(&[]).unwrap();
    assert!(matches!(started.files(""), Err(SandboxError::Unsupported(_))));
    assert_eq!(says(&session, "show 5000"), "1");
    let dropped = session.start(request("set 5000 2")).unwrap();
    drop(dropped);
    assert_eq!(says(&session, "show 5000"), "1");
    let cancelled = session.start(request("set 5000 3")).unwrap();
    cancelled.cancel();
    cancelled.advance(&[]).unwrap();
    assert_eq!(
        (says(&session, "show 5000").as_str(), session.info().rollbacks),
        ("1", 0),
        "a cancelled execution does not run"
    );
}

#[test]
fn variables_require_valid_names_and_json() {
    let space = Space::new();
    let session = space.open();
    run(&session, "set 5000 7");
    let value = session.get_variable("5000").unwrap().unwrap();
    assert_eq!((value.repr.as_str(), session.info().executions), ("7", 1));
    assert_eq!(session.get_variable("none").unwrap(), None);
    for (name, json) in [("", "1"), ("1a", "1"), ("a b", "1"), ("a", "{"), ("a", "")] {
        assert!(matches!(session.set_variable(name, json), Err(SandboxError::InvalidArgument(_))), "{name} {json}");
    }
    assert!(matches!(session.set_variable("a", "1"), Err(SandboxError::Variable(_))), "the guest rejects the name");
    let small = space.open_with(limits(|limits| limits.stdin_bytes = Some(2))).unwrap();
    assert!(matches!(small.set_variable("a", "11"), Err(SandboxError::Variable(_))), "at");
    assert!(matches!(small.set_variable("a", "111"), Err(SandboxError::StdinTooLarge(_))), "over");
}

#[test]
fn session_with_changed_globals_is_discarded() {
    let space = Space::new();
    let session = space.open();
    run(&session, "set 5000 1");
    space.fake.global_set(0, 0, 12);
    assert!(matches!(session.execute(request("")), Err(SandboxError::Unavailable(_))));
    assert!(session.info().ended.unwrap().contains("__stack_pointer"));
    assert_eq!(says(&space.open(), "show 5000"), "0");
}

#[test]
fn session_request_rejects_files_and_context() {
    let (_, world) = closed_world();
    let sandbox = sandbox_in(&world, no_policy()).unwrap();
    let options = SessionOptions { context: None, tools: None };
    let session = Session::open(&Rc::default(), sandbox, &options).unwrap();
    let files = types::Request { files: Some(Vec::new()), ..request("print 1") };
    let context = types::Request { context: Some("1".into()), ..request("print 1") };
    for (request, name) in [(files, "`files`"), (context, "`context`")] {
        for error in [session.execute(request.clone()).unwrap_err(), session.start(request).unwrap_err()] {
            assert!(matches!(error, SandboxError::InvalidArgument(text) if text.starts_with(name)), "{name}");
        }
    }
    let info = session.info();
    assert_eq!((info.language, &*info.runtime_name, info.checkpoints_skipped), (types::Language::Python, "fake-0", 0));
}
