//! Tests applications that fail while they have open sessions or running scripts.

use std::{thread, time::Duration};

use glovebox::{Policy, Resource};
use glovebox_component_host::SandboxHost;
use glovebox_component_runner::{AppConfig, AppOutcome, Application, Applications};
use glovebox_tests::{lone_engine, process::in_child, puppet::component};

use super::{LONG, assert_others_work};

/// `f(how)` opens two sessions and starts `for(;;){}` twice, once in a session. It traps if one of these calls fails.
/// Otherwise it acts according to `how`: 0 traps, 1 loops forever, 2 allocates memory, 3 executes an endless script, 4
/// waits for the started script, 5 returns.
const APP: &str = r#"(module
    (import "glovebox:sandbox/sandbox@0.2.0" "[static]session.open" (func $open (param i32 i32)))
    (import "glovebox:sandbox/sandbox@0.2.0" "start" (func $start (param i32 i32)))
    (import "glovebox:sandbox/sandbox@0.2.0" "execute" (func $execute (param i32 i32)))
    (import "glovebox:sandbox/sandbox@0.2.0" "[method]session.start"
        (func $start_in (param i32 i32)))
    (import "glovebox:sandbox/sandbox@0.2.0" "[method]started.continue" (func $continue (param i32 i32 i32 i32 i64 i32)))
    (memory (export "memory") 4)
    (global $next (mut i32) (i32.const 65536))
    ;; The runtime JavaScript, and for calls that take a request, its source. All other fields are none.
    (data (i32.const 4096) "\01")
    (data (i32.const 8192) "\01\00\00\00\00\00\00\00\00\00\00\00\00\40\00\00\09\00\00\00")
    ;; The same request in a session, preceded by the session's handle.
    (data (i32.const 12288) "\00\00\00\00\00\00\00\00\00\40\00\00\09\00\00\00")
    (data (i32.const 16384) "for(;;){}")
    (func $must (if (i32.load8_u (i32.const 1024)) (then unreachable)))
    (func (export "f") (param $how i32) (local $session i32) (local $started i32)
        (call $open (i32.const 4096) (i32.const 1024)) (call $must)
        (call $open (i32.const 4096) (i32.const 1024)) (call $must)
        (local.set $session (i32.load (i32.const 1032)))
        (i32.store (i32.const 12288) (local.get $session))
        (call $start_in (i32.const 12288) (i32.const 1024)) (call $must)
        (call $start (i32.const 8192) (i32.const 1024)) (call $must)
        (local.set $started (i32.load (i32.const 1032)))
        (if (i32.eq (local.get $how) (i32.const 0)) (then (drop (i32.load (i32.const -1)))))
        (if (i32.eq (local.get $how) (i32.const 1)) (then (loop $again (br $again))))
        (if (i32.eq (local.get $how) (i32.const 2))
            (then (if (i32.eq (memory.grow (i32.const 60000)) (i32.const -1)) (then unreachable))))
        (if (i32.eq (local.get $how) (i32.const 3)) (then (call $execute (i32.const 8192) (i32.const 1024))))
        (if (i32.eq (local.get $how) (i32.const 4))
            (then (call $continue (local.get $started) (i32.const 0) (i32.const 0) (i32.const 0) (i64.const 0) (i32.const 1024))))
        ;; A cancelled script returns to the application, whose own limit must then end it.
        (if (i32.lt_u (local.get $how) (i32.const 5)) (then (loop $again (br $again)))))
    (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
        (local $at i32)
        (local.set $at (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
        (global.set $next (i32.add (local.get $at) (local.get 3)))
        (local.get $at)))"#;

struct World {
    application: Application,
    host: SandboxHost,
}

/// Returns a host that allows two sessions in total, across all applications.
fn world() -> World {
    let engine = lone_engine(None);
    let mut policy = Policy::default();
    policy.limits.session_count = 2;
    policy.limits.timeout_ms = 600_000;
    policy.limits.fuel = 1_000_000_000_000;
    let host = SandboxHost::builder(&engine).policy(policy).build().unwrap();
    let bytes = component("import glovebox:sandbox/sandbox@0.2.0; export f: func(how: u32);", APP);
    let application = Applications::new(&engine).unwrap().load_bytes("app", &bytes).unwrap();
    World { application, host }
}

impl World {
    /// Calls the application and returns its outcome. Repeats the call while sessions of an earlier application are
    /// still being released.
    fn ends(&self, how: u32, config: &AppConfig) -> AppOutcome {
        for _ in 0..1_000 {
            let ended = self.application.invoke(&format!("f({how})"), &self.host, config).unwrap();
            match ended.outcome {
                AppOutcome::Trapped { words } if words.contains("unreachable") => {
                    thread::sleep(Duration::from_millis(20));
                }
                outcome => return outcome,
            }
        }
        panic!("sessions of an earlier application were never freed");
    }
}

#[test]
fn resources_are_freed_after_any_failure() {
    if !in_child("hostile_applications::failing::resources_are_freed_after_any_failure", LONG) {
        return;
    }
    let world = world();
    let limits = |edit: fn(&mut AppConfig)| {
        let mut config = AppConfig::default();
        edit(&mut config);
        config
    };
    let table = [
        (0, limits(|_| ()), None),
        (1, limits(|config| config.limits.fuel = 10_000_000), Some(Resource::Fuel)),
        (1, limits(|config| config.limits.timeout_ms = 1_500), Some(Resource::Time)),
        (2, limits(|config| config.limits.memory_bytes = 16 << 20), Some(Resource::Memory)),
        (3, limits(|config| config.limits.timeout_ms = 1_500), Some(Resource::Time)),
        (4, limits(|config| config.limits.timeout_ms = 1_500), Some(Resource::Time)),
    ];
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    assert_eq!(world.ends(5, &AppConfig::default()), AppOutcome::Returned);
    for (how, config, resource) in table {
        let outcome = world.ends(how, &config);
        match (&outcome, resource) {
            (AppOutcome::Trapped { words }, None) => assert!(words.contains("out of bounds"), "{words}"),
            (AppOutcome::Exhausted { resource: of, .. }, Some(resource)) => assert_eq!(*of, resource, "{how}"),
            _ => panic!("{how}: {outcome:?}"),
        }
        assert_others_work();
    }
    assert_eq!(world.ends(5, &AppConfig::default()), AppOutcome::Returned);
    // No guest threads remain: only the test's thread, the harness's thread, and the engines' tickers.
    let gone = (0..1_000).any(|_| {
        thread::sleep(Duration::from_millis(20));
        threads() <= 8
    });
    assert!(gone, "{} threads are left", threads());
}
