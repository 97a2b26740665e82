//! Tests application limits (under, at and over each limit), and stopping an application at any moment.

use std::{sync::mpsc::channel, thread, time::Duration};

use glovebox::Resource;
use glovebox_component_runner::{AppConfig, AppOutcome, AppReport, Input, LoadError, Output};

use crate::support::{call, component, config, probe, trap, value, world};

fn exhausted(outcome: &AppOutcome) -> Resource {
    match outcome {
        AppOutcome::Exhausted { resource, .. } => *resource,
        other => panic!("{}", other.describe()),
    }
}

#[test]
fn fuel_limit_is_exact() {
    let run = |fuel| call("burn(1000)", &config(|config| config.limits.fuel = fuel));
    let used = run(1_000_000).fuel_consumed;
    assert!((3_000..20_000).contains(&used), "{used}");
    // Wasmtime checks fuel at function entries and loop headers, so code after the last check can run without fuel.
    let needed = (used - 20..=used).find(|&fuel| run(fuel).outcome == AppOutcome::Returned).unwrap();
    assert!(needed > used - 20, "{needed} of {used}");
    for fuel in [needed, needed + 1, used, used + 1] {
        let ended = run(fuel);
        assert_eq!((ended.outcome, ended.fuel_consumed), (AppOutcome::Returned, used.min(fuel)), "{fuel}");
    }
    for fuel in [needed - 1, 1, 0] {
        let ended = run(fuel);
        assert_eq!(ended.outcome, AppOutcome::Exhausted { resource: Resource::Fuel, limit: fuel, used: fuel });
        assert_eq!(ended.fuel_consumed, fuel, "all fuel is used");
    }
}

/// Returns the probe's memory before it grows: its instances, its tables, and a page of each of its two memories.
fn at_start() -> u64 {
    let ended = call("add(1, 2)", &config(|_| ()));
    assert_eq!(ended.outcome, AppOutcome::Returned);
    ended.memory_bytes
}

#[test]
fn all_memories_share_one_limit() {
    // Each of the two memories grows by one page.
    let at = at_start() + (2 << 16);
    for (memory_bytes, grown) in [(at + 1, "2"), (at, "2"), (at - 1, "1"), (at_start(), "0")] {
        let grants = config(|config| config.limits.memory_bytes = memory_bytes);
        assert_eq!(value("grow(1)", &grants), grown, "{memory_bytes}");
    }
    let ended = call("grow(1)", &config(|config| config.limits.memory_bytes = at));
    assert_eq!(ended.memory_bytes, at);
}

#[test]
fn abort_after_refused_growth_is_out_of_memory() {
    let limit = at_start() + (2 << 16);
    let grants = config(|config| config.limits.memory_bytes = limit);
    assert_eq!(call("want(2)", &grants).outcome, AppOutcome::Returned);
    let over = AppOutcome::Exhausted { resource: Resource::Memory, limit, used: limit + (1 << 16) };
    assert_eq!(call("want(3)", &grants).outcome, over);
    // The initial memory exceeds the limit, so the component cannot start.
    for memory_bytes in [0, 1 << 16, 2 << 16, at_start() - 1] {
        let grants = config(|config| config.limits.memory_bytes = memory_bytes);
        assert_eq!(exhausted(&call("add(1, 2)", &grants).outcome), Resource::Memory, "{memory_bytes}");
    }
}

#[test]
fn tables_share_one_element_limit() {
    let others = other_elements();
    for (table_elements, before) in [(11, "1"), (10, "1"), (9, "-1")] {
        let grants = config(|config| config.limits.table_elements = others + table_elements);
        assert_eq!(value("grow-table(9)", &grants), before, "{table_elements}");
    }
}

/// Returns the initial number of elements in tables other than the table that the test grows.
fn other_elements() -> u64 {
    let fits = |max: u64| {
        let grants = config(|config| config.limits.table_elements = max);
        call("add(1, 2)", &grants).outcome == AppOutcome::Returned
    };
    (0..100).find(|max| fits(max + 1)).unwrap()
}

