//! Measures the speed of Glovebox and of the installed interpreters on this machine, in the same run.
//!
//! `cargo run -p glovebox-bench -- --help` explains the cases.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints a report")]

mod args;
mod cases;
mod component;
mod parallel;
mod report;
mod rival;
mod samples;
mod serve;
mod sessions;
mod suspended;

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, ensure};
use clap::Parser;
use glovebox::{Checkpoints, Engine, EngineConfig, Policy, RuntimeInfo, Sandbox};
use indicatif::{ProgressBar, ProgressStyle};

use self::{
    args::Args,
    cases::{Subject, Work},
    report::{Machine, Report},
    rival::Rival,
};

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let program = args.program()?;
    if let Some(url) = &args.serve {
        return serve::run(&args, &program, url);
    }
    let engine = engine(&args)?;
    let runtimes = select(&engine, &args.runtimes)?;
    prepare(&program, &args, &runtimes)?;
    let work = if args.quick { Work::QUICK } else { Work::FULL };
    let mut report = Report::new(Machine::describe());
    for runtime in &runtimes {
        let rival = Rival::find(runtime.language);
        if let Some(rival) = &rival {
            report.machine.rivals.insert(rival.name.into(), rival.description.clone());
        }
        let plain = sandbox(&engine, runtime, Checkpoints::Never)?;
        let saving = sandbox(&engine, runtime, Checkpoints::Always)?;
        // A separate engine, whose memory no other case has used.
        let apart = sandbox(&self::engine(&args)?, runtime, Checkpoints::Never)?;
        let bar = bar(&runtime.name, work.rounds());
        let subject = Subject::new(&program, &args, &engine, runtime, [&plain, &saving, &apart], rival.as_ref())?;
        let measured =
            subject.measure(work, &bar).with_context(|| format!("cannot run the benchmark of `{}`", runtime.name));
        bar.finish_and_clear();
        report.add(runtime, rival.as_ref(), &measured?);
    }
    print(args.json, &report, Report::rendered)
}

fn engine(args: &Args) -> anyhow::Result<Engine> {
    let mut config = EngineConfig::default();
    config.cache_dir.clone_from(&args.cache_dir);
    Engine::new(config).context("cannot start the engine")
}

/// Returns the named runtimes. By default, returns the prepared runtimes and the default runtime of each language.
fn select(engine: &Engine, names: &[String]) -> anyhow::Result<Vec<RuntimeInfo>> {
    let known = engine.runtimes()?;
    if names.is_empty() {
        return Ok(known.into_iter().filter(|runtime| runtime.default || runtime.prepared).collect());
    }
    let find = |name: &String| {
        let found = known.iter().find(|runtime| runtime.is_named(name)).cloned();
        found.with_context(|| format!("unknown runtime `{name}`; `glovebox runtimes list` lists the known runtimes"))
    };
    names.iter().map(find).collect()
}

/// Prepares the runtimes with the `glovebox` program, which shows its progress.
fn prepare(program: &Path, args: &Args, runtimes: &[RuntimeInfo]) -> anyhow::Result<()> {
    let mut command = Command::new(program);
    command.args(["runtimes", "prepare"]).args(runtimes.iter().map(|runtime| &runtime.name)).stdout(Stdio::null());
    if let Some(dir) = &args.cache_dir {
        command.arg("--cache-dir").arg(dir);
    }
    let status = command.status().with_context(|| format!("cannot start `{}`", program.display()))?;
    ensure!(status.success(), "cannot prepare the runtimes: {command:?} failed with {status}");
    Ok(())
}

/// Creates a sandbox with the default limits, except for the number of tool calls. The checkpoint policy is explicit,
/// because checkpoints are measured separately.
fn sandbox(engine: &Engine, runtime: &RuntimeInfo, checkpoints: Checkpoints) -> anyhow::Result<Sandbox> {
    let mut policy = Policy::default();
    policy.session.checkpoints = checkpoints;
    // `suspend_100`, `calls` and `journal` need one more call than the default.
    policy.limits.tool_calls = 101;
    let builder = Sandbox::builder(engine).language(runtime.language).runtime(&runtime.name).policy(policy);
    builder.build().with_context(|| format!("cannot set up `{}`", runtime.name))
}

/// Prints a report as JSON or as tables.
fn print<R: serde::Serialize>(is_json: bool, report: &R, rendered: impl FnOnce(&R) -> String) -> anyhow::Result<()> {
    let text = if is_json { serde_json::to_string(report)? } else { rendered(report) };
    println!("{}", text.trim_end());
    Ok(())
}

/// Returns a progress bar, which is hidden if there is no terminal.
fn bar(name: &str, rounds: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("measuring {msg} {bar:40} {pos}/{len} {eta}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(rounds).with_style(style).with_message(name.to_owned())
}
