//! Tests that a used instance runs the next script like a new one: it is restored to its image, or dropped.
//!
//! Every conformance case and hostile script also compares the recycled instance with the image, byte by byte.

use glovebox::{BuildError, Engine, ExecuteError, Language, Policy, Request, Sandbox};
use glovebox_tests::{engine_config, fixed, lone_engine, sandbox_on, short};

/// Returns an engine with its own pool of `instance_count` instances.
fn pooled(instance_count: u32) -> Engine {
    let mut config = engine_config();
    config.pool.as_mut().unwrap().instance_count = instance_count;
    Engine::new(config).unwrap()
}

fn print_one(language: Language) -> &'static str {
    match language {
        Language::Python => "print(1)",
        Language::JavaScript => "console.log(1)",
    }
}

fn waiting(sandbox: &Sandbox) -> usize {
    sandbox.compare_recycled().unwrap()
}

#[test]
fn completed_instance_is_restored_and_reused() {
    for language in Language::ALL {
        let sandbox = sandbox_on(&pooled(8), language, fixed);
        assert_eq!(waiting(&sandbox), 0);
        let first = sandbox.execute(print_one(language)).unwrap();
        assert_eq!(waiting(&sandbox), 1, "{language}");
        for _ in 0..50 {
            let again = sandbox.execute(print_one(language)).unwrap();
            let seen = (again.stdout.text(), again.fuel_consumed, again.memory_used_bytes);
            assert_eq!(seen, (first.stdout.text(), first.fuel_consumed, first.memory_used_bytes), "{language}");
            assert_eq!(waiting(&sandbox), 1, "{language}");
        }
    }
}

#[test]
fn instance_is_reused_after_an_exception_or_exit() {
    let sandbox = sandbox_on(&pooled(8), Language::Python, fixed);
    for source in ["import builtins; builtins.print = None; 1 / 0", "import json; json.loads = 1; raise SystemExit(3)"]
    {
        sandbox.execute(source).unwrap();
        assert_eq!(waiting(&sandbox), 1, "{source}");
        assert_eq!(sandbox.execute("print(1)").unwrap().stdout.text(), "1\n");
    }
}

#[test]
fn instance_is_reused_after_validation() {
    for language in Language::ALL {
        let sandbox = sandbox_on(&pooled(8), language, fixed);
        let first = sandbox.execute(print_one(language)).unwrap();
        for source in ["1 +", "x = 1", "'\u{e9}' + \"", &"(".repeat(10_000)] {
            let diagnostics = sandbox.validate(source).unwrap();
            assert_eq!(diagnostics.is_empty(), source == "x = 1", "{diagnostics:?}");
            assert_eq!(waiting(&sandbox), 1, "{language}: {source:.20}");
            assert_eq!(sandbox.execute(print_one(language)).unwrap().fuel_consumed, first.fuel_consumed);
        }
    }
}

#[test]
fn unwound_exited_or_grown_instance_is_dropped() {
    let limits = |policy: &mut Policy| {
        fixed(policy);
        policy.limits.fuel = 200_000_000;
        policy.limits.memory_bytes = 512 << 20;
    };
    let cases = [
        (Language::Python, "while True: pass", "exhausted fuel"),
        (Language::Python, "import os; os._exit(1)", "exited 1"),
        (Language::Python, "x = bytearray(64 << 20)", "completed"),
        (Language::JavaScript, "for (;;);", "exhausted fuel"),
        (Language::JavaScript, "var x = new ArrayBuffer(64 << 20)", "completed"),
    ];
    for (language, source, outcome) in cases {
        let sandbox = sandbox_on(&pooled(8), language, limits);
        assert_eq!(short(&sandbox.execute(source).unwrap().outcome), outcome, "{source}");
        assert_eq!(waiting(&sandbox), 0, "{source}");
    }
}

