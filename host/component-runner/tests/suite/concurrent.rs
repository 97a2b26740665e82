//! Tests applications that use version 0.3.0 of the contract: concurrent calls, quotas and limits.

use std::sync::{Arc, Barrier};

use glovebox::{Policy, Resource, Sandbox, Tool};
use glovebox_component_host::{Quotas, SandboxHost};
use glovebox_component_runner::{AppConfig, AppLimits, AppOutcome, AppReport, Applications, ToolsComponent};

use crate::support::{component, concurrent_agent, concurrent_tools, config, prepared, world};

/// Runs the command in `fixtures/concurrent.wat`, which executes the script twice at the same time.
fn run(script: &str, host: &SandboxHost, config: &AppConfig) -> AppReport {
    let applications = Applications::new(&prepared()).unwrap();
    applications.load_bytes("agent", &concurrent_agent(script)).unwrap().run(host, config).unwrap()
}

#[test]
fn scripts_of_one_command_run_at_the_same_time() {
    let both = Arc::new(Barrier::new(2));
    let meet = Tool::new("meet", "Waits for the other script.").handler(move |_, _| {
        both.wait();
        Ok(serde_json::Value::Null)
    });
    let host = SandboxHost::builder(&prepared()).tool(meet).build().unwrap();
    let ended = run("tools.meet()", &host, &AppConfig::default());
    assert_eq!((ended.outcome, ended.sandbox.executions), (AppOutcome::Returned, 2));
    assert_eq!(run("1 / 0", &host, &AppConfig::default()).outcome, AppOutcome::Failed);
}

#[test]
fn quotas_apply_to_concurrent_calls() {
    let mut quotas = Quotas::default();
    quotas.executions = 1;
    let host = SandboxHost::builder(&prepared()).quotas(quotas).build().unwrap();
    let ended = run("print(1)", &host, &AppConfig::default());
    assert_eq!((ended.outcome, ended.sandbox.executions), (AppOutcome::Failed, 1));
}

#[test]
fn deadline_covers_concurrent_scripts() {
    let mut policy = Policy::default();
    (policy.limits.timeout_ms, policy.limits.fuel) = (3_600_000, 1_000_000_000_000_000);
    let host = SandboxHost::builder(&prepared()).policy(policy).build().unwrap();
    let config = config(|config| config.limits.timeout_ms = 2_000);
    let ended = run("any(0for _ in iter(int,1))", &host, &config);
    let AppOutcome::Exhausted { resource, limit, .. } = ended.outcome else { panic!("{:?}", ended.outcome) };
    assert_eq!((resource, limit), (Resource::Time, 2_000));
}

#[test]
fn asynchronous_functions_are_listed_as_such() {
    let world = world();
    let application = world.applications.load_bytes("agent", &concurrent_agent("1")).unwrap();
    assert!(application.is_command());
    assert_eq!(application.exports()[0].signature, "wasi:cli/run@0.3.0.run: async func() -> result");
}

#[test]
fn waiting_tasks_count_as_handles() {
    let world = world();
    let bytes = component(include_str!("../fixtures/leak.wat"));
    let application = world.applications.load_bytes("leak", &bytes).unwrap();
    let config = config(|config| config.limits.handles = 1_000);
    let leak = |count: u32| application.invoke(&format!("leak({count})"), &world.host, &config).unwrap().outcome;
    assert_eq!(leak(100), AppOutcome::Returned);
    let AppOutcome::Trapped { words } = leak(10_000) else { panic!("the number of tasks is not limited") };
    assert!(words.contains("handle limit"), "{words}");
    assert_eq!(leak(100), AppOutcome::Returned, "each run has its own tasks");
}

#[test]
fn tools_of_version_0_3_receive_the_origin_of_their_calls() {
    let applications = Applications::new(&prepared()).unwrap();
    let config = config(|config| config.limits = AppLimits::for_tools());
    let tools = ToolsComponent::load_bytes(&applications, "tools", &concurrent_tools(), config).unwrap();
    let tool = tools.tools().remove(0);
    let sandbox = Sandbox::builder(&prepared()).tool(tool).build().unwrap();
    let script = "try:\n    tools.a()\nexcept tools.ToolError:\n    print('trapped')\nprint(tools.a())";
    let execution = sandbox.execute(script).unwrap();
    // The component accepts only the second call.
    assert_eq!(execution.stdout.text(), "trapped\n7\n", "{}", execution.stderr.text());
}
