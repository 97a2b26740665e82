//! Tests answers that are late, wrong or too large.

use glovebox::{AdvanceError, Language, Policy, Step, ToolAnswer, ToolError, ToolErrorKind, ToolOutcome};
use glovebox_tests::short;
use serde_json::json;

use super::{BOTH, answer, done, needs, of, questions, start, stepped, text};

fn raw(id: u64, text: &str) -> ToolAnswer {
    ToolAnswer { id, answer: Ok(text.to_owned()) }
}

#[test]
fn failure_raises_the_exception_of_its_kind() {
    let kinds = [
        (ToolErrorKind::Failed, "ToolError"),
        (ToolErrorKind::Limit, "ToolLimit"),
        (ToolErrorKind::Timeout, "ToolTimeout"),
        (ToolErrorKind::Unknown, "UnknownTool"),
        (ToolErrorKind::InvalidArguments, "InvalidArguments"),
        (ToolErrorKind::Denied, "ToolDenied"),
    ];
    for language in BOTH {
        let source = of(
            language,
            "
for i in range(6):
    try: tools.ask(q=i)
    except tools.ToolError as error: print(type(error).__name__, error)",
            "for (let q = 0; q < 6; q++) try { await tools.ask({q}) } catch (error) { print(error.name, error.message) }",
        );
        let started = start(&stepped(language, &[], |_| {}), source);
        let mut answers = Vec::new();
        for (kind, name) in kinds {
            let requests = needs(&started, answers);
            answers = vec![ToolAnswer::error(requests[0].id, ToolError::of(kind, format!("because {name}")))];
        }
        let execution = done(&started, answers);
        let expected: String = kinds.map(|(_, name)| format!("{name} because {name}\n")).concat();
        assert_eq!(text(&execution), expected);
        let held: Vec<_> = execution.tool_calls.iter().map(|record| record.outcome.clone()).collect();
        let failed = |(kind, name)| ToolOutcome::Failed { kind, message: Some(format!("because {name}")) };
        assert_eq!(held, kinds.map(failed));
    }
}

#[test]
fn answer_to_an_unknown_call_rejects_all_answers() {
    let started = start(&stepped(Language::Python, &[], |_| {}), "print(tools.ask(q=1))");
    let requests = needs(&started, Vec::new());
    for id in [1, u64::from(u32::MAX), u64::MAX] {
        let error = started.advance(vec![answer(&requests[0], "wrong"), raw(id, "1")], None).unwrap_err();
        assert!(matches!(error, AdvanceError::UnknownCall { id: wrong } if wrong == id), "{error}");
    }
    assert_eq!(needs(&started, Vec::new()), requests, "a wrong answer must not be accepted");
    assert_eq!(text(&done(&started, vec![answer(&requests[0], "right")])), "right\n");
    let error = started.advance(vec![raw(1, "1")], None).unwrap_err();
    assert!(matches!(error, AdvanceError::UnknownCall { id: 1 }), "answers are rejected after the end");
}

#[test]
fn invalid_json_answer_rejects_all_answers() {
    let started = start(&stepped(Language::JavaScript, &[], |_| {}), "print(await tools.ask({q: 1}))");
    let requests = needs(&started, Vec::new());
    let deep = "[".repeat(200) + &"]".repeat(200);
    for wrong in ["", "nul", "{'a': 1}", "1 2", "1e999", "\"\\ud800\"", "}", "1}, {\"id\": 2", &deep] {
        let error = started.advance(vec![raw(0, "1"), raw(0, wrong)], None).unwrap_err();
        assert!(matches!(error, AdvanceError::NotJson { id: 0, .. }), "{wrong}: {error}");
    }
    assert_eq!(needs(&started, Vec::new()), requests, "a wrong answer must not be accepted");
    assert_eq!(text(&done(&started, vec![raw(0, " [ \"\\u0041\" ,\n1 ] ")])), "[ 'A', 1 ]\n");
}

#[test]
fn first_of_two_answers_counts() {
    for language in BOTH {
        let source = of(
            language,
            "print(tools.ask(q=1), tools.ask(q=2))",
            "print(await tools.ask({q: 1}), await tools.ask({q: 2}))",
        );
        let started = start(&stepped(language, &[], |_| {}), source);
        let first = needs(&started, Vec::new());
        let second = needs(&started, vec![answer(&first[0], "a"), answer(&first[0], "b")]);
        assert_eq!(second[0].id, 1);
        assert_eq!(needs(&started, vec![answer(&first[0], "c")]), second);
        let execution = done(&started, vec![answer(&second[0], "d")]);
        assert_eq!(text(&execution), "a d\n");
        assert_eq!(text(&done(&started, vec![answer(&second[0], "e")])), "a d\n");
    }
}

