//! Checkpoints, undo, forks, and variables set by the caller.

use glovebox::{CheckpointId, ExecuteError, Language, Sandbox, Session, SessionOptions};
use glovebox_tests::{fixed, lone_engine, sandbox, sandbox_on};
use serde_json::json;

const LANGUAGES: [Language; 2] = [Language::Python, Language::JavaScript];

fn set(session: &Session, number: u32) {
    let source = match session.sandbox().language() {
        Language::Python => format!("x = {number}"),
        Language::JavaScript => format!("var x = {number}"),
    };
    assert!(session.execute(&source).unwrap().is_success());
}

fn x(session: &Session) -> Option<String> {
    session.get_variable("x").unwrap().map(|value| value.repr)
}

fn is(number: u32) -> Option<String> {
    Some(number.to_string())
}

fn is_ended<T: std::fmt::Debug>(result: Result<T, ExecuteError>) -> bool {
    matches!(result, Err(ExecuteError::SessionEnded { .. }))
}

#[test]
fn undo_reverts_the_last_execution_only_once() {
    for language in LANGUAGES {
        let session = sandbox(language, |_| {}).session().unwrap();
        assert!(matches!(session.undo(), Err(ExecuteError::NoCheckpoint { wanted: None, .. })), "nothing to undo yet");
        set(&session, 1);
        set(&session, 2);
        session.undo().unwrap();
        assert!(
            matches!(session.undo(), Err(ExecuteError::NoCheckpoint { .. })),
            "only the last automatic checkpoint is retained"
        );
        assert_eq!((x(&session), session.info().executions), (is(1), 1), "{language}");
        assert!(session.undo().is_err(), "reading a variable creates no undo step");
        session.set_variable("x", &json!(3)).unwrap();
        session.undo().expect("setting a variable creates an undo step");
        assert_eq!(x(&session), is(1));
    }
}

#[test]
fn every_requested_checkpoint_can_be_restored() {
    for language in LANGUAGES {
        let session = sandbox(language, |_| {}).session().unwrap();
        let ids: Vec<CheckpointId> = (0..4)
            .map(|number| {
                set(&session, number);
                session.checkpoint().unwrap()
            })
            .collect();
        set(&session, 99);
        session.undo_to(ids[2]).unwrap();
        assert_eq!(x(&session), is(2));
        assert!(
            matches!(session.undo_to(ids[3]), Err(ExecuteError::NoCheckpoint { wanted: Some(_), .. })),
            "later checkpoints are dropped"
        );
        session.undo_to(ids[0]).unwrap();
        assert_eq!(x(&session), is(0));
        let listed = session.checkpoints().unwrap();
        let (first, second) = (&listed[0], &listed[1]);
        assert!(first.automatic, "the first checkpoint is the automatic one");
        assert_eq!((second.id, second.automatic, second.executions), (ids[0], false, 1));
    }
}

#[test]
fn stepwise_undo_passes_requested_checkpoints() {
    let session = sandbox(Language::JavaScript, |_| {}).session().unwrap();
    for number in 0..3 {
        session.checkpoint().unwrap();
        set(&session, number);
    }
    for number in [is(1), is(0), None] {
        session.undo().unwrap();
        assert_eq!(x(&session), number);
    }
    assert!(matches!(session.undo(), Err(ExecuteError::NoCheckpoint { .. })));
}

#[test]
fn checkpoint_of_an_unchanged_session_is_reused() {
    let session = sandbox(Language::JavaScript, |_| {}).session().unwrap();
    set(&session, 1);
    let first = session.checkpoint().unwrap();
    assert_eq!(session.checkpoint().unwrap(), first);
    set(&session, 2);
    assert_ne!(session.checkpoint().unwrap(), first);
}

#[test]
fn number_of_retained_checkpoints_is_limited() {
    for (asked_for, retained) in [(2, 2), (3, 3), (4, 3)] {
        let session =
            sandbox(Language::JavaScript, |policy| policy.session.checkpoints_retained = 3).session().unwrap();
        let ids: Vec<CheckpointId> = (0..asked_for)
            .map(|number| {
                set(&session, number);
                session.checkpoint().unwrap()
            })
            .collect();
        let listed: Vec<CheckpointId> =
            session.checkpoints().unwrap().iter().filter(|info| !info.automatic).map(|info| info.id).collect();
        assert_eq!(listed, ids[ids.len() - retained..]);
        assert_eq!(session.undo_to(ids[0]).is_ok(), asked_for as usize == retained);
    }
}

