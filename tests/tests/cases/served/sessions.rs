//! Tests sessions whose state the client stores.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use glovebox::{Language, ResumeOptions, SessionKey};
use glovebox_tests::portable_runtime;
use libtest_mimic::Failed;
use serde_json::{Value, json};

use super::{
    KEY, OTHER_KEY, STATE_BYTES,
    host::{Answer, Host},
    scripts::sandbox,
};

/// The scripts for the tests, in one language.
struct SessionScripts {
    assign: &'static str,
    add: &'static str,
    typeof_t: &'static str,
    undefined: &'static str,
    endless: &'static str,
    write: &'static str,
    large: &'static str,
}

fn session_scripts(language: Language) -> SessionScripts {
    match language {
        Language::Python => SessionScripts {
            assign: "t = context['start']\nt",
            add: "t += 2\nt",
            typeof_t: "'t' in globals()",
            undefined: "False",
            endless: "t = 0\nwhile True: pass",
            write: "_ = open('a.txt', 'w').write('hi')",
            large: "import random\nb = random.randbytes(3_000_000)",
        },
        Language::JavaScript => SessionScripts {
            assign: "var t = context.start; t",
            add: "t += 2; t",
            typeof_t: "typeof t",
            undefined: "'undefined'",
            endless: "t = 0; for (;;);",
            write: "{ const f = std.open('a.txt', 'w'); f.puts('hi'); f.close() }",
            large: "var b = Array.from({ length: 700_000 }, () => Math.random())",
        },
    }
}

fn opened(host: &Host, language: Language) -> Value {
    host.post("/v1/sessions", &json!({ "language": language.name(), "context": { "start": 40 } })).done()
}

fn execute(host: &Host, state: &Value, source: &str) -> Answer {
    host.post("/v1/sessions/execute", &json!({ "state": state, "source": source, "return_files": ["*.txt"] }))
}

/// A session's state is part of each answer, and the server keeps none of it.
pub(super) fn state_is_in_each_response(host: &Host, language: Language) -> Result<(), Failed> {
    let scripts = session_scripts(language);
    let new = opened(host, language);
    assert_eq!((&new["language"], &new["runtime"]), (&json!(language.name()), &json!(portable_runtime(language))));
    assert_eq!(new["executions"], 0);
    let assigned = execute(host, &new["state"], scripts.assign).done();
    assert_eq!((&assigned["value"]["repr"], &assigned["session_ended"]), (&json!("40"), &Value::Null));
    assert_eq!(assigned["session_id"], Value::Null);
    let added = execute(host, &assigned["state"], scripts.add).done();
    assert_eq!(added["value"]["json"], 42);
    // An earlier state is as valid as the latest: a client can resume either.
    let again = execute(host, &assigned["state"], scripts.add).done();
    assert_eq!(again["value"], added["value"]);
    let before = execute(host, &new["state"], scripts.typeof_t).done();
    assert_eq!(before["value"]["repr"], scripts.undefined);
    let written = execute(host, &added["state"], scripts.write).done();
    assert_eq!((&written["files"], &written["files_created"]), (&json!({ "a.txt": "aGk=" }), &json!(["a.txt"])));
    // The state has the engine's format and is sealed with the same key.
    let sandbox = sandbox(language);
    let state = BASE64_STANDARD.decode(written["state"].as_str().ok_or("no state")?)?;
    let resumed = sandbox.resume(&state, ResumeOptions::default().key(SessionKey::new(KEY)?))?;
    assert_eq!(resumed.execute(scripts.add)?.value.ok_or("no value")?.repr, "44");
    let back = resumed.hibernate(&glovebox::HibernateOptions::default().key(SessionKey::new(KEY)?))?;
    let back = execute(host, &json!(BASE64_STANDARD.encode(back)), scripts.add).done();
    assert_eq!(back["value"]["json"], 46);
    Ok(())
}

/// A script that is unwound leaves the session unchanged. A script that exits the interpreter ends the session.
pub(super) fn unwound_session_continues_and_exited_session_ends(host: &Host, language: Language) {
    let scripts = session_scripts(language);
    let assigned = execute(host, &opened(host, language)["state"], scripts.assign).done();
    let endless = execute(host, &assigned["state"], scripts.endless).done();
    assert_eq!((&endless["outcome"]["resource"], &endless["exit_code"]), (&json!("fuel"), &json!(137)));
    assert_eq!(endless["rolled_back_to"]["executions_lost"], 0);
    assert_eq!(execute(host, &endless["state"], scripts.add).done()["value"]["json"], 42);
    let left = match language {
        Language::Python => "import os\nos._exit(3)",
        Language::JavaScript => return,
    };
    let ended = execute(host, &assigned["state"], left).done();
    assert_eq!((&ended["outcome"]["code"], &ended["state"]), (&json!(3), &Value::Null));
    assert!(ended["session_ended"].is_string(), "{ended}");
}

/// The server resumes only states that were sealed with its key.
pub(super) fn only_sealed_states_are_resumed(host: &Host, language: Language) -> Result<(), Failed> {
    let state = BASE64_STANDARD.decode(opened(host, language)["state"].as_str().ok_or("no state")?)?;
    let refused = |bytes: &[u8], what: &str| {
        let (status, kind, detail) = execute(host, &json!(BASE64_STANDARD.encode(bytes)), "1").problem();
        assert_eq!((status, kind.as_str()), (409, "not-resumable"), "{what}: {detail}");
        detail
    };
    // Flips one bit in the header, the body or the seal.
    for at in [0, 8, 10, 11, 40, state.len() / 2, state.len() - 33, state.len() - 1] {
        let mut forged = state.clone();
        forged[at] ^= 1;
        refused(&forged, &format!("byte {at}"));
    }
    refused(&state[..state.len() - 1], "cut off");
    refused(&[&state[..], b"x"].concat(), "longer");
    let sandbox = sandbox(language);
    let session = sandbox.session()?;
    let options = glovebox::HibernateOptions::default;
    let others = session.hibernate(&options().key(SessionKey::new(OTHER_KEY)?))?;
    assert!(refused(&others, "another key").contains("not authentic"));
    assert!(refused(&session.hibernate(&options())?, "no key").contains("not sealed"));
    let named = session.hibernate(&options().key(SessionKey::new(KEY)?).bound_to("one"))?;
    assert!(refused(&named, "a stored session of a server").contains("not authentic"));
    Ok(())
}

/// The size of states is limited for both requests and answers.
pub(super) fn state_size_is_limited(host: &Host, language: Language) {
    let new = opened(host, language);
    let (status, kind, detail) = execute(host, &new["state"], session_scripts(language).large).problem();
    assert_eq!((status, kind.as_str()), (500, "unsaved"), "{detail}");
    assert_eq!(
        execute(host, &new["state"], session_scripts(language).assign).done()["value"]["json"],
        40,
        "the previous state must stay valid"
    );
    let over = BASE64_STANDARD.encode(vec![0; STATE_BYTES + 1]);
    let (status, kind, _) = execute(host, &json!(over), "1").problem();
    assert_eq!((status, kind.as_str()), (413, "too-large"));
}
