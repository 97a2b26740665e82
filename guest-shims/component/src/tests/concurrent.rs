//! Tests of executions whose callers and tools run meanwhile, as in version 0.3.0 of the contract.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    task::{Context, Poll, Waker},
    time::Duration,
};

use glovebox_wasi::Stream;

use super::{fake::FakeClocks, *};
use crate::{
    HostCall, HostCallFuture, Live, Started, ToolHost,
    bindings::types::{Outcome, Tool, ToolOutcome},
};

/// A host whose tool `wait` answers after a number of milliseconds, while other calls are open.
struct Host {
    clocks: Rc<FakeClocks>,
    calls: RefCell<Vec<HostCall>>,
    open: Rc<Cell<usize>>,
    max_open: Cell<usize>,
}

/// Counts a call as open until it is dropped.
struct OpenCall(Rc<Cell<usize>>);

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl ToolHost for Host {
    fn list(&self) -> Vec<Tool> {
        vec![Tool { name: "wait".into(), description: "Waits.".into(), arguments_schema: None }]
    }

    fn call(&self, call: HostCall) -> HostCallFuture {
        let arguments: serde_json::Value = serde_json::from_str(&call.arguments).unwrap();
        let due = self.clocks.now() + Duration::from_millis(arguments["ms"].as_u64().unwrap());
        self.calls.borrow_mut().push(call);
        self.open.set(self.open.get() + 1);
        self.max_open.set(self.max_open.get().max(self.open.get()));
        let (clocks, open) = (Rc::clone(&self.clocks), OpenCall(Rc::clone(&self.open)));
        Box::pin(poll_fn(move |_| {
            let _ = &open;
            if clocks.now() < due { Poll::Pending } else { Poll::Ready(Ok("1".into())) }
        }))
    }
}

fn sandbox(policy: types::Policy) -> (Rc<Host>, Sandbox) {
    let clocks = FakeClocks::new(Duration::ZERO);
    let host =
        Host { clocks: Rc::clone(&clocks), calls: RefCell::default(), open: Rc::default(), max_open: Cell::new(0) };
    let host = Rc::new(host);
    let world = World { clocks: Some(clocks), tools: Some(Rc::clone(&host) as Rc<dyn ToolHost>), ..closed_world().1 };
    let sandbox = sandbox_in(&world, policy).unwrap();
    (host, sandbox)
}

fn call(id: u64, ms: u64) -> String {
    format!("send {{\"id\":{id},\"name\":\"wait\",\"arguments\":{{\"ms\":{ms}}}}}\n")
}

