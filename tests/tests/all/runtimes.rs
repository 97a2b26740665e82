//! Runtimes by name, by path and as plain commands, and the cache shared by processes.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use glovebox::{BuildError, Engine, ExecuteError, Language, Outcome, Request, Sandbox, SandboxBuilder, TrapKind};
use glovebox_tests::{
    Goldens, PORTABLE_PYTHON, engine, is_large, lone_engine, process, sandbox, short, tested_runtimes, whole_matrix,
};
use tempfile::TempDir;

/// A guest program in a file.
fn program(dir: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = dir.path().join(name);
    fs::write(&path, wat::parse_str(text).unwrap()).unwrap();
    path
}

fn custom(path: &Path) -> SandboxBuilder {
    Sandbox::builder(engine()).language(Language::JavaScript).runtime_path(path)
}

const HELLO: &str = r#"(module
    (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
    (memory (export "memory") 1)
    (data (i32.const 8) "hello\0a")
    (data (i32.const 0) "\08\00\00\00\06\00\00\00")
    (func (export "_start")
        (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 20)))
        (call $exit (i32.const 3))))"#;

// scenario: javascript-runtime: Use custom WASM binary
// scenario: javascript-runtime: Use QuickJS WASM binary
// scenario: repl-sandbox: Custom indexURL string
#[test]
fn any_other_binary_runs_as_a_plain_command() {
    let dir = TempDir::new().unwrap();
    let path = program(&dir, "hello.wasm", HELLO);
    let sandbox = custom(&path).build().unwrap();
    assert!(!sandbox.is_prepared());
    for _ in 0..2 {
        let execution = sandbox.execute("whatever").unwrap();
        assert_eq!(execution.outcome, Outcome::Exited { code: 3 });
        assert_eq!(execution.stdout.text(), "hello\n");
        assert!(!execution.metadata.prepared);
        assert_eq!(execution.metadata.version, None);
        assert!(execution.metadata.runtime_name.contains("hello.wasm"), "{}", execution.metadata.runtime_name);
        assert!(
            execution.files_created.is_empty(),
            "the script's own file is no change: {:?}",
            execution.files_created
        );
        assert!(execution.fuel_consumed > 0);
    }
    assert!(matches!(sandbox.session(), Err(ExecuteError::NotPrepared { .. })));
    assert!(matches!(sandbox.validate("x"), Err(ExecuteError::NotPrepared { .. })));
}

