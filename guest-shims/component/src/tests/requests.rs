//! Tests of requests' fields and of execution results.

use super::{
    fake::{IMAGE, IMAGE_AT, SEED_AT},
    *,
};
use crate::{
    Guests, Started,
    bindings::{
        exports::glovebox::sandbox::sandbox::{OutputStream, Step, ToolAnswer},
        types::{AdviceKind, FuelStatus, InputFile, Outcome, SandboxError, TooLarge},
    },
};

fn with_files(source: &str, files: &[(&str, &str)]) -> types::Request {
    let file = |(path, text): &(&str, &str)| InputFile { path: (*path).into(), bytes: (*text).into() };
    types::Request { files: Some(files.iter().map(file).collect()), ..request(source) }
}

fn with_context(json: &str) -> types::Request {
    types::Request { context: Some(json.into()), ..request("print never") }
}

fn refused(sandbox: &Sandbox, request: types::Request) -> SandboxError {
    sandbox.task(request).and_then(|task| sandbox.execute(&task)).unwrap_err()
}

#[test]
fn request_files_precede_the_script_and_are_not_changes() {
    let (_, sandbox) = closed_sandbox(no_policy());
    let task = sandbox.task(with_files("write new", &[("a/b", "1"), ("twice", "no"), ("twice", "2")])).unwrap();
    let executed = sandbox.execute(&task).unwrap();
    assert_eq!((&executed.changes.created[..], executed.changes.modified.len()), (&["new".to_owned()][..], 0));
    let read = |path| executed.files.read(path, 0, None).unwrap();
    assert_eq!((read("a/b"), read("twice"), read("new")), (b"1".to_vec(), b"2".to_vec(), Vec::new()));
    let other = sandbox.execute(&sandbox.task(request("print 1")).unwrap()).unwrap();
    assert!(other.files.list("**").unwrap().is_empty(), "another execution starts without files");
}

#[test]
fn files_that_cannot_be_written_are_named() {
    let (_, sandbox) = closed_sandbox(limits(|limits| limits.workspace_bytes = Some(1_000)));
    for path in ["/a", "../a", "", "a\0"] {
        let SandboxError::InvalidArgument(text) = refused(&sandbox, with_files("", &[(path, "")])) else { panic!() };
        assert!(text.starts_with("`files`: "), "{text}");
    }
    let large = "x".repeat(5_000);
    let SandboxError::InvalidArgument(text) = refused(&sandbox, with_files("", &[("large", &large)])) else { panic!() };
    assert!(text.starts_with("`files`: `large`: "), "{text}");
}

#[test]
fn context_is_json_within_its_limit_and_set_before_the_script() {
    let (_, sandbox) = closed_sandbox(limits(|limits| limits.stdin_bytes = Some(3)));
    let SandboxError::InvalidArgument(text) = refused(&sandbox, with_context("{")) else { panic!() };
    assert!(text.starts_with("`context` is not JSON"), "{text}");
    let too_large = SandboxError::StdinTooLarge(TooLarge { bytes: 4, limit: 3 });
    assert_eq!(refused(&sandbox, with_context("[ 0]")), too_large);
    // In the fake, variables are numbers, so its guest rejects the name `context` and the script does not run.
    assert!(
        matches!(refused(&sandbox, with_context("[0]")), SandboxError::Variable(text) if text.contains("`context`"))
    );
}

#[test]
fn guidance_explains_the_limit() {
    let (_, sandbox) = closed_sandbox(limits(|limits| limits.fuel = Some(10_000)));
    let guidance = execute(&sandbox, "spin").guidance;
    assert_eq!(
        (guidance.fuel.status, guidance.fuel.used, guidance.fuel.limit),
        (FuelStatus::Exhausted, 10_000, 10_000)
    );
    assert_eq!(guidance.fuel.suggested_limit, Some(20_000));
    assert_eq!(guidance.advice.iter().map(|advice| advice.kind).collect::<Vec<_>>(), [AdviceKind::Fuel]);
    let well = execute(&sandbox, "print 1").guidance;
    assert_eq!((well.fuel.suggested_limit, well.advice.len()), (None, 0));
}

#[test]
fn validation_requires_only_the_source() {
    let (_, sandbox) = closed_sandbox(no_policy());
    let request = types::Request { stdin: Some(b"x".to_vec()), deadline_ms: Some(0), ..with_context("{") };
    let task = sandbox.task(types::Request { source: "print 1".into(), ..request }.for_validation()).unwrap();
    assert!(sandbox.validate(&task).unwrap().is_empty());
}

