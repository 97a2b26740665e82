//! Tests type checks of snippets. Those that need the type checker are ignored by default: `.ci/full` runs them.

use super::{
    COMPLETE, CONFIGURE, DUMP, DUMP_RESULT, ERROR, FEED, LOAD, OK, OS_CALL, RESUME_CALL, SHUTDOWN, TYPING_ERROR,
    VERSION_6, contains, events, field, frame, kinds,
};

/// Field 3 of the configuration: check types.
const CHECK_TYPES: &[u8] = &[24, 1];
/// Field 4 of a snippet: do not check its types.
const SKIP: &[u8] = &[32, 1];

/// Returns a request for a session with stubs and with the text format of this number.
fn configure(format: u8, stubs: &[u8]) -> Vec<u8> {
    field(CONFIGURE, &[VERSION_6, CHECK_TYPES, &field(4, stubs), &[56, format]].concat())
}

fn feed(code: &str) -> Vec<u8> {
    field(FEED, &field(1, code.as_bytes()))
}

fn answers(requests: &[Vec<u8>]) -> Vec<Vec<u8>> {
    events(&requests.iter().flat_map(|request| frame(request)).collect::<Vec<u8>>()).0
}

#[test]
#[ignore = "downloads the type checker; `.ci/full` runs it"]
fn errors_have_the_requested_format() {
    // The number of the format, whether colors are requested, and parts of the text.
    let formats: [(u8, bool, &[&str]); 11] = [
        (1, false, &["error[unsupported-operator]: ", "\n --> main.py:2:1\n"]),
        (1, true, &["\x1b[91merror[unsupported-operator]\x1b[0m", "--> \x1b[0mmain.py:2:1\n"]),
        (2, false, &["main.py:2:1: error[unsupported-operator] Operator `+` is not supported"]),
        (2, true, &["\x1b[1mmain.py\x1b[0m\x1b[36m:\x1b[0m2\x1b[36m:"]),
        (
            3,
            false,
            &["##vso[task.logissue type=error;sourcepath=main.py;linenumber=2;columnnumber=1;code=unsupported-"],
        ),
        (4, true, &["[{", "\"location\":{\"column\":1,\"row\":2}", "\"name\":\"unsupported-operator\""]),
        (5, false, &["\"location\":{\"column\":1,\"row\":2}", "\"name\":\"unsupported-operator\""]),
        (
            6,
            false,
            &["\"path\":\"main.py\"", "\"start\":{\"column\":1,\"line\":2}", "{\"value\":\"unsupported-operator\"}"],
        ),
        (7, false, &["main.py:2: [unsupported-operator] Operator `+`"]),
        (8, false, &["\"path\":\"main.py\"", "\"check_name\":\"unsupported-operator\"", "\"fingerprint\":\""]),
        (
            9,
            true,
            &["::error title=ty (unsupported-operator),file=main.py,line=2,col=1,", "::main.py:2:1: unsupported-"],
        ),
    ];
    for (format, is_colored, parts) in formats {
        let color = [64, u8::from(is_colored)];
        let configuration = [VERSION_6, CHECK_TYPES, &[56, format], &color].concat();
        let answers = answers(&[
            field(CONFIGURE, &configuration),
            // The second rule that is violated is not a type error.
            feed("import no_such_module\n'hello' + 1"),
            stubs(&field(4, b""), b""),
            field(SHUTDOWN, &[]),
        ]);
        assert_eq!(kinds(&answers), [OK, OS_CALL, TYPING_ERROR, OK], "{answers:?}");
        let text = String::from_utf8_lossy(&answers[2]);
        for part in parts {
            assert!(text.contains(part), "{format}: {text}");
        }
        assert!(!text.contains("__main__") && !text.contains("no_such_module`"), "{format}: {text}");
    }
}

#[test]
#[ignore = "downloads the type checker; `.ci/full` runs it"]
fn snippets_with_type_errors_do_not_run() {
    let concise = 2;
    let checked = [
        // A snippet, the kind of its answer, and a part of the answer.
        ("x: int = 6", COMPLETE, ""),
        ("_y = 1; import json", COMPLETE, ""),
        ("__all__ = ['x']", COMPLETE, ""),
        ("x.real\nx += 1; x.upper()", TYPING_ERROR, "main.py:2:9: error["),
        ("def f(a: int): return a\nf('a')", TYPING_ERROR, "Expected `int`"),
        ("s: str = x", TYPING_ERROR, "not assignable to `str`"),
        ("ask(1)", TYPING_ERROR, "Expected `str`"),
        ("print(s)", TYPING_ERROR, "Name `s` used when not defined"),
        ("class A:\n    def m(self, n: int): return n", COMPLETE, ""),
        ("A().m('a')", TYPING_ERROR, "Expected `int`"),
        ("lost = 1\n1 / 0", ERROR, "ZeroDivisionError"),
        ("lost", TYPING_ERROR, "Name `lost` used when not defined"),
        ("1 +", ERROR, "SyntaxError"),
        ("import asyncio\nawait asyncio.sleep(0)", COMPLETE, ""),
        // The snippets above that were not run have not changed `x`.
        ("json.dumps(x * 7 + _y - 1)", COMPLETE, "42"),
    ];
    let mut requests = vec![configure(concise, b"def ask(question: str) -> str: ...")];
    requests.extend(checked.iter().map(|(code, ..)| feed(code)));
    // A snippet that is not checked runs, and later snippets are not checked against it.
    requests.push(field(FEED, &[&field(1, b"z = x.upper() if 0 else 5")[..], SKIP].concat()));
    requests.extend([feed("z"), field(FEED, &[&field(1, b"z")[..], SKIP].concat()), field(SHUTDOWN, &[])]);
    let answers = answers(&requests);
    let mut expected = vec![OK];
    expected.extend(checked.iter().map(|(_, kind, _)| kind));
    expected.extend([COMPLETE, TYPING_ERROR, COMPLETE, OK]);
    assert_eq!(kinds(&answers), expected, "{answers:?}");
    for ((code, _, part), answer) in checked.iter().zip(&answers[1..]) {
        assert!(part.is_empty() || contains(answer, part.as_bytes()), "{code}: {}", String::from_utf8_lossy(answer));
    }
}

