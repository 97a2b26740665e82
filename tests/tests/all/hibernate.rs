//! Tests that hibernated sessions resume, even in another process, and that invalid bytes are rejected.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use glovebox::{
    Commit, Entropy, ExecuteError, HibernateOptions, HibernatedInfo, Language, ResumeError, ResumeOptions, Sandbox,
    Session, SessionKey, SessionOptions, SharedWorkspace,
};
use glovebox_tests::{
    fixed,
    fuzz::{Numbers, forged},
    lone_engine, sandbox, sandbox_on, short, spare_bytes,
};

fn bytes(session: &Session) -> Vec<u8> {
    session.hibernate(&HibernateOptions::default()).unwrap()
}

fn again(sandbox: &Sandbox, bytes: &[u8]) -> Session {
    sandbox.resume(bytes, ResumeOptions::default()).unwrap()
}

fn run(session: &Session, source: &str) -> String {
    let execution = session.execute(source).unwrap();
    assert!(execution.is_success(), "{source}: {:?} {}", execution.outcome, execution.stderr.text());
    execution.stdout.text()
}

/// All kinds of state that persist: variables, functions, classes, imports, closures, suspended generators, open files
/// with their positions, unlinked open files, and directories.
const PERSISTENT_STATE: [(Language, &str, &str, &str); 2] = [
    (
        Language::Python,
        "import json, os\n\
         class Point:\n    def __init__(self, x): self.x = x\n\
         def twice(n): return n * 2\n\
         def counter():\n    count = 0\n    def more():\n        nonlocal count\n        count += 1\n        return count\n    return more\n\
         more = counter(); more()\n\
         numbers = (n * n for n in range(10)); next(numbers); next(numbers)\n\
         os.makedirs('a/b', exist_ok=True)\n\
         f = open('a/b/f.txt', 'w+'); f.write('one two three'); f.seek(4)\n\
         g = open('gone', 'w+'); g.write('unlinked'); g.flush(); os.remove('gone'); g.seek(0)\n\
         p = Point(21)\n",
        "print(p.x, twice(p.x), more(), next(numbers), f.read(), g.read(), sorted(os.listdir('.')), json.dumps({'a': 1}))",
        "21 42 2 4 two three unlinked ['a'] {\"a\": 1}\n",
    ),
    (
        Language::JavaScript,
        "class Point { constructor(x) { this.x = x } }\n\
         function twice(n) { return n * 2 }\n\
         const more = (() => { let count = 0; return () => ++count })(); more()\n\
         function* squares() { for (let n = 0; ; n++) yield n * n }\n\
         const numbers = squares(); numbers.next(); numbers.next()\n\
         const f = std.open('f.txt', 'w+'); f.puts('one two three'); f.seek(4, std.SEEK_SET)\n\
         const p = new Point(21)\n",
        "console.log(p.x, twice(p.x), more(), numbers.next().value, f.readAsString(), os.readdir('.')[0].sort().join())",
        "21 42 2 4 two three .,..,f.txt\n",
    ),
];

#[test]
fn session_state_survives_hibernation() {
    for (language, set, show, shown) in PERSISTENT_STATE {
        let sandbox = sandbox(language, |_| {});
        let session = sandbox.session().unwrap();
        run(&session, set);
        let saved = bytes(&session);
        // The original session continues independently from the same state.
        for other in [again(&sandbox, &saved), session] {
            assert_eq!(run(&other, show), shown, "{language}");
        }
        let third = again(&sandbox, &saved);
        assert_eq!(run(&third, show), shown, "{language}");
        assert_eq!(third.info().executions, 2);
    }
}

/// The environment variable of the child process. Contains the file to resume from and the language.
const CHILD_VARIABLE: &str = "GLOVEBOX_TEST_RESUME";

/// Does nothing unless this process is the child process of another test.
#[test]
fn resume_for_the_test_of_another_process() {
    let Some(path) = std::env::var_os(CHILD_VARIABLE) else {
        return;
    };
    let saved = std::fs::read(path).unwrap();
    let language = HibernatedInfo::read(&saved).unwrap().language;
    let (_, _, show, _) = PERSISTENT_STATE[usize::from(language == Language::JavaScript)];
    print!("shown: {}", run(&again(&sandbox(language, |_| {}), &saved), show));
}

#[test]
fn another_process_resumes_the_session() {
    let dir = tempfile::tempdir().unwrap();
    for (language, set, _, shown) in PERSISTENT_STATE {
        let session = sandbox(language, |_| {}).session().unwrap();
        run(&session, set);
        let path = dir.path().join(language.name());
        let mut file = std::fs::File::create(&path).unwrap();
        session.hibernate_to(&HibernateOptions::default(), &mut file).unwrap();
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["hibernate::resume_for_the_test_of_another_process", "--exact", "--nocapture"])
            .env(CHILD_VARIABLE, &path)
            .output()
            .unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert!(stdout.contains(&format!("shown: {shown}")), "{language}: {stdout}");
    }
}