#[test]
fn forks_are_isolated_from_their_session() {
    for language in LANGUAGES {
        let session = sandbox(language, |_| {}).session().unwrap();
        set(&session, 1);
        let (one, two) = (session.fork().unwrap(), session.fork_with(SessionOptions::default().id("two")).unwrap());
        assert_eq!((x(&one), x(&two), two.id()), (is(1), is(1), "two"));
        set(&one, 2);
        set(&session, 3);
        let grandchild = one.fork().unwrap();
        set(&grandchild, 4);
        assert_eq!((x(&session), x(&one), x(&two), x(&grandchild)), (is(3), is(2), is(1), is(4)), "{language}");
        drop(session);
        assert_eq!(x(&one), is(2), "a fork must not depend on its parent");
    }
}

const DRAW: [(Language, &str); 2] = [
    (Language::Python, "import random\n(random.random(), random.SystemRandom().random())"),
    (Language::JavaScript, "Math.random()"),
];

fn draw(session: &Session, source: &str) -> String {
    let execution = session.execute(source).unwrap();
    assert!(execution.is_success(), "{}", execution.stderr.text());
    execution.value.expect("the script ends with an expression").repr
}

/// Returns random numbers drawn by a session, its forks and a fork of a fork.
fn draws(sandbox: &Sandbox, source: &str) -> Vec<String> {
    let session = sandbox.session().unwrap();
    let mut drawn = vec![draw(&session, source)];
    let forks = [session.fork().unwrap(), session.fork().unwrap()];
    let grandchild = forks[0].fork().unwrap();
    drawn.extend([&session, &forks[0], &forks[1], &grandchild].map(|each| draw(each, source)));
    session.undo().unwrap();
    drawn.push(draw(&session.fork().unwrap(), source));
    drawn
}

#[test]
fn sessions_draw_different_random_numbers() {
    for (language, source) in DRAW {
        for edit in [fixed as fn(&mut glovebox::Policy), |_| {}] {
            let drawn = draws(&sandbox(language, edit), source);
            let distinct: std::collections::BTreeSet<_> = drawn.iter().collect();
            assert_eq!(distinct.len(), drawn.len(), "{language}: {drawn:?}");
        }
    }
}

#[test]
fn seeded_random_numbers_repeat_and_survive_undo() {
    for (language, source) in DRAW {
        let sandbox = sandbox(language, fixed);
        assert_eq!(draws(&sandbox, source), draws(&sandbox, source));
        let session = sandbox.session().unwrap();
        draw(&session, source);
        for session in [session.clone(), session.fork().unwrap()] {
            let first = draw(&session, source);
            let second = draw(&session, source);
            assert_ne!(first, second);
            session.undo().unwrap();
            assert_eq!(draw(&session, source), second, "{language}");
        }
    }
}

#[test]
fn unseeded_random_numbers_differ_after_undo() {
    for (language, source) in DRAW {
        let session = sandbox(language, |_| {}).session().unwrap();
        draw(&session, source);
        let first = draw(&session, source);
        session.undo().unwrap();
        assert_ne!(draw(&session, source), first, "{language}");
    }
}

#[test]
fn closing_ends_all_handles_and_frees_the_slot() {
    for language in LANGUAGES {
        let engine = lone_engine(None);
        let sandbox = sandbox_on(&engine, language, |policy| policy.limits.session_count = 1);
        let session = sandbox.session().unwrap();
        let other = session.clone();
        set(&session, 1);
        let id = session.checkpoint().unwrap();
        assert!(matches!(session.fork(), Err(ExecuteError::TooManySessions { key: "limits.session_count", .. })));
        session.close().unwrap();
        session.close().unwrap();
        assert_eq!(other.ended().as_deref(), Some("it was closed"));
        assert!(is_ended(other.execute("1")) && is_ended(other.undo()) && is_ended(other.undo_to(id)));
        assert!(is_ended(other.fork()) && is_ended(other.checkpoint()) && is_ended(other.get_variable("x")));
        assert_eq!((session.info().held_bytes, session.info().checkpoints), (0, 0));
        let next = sandbox.session().expect("the closed session frees its place");
        let also = next.clone();
        drop(next);
        assert!(sandbox.session().is_err(), "another handle is still open");
        drop(also);
        assert!(sandbox.session().is_ok());
    }
}

