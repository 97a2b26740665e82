//! Tests scripts over HTTP: their results equal the engine's JSON results, including the exact fuel.

use glovebox::{Clock, Entropy, Language, Policy, Sandbox};
use glovebox_tests::{bare_engine, portable_runtime};
use libtest_mimic::Failed;
use serde_json::{Value, json};

use super::{FUEL, host::Host};

/// Returns the operator's policy. It fixes the clock and the seed, because a closed provider has neither a clock nor
/// randomness.
fn policy() -> Policy {
    let mut policy = Policy::default();
    policy.limits.fuel = FUEL;
    policy.limits.timeout_ms = 120_000;
    (policy.clock, policy.entropy) = (Clock::Fixed(0), Entropy::Seeded(0));
    policy
}

/// Builds an engine sandbox. Its image has no libraries, like providers' images.
pub(super) fn sandbox(language: Language) -> Sandbox {
    Sandbox::builder(bare_engine())
        .runtime(portable_runtime(language))
        .policy(policy())
        .build()
        .expect("the sandbox can be built")
}

/// Returns the scripts to compare: one for each outcome and each kind of result.
fn scripts(language: Language) -> [&'static str; 7] {
    match language {
        Language::Python => [
            "print(sum(range(101)))",
            "import sys\nprint('x', file=sys.stderr)\nraise ValueError('no')",
            "import sys\nsys.exit(3)",
            "open('out.txt', 'w').write('hi')\nimport os\nos.mkdir('d')",
            "import nothing_of_this_name",
            "def f(:",
            "while True: pass",
        ],
        Language::JavaScript => [
            "console.log([1, 2, 3].map((x) => x * 2).join())",
            "console.error('x'); throw new TypeError('no')",
            "std.exit(3)",
            "std.open('out.txt', 'w').puts('hi'); os.mkdir('d')",
            "require('nothing-of-this-name')",
            "let =",
            "for (;;);",
        ],
    }
}

/// Removes the engine's measurements that a provider without a clock cannot make.
fn without_time(mut execution: Value) -> Value {
    let fields = execution.as_object_mut().expect("an execution is an object");
    fields.insert("duration_ms".into(), 0.0.into());
    execution
}

pub(super) fn results_equal_the_engines(host: &Host, language: Language) -> Result<(), Failed> {
    for source in scripts(language) {
        let body = json!({ "language": language.name(), "source": source, "return_files": ["*.txt"] });
        let mut seen = host.post("/v1/execute", &body).done();
        let fields = seen.as_object_mut().ok_or("no object")?;
        let (files, left_out) = (fields.remove("files"), fields.remove("files_left_out"));
        let expected = sandbox(language).execute(source)?;
        let same = without_time(serde_json::to_value(&expected)?);
        // Memory use depends on the backend.
        for (name, expected) in
            same.as_object().ok_or("no object")?.iter().filter(|(name, _)| *name != "memory_used_bytes")
        {
            assert_eq!(seen.get(name), Some(expected), "`{name}` of {source:?}");
        }
        assert_eq!(seen.as_object().map(serde_json::Map::len), same.as_object().map(serde_json::Map::len), "{seen}");
        let wrote = source.contains("out.txt");
        assert_eq!(files, Some(if wrote { json!({ "out.txt": "aGk=" }) } else { json!({}) }), "{source:?}");
        assert_eq!(left_out, Some(json!(0)));
    }
    Ok(())
}

/// Every field of a request affects the script.
pub(super) fn request_fields_reach_the_script(host: &Host, language: Language) {
    let source = match language {
        Language::Python => {
            "import sys, os\nprint(sys.stdin.read(), context['k'], open('in/a').read(), open('b','rb').read()[0], sys.argv[1], os.environ['E'])"
        }
        Language::JavaScript => {
            "const b = std.open('b', 'rb'); console.log(std.in.readAsString(), context.k, std.loadFile('in/a'), b.getByte(), scriptArgs[1], std.getenv('E'))"
        }
    };
    let body = json!({
        "runtime": portable_runtime(language), "source": source, "name": "a script", "kind": "script", "stdin": "in",
        "context": { "k": [1, 2] }, "files": { "in/a": "text", "b": { "base64": "/w==" } }, "deadline_ms": 60_000,
        "policy": { "limits": { "fuel": FUEL - 1, "stdout_bytes": 1_000 }, "args": ["one"], "env": { "E": "two" } },
    });
    let done = host.post("/v1/execute", &body).done();
    let stdout = match language {
        Language::Python => "in [1, 2] text 255 one two\n",
        Language::JavaScript => "in [ 1, 2 ] text 255 one two\n",
    };
    assert_eq!(done["stdout"], stdout, "{done}");
    assert_eq!(done["guidance"]["fuel"]["limit"], FUEL - 1);
}

/// The response contains the retained output and the number of bytes written.
pub(super) fn long_output_is_truncated(host: &Host, language: Language) {
    let source = match language {
        Language::Python => "print('x' * 5_999_999)",
        Language::JavaScript => "console.log('x'.repeat(5_999_999))",
    };
    let done = host.post("/v1/execute", &json!({ "language": language.name(), "source": source })).done();
    assert_eq!(done["stdout"].as_str().map(str::len), Some(2_000_000));
    assert_eq!((&done["stdout_truncated"], &done["metadata"]["stdout_total_bytes"]), (&json!(true), &json!(6_000_000)));
}

pub(super) fn diagnostics_equal_the_engines(host: &Host, language: Language) -> Result<(), Failed> {
    for source in scripts(language) {
        let body = json!({ "language": language.name(), "source": source });
        let seen = host.post("/v1/validate", &body).done();
        let expected = sandbox(language).validate(source)?;
        assert_eq!(seen, json!({ "diagnostics": expected }), "{source:?}");
    }
    Ok(())
}