#[test]
fn equal_sessions_give_equal_bytes() {
    for (language, set, show, _) in PERSISTENT_STATE {
        let sandbox = sandbox(language, fixed);
        let (one, two) = (sandbox.session().unwrap(), sandbox.session().unwrap());
        for session in [&one, &two] {
            run(session, set);
        }
        let saved = bytes(&one);
        assert!(saved == bytes(&one), "{language}: saving must not change the session");
        assert!(saved == bytes(&two), "{language}");
        let resumed = again(&sandbox, &saved);
        assert!(saved == bytes(&resumed), "{language}: resuming must not change the session");
        for session in [&one, &resumed] {
            run(session, show);
        }
        assert!(bytes(&one) == bytes(&resumed), "{language}: both sessions continue identically");
    }
}

const RANDOM: [(Language, &str); 2] = [
    (Language::Python, "import random, os; print(random.random(), os.urandom(8).hex())"),
    (Language::JavaScript, "console.log(Math.random(), Math.random())"),
];

#[test]
fn resumed_session_draws_new_random_numbers() {
    for (language, draw) in RANDOM {
        let sandbox = sandbox(language, |_| {});
        let session = sandbox.session().unwrap();
        run(&session, draw);
        let saved = bytes(&session);
        let drawn: Vec<String> = [again(&sandbox, &saved), again(&sandbox, &saved), session]
            .iter()
            .map(|session| run(session, draw))
            .collect();
        assert!(drawn[0] != drawn[1] && drawn[0] != drawn[2] && drawn[1] != drawn[2], "{language}: {drawn:?}");
    }
}

#[test]
fn seeded_random_numbers_continue_and_forks_differ() {
    for (language, draw) in RANDOM {
        let sandbox = sandbox(language, |policy| policy.entropy = Entropy::Seeded(7));
        let session = sandbox.session().unwrap();
        run(&session, draw);
        let first_fork = run(&session.fork().unwrap(), draw);
        let resumed = again(&sandbox, &bytes(&session));
        let second_fork = run(&resumed.fork().unwrap(), draw);
        let (one, two) = (run(&session, draw), run(&resumed, draw));
        assert_eq!(one, two, "{language}");
        assert!(first_fork != second_fork && first_fork != one && second_fork != one, "{language}");
        // The random stream of a fork also continues.
        let fork = session.fork().unwrap();
        let resumed = again(&sandbox, &bytes(&fork));
        assert_eq!(run(&fork, draw), run(&resumed, draw), "{language}");
    }
}

#[test]
fn resumed_entropy_follows_the_policy() {
    for (language, draw) in RANDOM {
        let seeded = sandbox(language, |policy| policy.entropy = Entropy::Seeded(7));
        let host = sandbox(language, |_| {});
        let session = seeded.session().unwrap();
        run(&session, draw);
        let saved = bytes(&session);
        let (one, two) = (run(&again(&host, &saved), draw), run(&again(&host, &saved), draw));
        assert_ne!(one, two, "{language}");
        let unseeded = bytes(&host.session().unwrap());
        let resumed = again(&seeded, &unseeded);
        let forks = [resumed.fork().unwrap(), resumed.fork().unwrap()];
        assert_ne!(run(&forks[0], draw), run(&forks[1], draw), "{language}");
    }
}

#[test]
fn monotonic_clock_never_decreases() {
    let cases = [
        (Language::Python, "import time; print(time.monotonic_ns())"),
        (Language::JavaScript, "console.log(Math.floor(performance.now() * 1e6))"),
    ];
    for (language, ask) in cases {
        let sandbox = sandbox(language, |_| {});
        let session = sandbox.session().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        let ask = |session: &Session| run(session, ask).trim().parse::<u64>().unwrap();
        let before = ask(&session);
        let resumed = again(&sandbox, &bytes(&session));
        let after = ask(&resumed);
        assert!(after >= before && after - before < 5_000_000_000, "{language}: {before} {after}");
    }
}