// scenario: python-runtime: Capture fuel consumption
// scenario: javascript-runtime: Capture fuel consumption
#[test]
fn fuel_is_the_number_of_instructions_that_were_executed() {
    let dir = TempDir::new().unwrap();
    // Five instructions per iteration.
    for (language, rounds) in [(Language::JavaScript, 100_000), (Language::Python, 200_000)] {
        let body = "(loop (br_if 0 (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))";
        let text = format!(
            "(module (memory (export \"memory\") 1)
                (func (export \"_start\") (local $n i32) (local.set $n (i32.const {rounds})) {body}))"
        );
        let path = program(&dir, "rounds.wasm", &text);
        let mut limits = glovebox::Limits::default();
        limits.fuel = 2_000_000_000;
        let sandbox = Sandbox::builder(engine()).language(language).runtime_path(&path).limits(limits).build().unwrap();
        let fuel = sandbox.execute("").unwrap().fuel_consumed;
        assert!((rounds * 5..rounds * 5 + 100).contains(&fuel), "{language}: {fuel} for {rounds} rounds");
    }
}

#[test]
fn a_plain_command_gets_the_script_as_its_argument() {
    let dir = TempDir::new().unwrap();
    // Prints its arguments, one after the other, as they are in memory.
    let path = program(
        &dir,
        "args.wasm",
        r#"(module
        (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "args_sizes_get" (func $sizes (param i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "args_get" (func $args (param i32 i32) (result i32)))
        (memory (export "memory") 1)
        (func (export "_start")
            (drop (call $sizes (i32.const 100) (i32.const 104)))
            (drop (call $args (i32.const 200) (i32.const 1000)))
            (i32.store (i32.const 0) (i32.const 1000))
            (i32.store (i32.const 4) (i32.load (i32.const 104)))
            (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 20)))))"#,
    );
    let execution = custom(&path).build().unwrap().execute("the source").unwrap();
    assert_eq!(execution.outcome, Outcome::Completed);
    let text = execution.stdout.text();
    let args: Vec<&str> = text.trim_end_matches('\0').split('\0').collect();
    assert!(args.len() >= 2 && args[args.len() - 1].ends_with(".js"), "{args:?}");
}

#[test]
fn every_trap_of_a_guest_is_told_apart() {
    let dir = TempDir::new().unwrap();
    let programs = [
        ("unreachable", "(func (export \"_start\") unreachable)", TrapKind::Unreachable),
        ("stack", "(func $f (export \"_start\") (call $f))", TrapKind::StackOverflow),
        (
            "memory",
            "(memory (export \"memory\") 1) (func (export \"_start\") (drop (i32.load (i32.const -4))))",
            TrapKind::OutOfBounds,
        ),
        ("table", "(table 1 funcref) (func (export \"_start\") (call_indirect (i32.const 5)))", TrapKind::OutOfBounds),
        ("null", "(table 1 funcref) (func (export \"_start\") (call_indirect (i32.const 0)))", TrapKind::BadCall),
        ("zero", "(func (export \"_start\") (drop (i32.div_s (i32.const 1) (i32.const 0))))", TrapKind::Arithmetic),
    ];
    for (name, body, expected) in programs {
        let memory = if body.contains("memory (export") { "" } else { "(memory (export \"memory\") 1)" };
        let path = program(&dir, name, &format!("(module {memory} {body})"));
        let execution = custom(&path).build().unwrap().execute("").unwrap();
        assert_eq!(execution.outcome, Outcome::Trapped { trap: expected }, "{name}");
    }
}

#[test]
fn a_hostile_binary_meets_the_limits() {
    let dir = TempDir::new().unwrap();
    let bodies = [
        ("loop", "(loop $l (br $l))", "exhausted fuel"),
        // Growing by a page for ever: refused, and the loop then uses its fuel.
        ("grow", "(loop $l (drop (memory.grow (i32.const 1))) (br $l))", "exhausted fuel"),
        ("grow_at_once", "(drop (memory.grow (i32.const 65535)))", "completed"),
        ("random", "(loop $l (drop (call $random (i32.const 0) (i32.const 65536))) (br $l))", "exhausted fuel"),
        ("yield", "(loop $l (drop (call $yield)) (br $l))", "exhausted fuel"),
        // A thousand vectors that all name the same 64 KiB.
        (
            "vectors",
            "(loop $l (drop (call $write (i32.const 1) (i32.const 0) (i32.const 8000) (i32.const 0))) (br $l))",
            "exhausted fuel",
        ),
    ];
    for (name, body, expected) in bodies {
        let path = program(
            &dir,
            name,
            &format!(
                "(module
                (import \"wasi_snapshot_preview1\" \"random_get\" (func $random (param i32 i32) (result i32)))
                (import \"wasi_snapshot_preview1\" \"sched_yield\" (func $yield (result i32)))
                (import \"wasi_snapshot_preview1\" \"fd_write\" (func $write (param i32 i32 i32 i32) (result i32)))
                (memory (export \"memory\") 1) (func (export \"_start\") {body}))"
            ),
        );
        let mut limits = glovebox::Limits::default();
        limits.fuel = 20_000_000;
        limits.memory_bytes = 16 << 20;
        let execution = custom(&path).limits(limits).build().unwrap().execute("").unwrap();
        assert_eq!(short(&execution.outcome), expected, "{name}");
        assert!(execution.memory_used_bytes <= 16 << 20, "{name}: {}", execution.memory_used_bytes);
        assert!(execution.duration < Duration::from_secs(5), "{name}: {:?}", execution.duration);
    }
}

#[test]
fn a_start_function_that_does_not_end_is_stopped_and_named() {
    let dir = TempDir::new().unwrap();
    let starts = [("loops", "(loop (br 0))", "Deadline"), ("traps", "unreachable", "Unreachable")];
    for (name, body, how) in starts {
        let text =
            format!("(module (memory (export \"memory\") 1) (func $s {body}) (func (export \"_start\")) (start $s))");
        let path = program(&dir, name, &text);
        let mut limits = glovebox::Limits::default();
        limits.timeout_ms = 200;
        let error = custom(&path).limits(limits).build().unwrap().execute("").unwrap_err().to_string();
        assert!(error.contains("could not be started") && error.contains(how), "{error}");
    }
}

#[test]
fn what_is_no_usable_binary_is_an_error_that_names_it() {
    let dir = TempDir::new().unwrap();
    let text = dir.path().join("text.wasm");
    fs::write(&text, "not wasm").unwrap();
    let imports = program(
        &dir,
        "imports.wasm",
        "(module (import \"env\" \"x\" (func)) (memory (export \"memory\") 1) (func (export \"_start\")))",
    );
    let component = dir.path().join("component.wasm");
    fs::write(&component, b"\0asm\x0d\0\x01\0").unwrap();
    for path in [&text, &imports, &component, &dir.path().to_path_buf()] {
        let error =
            custom(path).build().map(|sandbox| sandbox.execute("").map(drop)).map(|ran| ran.unwrap_err().to_string());
        let error = error.unwrap_or_else(|error| chain(&error));
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(error.contains(name), "`{name}` is not named: {error}");
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

// scenario: python-runtime: Validate WASM binary exists
// scenario: javascript-runtime: Validate WASM binary exists
// scenario: javascript-runtime: Handle missing binary gracefully
#[test]
fn a_missing_binary_is_named_with_a_way_out() {
    let error = chain(&custom(Path::new("/no/such/dir/python-custom.wasm")).build().unwrap_err());
    assert!(error.contains("/no/such/dir/python-custom.wasm"), "{error}");
    assert!(error.contains("type `glovebox runtimes fetch`"), "it says what to do: {error}");
}

// scenario: python-runtime: Use default WASM binary
// scenario: javascript-runtime: Use default WASM binary
// scenario: javascript-runtime: Use QuickJS WASM binary
// scenario: javascript-runtime: Include runtime in metadata
// scenario: javascript-runtime: Inherit from BaseSandbox
// scenario: python-runtime: Reuse existing host layer logic
// scenario: python-runtime: Provide shared initialization
// scenario: quickjs-prd: 4.2 step 1, locate the runtime
// scenario: add-javascript-change: What Changes, the factory makes JavaScript sandboxes
// scenario: repl-sandbox: Create with config
#[test]
fn each_language_has_its_default_runtime() {
    for language in Language::ALL {
        let default: Vec<_> =
            engine().runtimes().unwrap().into_iter().filter(|info| info.language == language && info.default).collect();
        let [default] = default.as_slice() else { panic!("one default for {language}, not {default:?}") };
        let sandbox = Sandbox::builder(engine()).language(language).build().unwrap();
        let execution = sandbox.execute("").unwrap();
        assert_eq!(execution.metadata.runtime_name, default.name);
        assert_eq!(execution.metadata.runtime, language);
        assert_eq!(execution.metadata.version.as_deref(), Some(default.version.as_str()));
        assert!(execution.metadata.prepared);
    }
}

#[test]
fn a_languages_name_chooses_its_default_and_every_other_name_a_runtime() {
    let named = |name| Sandbox::builder(engine()).named(name).build().map(|it| it.runtime_name().to_owned());
    // The default of these tests; to the manifest `python` is another runtime's alias.
    assert_eq!(named("python").unwrap(), PORTABLE_PYTHON);
    for (name, expected) in [("javascript", "javascript"), ("quickjs", "javascript"), ("cpython-3.12", "python-3.12")] {
        assert_eq!(named(name).unwrap(), expected, "{name}");
    }
    for name in ["py", "Python", "cobol", ""] {
        assert!(matches!(named(name), Err(BuildError::Runtime(_))), "{name}");
    }
}

#[test]
fn a_runtime_that_was_added_is_its_languages_until_it_is_removed() {
    let dir = bare_cache_of("javascript-0.11");
    let used = |engine: &Engine| {
        let sandbox = Sandbox::builder(engine).language(Language::JavaScript).build().unwrap();
        sandbox.execute("").unwrap().metadata.runtime_name
    };
    let adding = another(dir.path());
    adding.add_runtime("quickjs-0.11").unwrap_err();
    let image = adding.add_runtime("javascript-0.11").unwrap();
    assert_eq!(used(&adding), "javascript-0.11", "nobody had asked this engine before");
    let later = another(dir.path());
    assert_eq!(later.prepare("javascript-0.11").unwrap().image_sha256, image.image_sha256);
    assert_eq!(used(&later), "javascript-0.11");
    let told: Vec<_> = later.runtimes().unwrap().into_iter().filter(|info| info.added || info.default).collect();
    let told: Vec<_> = told.iter().map(|info| (info.name.as_str(), info.added, info.default)).collect();
    assert_eq!(told, [(PORTABLE_PYTHON, false, true), ("javascript-0.11", true, true)]);
    assert!(adding.remove("javascript-0.11").unwrap() > 0);
    let default = another(dir.path())
        .runtimes()
        .unwrap()
        .into_iter()
        .find(|info| info.default && info.language == Language::JavaScript);
    assert_eq!(default.unwrap().name, "javascript");
    assert_eq!(used(&later), "javascript-0.11", "a program that runs goes on as it began");
}

// scenario: python-runtime: Use custom WASM binary
// scenario: quickjs-prd: 4.1 the published QuickJS-NG binary, pinned
#[test]
fn every_runtime_of_the_manifest_says_hello() {
    for info in tested_runtimes() {
        let sandbox = Sandbox::builder(engine()).runtime(&info.name).build().unwrap();
        let source = match info.language {
            Language::Python => "print('hello', 1 + 1)",
            Language::JavaScript => "console.log('hello', 1 + 1)",
        };
        let execution = sandbox.execute(source).unwrap();
        assert_eq!(execution.stdout.text(), "hello 2\n", "{}: {}", info.name, execution.stderr.text());
        assert_eq!(execution.outcome, Outcome::Completed, "{}", info.name);
        // A known binary by its path is the same runtime.
        let by_path = Sandbox::builder(engine())
            .language(info.language)
            .runtime_path(engine().fetch(&info.name).unwrap())
            .build()
            .unwrap();
        assert_eq!(by_path.is_prepared(), sandbox.is_prepared(), "{}", info.name);
        assert_eq!(by_path.execute(source).unwrap().stdout.text(), "hello 2\n", "{}", info.name);
    }
}

// scenario: quickjs-prd: FR-JS-FS-2
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
                // The reactor build has no command to boot; the command build supports both.
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
fn an_unprepared_failure_is_a_failure() {
    let sandbox = Sandbox::builder(engine()).language(Language::Python).prepared(false).build().unwrap();
    let execution = sandbox.execute("raise ValueError('x')").unwrap();
    assert!(!execution.is_success());
    assert_eq!(execution.outcome.exit_code(), 1);
    assert!(execution.stderr.text().contains("ValueError: x"));
}

/// A cache with only the default JavaScript binary, the smallest, and nothing prepared.
fn bare_cache() -> TempDir {
    bare_cache_of("javascript")
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

fn prepared_files(cache: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![cache.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|extension| extension == "cwasm") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn processes_share_one_cache() {
    if let Some(cache) = process::child_task() {
        let sandbox = Sandbox::builder(&another(Path::new(&cache))).language(Language::JavaScript).build().unwrap();
        let execution = sandbox.execute("console.log('from the child')").unwrap();
        assert_eq!(execution.stdout.text(), "from the child\n");
        return;
    }
    let dir = bare_cache();
    let task = dir.path().to_str().unwrap();
    // Three at once, with nothing prepared: all run, and one image exists afterwards.
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let output = process::run_child("runtimes::processes_share_one_cache", task, Duration::from_secs(120));
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
            });
        }
    });
    let first = prepared_files(dir.path());
    assert_eq!(first.len(), 2, "the code and an image of it: {first:?}");
    let made = |path: &PathBuf| fs::metadata(path).unwrap().modified().unwrap();
    let times: Vec<_> = first.iter().map(made).collect();
    let output = process::run_child("runtimes::processes_share_one_cache", task, Duration::from_secs(120));
    assert!(output.status.success());
    assert_eq!(prepared_files(dir.path()), first);
    assert_eq!(first.iter().map(made).collect::<Vec<_>>(), times, "nothing was made again");
}

/// The images' identities are pinned: a change that goes unnoticed would invalidate fuel figures and saved sessions.
#[test]
fn preparing_again_gives_the_same_image() {
    let mut seen = BTreeMap::new();
    for info in tested_runtimes().into_iter().filter(|info| !is_large(info) || whole_matrix()) {
        let dir = bare_cache_of(&info.name);
        let again = another(dir.path()).prepare(&info.name).unwrap();
        assert_eq!(again.image_sha256, engine().prepare(&info.name).unwrap().image_sha256, "{}", info.name);
        seen.insert(info.name, again.image_sha256);
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens/images.toml");
    let mut held: BTreeMap<String, String> = toml::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    if Goldens::blessing() {
        held.extend(seen);
        fs::write(path, toml::to_string(&held).unwrap()).unwrap();
        return;
    }
    // The large ones are held where all is tested.
    held.retain(|name, _| seen.contains_key(name));
    assert_eq!(seen, held, "run with BLESS=1 where the boot code or a binary was changed on purpose");
}

#[test]
fn the_duration_does_not_count_preparing() {
    let dir = bare_cache();
    let begun = Instant::now();
    let sandbox = Sandbox::builder(&another(dir.path())).language(Language::JavaScript).build().unwrap();
    let execution = sandbox.execute("console.log(1)").unwrap();
    assert!(execution.duration < begun.elapsed() / 4, "{:?} of {:?}", execution.duration, begun.elapsed());
}

/// The output of a script in an engine over `cache` that has not loaded anything yet.
fn prints_one(cache: &Path) -> Result<String, BuildError> {
    let sandbox = Sandbox::builder(&another(cache)).language(Language::JavaScript).build()?;
    Ok(sandbox.execute("console.log(1)").unwrap().stdout.text())
}

#[test]
fn a_damaged_image_is_not_run() {
    let dir = bare_cache();
    assert_eq!(prints_one(dir.path()).unwrap(), "1\n");
    for nth in [0, 1] {
        // The code, and the image.
        let file = prepared_files(dir.path()).remove(nth);
        let bytes = fs::read(&file).unwrap();
        // Truncated, as by a full disk.
        fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
        let error = chain(&prints_one(dir.path()).unwrap_err());
        assert!(error.contains("damaged") && error.contains("runtimes remove"), "{error}");
        // The error's advice can be followed, and helps.
        let engine = another(dir.path());
        assert!(engine.runtimes().is_ok());
        assert!(engine.clear_prepared().unwrap() > 0);
        assert_eq!(prints_one(dir.path()).unwrap(), "1\n");
    }
}

#[test]
fn an_image_that_others_may_write_to_is_not_run() {
    let dir = bare_cache();
    assert_eq!(prints_one(dir.path()).unwrap(), "1\n");
    for file in prepared_files(dir.path()) {
        let set = |mode| {
            let mut permissions = fs::metadata(&file).unwrap().permissions();
            std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, mode);
            fs::set_permissions(&file, permissions).unwrap();
        };
        set(0o666);
        let error = chain(&prints_one(dir.path()).unwrap_err());
        assert!(error.contains(file.file_name().unwrap().to_str().unwrap()) && error.contains("chmod"), "{error}");
        set(0o400);
        assert_eq!(prints_one(dir.path()).unwrap(), "1\n");
    }
}

#[test]
fn the_sandbox_of_one_language_refuses_the_others_runtime() {
    let error =
        Sandbox::builder(engine()).language(Language::Python).runtime("javascript").build().unwrap_err().to_string();
    assert!(error.contains("javascript") && error.contains("python"), "{error}");
    let error = chain(&Sandbox::builder(engine()).runtime("ruby").build().unwrap_err());
    assert!(error.contains("ruby") && error.contains("python"), "the known ones are listed: {error}");
    drop(sandbox(Language::Python, |_| {}));
}