#[test]
fn checkpoints_count_as_session_bytes() {
    let engine = lone_engine(None);
    let sandbox = sandbox_on(&engine, Language::JavaScript, |policy| policy.limits.session_total_bytes = 12 << 20);
    let session = sandbox.session().unwrap();
    let before = session.info().held_bytes;
    assert!(session.execute("var a = new Uint8Array(3 << 20).fill(1); 0").unwrap().is_success());
    session.checkpoint().unwrap();
    let once = session.info().held_bytes - before;
    assert!((6 << 20..8 << 20).contains(&once), "the memory and its copy: {once}");
    session.execute("a[0] = 2").unwrap();
    session.checkpoint().unwrap();
    let twice = session.info().held_bytes - before;
    assert!(twice < once + (1 << 20), "unchanged memory must be shared: {twice}");
    for round in 3..6 {
        session.execute(&format!("a.fill({round})")).unwrap();
        if let Err(error) = session.checkpoint() {
            assert!(
                matches!(error, ExecuteError::TooManySessions { key: "limits.session_total_bytes", .. }),
                "{error}"
            );
            session.execute("a[0]").expect("the session continues without a checkpoint");
            return;
        }
    }
    panic!("{} bytes are held", session.info().held_bytes);
}

#[test]
fn variables_are_read_and_set_from_outside() {
    for language in LANGUAGES {
        let session = sandbox(language, |_| {}).session().unwrap();
        assert_eq!(session.get_variable("x").unwrap(), None);
        for value in [json!(7), json!(null), json!("é\u{1f600}"), json!([1, [2.5, true]]), json!({"a": {"b": []}})] {
            session.set_variable("x", &value).unwrap();
            assert_eq!(session.get_variable("x").unwrap().unwrap().to_json(), Some(value), "{language}");
        }
        session.set_variable("y", &json!(1)).unwrap();
        assert_eq!(session.execute("y + 1").unwrap().value.unwrap().json.as_deref(), Some("2"));
        assert!(matches!(session.set_variable("no name", &json!(1)), Err(ExecuteError::Variable { .. })));
        assert_eq!(session.get_variable("no name").unwrap(), None);
        assert_eq!(session.info().rollbacks, 0);
    }
}

#[test]
fn value_size_is_limited_like_standard_input() {
    for (length, fits) in [(999, true), (1_000, true), (1_001, false)] {
        let session = sandbox(Language::JavaScript, |policy| policy.limits.stdin_bytes = 1_000).session().unwrap();
        // The JSON text has two quotation marks in addition to the characters.
        let result = session.set_variable("x", &json!("a".repeat(length - 2)));
        assert_eq!(result.is_ok(), fits, "{length}");
        assert!(fits || matches!(result, Err(ExecuteError::ValueTooLarge { bytes: 1_001, max: 1_000, .. })));
        assert!(session.execute("1").unwrap().is_success());
    }
}

#[test]
fn a_session_is_opened_with_a_context_and_an_id() {
    for language in LANGUAGES {
        let sandbox = sandbox(language, |_| {});
        let options = SessionOptions::default().id("mine").context(json!({"text": "abc"}));
        let session = sandbox.open_session(options).unwrap();
        assert_eq!(session.id(), "mine");
        assert_eq!(session.execute("context['text']").unwrap().value.unwrap().json.as_deref(), Some("\"abc\""));
        let fork = session.fork_with(SessionOptions::default().context(json!("other"))).unwrap();
        assert_eq!(fork.get_variable("context").unwrap().unwrap().to_json(), Some(json!("other")));
        assert_eq!(session.get_variable("context").unwrap().unwrap().to_json(), Some(json!({"text": "abc"})));
        let refused = sandbox.open_session(SessionOptions::default().id("../mine"));
        assert!(matches!(refused, Err(ExecuteError::SessionId { .. })));
    }
}

#[test]
fn only_sessions_return_values() {
    for language in LANGUAGES {
        let sandbox = sandbox(language, |_| {});
        assert_eq!(sandbox.execute("1 + 1").unwrap().value, None);
        let session = sandbox.session().unwrap();
        assert_eq!(session.execute("1 + 1").unwrap().value.unwrap().repr, "2");
        set(&session, 1);
        let execution = session.execute("1 + 1").unwrap();
        let json = serde_json::to_value(&execution).unwrap();
        assert_eq!((&json["value"], &json["rolled_back_to"]), (&json!({"repr": "2", "json": 2}), &json!(null)));
    }
}
