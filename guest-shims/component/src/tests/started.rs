use super::*;
use crate::{
    Started,
    bindings::{
        exports::glovebox::sandbox::sandbox::{OutputStream, Step, ToolAnswer},
        types::{Outcome, SandboxError},
    },
};

fn started(source: &str) -> Started {
    let (_, sandbox) = closed(no_policy());
    let task = sandbox.task(request(source)).unwrap();
    Started::new(Box::new(move |is_cancelled| sandbox.execute(&if is_cancelled { task.cancelled() } else { task })))
}

fn done(step: Result<Step, SandboxError>) -> types::Execution {
    match step {
        Ok(Step::Done(execution)) => execution,
        other => panic!("{other:?}"),
    }
}

#[test]
fn it_runs_when_it_is_first_gone_on_with() {
    let mut started = started("print one\nwrite f");
    assert!(!started.is_over());
    assert_eq!(started.read_output(OutputStream::Stdout, 0, 10), b"");
    assert!(matches!(started.files(), Err(SandboxError::SessionBusy(_))));
    let execution = done(started.go_on(&[]));
    assert_eq!(printed(&execution), "one\n");
    assert!(started.is_over());
    assert_eq!(done(started.go_on(&[])), execution, "the same each time");
    for (offset, len, part) in [(0, 10, &b"one\n"[..]), (1, 2, b"ne"), (4, 1, b""), (u64::MAX, u64::MAX, b"")] {
        assert_eq!(started.read_output(OutputStream::Stdout, offset, len), part);
    }
    assert_eq!(started.files().unwrap().list("*").unwrap().len(), 1);
    let in_session = started.in_session();
    assert!(matches!(in_session.files(), Err(SandboxError::Unsupported(_))));
}

#[test]
fn one_that_is_cancelled_before_does_nothing() {
    let mut started = started("print one");
    started.cancel();
    let execution = done(started.go_on(&[]));
    assert_eq!((printed(&execution), &execution.outcome), ("", &Outcome::Cancelled));
}

#[test]
fn cancelling_afterwards_changes_nothing() {
    let mut started = started("print one");
    let execution = done(started.go_on(&[]));
    started.cancel();
    assert_eq!(done(started.go_on(&[])), execution);
}

#[test]
fn an_answer_to_no_call_is_refused() {
    let mut started = started("print one");
    let answer = ToolAnswer { id: 0, answer: Ok("1".into()) };
    for _ in 0..2 {
        let refused = started.go_on(std::slice::from_ref(&answer));
        assert!(matches!(refused, Err(SandboxError::InvalidArgument(_))), "{refused:?}");
        assert_eq!(printed(&done(started.go_on(&[]))), "one\n");
    }
}