#[test]
fn answer_size_is_limited() {
    for language in BOTH {
        let sandbox = stepped(language, &[], |policy| policy.limits.tool_bytes = 100);
        let source = of(
            language,
            "
for i in range(3):
    try: print(len(tools.ask(q=i)))
    except tools.ToolLimit as error: print(error)",
            "for (let q = 0; q < 3; q++) try { print((await tools.ask({q})).length) } catch (error) { print(error.message) }",
        );
        let started = start(&sandbox, source);
        let mut answers = Vec::new();
        for length in [99, 100, 101] {
            let requests = needs(&started, answers);
            answers = vec![answer(&requests[0], "x".repeat(length - 2))];
        }
        let expected =
            "97\n98\nthe result is 101 bytes; the maximum `limits.tool_bytes` is 100; return less or raise the limit\n";
        assert_eq!(text(&done(&started, answers)), expected);
    }
}

#[test]
fn answers_over_the_memory_limit_fail_in_the_script() {
    let sandbox = stepped(Language::Python, &[], |policy| {
        policy.limits.memory_bytes = 64 << 20;
        policy.limits.tool_bytes = 64 << 20;
    });
    let started = start(&sandbox, "try: tools.ask(q=1)\nexcept tools.ToolLimit as error: print(error)");
    let requests = needs(&started, Vec::new());
    let execution = done(&started, vec![answer(&requests[0], "x".repeat(63 << 20))]);
    assert!(text(&execution).contains("`limits.memory_bytes`"));
    assert!(execution.memory_used_bytes <= 64 << 20);
}

#[test]
fn timed_out_call_accepts_no_answer() {
    for language in BOTH {
        let sandbox = stepped(language, &[], |policy| policy.limits.tool_timeout_ms = 50);
        let source = of(
            language,
            "
try: tools.ask(q=1)
except tools.ToolTimeout: print('late')",
            "try { await tools.ask({q: 1}) } catch (error) { print(error.name === 'ToolTimeout' ? 'late' : error) }",
        );
        let started = start(&sandbox, source);
        let execution = loop {
            match started.advance(Vec::new(), None).unwrap() {
                Step::Done(execution) => break execution,
                Step::NeedsTools(requests) => assert_eq!(requests.len(), 1),
                Step::Running => panic!("`Running` is returned only with a time limit"),
            }
        };
        assert_eq!(text(&execution), "late\n");
        assert_eq!(text(&done(&started, vec![raw(0, "1")])), "late\n", "late answers are ignored");
    }
}

#[test]
fn unanswered_calls_do_not_block_the_tool() {
    // A handler that does not return counts against its tool. Calls that the caller answers run no handler.
    let sandbox = stepped(Language::Python, &[], |policy| {
        policy.limits.tool_timeout_ms = 1;
        policy.limits.tool_calls = 200;
    });
    let source = "
late = 0
for i in range(100):
    try: tools.ask(q=i)
    except tools.ToolTimeout: late += 1
print(late)";
    let started = start(&sandbox, source);
    let execution = loop {
        if let Step::Done(execution) = started.advance(Vec::new(), None).unwrap() {
            break execution;
        }
    };
    assert_eq!(text(&execution), "100\n");
}

#[test]
fn arguments_rejected_by_the_schema_are_not_delivered() {
    for language in BOTH {
        let source = of(
            language,
            "
try: tools.ask()
except tools.InvalidArguments: print('refused')",
            "try { await tools.ask({}) } catch (error) { print(error.name === 'InvalidArguments' ? 'refused' : error) }",
        );
        let execution = done(&start(&stepped(language, &[], |_| {}), source), Vec::new());
        assert_eq!(text(&execution), "refused\n");
    }
}

#[test]
fn caller_tool_fails_in_a_plain_execution() {
    for language in BOTH {
        let source = of(language, "tools.ask(q=1)", "await tools.ask({q: 1})");
        let sandbox = stepped(language, &[], |_| {});
        for execution in [sandbox.execute(source).unwrap(), sandbox.session().unwrap().execute(source).unwrap()] {
            assert_eq!(short(&execution.outcome), "raised ToolError");
            let ToolOutcome::Failed { kind, message } = &execution.tool_calls[0].outcome else { panic!() };
            assert_eq!(*kind, ToolErrorKind::Failed);
            assert!(
                message.as_ref().unwrap().contains("calls to `ask`, but this execution was not begun with `start`")
            );
        }
    }
}

#[test]
fn records_contain_the_callers_answers() {
    let started = start(&stepped(Language::Python, &[], |_| {}), "tools.ask(q=1)");
    let requests = needs(&started, Vec::new());
    let execution = done(&started, vec![raw(requests[0].id, "[ 1 ]")]);
    assert_eq!(serde_json::to_value(&execution.tool_calls).unwrap()[0]["result"], json!([1]));
}

#[test]
fn caller_does_not_receive_calls_that_the_policy_refuses() {
    let sandbox = stepped(Language::Python, &[], |policy| {
        let table = "[tools.ask]\nmax_calls = 2\nschema = { properties = { q = { maximum = 5 } } }";
        policy.tools = Policy::from_toml(table).unwrap().tools;
    });
    let source = "
for q in [6, 5, 4]:
    try:
        print(tools.ask(q=q))
    except tools.ToolError as error:
        print(type(error).__name__)";
    let started = start(&sandbox, source);
    let requests = needs(&started, Vec::new());
    assert_eq!(questions(&requests), [5]);
    let execution = done(&started, vec![answer(&requests[0], 1)]);
    assert_eq!(text(&execution), "InvalidArguments\n1\nToolLimit\n");
}