/// The bound is 2 MiB of pages. Restoring an instance with more private pages costs more than creating a new one.
#[test]
fn instance_with_many_private_pages_is_dropped() {
    let sandbox = sandbox_on(&pooled(8), Language::JavaScript, |policy| policy.limits.memory_bytes = 512 << 20);
    sandbox.execute("console.log(1)").unwrap();
    assert_eq!(waiting(&sandbox), 1);
    let fills = "const b = new Uint8Array(BYTES); for (let i = 0; i < b.length; i += 4096) b[i] = 1";
    for (bytes, stays) in [(64 << 10, 1), (8 << 20, 0)] {
        sandbox.execute(&fills.replace("BYTES", &bytes.to_string())).unwrap();
        assert_eq!(waiting(&sandbox), stays, "{bytes}");
        // Pages that the instance left in the pool do not prevent the next instance from being recycled.
        sandbox.execute("console.log(1)").unwrap();
        assert_eq!(waiting(&sandbox), 1, "{bytes}");
    }
}

#[test]
fn limit_below_the_image_fails_as_in_a_new_instance() {
    let engine = pooled(8);
    sandbox_on(&engine, Language::Python, fixed).execute("1").unwrap();
    let limited = |engine: &Engine, memory_bytes: u64| {
        let mut policy = Policy::default();
        policy.limits.memory_bytes = memory_bytes;
        Sandbox::builder(engine).policy(policy).build()
    };
    let Err(BuildError::Memory { needed_bytes, .. }) = limited(&engine, 1 << 20) else {
        panic!("the image must not fit")
    };
    // The memory limit only leaves room for the image.
    let refused = |engine: &Engine| {
        let small = limited(engine, needed_bytes).unwrap();
        match small.run(Request::new("1").stdin(&[0; 4096])) {
            Err(ExecuteError::Instantiate { reason }) => reason,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refused(&engine), refused(&lone_engine(None)));
}

#[test]
fn oldest_instances_are_dropped_when_the_pool_is_full() {
    let engine = pooled(1);
    let sandboxes = Language::ALL.map(|language| sandbox_on(&engine, language, fixed));
    // After one recycled instance for each language, sessions occupy all slots of the pool.
    let mut sessions = Vec::new();
    for sandbox in &sandboxes {
        sandbox.execute(print_one(sandbox.language())).unwrap();
        assert_eq!(waiting(sandbox), 1);
    }
    while let Ok(session) = sandboxes[0].session() {
        sessions.push(session);
        assert!(sessions.len() < 100, "the pool never fills up");
    }
    let recycled = |sandbox: &Sandbox| sandbox.compare_recycled();
    assert!(sandboxes.iter().all(|sandbox| recycled(sandbox).is_err()), "a full pool has no instance to compare with");
    sessions.clear();
    assert!(sandboxes.iter().all(|sandbox| recycled(sandbox) == Ok(0)));
}

#[test]
fn no_instances_are_kept_without_a_pool() {
    let sandbox = sandbox_on(&lone_engine(None), Language::JavaScript, fixed);
    sandbox.execute("console.log(1)").unwrap();
    assert_eq!(waiting(&sandbox), 0);
}

/// Scripts that change the interpreter's own code and data. Each time, the next script must start from the image.
#[test]
fn changes_to_the_interpreter_do_not_persist() {
    let python = [
        "d = __import__('traceback').walk_stack.__globals__\nfor value in list(d.values()):\n    if type(value) in (list, dict) and value is not d: value.clear()",
        "d = __import__('traceback').walk_stack.__globals__\nd.update(run=None, failed=None, out=None, source='x' * 99)",
        "d = __import__('traceback').walk_stack.__globals__\nd['buffer'].clear(); d['buffer'].extend(b'x' * 200_000); d['reason'].extend(b'x')",
        "import gc\ngc.unfreeze()\nfor o in gc.get_objects():\n    if type(o) is list: o.clear()",
        "import sys\nsys.modules.clear(); sys.path_hooks.clear(); sys.meta_path.clear(); sys.stdout = sys.stderr = None; del sys.argv",
        "import sys\nsys.setrecursionlimit(10**6)\ndef f(n): return n and f(n - 1)\ntry: f(10**5)\nexcept RecursionError: pass\nsys.settrace(lambda *a: 1 / 0)",
        "import builtins\nfor name in dir(builtins):\n    if name[0].islower(): setattr(builtins, name, None)",
        "import signal, atexit, codecs, random\nsignal.signal(2, lambda *a: None); atexit.register(print, 'late'); codecs.register(lambda n: 1 / 0); random.seed(7)",
        "import os\nopen('left', 'w').write('x' * 5000); fds = [os.open('left', 0) for _ in range(50)]; os.mkdir('d'); os.chdir('d'); os.environ['A'] = 'b'",
        "x = [bytearray(b'\\xff') * n for n in range(1, 300)]; del x; y = [object() for _ in range(20_000)]; y.append(y)",
        "class E(BaseException):\n    def __del__(self): global g; g = self\n    def __str__(self): raise E\nraise E",
        "import asyncio\nasync def f(): await asyncio.sleep(0); raise SystemExit(4)\nasyncio.run(f())",
    ];
    let javascript = [
        "for (const name of Object.getOwnPropertyNames(Array.prototype)) try { Array.prototype[name] = null } catch {}",
        "Object.prototype.toString = () => { throw 1 }; Object.defineProperty(Object.prototype, 'x', {get() { throw 2 }, set() { throw 3 }})",
        "for (const name of Object.getOwnPropertyNames(globalThis)) try { delete globalThis[name] } catch {}",
        "Object.freeze(globalThis); Object.freeze(Object.prototype); Symbol.for('left'); /(a)(b)/.exec('ab')",
        "const f = (n) => n && 1 + f(n - 1); try { f(1e6) } catch {}; setTimeout(() => { throw 1 }, 0)",
        "new Promise((_, no) => no(new Error('left'))); new FinalizationRegistry(() => {}).register({}, 1); queueMicrotask(() => { for (let i = 0; i < 9; i++) Promise.resolve().then(() => i) })",
        "let s = 'x'; for (let i = 0; i < 18; i++) s += s; const a = []; for (let i = 0; i < 500; i++) a.push(s.slice(i) ? {i} : 0); s = null",
        "process.on('exit', () => { console.log('late') }); process.argv.length = 0; process.env.A = 'b'; require('fs').readFileSync = null",
        "console.log = null; std.out.puts('x'); std.writeFile('left', 'x'.repeat(5000)); const fds = []; for (let i = 0; i < 50; i++) fds.push(os.open('left', os.O_RDONLY))",
        "throw {get message() { throw 1 }, toString() { throw 2 }, get stack() { throw 3 }}",
        "const m = await import('fs'); try { m.readFileSync = 1 } catch {} JSON.parse = JSON.stringify = null; Error.prepareStackTrace = () => { throw 1 }",
    ];
    for (language, sources) in [(Language::Python, &python[..]), (Language::JavaScript, &javascript)] {
        let sandbox = sandbox_on(&pooled(8), language, fixed);
        let first = sandbox.execute(print_one(language)).unwrap();
        let mut recycled = 0;
        for source in sources {
            let execution = sandbox.execute(source).unwrap();
            recycled += waiting(&sandbox);
            let next = sandbox.execute(print_one(language)).unwrap();
            let seen = (next.stdout.text(), next.stderr.text(), next.fuel_consumed, next.files_created.len());
            assert_eq!(seen, (first.stdout.text(), String::new(), first.fuel_consumed, 0), "{source}: {execution:?}");
            if waiting(&sandbox) == 0 {
                // The instance of a short script is dropped if an earlier, long script touched many pages.
                sandbox.execute(print_one(language)).unwrap();
            }
            assert_eq!(waiting(&sandbox), 1, "{source}");
        }
        assert!(recycled > 2, "{language}: only {recycled} instances were reused");
    }
}

#[test]
fn each_runtime_allows_as_many_sessions_as_pool_slots() {
    // The number of sessions, which exceeds the number of spare slots in the pool.
    const COUNT: usize = 20;
    let engine = pooled(u32::try_from(COUNT).unwrap());
    for runtime in ["python-3.12", "python-3.15", "javascript"] {
        let sandbox = Sandbox::builder(&engine).named(runtime).policy(Policy::default()).build().unwrap();
        let sessions: Vec<_> = (0..COUNT).map(|_| sandbox.session().unwrap()).collect();
        for session in &sessions {
            assert!(session.execute("1").unwrap().is_success(), "{runtime}");
        }
    }
}
