//! Known attacks, each with the reason why it must fail.

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use glovebox::{ExecuteError, Language, Outcome, Policy, Request, Sandbox, mount::MountError};
use glovebox_tests::{engine, sandbox, short};
use tempfile::TempDir;

fn in_dir(dir: &TempDir) -> Sandbox {
    sandbox(Language::Python, |policy| {
        policy.workspace = Some(dir.path().to_path_buf());
        policy.limits.workspace_bytes = 8 << 20;
        policy.limits.workspace_inodes = 100;
    })
}

fn refused_as_too_large(error: &ExecuteError) -> bool {
    matches!(error, ExecuteError::Commit { source: MountError::TooLarge { .. }, .. })
}

#[test]
fn hard_links_do_not_multiply_what_a_commit_writes() {
    let dir = TempDir::new().unwrap();
    let source = |links: u32| {
        format!(
            "import os\nopen('a', 'wb').write(bytes(1 << 20))\nfor i in range({links}): os.link('a', f'l{{i}}')\n\
             for name in os.listdir('.'):\n    if os.stat(name).st_nlink == 1: os.remove(name)"
        )
    };
    let error = in_dir(&dir).execute(&source(8)).unwrap_err();
    assert!(refused_as_too_large(&error), "over: {error:?}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was written");
    let execution = in_dir(&dir).execute(&source(7)).unwrap();
    assert_eq!((short(&execution.outcome).as_str(), fs::read_dir(dir.path()).unwrap().count()), ("completed", 8), "at");
}

#[test]
fn renamed_host_entries_are_not_copied_beyond_the_quota() {
    let dir = TempDir::new().unwrap();
    fs::File::create(dir.path().join("big")).unwrap().set_len(9 << 20).unwrap();
    let error = in_dir(&dir).execute("import os\nos.rename('big', 'other')").unwrap_err();
    assert!(refused_as_too_large(&error), "{error:?}");
    assert!(dir.path().join("big").exists() && !dir.path().join("other").exists());

    fs::create_dir(dir.path().join("many")).unwrap();
    for number in 0..101 {
        fs::write(dir.path().join(format!("many/{number}")), "").unwrap();
    }
    let error = in_dir(&dir).execute("import os\nos.rename('many', 'other')").unwrap_err();
    assert!(refused_as_too_large(&error), "over: {error:?}");
    fs::remove_file(dir.path().join("many/0")).unwrap();
    in_dir(&dir).execute("import os\nos.rename('many', 'other')").unwrap();
    assert_eq!(fs::read_dir(dir.path().join("other")).unwrap().count(), 100, "at");
}

#[test]
fn guest_after_os_exit_and_failed_commit_is_not_reentered() {
    let dir = TempDir::new().unwrap();
    let session = in_dir(&dir).session().unwrap();
    let source = "import os\nopen('.glovebox-commit-x', 'w').close()\nos._exit(0)";
    let error = session.execute(source).unwrap_err();
    assert!(
        matches!(&error, ExecuteError::Commit { execution, .. } if execution.outcome == Outcome::Exited { code: 0 })
    );
    assert!(session.ended().is_some(), "an unwound guest is never entered again");
    assert!(matches!(session.execute("print(1)"), Err(ExecuteError::SessionEnded { .. })));
}

#[test]
fn session_continues_after_a_failed_commit() {
    let dir = TempDir::new().unwrap();
    let session = in_dir(&dir).session().unwrap();
    session.execute("open('.glovebox-commit-x', 'w').close()\nimport sys\nsys.exit(0)").unwrap_err();
    assert_eq!(session.ended(), None);
    let execution = session.execute("import os\nos.remove('.glovebox-commit-x')\nprint(1)").unwrap();
    assert_eq!((short(&execution.outcome).as_str(), execution.stdout.text().as_ref()), ("completed", "1\n"));
}

#[test]
fn guest_with_a_panicked_output_callback_is_not_reentered() {
    let session = sandbox(Language::Python, |_| {}).session().unwrap();
    let request = Request::new("x = 1\nprint(1, flush=True)").on_output(|_, _| panic!("the embedder's mistake"));
    assert!(catch_unwind(AssertUnwindSafe(|| session.run(request))).is_err());
    let after = session.execute("print('x' in globals())").unwrap();
    assert_eq!(after.stdout.text(), "False\n", "a new guest restored to the state before that execution");
}

#[test]
fn large_memory_fill_ends_at_the_deadline() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("random.wasm");
    let text = r#"(module
        (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
        (memory (export "memory") 16384)
        (func (export "_start") (drop (call $random (i32.const 0) (i32.const 0x3fffffff)))))"#;
    fs::write(&path, wat::parse_str(text).unwrap()).unwrap();
    let mut policy = Policy::default();
    policy.limits.timeout_ms = 100;
    policy.limits.memory_bytes = 2 << 30;
    let sandbox = Sandbox::builder(engine()).runtime_path(path).policy(policy).build().unwrap();
    // Filling a gigabyte takes seconds. Other load can delay an execution, so only the fastest of ten counts.
    let mut fastest = Duration::MAX;
    for _ in 0..10 {
        let execution = sandbox.execute("").unwrap();
        assert_eq!(short(&execution.outcome), "exhausted time");
        fastest = fastest.min(execution.duration);
        if fastest < Duration::from_secs(1) {
            return;
        }
    }
    panic!("the fastest of ten executions took {fastest:?}");
}

#[test]
fn executions_see_no_bytes_of_earlier_ones() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("scan.wasm");
    // The guest exits with 9 unless its memory is all zero, and then fills the memory.
    let text = r#"(module
        (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        (memory (export "memory") 16)
        (global $seen (mut i64) (i64.const 0))
        (func (export "_start") (local $at i32) (local $end i32)
            (drop (memory.grow (i32.const 500)))
            (local.set $end (i32.mul (memory.size) (i32.const 65536)))
            (loop $next
                (global.set $seen (i64.or (global.get $seen) (i64.load (local.get $at))))
                (local.set $at (i32.add (local.get $at) (i32.const 8)))
                (br_if $next (i32.lt_u (local.get $at) (local.get $end))))
            (memory.fill (i32.const 0) (i32.const 0xaa) (local.get $end))
            (if (i64.ne (global.get $seen) (i64.const 0)) (then (call $exit (i32.const 9))))))"#;
    fs::write(&path, wat::parse_str(text).unwrap()).unwrap();
    let sandbox = Sandbox::builder(engine()).runtime_path(path).build().unwrap();
    for _ in 0..20 {
        assert_eq!(sandbox.execute("").unwrap().outcome, Outcome::Completed);
    }
}