#[test]
fn exceeding_the_instance_limit_traps() {
    let fits = |instances| {
        call("add(1, 2)", &config(|config| config.limits.instances = instances)).outcome == AppOutcome::Returned
    };
    let least = (1..1000).find(|&instances| fits(instances)).unwrap();
    assert!((2..40).contains(&least), "{least}");
    assert!(fits(least + 1) && !fits(least - 1));
    let words = trap("add(1, 2)", &config(|config| config.limits.instances = least - 1));
    assert!(words.contains("limit"), "{words}");
}

#[test]
fn time_limit_covers_work_and_waits() {
    for endless in ["spin()", "sleep(3600000000000)"] {
        let ended = call(endless, &config(|config| config.limits.timeout_ms = 50));
        let AppOutcome::Exhausted { resource: Resource::Time, limit: 50, used } = ended.outcome else {
            panic!("{endless}: {}", ended.outcome.describe());
        };
        assert!((50..60_000).contains(&used), "{endless}: {used}");
    }
    assert_eq!(
        call("sleep(1000000)", &config(|config| config.limits.timeout_ms = 600_000)).outcome,
        AppOutcome::Returned
    );
    // This timeout overflows `Instant`.
    assert_eq!(call("add(1, 2)", &config(|config| config.limits.timeout_ms = u64::MAX)).outcome, AppOutcome::Returned);
}

#[test]
fn exceeding_the_wasi_handle_limit_traps() {
    let grants = |max| config(|config| config.limits.wasi_handles = max);
    assert_eq!(call("timers(10)", &grants(21)).outcome, AppOutcome::Returned, "a timer needs two entries");
    assert_eq!(call("timers(10)", &grants(20)).outcome, AppOutcome::Returned);
    assert!(trap("timers(10)", &grants(19)).contains("no free keys"));
}

#[test]
fn exceeding_the_handle_limit_traps() {
    let grants = |max| config(|config| config.limits.handles = max);
    assert_eq!(call("timers(10)", &grants(11)).outcome, AppOutcome::Returned);
    assert_eq!(call("timers(10)", &grants(10)).outcome, AppOutcome::Returned);
    assert!(trap("timers(10)", &grants(9)).contains("handle"));
}

#[test]
fn bytes_passed_to_the_host_are_limited() {
    let grants = config(|config| config.limits.lift_bytes = 1000);
    for bytes in [999, 1000] {
        assert_eq!(value(&format!("text({bytes})"), &grants).len(), bytes + 2, "including two quotation marks");
    }
    assert!(trap("text(1001)", &grants).contains("too much data"));
}

#[test]
fn stack_overflow_and_unreachable_have_distinct_traps() {
    assert_eq!(trap("recurse()", &config(|_| ())), "call stack exhausted");
    assert_eq!(trap("crash()", &config(|_| ())), "wasm `unreachable` instruction executed");
}

#[test]
fn random_bytes_per_call_are_limited() {
    const MAX: u64 = 16 << 20;
    let limits = config(|_| ());
    for bytes in [0, MAX - 1, MAX] {
        assert_eq!(value(&format!("random({bytes})"), &limits), bytes.to_string());
    }
    for bytes in [MAX + 1, 1 << 40, u64::MAX] {
        assert!(trap(&format!("random({bytes})"), &limits).contains("exceeds limit"), "{bytes}");
    }
}

#[test]
fn creating_a_million_timers_traps() {
    assert!(trap("timers(1000000)", &config(|_| ())).contains("no free keys"));
}

#[test]
fn oversized_read_returns_the_available_bytes() {
    let input = config(|config| config.stdin = Input::Bytes(vec![1; 100_000]));
    assert_eq!(value(&format!("read-input({})", u64::MAX), &input), "100000");
}

#[test]
fn endless_zeroes_are_rejected() {
    for stdout in [Output::Discard, Output::Buffer(glovebox_component_runner::OutputBuffer::new(1 << 40))] {
        let limits = config(|config| config.stdout = stdout);
        assert_eq!(value("write-zeroes(1)", &limits), "0");
        let outcome = call(&format!("write-zeroes({})", 1_u64 << 41), &limits).outcome;
        assert!(matches!(&outcome, AppOutcome::Trapped { words } if words.contains("zeroes")), "{outcome:?}");
    }
}

