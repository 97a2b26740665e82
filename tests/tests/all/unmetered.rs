//! Tests that code without fuel counting behaves like metered code, and that all other limits apply to it.

use glovebox::{
    CancelToken, Execution, HibernateOptions, Language, Metering, Outcome, Policy, Request, Resource, ResumeOptions,
    Sandbox,
};
use glovebox_component_host::{HostError, SandboxHost};
use glovebox_tests::{engine, sandbox, short};

const LANGUAGES: [Language; 2] = [Language::Python, Language::JavaScript];

/// Returns a sandbox whose fuel limit would end any script immediately if fuel were counted.
fn unmetered(language: Language, edit: impl FnOnce(&mut Policy)) -> Sandbox {
    sandbox(language, |policy| {
        policy.metering = Metering::None;
        policy.limits.fuel = 1;
        edit(policy);
    })
}

/// Returns the source for a language.
fn in_language(language: Language, python: &'static str, javascript: &'static str) -> &'static str {
    match language {
        Language::Python => python,
        Language::JavaScript => javascript,
    }
}

fn outcome_of(execution: &Execution) -> Option<Resource> {
    match execution.outcome {
        Outcome::Exhausted { resource, .. } => Some(resource),
        _ => None,
    }
}

#[test]
fn unmetered_script_behaves_alike_and_reports_no_fuel() {
    for language in LANGUAGES {
        let source = in_language(
            language,
            "import random\nopen('f', 'w').write('x' * 100)\nprint(random.random(), sum(range(100)))",
            "std.open('f', 'w').puts('x'.repeat(100));\nconsole.log(Math.random(), [1, 2].map((x) => x * 2));",
        );
        let seeded = |policy: &mut Policy| policy.entropy = glovebox::Entropy::Seeded(7);
        let counted = sandbox(language, seeded).execute(source).unwrap();
        let sandbox = unmetered(language, seeded);
        // The first run uses a new instance, the second a recycled one.
        for _ in 0..2 {
            let execution = sandbox.execute(source).unwrap();
            assert_eq!(short(&execution.outcome), "completed", "{language}: {}", execution.stderr.text());
            assert_eq!(execution.stdout.text(), counted.stdout.text());
            assert_eq!(execution.files_created, counted.files_created);
            assert_eq!((execution.metadata.metering, execution.fuel_consumed), (Metering::None, 0));
            assert_eq!(execution.metadata.image_sha256, counted.metadata.image_sha256);
        }
        assert_eq!(counted.metadata.metering, Metering::Fuel);
        assert!(counted.fuel_consumed > 0);
        assert_eq!(sandbox.validate("(").unwrap().len(), 1);
    }
}

#[test]
fn deadline_ends_an_unmetered_loop() {
    for language in LANGUAGES {
        let source = in_language(language, "while True: pass", "for (;;) {}");
        let limited =
            |timeout_ms| unmetered(language, |policy| policy.limits.timeout_ms = timeout_ms).execute(source).unwrap();
        // On a slow machine, a short timeout can pass before the script begins. In that case, the script is not
        // interrupted.
        let mut execution = limited(2_000);
        for timeout_ms in [20_000, 200_000] {
            if execution.interrupted.is_none() {
                execution = limited(timeout_ms);
            }
        }
        assert_eq!(outcome_of(&execution), Some(Resource::Time), "{:?}", execution.outcome);
        assert!(execution.interrupted.is_some(), "{language}");
    }
    // Tests only Python, because JavaScript cannot catch the interruption.
    let deaf = "while True:\n  try:\n    while True:\n      pass\n  except BaseException:\n    pass";
    let forced = unmetered(Language::Python, |policy| policy.limits.timeout_ms = 1_000).execute(deaf).unwrap();
    assert_eq!(outcome_of(&forced), Some(Resource::Time), "{:?}", forced.outcome);
    assert_eq!(forced.interrupted, None);
}