#[test]
fn limits_come_from_the_receiving_policy() {
    for (language, _, _, _) in PERSISTENT_STATE {
        let session = sandbox(language, |_| {}).session().unwrap();
        let (grow, write) = match language {
            Language::Python => ("x = b'x' * 30_000_000", "open('f', 'wb').write(b'x' * 1_000_000); open('g', 'w')"),
            Language::JavaScript => (
                "globalThis.x = new Uint8Array(30e6).fill(7)",
                "{ const f = std.open('f', 'w'); f.puts('x'.repeat(1e6)); f.close(); std.open('g', 'w').close() }",
            ),
        };
        run(&session, grow);
        run(&session, write);
        let saved = bytes(&session);
        let memory = HibernatedInfo::read(&saved).unwrap().memory_bytes - spare_bytes(language);
        let with = |edit: &dyn Fn(&mut glovebox::Policy)| {
            sandbox(language, |policy| edit(policy)).resume(&saved, ResumeOptions::default())
        };
        let error = with(&|policy| policy.limits.memory_bytes = memory - 1).unwrap_err();
        assert!(matches!(error, ResumeError::TooLarge { key: "memory_bytes", .. }), "{language}: {error}");
        // Files are charged in addition to memory.
        with(&|policy| policy.limits.memory_bytes = memory).unwrap_err();
        with(&|policy| policy.limits.memory_bytes = memory + (2 << 20)).unwrap();
        let error = with(&|policy| policy.limits.workspace_bytes = 900_000).unwrap_err();
        assert!(matches!(error, ResumeError::Limit { key: "workspace_bytes" }), "{language}: {error}");
        let error = with(&|policy| policy.limits.workspace_inodes = 1).unwrap_err();
        assert!(matches!(error, ResumeError::Limit { key: "workspace_inodes" }), "{language}: {error}");
        with(&|policy| policy.limits.workspace_inodes = 2).unwrap();
        let error = with(&|policy| policy.limits.session_count = 0).unwrap_err();
        assert!(matches!(error, ResumeError::Session(ExecuteError::TooManySessions { .. })), "{error}");
        // The new limits apply to later executions.
        let short_of_fuel = with(&|policy| policy.limits.fuel = 50_000_000).unwrap();
        let source = if language == Language::Python { "while True: pass" } else { "while (true);" };
        assert_eq!(short(&short_of_fuel.execute(source).unwrap().outcome), "exhausted fuel");
    }
}

#[test]
fn shared_workspace_files_are_copied() {
    let [python, javascript] = [Language::Python, Language::JavaScript].map(|language| sandbox(language, |_| {}));
    let shared = SharedWorkspace::new(&python).unwrap();
    let open = |sandbox: &Sandbox| sandbox.open_session(SessionOptions::default().workspace(&shared)).unwrap();
    let (one, two) = (open(&python), open(&javascript));
    run(&one, "f = open('ours', 'w+'); f.write('one'); f.flush(); f.seek(0)");
    run(&two, "std.open('theirs', 'w').puts('two'); const g = std.open('gone', 'w+'); g.puts('g'); os.remove('gone')");
    let saved = bytes(&one);
    run(&two, "std.open('later', 'w').puts('x'); os.remove('theirs')");
    let resumed = again(&python, &saved);
    let look = "import os; print(sorted(os.listdir()), f.read(), open('theirs').read())";
    assert_eq!(run(&resumed, look), "['ours', 'theirs'] one two\n");
    run(&resumed, "os.remove('ours')");
    assert_eq!(run(&one, "import os; print(sorted(os.listdir()), f.read())"), "['later', 'ours'] one\n");
}

#[test]
fn uncommitted_changes_survive_and_are_committed_later() {
    let host = tempfile::tempdir().unwrap();
    std::fs::write(host.path().join("old"), "old").unwrap();
    std::fs::write(host.path().join("other"), "other").unwrap();
    let sandbox = || {
        sandbox(Language::Python, |policy| {
            policy.workspace = Some(host.path().to_owned());
            policy.commit = Commit::OnSuccess;
        })
    };
    let session = sandbox().session().unwrap();
    let execution = session.execute("open('new', 'w').write('new'); open('old', 'w').write('changed'); 1 / 0").unwrap();
    assert_eq!(short(&execution.outcome), "raised ZeroDivisionError");
    let saved = bytes(&session);
    drop(session);
    let read = |name: &str| std::fs::read_to_string(host.path().join(name)).ok();
    assert_eq!((read("new"), read("old").as_deref()), (None, Some("old")));
    std::fs::write(host.path().join("other"), "changed by the host").unwrap();
    let resumed = again(&sandbox(), &saved);
    assert_eq!(run(&resumed, "print(open('other').read(), open('new').read())"), "changed by the host new\n");
    assert_eq!((read("new").as_deref(), read("old").as_deref()), (Some("new"), Some("changed")));
}

#[test]
fn resume_with_other_mounts_names_them() {
    let host = tempfile::tempdir().unwrap();
    let mounted = sandbox(Language::JavaScript, |policy| {
        policy.mounts = vec![format!("{}:/data:ro", host.path().display()).parse().unwrap()];
    });
    let bare = sandbox(Language::JavaScript, |_| {});
    for (from, to) in [(&mounted, &bare), (&bare, &mounted)] {
        let error = to.resume(&bytes(&from.session().unwrap()), ResumeOptions::default()).unwrap_err();
        assert!(matches!(error, ResumeError::Files { .. }), "{error}");
        assert!(error.to_string().contains("/data"), "{error}");
    }
}