/// A timeout that no test reaches.
const LONG: Duration = Duration::from_secs(300);

#[test]
fn cancellation_interrupts_work_and_waits() {
    for endless in ["spin()", "sleep(3600000000000)"] {
        let (world, application) = probe();
        let config = AppConfig::default();
        let cancel = config.cancel.clone();
        let (sender, receiver) = channel();
        let running = thread::spawn(move || {
            let ended = application.invoke(endless, &world.host, &config).unwrap();
            sender.send(()).unwrap();
            ended
        });
        assert!(receiver.recv_timeout(Duration::from_millis(100)).is_err(), "the call returned early");
        cancel.cancel();
        receiver.recv_timeout(LONG).unwrap();
        assert_eq!(running.join().unwrap().outcome, AppOutcome::Cancelled, "{endless}");
    }
}

#[test]
fn application_cancelled_before_start_does_not_run() {
    let (world, application) = probe();
    let config = AppConfig::default();
    config.cancel.cancel();
    let ended = application.invoke("spin()", &world.host, &config).unwrap();
    assert_eq!((ended.outcome, ended.fuel_consumed), (AppOutcome::Cancelled, 0));
}

#[test]
fn other_applications_of_the_engine_continue() {
    let (world, application) = probe();
    let other = application.clone();
    let (host, config) = (world.host.clone(), config(|config| config.limits.timeout_ms = 30));
    let ended = thread::scope(|scope| {
        let stopped = scope.spawn(|| {
            (0..10).all(|_| {
                let outcome = other.invoke("spin()", &host, &config).unwrap().outcome;
                matches!(outcome, AppOutcome::Exhausted { .. })
            })
        });
        let ended = application.invoke("burn(1000000000)", &world.host, &AppConfig::default()).unwrap();
        assert!(stopped.join().unwrap());
        ended
    });
    assert_eq!(ended.outcome, AppOutcome::Returned);
}

