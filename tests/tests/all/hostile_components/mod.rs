//! Tests hostile components: every invalid call must return an error or trap the component that made it.
//!
//! The attacker is the puppet, a component that can make any call with arbitrary bits. The sandboxes of the host and of
//! other components must keep working in the same process and engine ([`assert_others_work`]). Tests that measure
//! memory run in a child process.

mod bytes;
mod handles;
mod lists;
mod policies;
mod quotas;
mod realloc;
mod started;
mod tools;

use std::{sync::Once, thread, time::Duration};

use glovebox::{Engine, Language, Policy};
use glovebox_component_host::{Quotas, SandboxHost};
use glovebox_tests::{engine, process, puppet::Puppet, sandbox};
use serde_json::{Value, json};

const MIB: u64 = 1 << 20;

/// The timeout of a child process.
const LONG: Duration = Duration::from_secs(300);

/// Maximum size of this process. If an attack exceeds it, the process exits immediately to protect the machine.
const PROCESS_BYTES: u64 = 3 << 30;

/// Builds a host with the default policy and quotas, changed by `edit`.
fn host_on(engine: &Engine, edit: impl FnOnce(&mut Policy, &mut Quotas)) -> SandboxHost {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        thread::spawn(|| {
            while process::resident_bytes() < PROCESS_BYTES {
                thread::sleep(Duration::from_millis(10));
            }
            println!("this process grew to {} MiB", process::resident_bytes() / MIB);
            std::process::abort();
        });
    });
    let (mut policy, mut quotas) = (Policy::default(), Quotas::default());
    // Generous, because a slow machine must not make a test time out.
    policy.limits.timeout_ms = 120_000;
    edit(&mut policy, &mut quotas);
    SandboxHost::builder(engine).policy(policy).quotas(quotas).build().unwrap()
}

fn host(edit: impl FnOnce(&mut Policy, &mut Quotas)) -> SandboxHost {
    host_on(engine(), edit)
}

fn puppet() -> Puppet {
    Puppet::new(&host(|_, _| ()))
}

/// Creates a puppet with quotas changed by `edit`.
fn puppet_with(edit: impl FnOnce(&mut Quotas)) -> Puppet {
    Puppet::new(&host(|_, quotas| edit(quotas)))
}

/// Asserts that the host and another component can still execute scripts.
fn assert_others_work() {
    for (language, source) in [(Language::JavaScript, "console.log(7)"), (Language::Python, "print(7)")] {
        assert_eq!(sandbox(language, |_| ()).execute(source).unwrap().stdout.text(), "7\n");
    }
    let ran = puppet().call("execute", &json!(["javascript", { "source": "console.log(6)" }, {}])).unwrap();
    assert_eq!(ok(&ran)["stdout"]["bytes"], "6\n");
}

/// Returns the error name and message from a call's result.
fn error(answer: &Value) -> (&str, &str) {
    let error = answer["err"].as_object().unwrap_or_else(|| panic!("expected an error: {answer}"));
    let (name, text) = error.iter().next().unwrap();
    (name, text.as_str().or(text["message"].as_str()).unwrap_or_default())
}

/// Returns the value from a successful call's result.
fn ok(answer: &Value) -> &Value {
    answer.get("ok").unwrap_or_else(|| panic!("unexpected error: {answer}"))
}

fn open(puppet: &mut Puppet) -> Value {
    ok(&puppet.call("session.open", &json!(["javascript", {}, {}])).unwrap()).clone()
}

fn start(puppet: &mut Puppet, source: &str) -> Value {
    let answer = puppet.call("start", &json!(["javascript", { "source": source }, {}, []])).unwrap();
    ok(&answer).clone()
}

/// Makes a call that must trap, and returns the trap's message.
fn trap(puppet: &mut Puppet, function: &str, arguments: &Value) -> String {
    match puppet.call(function, arguments) {
        Ok(answer) => panic!("`{function}` gave {answer}"),
        Err(trap) => format!("{trap:#}"),
    }
}

/// Returns the growth of this process's peak memory during `work`, in bytes.
fn grown(work: impl FnOnce()) -> u64 {
    let before = process::resident_bytes();
    work();
    process::peak_resident_bytes().saturating_sub(before)
}

/// Returns the number of threads in this process.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}