#[test]
fn resume_with_another_image_names_it() {
    let python = sandbox(Language::Python, |_| {});
    let javascript = sandbox(Language::JavaScript, |_| {});
    let saved = bytes(&python.session().unwrap());
    let error = javascript.resume(&saved, ResumeOptions::default()).unwrap_err();
    assert!(matches!(error, ResumeError::Image { .. }), "{error}");
    let message = error.to_string();
    for part in [python.image_sha256(), javascript.image_sha256()] {
        assert!(message.contains(part.unwrap()), "{message}");
    }
    for part in [python.runtime_name(), javascript.runtime_name()] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn session_key_is_required_to_resume() {
    let sandbox = sandbox(Language::JavaScript, |_| {});
    let session = sandbox.session().unwrap();
    run(&session, "var x = 42");
    let key = SessionKey::new(&[7; 32]).unwrap();
    let sealed = session.hibernate(&HibernateOptions::default().key(key.clone()).bound_to("one")).unwrap();
    let options = || ResumeOptions::default().key(key.clone());
    let resumed = sandbox.resume(&sealed, options().bound_to("one").id("chosen")).unwrap();
    assert_eq!((run(&resumed, "console.log(x)").as_str(), resumed.id()), ("42\n", "chosen"));
    assert!(matches!(sandbox.resume(&sealed, options()), Err(ResumeError::NotAuthentic)));
    assert!(matches!(sandbox.resume(&sealed, options().bound_to("two")), Err(ResumeError::NotAuthentic)));
    assert!(matches!(sandbox.resume(&sealed, ResumeOptions::default()), Err(ResumeError::KeyMissing)));
    assert!(matches!(sandbox.resume(&bytes(&session), options()), Err(ResumeError::Unauthenticated)));
}

#[test]
fn ended_session_cannot_be_hibernated() {
    let session = sandbox(Language::Python, |_| {}).session().unwrap();
    session.execute("import os; os._exit(3)").unwrap();
    let error = session.hibernate(&HibernateOptions::default()).unwrap_err();
    assert!(error.to_string().contains("has ended"), "{error}");
}

#[test]
fn guest_with_forged_memory_stays_contained() {
    // A page can have any content, because a script could have changed its own interpreter.
    for (language, set, show, _) in PERSISTENT_STATE {
        let sandbox = sandbox(language, |policy| policy.limits.timeout_ms = 2_000);
        let session = sandbox.session().unwrap();
        run(&session, set);
        let saved = bytes(&session);
        let begun = Instant::now();
        let mut outcomes = std::collections::BTreeMap::new();
        let mut resumed = 0;
        let mut numbers = Numbers::new(20_261_122);
        for _ in 0..40 {
            let edits = numbers.bytes(200);
            let forged = forged(&saved, &edits);
            match sandbox.resume(&forged, ResumeOptions::default()) {
                Ok(session) => {
                    resumed += 1;
                    let outcome = session.execute(show).map(|execution| short(&execution.outcome));
                    *outcomes.entry(outcome.unwrap_or_else(|error| format!("{error:.30}"))).or_insert(0) += 1;
                }
                Err(error) => *outcomes.entry(format!("{error:.40}")).or_insert(0) += 1,
            }
        }
        println!("{language}: {outcomes:?} in {:?}", begun.elapsed());
        assert!(resumed > 0, "{language}: no resumed session reached execution: {outcomes:?}");
        assert_eq!(run(&session, "1"), "", "{language}: the real session stays usable");
    }
}

#[test]
fn small_session_hibernates_to_less_than_300_kib() {
    let engine = lone_engine(None);
    for (language, set, show, _) in PERSISTENT_STATE {
        let sandbox = sandbox_on(&engine, language, |_| {});
        let session = sandbox.session().unwrap();
        run(&session, set);
        run(&session, show);
        let (mut hibernate, mut resume) = (Duration::MAX, Duration::MAX);
        let mut saved = Vec::new();
        for _ in 0..10 {
            let begun = Instant::now();
            saved = bytes(&session);
            hibernate = hibernate.min(begun.elapsed());
            let begun = Instant::now();
            again(&sandbox, &saved);
            resume = resume.min(begun.elapsed());
        }
        println!("{language}: {} bytes, hibernated in {hibernate:?}, resumed in {resume:?}", saved.len());
        assert!(saved.len() < 300 << 10, "{language}: {}", saved.len());
    }
}