#[test]
fn deadline_ends_host_work() {
    let source = "import os\nwhile True: os.urandom(1 << 20)";
    let execution = unmetered(Language::Python, |policy| policy.limits.timeout_ms = 1_000).execute(source).unwrap();
    assert_eq!(outcome_of(&execution), Some(Resource::Time), "{:?}", execution.outcome);
}

#[test]
fn memory_and_recursion_are_limited() {
    for language in LANGUAGES {
        let sandbox = unmetered(language, |policy| policy.limits.timeout_ms = 60_000);
        let much = in_language(
            language,
            "a = []\nwhile True: a.append(bytes(1 << 20))",
            "const a = []; for (;;) a.push(new Uint8Array(1 << 20));",
        );
        let execution = sandbox.execute(much).unwrap();
        assert_eq!(outcome_of(&execution), Some(Resource::Memory), "{:?}", execution.outcome);
        let deep = in_language(language, "def f(): f()\nf()", "function f() { f(); } f();");
        assert!(matches!(sandbox.execute(deep).unwrap().outcome, Outcome::Raised(_)), "{language}");
        assert_eq!(short(&sandbox.execute("").unwrap().outcome), "completed");
    }
}

#[test]
fn a_loop_is_cancelled() {
    for language in LANGUAGES {
        let sandbox = unmetered(language, |policy| {
            policy.limits.timeout_ms = 600_000;
            policy.limits.timeout_reserve_ms = 60_000;
        });
        let token = CancelToken::new();
        let other = token.clone();
        let source =
            in_language(language, "print('on', flush=True)\nwhile True: pass", "console.log('on'); for (;;) {}");
        let request = Request::new(source).cancel(&token).on_output(move |_, _| other.cancel());
        let execution = sandbox.run(request).unwrap();
        assert_eq!(execution.outcome, Outcome::Cancelled);
        assert!(execution.interrupted.is_some(), "{language}");
    }
}

#[test]
fn session_moves_between_metered_and_unmetered() {
    for language in LANGUAGES {
        let (plain, counted) = (unmetered(language, |_| ()), sandbox(language, |_| ()));
        let session = plain.session().unwrap();
        session.execute("a = [1]").unwrap();
        let saved = session.hibernate(&HibernateOptions::default()).unwrap();
        let session = counted.resume(&saved, ResumeOptions::default()).unwrap();
        let push = in_language(language, "a.append(2)", "a.push(2)");
        assert!(session.execute(push).unwrap().fuel_consumed > 0);
        let saved = session.hibernate(&HibernateOptions::default()).unwrap();
        let session = plain.resume(&saved, ResumeOptions::default()).unwrap();
        let execution = session.execute("a").unwrap();
        assert_eq!((execution.fuel_consumed, execution.metadata.metering), (0, Metering::None));
        assert_eq!(session.get_variable("a").unwrap().unwrap().json.unwrap().replace(' ', ""), "[1,2]");
    }
}

#[test]
fn types_are_removed_without_fuel() {
    let sandbox = unmetered(Language::JavaScript, |_| ());
    let execution = sandbox.run(Request::new("const a: number = 1; console.log(a);").name("a.ts")).unwrap();
    assert_eq!((execution.stdout.text(), execution.fuel_consumed), ("1\n".into(), 0));
    let wrong = sandbox.run(Request::new("enum A { B }").name("a.ts")).unwrap();
    assert!(matches!(wrong.outcome, Outcome::Raised(_)), "{:?}", wrong.outcome);
}

#[test]
fn components_require_metering() {
    let mut policy = Policy::default();
    policy.metering = Metering::None;
    let error = SandboxHost::builder(engine()).policy(policy).build().unwrap_err();
    assert!(matches!(error, HostError::Unmetered), "{error}");
}

#[test]
fn policy_file_selects_metering() {
    assert_eq!(Policy::from_toml("metering = \"none\"").unwrap().metering, Metering::None);
    assert_eq!(Policy::from_toml("").unwrap().metering, Metering::Fuel);
    assert!(Policy::default().to_toml().unwrap().contains("metering = \"fuel\""));
    Policy::from_toml("metering = \"time\"").unwrap_err();
}
