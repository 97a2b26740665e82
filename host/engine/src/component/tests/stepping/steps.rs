//! Calls, answers, output and cancellation.

use super::*;
use crate::{
    ToolError,
    component::wit::{
        sandbox::{HostFiles, OutputStream},
        types::{CallFailure, ToolOutcome},
    },
};

#[test]
fn a_component_answers_its_own_tools() {
    let mut ctx = ctx();
    let started = start(&mut ctx, "print(await Promise.all([1, 2].map(q => tools.ask({q}))))");
    let requests = needs(&mut ctx, &started, vec![]);
    let asked: Vec<_> = requests.iter().map(|request| (request.id, &*request.name, &*request.arguments)).collect();
    assert_eq!(asked, [(0, "ask", r#"{"q":1}"#), (1, "ask", r#"{"q":2}"#)]);
    let left = needs(&mut ctx, &started, vec![answer(1, "\"b\"")]);
    assert_eq!(left.iter().map(|request| request.id).collect::<Vec<_>>(), [0]);
    let execution = done(&mut ctx, &started, vec![answer(0, "\"a\"")]);
    assert_eq!(output(&execution), "[ 'a', 'b' ]\n");
    assert_eq!(execution.session_id, None);
    assert_eq!(execution.tool_calls.len(), 2);
    assert_eq!(done(&mut ctx, &started, vec![]), execution, "again");
}

#[test]
fn a_failure_is_passed_on() {
    let mut ctx = ctx();
    let source = "try { await tools.ask({q: 1}) } catch (error) { print(error.name, error.message) }";
    let started = start(&mut ctx, source);
    needs(&mut ctx, &started, vec![]);
    let failure = CallFailure { kind: crate::component::wit::types::ToolError::Timeout, message: "too slow".into() };
    let execution = done(&mut ctx, &started, vec![ToolAnswer { id: 0, answer: Err(failure) }]);
    assert_eq!(output(&execution), "ToolTimeout too slow\n");
    let ToolOutcome::Failed(failure) = &execution.tool_calls[0].outcome else { panic!() };
    assert_eq!(failure.message.as_deref(), Some("too slow"));
}

#[test]
fn answers_that_cannot_be_are_refused_and_none_is_taken() {
    let mut ctx = ctx();
    let started = start(&mut ctx, ASKS);
    needs(&mut ctx, &started, vec![]);
    for wrong in [answer(1, "1"), answer(u64::MAX, "1"), answer(0, "{"), answer(0, "")] {
        let SandboxError::InvalidArgument(text) = told(step(&mut ctx, &started, vec![answer(0, "1"), wrong])) else {
            panic!()
        };
        assert!(text.starts_with("`answers`: "), "{text}");
    }
    assert_eq!(needs(&mut ctx, &started, vec![]).len(), 1);
    assert_eq!(output(&done(&mut ctx, &started, vec![answer(0, "2"), answer(0, "3")])), "2\n");
}

#[test]
fn the_hosts_tools_are_there_beside_the_components() {
    let host = crate::Tool::new("host", "").handler(|_, _| Err(ToolError::from("the host's words")));
    let host = SandboxHost::builder(engine()).tool(host).build().unwrap();
    let mut ctx = host.ctx();
    let source = "
try { await tools.host() } catch (error) { print(error.message) }
print(await tools.ask({q: 1}))";
    let started = start(&mut ctx, source);
    assert_eq!(needs(&mut ctx, &started, vec![])[0].id, 1);
    assert_eq!(output(&done(&mut ctx, &started, vec![answer(1, "2")])), "the host's words\n2\n");
    let twice = Host::start(&mut ctx, Runtime::Javascript, request(""), no_policy(), vec![tool("host", None)]);
    let SandboxError::InvalidArgument(text) = told(twice) else { panic!() };
    assert!(text.contains("`host`"), "{text}");
}

#[test]
fn output_is_read_on_the_way() {
    let mut ctx = ctx();
    let started = start(&mut ctx, "console.log('one'); await tools.ask({q: 1}); console.error('two')");
    needs(&mut ctx, &started, vec![]);
    let read =
        |ctx: &mut SandboxCtx, stream, offset, len| ctx.read_output(same(&started), stream, offset, len).unwrap();
    assert_eq!(read(&mut ctx, OutputStream::Stdout, 1, 2), b"ne");
    assert_eq!(read(&mut ctx, OutputStream::Stderr, 0, u64::MAX), b"");
    done(&mut ctx, &started, vec![answer(0, "1")]);
    assert_eq!(read(&mut ctx, OutputStream::Stdout, 0, u64::MAX), b"one\n");
    assert_eq!(read(&mut ctx, OutputStream::Stderr, 0, u64::MAX), b"two\n");
}

#[test]
fn all_of_a_large_output_can_be_read() {
    let mut ctx = host(|policy| policy.limits.stdout_bytes = 40 << 20, |_| {}).ctx();
    let started = start(&mut ctx, "for (let i = 0; i < 20; i++) std.out.puts('x'.repeat(1 << 20))");
    let execution = done(&mut ctx, &started, vec![]);
    assert_eq!((execution.stdout.bytes.len(), execution.stdout.retained_bytes), (4 << 20, 20 << 20));
    let read = |ctx: &mut SandboxCtx, offset| {
        ctx.read_output(same(&started), OutputStream::Stdout, offset, u64::MAX).unwrap().len()
    };
    assert_eq!((read(&mut ctx, 0), read(&mut ctx, 16 << 20), read(&mut ctx, 20 << 20)), (16 << 20, 4 << 20, 0));
}

#[test]
fn files_are_there_when_it_is_done_and_outlive_it() {
    let mut ctx = ctx();
    let source = "const file = std.open('a', 'w'); file.puts(await tools.ask({q: 1})); file.close()";
    let started = start(&mut ctx, source);
    needs(&mut ctx, &started, vec![]);
    assert!(matches!(told(HostStarted::files(&mut ctx, same(&started))), SandboxError::SessionBusy(_)));
    done(&mut ctx, &started, vec![answer(0, "\"text\"")]);
    let files = HostStarted::files(&mut ctx, same(&started)).unwrap();
    release(&mut ctx, started);
    assert_eq!(HostFiles::read(&mut ctx, files, "a".into(), 0, 10).unwrap(), b"text");
}

#[test]
fn it_is_cancelled() {
    let mut ctx = ctx();
    let started = start(&mut ctx, "console.log(1); for (;;) {}");
    HostStarted::cancel(&mut ctx, same(&started)).unwrap();
    HostStarted::cancel(&mut ctx, same(&started)).unwrap();
    assert_eq!(done(&mut ctx, &started, vec![]).outcome, Outcome::Cancelled);
    HostStarted::cancel(&mut ctx, same(&started)).unwrap();
    assert_eq!(said(&mut ctx, "console.log(2)"), "2\n", "nothing else is");
}

#[test]
fn the_components_token_cancels_it() {
    let mut ctx = ctx();
    let token = ctx.cancel_token();
    let started = start(&mut ctx, ASKS);
    needs(&mut ctx, &started, vec![]);
    token.cancel();
    loop {
        match step(&mut ctx, &started, vec![]).unwrap() {
            Step::Done(execution) => break assert_eq!(execution.outcome, Outcome::Cancelled),
            Step::NeedsTools(_) => {}
            Step::Running => panic!("it goes on"),
        }
    }
}

#[test]
fn waiting_has_an_end() {
    let mut ctx = ctx();
    let started = start(&mut ctx, "for (;;) {}");
    for wait_ms in [0, 1] {
        assert!(matches!(ctx.continue_(same(&started), vec![], Some(wait_ms)).unwrap(), Step::Running));
    }
}

#[test]
fn one_component_has_no_handle_of_anothers() {
    let (mut one, mut two) = (ctx(), ctx());
    let started = start(&mut one, ASKS);
    assert!(matches!(two.continue_(same(&started), vec![], None), Err(Failure::Trap(_))));
    assert!(HostStarted::cancel(&mut two, same(&started)).is_err());
    assert!(two.read_output(same(&started), OutputStream::Stdout, 0, 1).is_err());
    needs(&mut one, &started, vec![]);
}