#[test]
fn calls_run_at_the_same_time() {
    let (host, sandbox) = sandbox(no_policy());
    let execution = execute(&sandbox, &(call(1, 30) + &call(2, 10) + &call(3, 20) + "reply\nreply\nreply\nreply"));
    let ids: Vec<_> = printed(&execution).lines().map(|line| line.get(..7).unwrap_or(line)).collect();
    assert_eq!(ids, ["{\"id\":2", "{\"id\":3", "{\"id\":1", "none"], "in the order of the answers");
    assert_eq!((host.max_open.get(), host.open.get()), (3, 0));
    let durations: Vec<_> = execution.tool_calls.iter().map(|record| record.duration_ns / 1_000_000).collect();
    assert_eq!((durations, execution.duration_ns), (vec![30, 10, 20], 30_000_000));
    let calls = host.calls.borrow();
    assert_eq!(calls.iter().map(|call| call.index).collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn call_over_its_timeout_is_dropped() {
    for (timeout_ms, in_time) in [(49, false), (50, true), (51, true)] {
        let (host, sandbox) = sandbox(limits(|limits| limits.tool_timeout_ms = Some(timeout_ms)));
        let execution = execute(&sandbox, &(call(1, 50) + "reply\nprint on"));
        let [record] = &execution.tool_calls[..] else { panic!("{:?}", execution.tool_calls) };
        assert_eq!(matches!(record.outcome, ToolOutcome::Returned(_)), in_time, "{timeout_ms}: {record:?}");
        assert!(printed(&execution).ends_with("on\n"));
        assert_eq!(host.open.get(), 0);
        assert_eq!(host.calls.borrow()[0].timeout, Duration::from_millis(timeout_ms));
    }
}

#[test]
fn unanswered_calls_are_dropped_at_the_end() {
    let (host, sandbox) = sandbox(no_policy());
    let execution = execute(&sandbox, &call(1, 1_000));
    assert_eq!(execution.tool_calls[0].outcome, ToolOutcome::Unfinished);
    assert_eq!((host.max_open.get(), host.open.get()), (1, 0));
}

fn started(sandbox: Sandbox, source: &str) -> Started {
    let task = sandbox.task(request(source)).unwrap();
    Started::new(Box::new(move |live| sandbox.execute(&task.observed_by(live)))).observed()
}

#[test]
fn observer_sees_output_while_the_script_waits() {
    let (_, sandbox) = sandbox(no_policy());
    let started = started(sandbox, &("print one\n".to_owned() + &call(1, 10) + "reply\nprint two"));
    let (live, seen) = (Rc::clone(started.live()), Rc::new(RefCell::new(Vec::new())));
    let recorded = Rc::clone(&seen);
    live.spawn(Box::pin(poll_fn({
        let live = Rc::clone(&live);
        move |_| {
            recorded.borrow_mut().push(live.with_output(Stream::Stdout, <[u8]>::len));
            Poll::Pending
        }
    })));
    started.run();
    assert_eq!(seen.borrow().iter().max(), Some(&4), "the second line was printed after the wait");
    assert_eq!(live.task_count(), 1);
    assert!(live.with_output(Stream::Stdout, |bytes| bytes.ends_with(b"two\n")));
}

#[test]
fn cancellation_ends_a_wait_for_a_tool() {
    let (host, sandbox) = sandbox(limits(|limits| {
        // Without a soft stop, the guest is unwound.
        (limits.timeout_reserve_ms, limits.fuel_reserve) = (Some(0), Some(0));
    }));
    let started = started(sandbox, &(call(1, 5_000) + "reply\nprint never"));
    let live = Rc::clone(started.live());
    live.spawn(Box::pin({
        let (live, clocks, begun) = (Rc::clone(&live), Rc::clone(&host.clocks), host.clocks.now());
        poll_fn(move |_| {
            if clocks.now() - begun >= Duration::from_millis(20) {
                live.cancel();
            }
            Poll::Pending
        })
    }));
    started.run();
    let execution = started.result().unwrap().unwrap();
    assert_eq!((&execution.outcome, printed(&execution)), (&Outcome::Cancelled, ""));
    assert!(execution.duration_ns < 5_000_000_000, "{}", execution.duration_ns);
    assert_eq!(host.open.get(), 0);
}

#[test]
fn released_execution_that_has_not_begun_never_runs() {
    let (host, sandbox) = sandbox(no_policy());
    let started = started(sandbox, &call(1, 10));
    started.release();
    started.run();
    assert!(matches!(started.result(), Some(Err(SandboxError::Unavailable(_)))));
    assert_eq!(host.max_open.get(), 0);
}

#[test]
fn tasks_of_observers_are_served_until_the_handle_is_dropped() {
    let live = Live::observed();
    let is_done = Rc::new(Cell::new(false));
    let done = Rc::clone(&is_done);
    live.spawn(Box::pin(poll_fn(move |_| if done.get() { Poll::Ready(()) } else { Poll::Pending })));
    let mut serving = std::pin::pin!(live.serve_all());
    let mut poll = || serving.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
    assert!(!poll());
    live.release();
    assert!(!poll(), "a task has not ended");
    is_done.set(true);
    assert!(poll());
}
