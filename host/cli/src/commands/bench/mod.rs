//! `glovebox bench`: how fast it is on this machine, in one run, beside the interpreters that are installed here.

mod cases;
mod component;
mod machine;
mod many;
mod parallel;
mod report;
mod rival;
mod samples;
mod sessions;
mod work;

use std::io::{IsTerminal, stderr};

use anyhow::Context;
use clap::Args;
use glovebox::{Checkpoints, Policy, RuntimeInfo};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

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

const AFTER_HELP: &str = "\
Every case but one runs `print(1)` or `console.log(1)` under the default limits, fuel counted:
  fresh        a new sandbox per run, through the library
  component    the same, asked for by an application component and measured in it, of runtimes that components find
  live         one session, without checkpoints
  instantiate  making a sandbox, running nothing
  process      starting `glovebox run -e CODE`, beside `python3 -I -c CODE` and `node -e CODE`
  work         28,657 calls of a function in a fresh sandbox, timed by the script itself, here and there
  checkpoint   what it adds to such a run that the session is saved before it, to go back to;
               checkpoint_1m and the like: one that holds so much memory of its own
  fork         a second session of one that holds 1 MiB
  hibernate    the session as compressed bytes
  resume       a session from these bytes
  parallel_1   fresh runs on one thread
  parallel_n   fresh runs on as many threads as there are processors
  parallel_2n  the same on twice as many
  many_sessions
               one of 1,000 sessions (100 with --quick), now this one and now that

Ours and theirs take turns, so that whatever else the machine does hits both. Of the cases that
take well under a millisecond the first run of a turn is not counted: it pays for the caches that
the processes before it have used. A ratio above 1 says how many times faster we are; that of
parallel_n is executions a second against those of parallel_1, and those of checkpoint and
hibernate a run in a session against what comes on top of it. Of component it is said how
much it takes beyond fresh.";

/// Measure on this machine, beside python3 and node
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct BenchArgs {
    /// Runtimes to measure [default: each language's default, and what else is prepared]
    #[arg(value_name = "RUNTIME")]
    runtimes: Vec<String>,

    /// A few seconds instead of half a minute; the figures are rougher
    #[arg(long)]
    quick: bool,

    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(global: &GlobalArgs, args: &BenchArgs) -> anyhow::Result<i32> {
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
