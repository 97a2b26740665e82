//! Tests runtimes by name, by path and as plain commands, and the cache shared by processes.

mod binaries;
mod caches;

use std::{fs, path::Path};

use glovebox::{BuildError, Engine, Language, Outcome, Request, Sandbox};
use glovebox_tests::{PORTABLE_PYTHON, engine, lone_engine, sandbox, short, tested_runtimes};
use tempfile::TempDir;

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

fn bare_cache_of(name: &str) -> TempDir {
    let dir = TempDir::new().unwrap();
    let from = engine().fetch(name).unwrap();
    let fresh = another(dir.path());
    let to = fresh.runtime_path(name).unwrap();
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::copy(from, &to).unwrap();
    for path in [to.parent().unwrap(), to.as_path()] {
        let mut permissions = fs::metadata(path).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, if path.is_dir() { 0o700 } else { 0o600 });
        fs::set_permissions(path, permissions).unwrap();
    }
    dir
}

fn another(cache: &Path) -> Engine {
    lone_engine(Some(cache.to_path_buf()))
}

#[test]
fn each_language_has_its_default_runtime() {
    for language in Language::ALL {
        let default: Vec<_> =
            engine().runtimes().unwrap().into_iter().filter(|info| info.language == language && info.default).collect();
        let [default] = default.as_slice() else { panic!("expected one default for {language}, got {default:?}") };
        let sandbox = Sandbox::builder(engine()).language(language).build().unwrap();
        let execution = sandbox.execute("").unwrap();
        assert_eq!(execution.metadata.runtime_name, default.name);
        assert_eq!(execution.metadata.runtime, language);
        assert_eq!(execution.metadata.version.as_deref(), Some(default.version.as_str()));
        assert!(execution.metadata.prepared);
    }
}

#[test]
fn language_name_selects_the_default_runtime() {
    let named = |name| Sandbox::builder(engine()).named(name).build().map(|it| it.runtime_name().to_owned());
    // The tests' engine configures its own default. In the manifest, `python` is an alias of another runtime.
    assert_eq!(named("python").unwrap(), PORTABLE_PYTHON);
    for (name, expected) in [("javascript", "javascript"), ("quickjs", "javascript"), ("cpython-3.12", "python-3.12")] {
        assert_eq!(named(name).unwrap(), expected, "{name}");
    }
    for name in ["py", "Python", "cobol", ""] {
        assert!(matches!(named(name), Err(BuildError::Runtime(_))), "{name}");
    }
}

#[test]
fn added_runtime_is_the_default_until_removed() {
    let dir = bare_cache_of("javascript-0.11");
    let used = |engine: &Engine| {
        let sandbox = Sandbox::builder(engine).language(Language::JavaScript).build().unwrap();
        sandbox.execute("").unwrap().metadata.runtime_name
    };
    let adding = another(dir.path());
    adding.add_runtime("quickjs-0.11").unwrap_err();
    let image = adding.add_runtime("javascript-0.11").unwrap();
    assert_eq!(used(&adding), "javascript-0.11", "the engine had not been used before");
    let later = another(dir.path());
    assert_eq!(later.prepare("javascript-0.11").unwrap().image_sha256, image.image_sha256);
    assert_eq!(used(&later), "javascript-0.11");
    let listed: Vec<_> = later.runtimes().unwrap().into_iter().filter(|info| info.added || info.default).collect();
    let listed: Vec<_> = listed.iter().map(|info| (info.name.as_str(), info.added, info.default)).collect();
    assert_eq!(listed, [(PORTABLE_PYTHON, false, true), ("javascript-0.11", true, true)]);
    assert!(adding.remove("javascript-0.11").unwrap() > 0);
    let default = another(dir.path())
        .runtimes()
        .unwrap()
        .into_iter()
        .find(|info| info.default && info.language == Language::JavaScript);
    assert_eq!(default.unwrap().name, "javascript");
    assert_eq!(used(&later), "javascript-0.11", "a running engine keeps its default");
}

#[test]
fn every_runtime_of_the_manifest_runs() {
    for info in tested_runtimes() {
        let sandbox = Sandbox::builder(engine()).runtime(&info.name).build().unwrap();
        let source = match info.language {
            Language::Python => "print('hello', 1 + 1)",
            Language::JavaScript => "console.log('hello', 1 + 1)",
        };
        let execution = sandbox.execute(source).unwrap();
        assert_eq!(execution.stdout.text(), "hello 2\n", "{}: {}", info.name, execution.stderr.text());
        assert_eq!(execution.outcome, Outcome::Completed, "{}", info.name);
        // A known binary that is given by path is the same runtime.
        let by_path = Sandbox::builder(engine())
            .language(info.language)
            .runtime_path(engine().fetch(&info.name).unwrap())
            .build()
            .unwrap();
        assert_eq!(by_path.is_prepared(), sandbox.is_prepared(), "{}", info.name);
        assert_eq!(by_path.execute(source).unwrap().stdout.text(), "hello 2\n", "{}", info.name);
    }
}

#[test]
fn unprepared_runs_give_the_same_output() {
    let scripts = [
        (
            Language::Python,
            "import sys\nprint('out', sys.argv[1:])\nprint('err', file=sys.stderr)\nopen('/app/f', 'w').write('x')\nsys.exit(4)",
            "exited 4",
        ),
        (Language::Python, "print(input() + '!')", "completed"),
        (
            Language::JavaScript,
            "console.log('out'); const f = std.open('/app/f', 'w'); f.puts('x'); f.close(); std.exit(4)",
            "exited 4",
        ),
    ];
    for (language, source, expected) in scripts {
        let mut seen = Vec::new();
        for prepared in [true, false] {
            let mut builder = Sandbox::builder(engine()).language(language).prepared(prepared);
            if language == Language::JavaScript {
                // The reactor build has no command to boot, but the command build supports both.
                let command = engine()
                    .runtimes()
                    .unwrap()
                    .into_iter()
                    .find(|info| info.language == language && !info.default)
                    .unwrap();
                builder = builder.runtime(command.name);
            }
            let execution = builder.build().unwrap().run(Request::new(source).stdin(b"line\n")).unwrap();
            assert_eq!(execution.metadata.prepared, prepared);
            assert_eq!(
                short(&execution.outcome),
                expected,
                "{language} prepared={prepared}: {}",
                execution.stderr.text()
            );
            seen.push((execution.stdout.text(), execution.stderr.text(), execution.files_created.clone()));
        }
        assert_eq!(seen[0], seen[1], "{language} {source:?}");
    }
}

#[test]
fn unprepared_runs_report_failures() {
    let sandbox = Sandbox::builder(engine()).language(Language::Python).prepared(false).build().unwrap();
    let execution = sandbox.execute("raise ValueError('x')").unwrap();
    assert!(!execution.is_success());
    assert_eq!(execution.outcome.exit_code(), 1);
    assert!(execution.stderr.text().contains("ValueError: x"));
}

#[test]
fn sandbox_rejects_a_runtime_of_the_other_language() {
    let error =
        Sandbox::builder(engine()).language(Language::Python).runtime("javascript").build().unwrap_err().to_string();
    assert!(error.contains("javascript") && error.contains("python"), "{error}");
    let error = chain(&Sandbox::builder(engine()).runtime("ruby").build().unwrap_err());
    assert!(error.contains("ruby") && error.contains("python"), "the error must list the known runtimes: {error}");
    drop(sandbox(Language::Python, |_| {}));
}
