//! Tests the order and timing of steps.

use std::{
    sync::{Mutex, mpsc},
    time::Duration,
};

use glovebox::{
    AdvanceError, Language, PendingToolCalls, Request, Started, Step, Tool, ToolAnswer, ToolOutcome, ToolRequest,
};
use glovebox_tests::{fixed, short};
use serde_json::json;

use super::{BOTH, LONG, answer, done, needs, of, questions, start, stepped, text};

#[test]
fn execution_without_calls_is_done_at_once() {
    for language in BOTH {
        let started = start(&stepped(language, &[], |_| {}), "print(6 * 7)");
        let execution = done(&started, Vec::new());
        assert_eq!(text(&execution), "42\n");
        assert!(
            std::sync::Arc::ptr_eq(&execution, &done(&started, Vec::new())),
            "repeated calls return the same execution"
        );
        assert!(std::sync::Arc::ptr_eq(&execution, &started.execution().unwrap()));
    }
}

#[test]
fn a_call_is_answered_by_the_caller() {
    for language in BOTH {
        let source = of(language, "print(tools.ask(q='why')['x'])", "console.log((await tools.ask({q: 'why'})).x)");
        let started = start(&stepped(language, &[], |_| {}), source);
        let requests = needs(&started, Vec::new());
        assert_eq!((requests.len(), requests[0].id, &*requests[0].name), (1, 0, "ask"));
        assert_eq!(requests[0].arguments, r#"{"q":"why"}"#);
        assert!(started.execution().is_none());
        let execution = done(&started, vec![answer(&requests[0], json!({"x": "because"}))]);
        assert_eq!(text(&execution), "because\n");
        let record = &execution.tool_calls[0];
        assert_eq!(record.outcome, ToolOutcome::Returned(Some(r#"{"x":"because"}"#.into())));
    }
}

const SEVERAL: (&str, &str) = (
    "
import asyncio
async def main():
    print(await asyncio.gather(*[tools.ask.aio(q=i) for i in range(5)]))
asyncio.run(main())",
    "print(JSON.stringify(await Promise.all([0, 1, 2, 3, 4].map(q => tools.ask({q})))))",
);

#[test]
fn concurrent_calls_are_delivered_together() {
    for language in BOTH {
        let started = start(&stepped(language, &[], |_| {}), of(language, SEVERAL.0, SEVERAL.1));
        let all = needs(&started, Vec::new());
        assert_eq!(questions(&all), [0, 1, 2, 3, 4]);
        assert_eq!(needs(&started, Vec::new()), all, "requests without answers are repeated");
        let left = needs(&started, vec![answer(&all[3], 13), answer(&all[1], 11)]);
        assert_eq!(questions(&left), [0, 2, 4]);
        let last = left.iter().rev().zip([14, 12, 10]).map(|(request, value)| answer(request, value)).collect();
        assert_eq!(text(&done(&started, last)).replace(' ', ""), "[10,11,12,13,14]\n");
    }
}

#[test]
fn delivered_calls_respect_the_concurrency_limit() {
    for language in BOTH {
        for at_once in [4, 5, 6] {
            let sandbox = stepped(language, &[], |policy| policy.limits.tool_calls_at_once = at_once);
            let started = start(&sandbox, of(language, SEVERAL.0, SEVERAL.1));
            let first = needs(&started, Vec::new());
            assert_eq!(first.len(), 5.min(at_once as usize));
            let answers = first.iter().map(|request| answer(request, 7)).collect();
            let execution = if first.len() == 5 {
                done(&started, answers)
            } else {
                let rest = needs(&started, answers);
                assert_eq!(questions(&rest), [4]);
                done(&started, vec![answer(&rest[0], 7)])
            };
            assert_eq!(text(&execution).replace(' ', ""), "[7,7,7,7,7]\n");
        }
    }
}

#[test]
fn timer_does_not_delay_a_call() {
    let scripts = (
        "
import asyncio
async def main():
    print(await asyncio.wait_for(tools.ask.aio(q=1), 500))
asyncio.run(main())",
        "
const timer = setTimeout(() => 0, 500000);
print(await tools.ask({q: 1}));
clearTimeout(timer);",
    );
    for language in BOTH {
        let started = start(&stepped(language, &[], |_| {}), of(language, scripts.0, scripts.1));
        let requests = needs(&started, Vec::new());
        assert_eq!(text(&done(&started, vec![answer(&requests[0], "yes")])), "yes\n");
    }
}

#[test]
fn busy_scripts_calls_are_delivered_at_the_timeout() {
    let source = "
import asyncio
async def main():
    task = asyncio.create_task(tools.ask.aio(q=1))
    await asyncio.sleep(0)
    while True: pass
asyncio.run(main())";
    let started = start(&stepped(Language::Python, &[], |_| {}), source);
    loop {
        // `advance` returns the calls when its wait ends, even if the script is busy.
        match started.advance(Vec::new(), Some(Duration::from_millis(1))).unwrap() {
            Step::Running => {}
            Step::NeedsTools(requests) => break assert_eq!(questions(&requests), [1]),
            Step::Done(execution) => panic!("{execution:?}"),
        }
    }
}

#[test]
fn polling_for_replies_suspends_the_script() {
    let source = "
import asyncio
async def main():
    task = asyncio.create_task(tools.ask.aio(q=1))
    while not task.done(): await asyncio.sleep(0)
    print(task.result())
asyncio.run(main())";
    let started = start(&stepped(Language::Python, &[], |_| {}), source);
    let requests = needs_without_end(&started);
    assert_eq!(text(&done(&started, vec![answer(&requests[0], "yes")])), "yes\n");
}

#[test]
fn running_handler_does_not_delay_a_call() {
    let (open, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let slow = Tool::new("slow", "").handler(move |_, _| {
        gate.lock().unwrap().recv().ok();
        Ok(json!("slow"))
    });
    let scripts = (
        "
import asyncio
async def main():
    print(*await asyncio.gather(tools.slow.aio(), tools.ask.aio(q=1)))
asyncio.run(main())",
        "print(...await Promise.all([tools.slow(), tools.ask({q: 1})]))",
    );
    let sandboxes = BOTH.map(|language| (language, stepped(language, std::slice::from_ref(&slow), |_| {})));
    for (language, sandbox) in sandboxes {
        let started = start(&sandbox, of(language, scripts.0, scripts.1));
        let requests = needs_without_end(&started);
        assert_eq!(questions(&requests), [1]);
        let step = started.advance(vec![answer(&requests[0], "asked")], Some(Duration::ZERO)).unwrap();
        assert!(matches!(step, Step::Running), "{step:?}");
        open.send(()).unwrap();
        assert_eq!(text(&done(&started, Vec::new())), "slow asked\n");
    }
}

/// Returns the calls that the script waits for. Sets no maximum wait, because `advance` would also return the calls
/// when that wait expires.
fn needs_without_end(started: &Started) -> Vec<ToolRequest> {
    match started.advance(Vec::new(), None).unwrap() {
        Step::NeedsTools(requests) => requests,
        other => panic!("{other:?}"),
    }
}

#[test]
fn script_without_calls_needs_no_answers() {
    for language in BOTH {
        let source = of(language, "while True: pass", "for (;;);");
        let started = start(&stepped(language, &[], |_| {}), source);
        for wait in [Duration::ZERO, Duration::from_millis(1)] {
            assert!(matches!(started.advance(Vec::new(), Some(wait)).unwrap(), Step::Running));
        }
        started.cancel();
    }
}

#[test]
fn many_steps_are_one_execution() {
    for language in BOTH {
        let source = of(
            language,
            "print(sum(tools.ask(q=i) for i in range(100)))",
            "let sum = 0; for (let q = 0; q < 100; q++) sum += await tools.ask({q}); print(sum)",
        );
        let started = start(&stepped(language, &[], |_| {}), source);
        let mut answers = Vec::new();
        for id in 0..100 {
            let requests = needs(&started, answers);
            assert_eq!((requests.len(), requests[0].id, questions(&requests)), (1, id, vec![json!(id)]));
            answers = vec![answer(&requests[0], id * 2)];
        }
        let execution = done(&started, answers);
        assert_eq!((text(&execution).as_str(), execution.tool_calls.len()), ("9900\n", 100));
    }
}

#[test]
fn tools_with_handlers_are_not_delivered() {
    let host = Tool::new("host", "The host's.").handler(|_, arguments| Ok(json!([arguments["q"]])));
    let scripts = (
        "
import asyncio
async def main():
    print(await asyncio.gather(tools.host.aio(q=0), tools.ask.aio(q=1), tools.host.aio(q=2), tools.ask.aio(q=3)))
print(tools.host(q=9))
asyncio.run(main())",
        "
print(JSON.stringify(await tools.host({q: 9})));
print(JSON.stringify(await Promise.all([tools.host({q: 0}), tools.ask({q: 1}), tools.host({q: 2}), tools.ask({q: 3})])));",
    );
    for language in BOTH {
        let started =
            start(&stepped(language, std::slice::from_ref(&host), |_| {}), of(language, scripts.0, scripts.1));
        let requests = needs(&started, Vec::new());
        assert_eq!((questions(&requests), requests[0].id, requests[1].id), (vec![json!(1), json!(3)], 2, 4));
        let ignored = ToolAnswer::value(1, &json!("not the caller's"));
        let execution = done(&started, vec![ignored, answer(&requests[0], 1), answer(&requests[1], 3)]);
        assert_eq!(text(&execution).replace(' ', ""), "[9]\n[[0],1,[2],3]\n");
    }
}

#[test]
fn concurrent_executions_get_their_own_answers() {
    for language in BOTH {
        let sandbox = stepped(language, &[], |_| {});
        let source = of(language, "print(tools.ask(q=1))", "print(await tools.ask({q: 1}))");
        let (one, two) = (start(&sandbox, source), start(&sandbox, source));
        let (first, second) = (needs(&one, Vec::new()), needs(&two, Vec::new()));
        assert_eq!(text(&done(&two, vec![answer(&second[0], "two")])), "two\n");
        assert_eq!(needs(&one, Vec::new()), first);
        assert_eq!(text(&done(&one, vec![answer(&first[0], "one")])), "one\n");
    }
}

#[test]
fn a_step_costs_no_fuel() {
    let echo = |_: &glovebox::ToolCall, arguments: serde_json::Value| Ok(arguments["q"].clone());
    for language in BOTH {
        let source =
            of(language, "for i in range(3): tools.ask(q=i)", "for (let q = 0; q < 3; q++) await tools.ask({q})");
        let handled =
            Tool::new("ask", "Asks.").schema(json!({ "properties": { "q": {} }, "required": ["q"] })).handler(echo);
        let mut policy = glovebox::Policy::default();
        fixed(&mut policy);
        let plain = glovebox::Sandbox::builder(glovebox_tests::engine()).language(language).policy(policy.clone());
        let expected = plain.tool(handled).build().unwrap().execute(source).unwrap();
        let started = start(&stepped(language, &[], |edited| *edited = policy), source);
        let mut answers = Vec::new();
        for _ in 0..3 {
            let requests = needs(&started, answers);
            // The calls remain pending, no matter how long the caller takes.
            assert_eq!(needs(&started, Vec::new()), requests);
            answers = vec![answer(&requests[0], requests[0].values()["q"].clone())];
        }
        let execution = done(&started, answers);
        assert_eq!((short(&execution.outcome), execution.fuel_consumed), ("completed".into(), expected.fuel_consumed));
    }
}

#[test]
fn invalid_request_is_rejected_before_the_start() {
    let sandbox = stepped(Language::Python, &[], |policy| policy.limits.source_bytes = 3);
    assert!(sandbox.start(Request::new("pass")).unwrap_err().to_string().contains("`limits.source_bytes` is 3;"));
    assert_eq!(text(&done(&start(&sandbox, "1+1"), Vec::new())), "");
}

#[test]
fn tools_can_be_added_later() {
    let sandbox = stepped(Language::Python, &[], |_| {});
    assert!(
        sandbox.with_tools(&[super::ask()]).unwrap_err().to_string().contains("`ask`"),
        "the sandbox already has a tool named `ask`"
    );
    let more = sandbox.with_tools(&[Tool::new("more", "").stepped()]).unwrap();
    let started = start(&more, "print(tools.ask(q=1), tools.more())");
    let first = needs(&started, Vec::new());
    let second = needs(&started, vec![answer(&first[0], 1)]);
    assert_eq!(text(&done(&started, vec![answer(&second[0], 2)])), "1 2\n");
    let without = done(&start(&sandbox, "tools.more()"), Vec::new());
    assert_eq!(short(&without.outcome), "raised AttributeError");
}

#[test]
fn caller_answers_an_execution_on_its_own_thread() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    for language in BOTH {
        let source = of(
            language,
            "print(tools.ask(q=1), tools.ask(q=2))",
            "print(await tools.ask({q: 1}), await tools.ask({q: 2}))",
        );
        let (sandbox, calls) = (stepped(language, &[], |_| {}), PendingToolCalls::new());
        let there = calls.clone();
        let execution = runtime.block_on(async {
            let script = move || sandbox.run(Request::new(source).pending_calls(&there)).unwrap();
            let script = tokio::task::spawn_blocking(script);
            for question in [1, 2] {
                let requests = tokio::time::timeout(LONG, calls.wait()).await.unwrap();
                assert_eq!(questions(&requests), [question]);
                assert_eq!(calls.wait().await, requests, "requests without answers are repeated");
                let unknown = calls.answer(vec![answer(&requests[0], "lost"), ToolAnswer::value(7, &json!(1))]);
                assert!(matches!(unknown, Err(AdvanceError::UnknownCall { id: 7 })), "{unknown:?}");
                calls.answer(vec![answer(&requests[0], format!("answer {question}"))]).unwrap();
            }
            tokio::time::timeout(LONG, script).await.unwrap().unwrap()
        });
        assert_eq!(text(&execution), "answer 1 answer 2\n");
    }
}