#[test]
fn guests_leave_no_data_to_the_next() {
    let (fake, sandbox) = closed_sandbox(no_policy());
    let seeded = {
        sandbox.guest(Vec::new(), &[], sandbox.one_shot_ctx()).unwrap();
        fake.real_memory(0)
    };
    let mut expected = vec![0; 65_536];
    expected[IMAGE_AT as usize..][..IMAGE.len()].copy_from_slice(&IMAGE);
    expected[SEED_AT as usize..][..8].copy_from_slice(&seeded[SEED_AT as usize..][..8]);
    assert_eq!(seeded, expected, "the image with a new seed");
    // Fill the guest's whole memory, even beyond the virtual size.
    execute(&sandbox, "grow 5\nfill 1024 115");
    fake.global_set(0, 0, 12);
    assert!(fake.memory_grow(0, 3));
    sandbox.guest(Vec::new(), &[], sandbox.one_shot_ctx()).unwrap();
    expected.resize(9 * 65_536, 0);
    assert!(fake.real_memory(0) == expected, "the whole memory is reset to the image");
    assert_eq!((fake.virtual_size(0), fake.global_get(0, 0)), (1, 77));
}

#[test]
fn files_are_dropped_with_their_execution() {
    let (_, sandbox) = closed_sandbox(no_policy());
    let execution = execute(&sandbox, "write a.txt");
    assert_eq!((execution.files_created, execution.outcome), (vec!["a.txt".to_owned()], Outcome::Completed));
    let task = sandbox.task(request("")).unwrap();
    let executed = sandbox.execute(&task).unwrap();
    assert!(crate::Files::new(executed.files).list("**").unwrap().is_empty());
}

#[test]
fn seeded_random_numbers_depend_on_the_seed_only() {
    let (fake, world) = closed_world();
    let numbers = |seed| {
        let policy = types::Policy { entropy: Some(types::Entropy::Seeded(seed)), ..no_policy() };
        let sandbox = sandbox_in(&world, policy).unwrap();
        sandbox.guest(Vec::new(), &[], sandbox.one_shot_ctx()).unwrap();
        fake.real_memory(0)[SEED_AT as usize..][..8].to_vec()
    };
    assert_eq!(numbers(1), numbers(1));
    assert_ne!(numbers(1), numbers(2));
    assert_ne!(numbers(1), [0; 8]);
}

#[test]
fn entry_points_without_an_execution_unwind() {
    use crate::running_guest;
    assert_eq!(running_guest::refuel(), 1);
    assert_eq!(running_guest::grow(1), -1);
    assert_eq!(running_guest::wasi(|wasi, host| wasi.sched_yield(host)), running_guest::UNWIND);
}

fn started(source: &str) -> Started {
    let (_, sandbox) = closed_sandbox(no_policy());
    let task = sandbox.task(request(source)).unwrap();
    Started::new(Box::new(move |live| sandbox.execute(&task.observed_by(live))))
}

fn done(step: Result<Step, SandboxError>) -> types::Execution {
    match step {
        Ok(Step::Done(execution)) => execution,
        other => panic!("{other:?}"),
    }
}

#[test]
fn started_execution_runs_on_the_first_continue() {
    let started = started("print one\nwrite f");
    assert!(!started.live().has_ended());
    assert_eq!(started.read_output(OutputStream::Stdout, 0, 10), b"");
    assert!(matches!(started.files(""), Err(SandboxError::SessionBusy(_))));
    let execution = done(started.advance(&[]));
    assert_eq!(printed(&execution), "one\n");
    assert!(started.live().has_ended());
    assert_eq!(done(started.advance(&[])), execution, "every call returns the same result");
    for (offset, len, part) in [(0, 10, &b"one\n"[..]), (1, 2, b"ne"), (4, 1, b""), (u64::MAX, u64::MAX, b"")] {
        assert_eq!(started.read_output(OutputStream::Stdout, offset, len), part);
    }
    assert_eq!(started.files("").unwrap().list("*").unwrap().len(), 1);
    let in_session = started.in_session();
    assert!(matches!(in_session.files(""), Err(SandboxError::Unsupported(_))));
}

#[test]
fn execution_cancelled_before_start_does_nothing() {
    let started = started("print one");
    started.cancel();
    let execution = done(started.advance(&[]));
    assert_eq!((printed(&execution), &execution.outcome), ("", &Outcome::Cancelled));
}

#[test]
fn cancelling_a_finished_execution_has_no_effect() {
    let started = started("print one");
    let execution = done(started.advance(&[]));
    started.cancel();
    assert_eq!(done(started.advance(&[])), execution);
}

#[test]
fn answer_to_an_unknown_call_is_rejected() {
    let started = started("print one");
    let answer = ToolAnswer { id: 0, answer: Ok("1".into()) };
    for _ in 0..2 {
        let refused = started.advance(std::slice::from_ref(&answer));
        assert!(matches!(refused, Err(SandboxError::InvalidArgument(_))), "{refused:?}");
        assert_eq!(printed(&done(started.advance(&[]))), "one\n");
    }
}
