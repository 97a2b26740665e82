//! Every error and outcome in the words of the contract.

use super::*;
use crate::{
    component::wit::types::{self, Exhausted, ResourceKind},
    error::BuildError,
};

#[test]
fn what_a_script_does_is_an_outcome() {
    let mut ctx = ctx();
    let mut run = |source: &str| ctx.run(Runtime::Javascript, request(source), no_policy()).unwrap();
    assert_eq!(run("std.exit(3)").outcome, Outcome::Exited(3));
    let Outcome::Raised(raised) = run("throw new RangeError('too far')").outcome else { panic!("it throws") };
    assert_eq!((raised.type_name.as_str(), raised.message.as_str(), raised.line), ("RangeError", "too far", Some(1)));
    let Outcome::Exhausted(Exhausted { resource, .. }) = run("new ArrayBuffer(1 << 30)").outcome else {
        panic!("it wants too much");
    };
    assert_eq!(resource, ResourceKind::Memory);
    let truncated = run("std.out.puts('x'.repeat(5_000_000))");
    assert_eq!((truncated.stdout.retained_bytes, truncated.stdout.total_bytes), (2_000_000, 5_000_000));
}

#[test]
fn a_list_has_the_first_four_mebibytes_of_a_stream() {
    let mut ctx = host(|policy| policy.limits.stdout_bytes = 8 << 20, |_| {}).ctx();
    for (length, given) in [((4 << 20) - 1, (4 << 20) - 1), (4 << 20, 4 << 20), ((4 << 20) + 1, 4 << 20)] {
        let source = format!("std.out.puts('x'.repeat({length}))");
        let stdout = ctx.run(Runtime::Javascript, request(&source), no_policy()).unwrap().stdout;
        assert_eq!((stdout.bytes.len(), stdout.retained_bytes, stdout.total_bytes), (given, length, length));
    }
}

#[test]
fn standard_input_is_held_to_its_limit_and_ignored_by_validation() {
    let mut ctx = ctx();
    let policy = limited(|limits| limits.stdin_bytes = Some(4));
    for (length, fits) in [(3, true), (4, true), (5, false)] {
        let asked = Request { stdin: Some(vec![b'x'; length]), ..request("console.log(std.in.getline())") };
        let ran = ctx.run(Runtime::Javascript, asked.clone(), policy.clone());
        match ran {
            Ok(execution) => assert!(fits && execution.stdout.bytes.len() == length + 1, "{execution:?}"),
            Err(Failure::Error(error)) => {
                assert!(!fits && error == SandboxError::StdinTooLarge(types::TooLarge { bytes: 5, limit: 4 }));
            }
            Err(other) => panic!("{other:?}"),
        }
        assert!(ctx.validate(Runtime::Javascript, asked, policy.clone()).unwrap().is_empty());
    }
}

#[test]
fn diagnostics_are_told_and_nothing_is_run() {
    let mut ctx = ctx();
    let said = ctx.validate(Runtime::Python, request("x = 1\ny ="), no_policy()).unwrap();
    assert_eq!((said.len(), said[0].line), (1, 2));
    let timed = Request { deadline_ms: Some(0), ..request("while True: pass") };
    assert!(ctx.validate(Runtime::Python, timed, no_policy()).unwrap().is_empty());
}

#[test]
fn what_only_the_host_may_know_is_not_told() {
    let secret = "/home/secret/cache";
    let error = BuildError::NotPersisting { name: secret.into() };
    let SandboxError::Unavailable(text) = SandboxError::from(error) else { panic!("it is unavailable") };
    assert!(!text.contains("secret"), "{text}");
}

#[test]
fn info_says_what_there_is() {
    let info = ctx().provider();
    assert_eq!((info.name.as_str(), info.version.as_str()), ("glovebox", env!("CARGO_PKG_VERSION")));
    assert_eq!(info.features, types::Features::all());
}