/// Returns a component that contains `modules` and exports a function `f`.
fn application(modules: &str) -> Vec<u8> {
    component(&format!(
        "(component {modules} (core module $last (func (export \"f\"))) (core instance $last (instantiate $last))
         (func (export \"f\") (canon lift (core func $last \"f\"))))"
    ))
}

fn ended(bytes: &[u8], memory_bytes: u64) -> AppReport {
    let world = world();
    let application = world.applications.load_bytes("hostile", bytes).unwrap();
    application.invoke("f()", &world.host, &config(|config| config.limits.memory_bytes = memory_bytes)).unwrap()
}

/// Checks that a component takes at least `min` bytes, and that its memory limit is exact to the byte.
fn counts_to_the_byte(bytes: &[u8], min: u64) {
    let at = ended(bytes, 1 << 30).memory_bytes;
    assert!(at >= min, "{at}");
    for memory_bytes in [at + 1, at] {
        assert_eq!(ended(bytes, memory_bytes).outcome, AppOutcome::Returned, "{memory_bytes}");
    }
    let over = ended(bytes, at - 1).outcome;
    assert_eq!(over, AppOutcome::Exhausted { resource: Resource::Memory, limit: at - 1, used: at });
}

#[test]
fn globals_are_counted_per_instance_before_instantiation() {
    let globals = "(global v128 (v128.const i64x2 1 2))".repeat(2_000);
    let text = format!("(core module $m {globals}) {}", "(core instance (instantiate $m))".repeat(30));
    counts_to_the_byte(&application(&text), 30 * 2_000 * 16);
}

#[test]
fn passive_elements_are_counted_before_instantiation() {
    let text = format!(
        "(core module $m (func $f) (elem func {})) {}",
        "$f ".repeat(2_000),
        "(core instance (instantiate $m))".repeat(30)
    );
    counts_to_the_byte(&application(&text), 30 * 2_000 * 16);
}

#[test]
fn elements_of_tables_count_as_memory() {
    let text = "(core module $m (table 10000 funcref) (table 5000 externref)) (core instance (instantiate $m))";
    counts_to_the_byte(&application(text), 15_000 * 8);
}

#[test]
fn instance_limits_are_checked_before_allocation() {
    // 900 instances with 100,000 elements each would take 1.4 GB.
    let text = format!(
        "(core module $m (func $f) (elem func {})) {}",
        "$f ".repeat(100_000),
        "(core instance (instantiate $m))".repeat(900)
    );
    let outcome = ended(&application(&text), 512 << 20).outcome;
    let AppOutcome::Exhausted { resource: Resource::Memory, used, .. } = outcome else { panic!("{outcome:?}") };
    assert!(used > 900 * 100_000 * 16, "{used}");
}

#[test]
fn growth_beyond_the_type_maximum_is_not_counted() {
    let bytes = component(
        "(component (core module $m (table $t 0 100 funcref)
           (func $grow (param i32) (drop (table.grow $t (ref.null func) (local.get 0))))
           (func (export \"f\") (result i32)
             (call $grow (i32.const 60)) (call $grow (i32.const 500)) (call $grow (i32.const 500))
             (call $grow (i32.const 40)) (call $grow (i32.const 1))
             (table.size $t)))
         (core instance $m (instantiate $m)) (func (export \"f\") (result u32) (canon lift (core func $m \"f\"))))",
    );
    let world = world();
    let application = world.applications.load_bytes("hostile", &bytes).unwrap();
    for (max, size) in [(99, "61"), (100, "100"), (1_000, "100")] {
        let config = config(|config| config.limits.table_elements = max);
        let ended = application.invoke("f()", &world.host, &config).unwrap();
        assert_eq!(ended.value.as_deref(), Some(size), "{max}: {:?}", ended.outcome);
    }
}

#[test]
fn multiplying_components_are_rejected_before_parsing() {
    let double = |levels: usize| {
        let level = |n: usize| {
            format!(
                "(component $c{} (alias outer 1 $c{n} (component $c)) (instance (instantiate $c)) (instance (instantiate $c)))",
                n + 1
            )
        };
        let levels_text: String = (0..levels).map(level).collect();
        component(&format!(
            "(component (component $c0 (core module $m) (core instance (instantiate $m))) {levels_text}
             (instance (instantiate $c{levels})))"
        ))
    };
    let world = world();
    world.applications.load_bytes("some", &double(4)).unwrap();
    let bytes = double(26);
    assert!(bytes.len() < 2_000);
    let error = world.applications.load_bytes("all", &bytes).unwrap_err();
    assert!(matches!(&error, LoadError::Excess { .. }), "{error}");
    assert!(
        error
            .to_string()
            .ends_with("it instantiates more than 10000 modules and components; instantiate fewer components"),
        "{error}"
    );
}

#[test]
fn compiler_panic_is_an_error() {
    // Cranelift limits the number of distinct memory flags in a function. Each global has its own alias region, and
    // therefore its own flags.
    let globals = "(global funcref (ref.func $f))".repeat(200_000);
    let bytes = application(&format!("(core module (func $f) {globals})"));
    let error = world().applications.load_bytes("panics", &bytes).unwrap_err();
    assert!(matches!(error, LoadError::Compile { .. }), "{error}");
}

#[test]
fn sparse_memories_compile_to_small_images() {
    // Each memory has data at two distant addresses.
    let memory = |n: usize| {
        format!(
            "(memory $m{n} 200) (data (memory $m{n}) (i32.const 0) \"a\") (data (memory $m{n}) (i32.const 13000000) \"a\")"
        )
    };
    let memories: String = (0..50).map(memory).collect();
    let bytes = application(&format!("(core module {memories})"));
    let world = world();
    world.applications.load_bytes("sparse", &bytes).unwrap();
    let compiled = world.compiled_bytes();
    assert!(compiled < 1 << 20, "{compiled} bytes of compiled component");
}
