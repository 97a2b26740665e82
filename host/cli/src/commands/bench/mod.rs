//! `glovebox bench`: how fast it is on this machine, in one run, beside the interpreters that are installed here.

mod args;
mod cases;
mod component;
mod machine;
mod many;
mod parallel;
mod report;
mod rival;
mod samples;
mod serve;
mod sessions;
mod work;

use std::io::{IsTerminal, stderr};

use anyhow::Context;
use glovebox::{Checkpoints, Policy, RuntimeInfo};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

pub(crate) use self::args::BenchArgs;
use self::{
    cases::{Subject, Work},
    machine::Machine,
    report::Report,
    rival::Rival,
};
use crate::{
    args::{GlobalArgs, RuntimeArgs},
    engine::{Host, Pooling},
    interrupt,
    terminal::{Hinted, note, out, out_json},
};

pub(crate) fn run(global: &GlobalArgs, args: &BenchArgs) -> anyhow::Result<i32> {
    if let Some(url) = &args.serve {
        return serve::run(global, args, url);
    }
    interrupt::install()?;
    let host = Host::open(global, Pooling::Pooled)?;
    let runtimes = select(&host, args)?;
    // A checkpoint is a case of its own.
    let mut policy = Policy::default();
    policy.session.checkpoints = Checkpoints::Never;
    let mut saving_policy = Policy::default();
    saving_policy.session.checkpoints = Checkpoints::Always;
    let work = if args.quick { Work::QUICK } else { Work::FULL };
    let mut report = Report::new(Machine::describe());
    for runtime in &runtimes {
        let rival = Rival::find(runtime.language);
        if let Some(rival) = &rival {
            report.machine.rivals.insert(rival.name.into(), rival.description.clone());
        }
        let runtime_args = RuntimeArgs { runtime: Some(runtime.name.clone()), runtime_path: None };
        let sandbox = host.sandbox(&runtime_args, Some(runtime.language), &policy)?;
        let bar = bar(&runtime.name, work.rounds());
        let saving = host.sandbox(&runtime_args, Some(runtime.language), &saving_policy)?;
        let apart = Host::open(global, Pooling::Pooled)?;
        let apart = apart.sandbox(&runtime_args, Some(runtime.language), &policy)?;
        let subject = Subject::new(global, &host, runtime, [&sandbox, &saving, &apart], rival.as_ref())?;
        let measured = subject.measure(work, &bar).with_context(|| format!("cannot measure `{}`", runtime.name));
        bar.finish_and_clear();
        report.add(runtime, rival.as_ref(), &measured?);
    }
    if interrupt::is_pressed() {
        return Ok(interrupt::EXIT_CODE);
    }
    if args.json {
        out_json(&report)?;
    } else {
        out(&report.rendered())?;
    }
    Ok(0)
}

fn select(host: &Host, args: &BenchArgs) -> anyhow::Result<Vec<RuntimeInfo>> {
    let known = host.engine.runtimes()?;
    if args.runtimes.is_empty() {
        return Ok(known.into_iter().filter(|runtime| runtime.default || runtime.prepared).collect());
    }
    args.runtimes
        .iter()
        .map(|name| {
            let found = known.iter().find(|runtime| runtime.answers_to(name)).cloned();
            found.ok_or_else(|| {
                Hinted::new(format!("there is no runtime `{name}`"), "`glovebox runtimes list` lists them").into()
            })
        })
        .collect()
}

/// A bar on a terminal; elsewhere a line when a runtime's turn begins.
fn bar(name: &str, rounds: u64) -> ProgressBar {
    if !stderr().is_terminal() {
        note(&format!("measuring {name}"));
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("measuring {msg} {bar:40} {pos}/{len} {eta}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(Some(rounds), ProgressDrawTarget::stderr())
        .with_style(style)
        .with_message(name.to_owned())
}