#[test]
#[ignore = "downloads the type checker; `.ci/full` runs it"]
fn types_of_snippets_are_part_of_a_dump() {
    let full = 1;
    let first = answers(&[configure(full, b""), feed("def double(a: int): return a * 2"), field(DUMP, &[])]);
    assert_eq!(kinds(&first), [OK, COMPLETE, DUMP_RESULT], "{first:?}");
    // The state is field 1 of the event. A dump is a few megabytes long.
    let body = &first[2];
    let number = |bytes: &[u8]| {
        let end = bytes.iter().position(|byte| *byte < 128).unwrap() + 1;
        let value = bytes[..end].iter().rev().fold(0, |value, byte| (value << 7) | usize::from(*byte & 127));
        (value, end)
    };
    let (size, end) = number(&body[1..]);
    let event = &body[1 + end..][..size];
    let load = [&[(LOAD << 3) | 2][..], &body[1..=end], event].concat();
    // The configuration of the dump replaces the configuration without checks.
    let second = answers(&[field(CONFIGURE, VERSION_6), load, feed("double('a')"), feed("double(21)")]);
    assert_eq!(kinds(&second), [OK, OK, TYPING_ERROR, COMPLETE], "{second:?}");
    assert!(contains(&second[2], b" --> main.py:1:8\n"), "{}", String::from_utf8_lossy(&second[2]));
    assert!(contains(&second[3], &[40, 84]), "{second:?}");
}

/// Returns an answer to a request for stubs, with a result and an arena.
fn stubs(result: &[u8], arena: &[u8]) -> Vec<u8> {
    // The call has the highest ID.
    let call = [8, 255, 255, 255, 255, 15];
    field(RESUME_CALL, &[&call[..], &field(2, result), &field(3, arena)].concat())
}

#[test]
#[ignore = "downloads the type checker; `.ci/full` runs it"]
fn stubs_of_modules_are_requested_once() {
    let (concise, text, dict) = (2, 8, 14);
    // A dictionary whose key is the first value and whose only value is the second.
    let nodes = [field(dict, &field(1, &[8, 1, 16, 2])), field(text, b"tools"), field(text, b"def add(a: int): ...")];
    let arena: Vec<u8> = nodes.iter().flat_map(|node| field(2, node)).collect();
    let none = field(4, b"");
    let answers = answers(&[
        configure(concise, b""),
        feed("import tools\ntools.add('x')"),
        field(DUMP, &[]),
        // The client answers with a value that is not a dictionary, which ends the snippet.
        stubs(&[8, 1], &arena),
        feed("import tools\ntools.add('x')"),
        stubs(&[8, 0], &arena),
        feed("def f():\n    import tools.mail\n    from tools import add\n    add()"),
        feed("def f():\n    import tools\n    tools.add(1)"),
        // A module without stubs can be a package of the sandbox.
        feed("def g():\n    import missing_module\n    return missing_module.name"),
        stubs(&none, b""),
        feed("def g():\n    import missing_module"),
        feed("import other"),
        stubs(&field(2, &field(1, b"ValueError")), b""),
        field(SHUTDOWN, &[]),
    ]);
    let expected = [
        OK,
        OS_CALL,
        ERROR,
        ERROR,
        OS_CALL,
        TYPING_ERROR,
        TYPING_ERROR,
        COMPLETE,
        OS_CALL,
        COMPLETE,
        COMPLETE,
        OS_CALL,
        ERROR,
        OK,
    ];
    assert_eq!(kinds(&answers), expected, "{answers:?}");
    // Field 32 of the event contains the names of the modules.
    assert!(contains(&answers[1], b"\x82\x02\x07\x0a\x05tools"), "{answers:?}");
    for (event, part) in [
        (2, "cannot dump while a snippet waits"),
        (3, "must be a `dict`"),
        (5, "main.py:2:11: error[invalid-argument-type]"),
        (6, "main.py:4:5: error[missing-argument]"),
        (12, "ValueError"),
    ] {
        assert!(contains(&answers[event], part.as_bytes()), "{part}: {}", String::from_utf8_lossy(&answers[event]));
    }
}
