//! Measures all cases alternately.

use std::{path::Path, process::Command, time::Duration};

use glovebox::{Engine, Language, RuntimeInfo, Sandbox};
use indicatif::ProgressBar;

use crate::{
    args::Args,
    component::{AwaitedCase, ComponentCase, ContractVersion},
    parallel::Throughput,
    rival::{Rival, run_work, time_process, work_source},
    samples::{Samples, block, timed},
    sessions::{ManySessions, SessionCases, SessionSamples, curve},
    suspended::{self, JournalSamples, SuspendedSamples},
};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// The number of turns for each case, except the parallel cases.
    turns: u64,
    /// The number of runs per point of the checkpoint curve, and per case of suspended executions.
    curve_turns: u64,
    /// The number of concurrent sessions, and the number of executions distributed over them.
    sessions: u64,
    session_executions: u64,
    /// The number of rounds in each parallel case.
    parallel_turns: u64,
    /// The duration of a parallel turn.
    parallel_period: Duration,
}

impl Work {
    pub(crate) const FULL: Self = Self {
        turns: 100,
        curve_turns: 50,
        sessions: 1_000,
        session_executions: 5_000,
        parallel_turns: 10,
        parallel_period: Duration::from_millis(300),
    };
    pub(crate) const QUICK: Self = Self {
        turns: 15,
        curve_turns: 10,
        sessions: 100,
        session_executions: 500,
        parallel_turns: 3,
        parallel_period: Duration::from_millis(150),
    };

    pub(crate) fn rounds(self) -> u64 {
        self.turns + self.parallel_turns
    }
}

// Numbers of runs per turn, for cases that take well under a millisecond.
const FRESH_PER_TURN: usize = 20;
const LIVE_PER_TURN: usize = 50;

/// All measurements of one runtime. Its sessions take a checkpoint only if the checkpoint is measured.
#[derive(Debug, Default)]
pub(crate) struct RuntimeSamples {
    pub(crate) fresh: Samples,
    /// `None` for a runtime that components cannot use.
    pub(crate) component: Option<Samples>,
    pub(crate) component_awaited: Option<Samples>,
    pub(crate) component_async: Option<Samples>,
    pub(crate) live: Samples,
    pub(crate) instantiate: Samples,
    pub(crate) process: Samples,
    pub(crate) work: Samples,
    pub(crate) rival: Samples,
    pub(crate) rival_work: Samples,
    pub(crate) sessions: SessionSamples,
    pub(crate) suspended: Vec<SuspendedSamples>,
    pub(crate) journal: JournalSamples,
    pub(crate) parallel_1: Throughput,
    pub(crate) parallel_n: Throughput,
    pub(crate) parallel_2n: Throughput,
    pub(crate) many: ManySessions,
}

impl RuntimeSamples {
    /// Returns each case's name and samples.
    pub(crate) fn cases(&self) -> Vec<(&'static str, &Samples)> {
        let sessions = &self.sessions;
        let mut cases = vec![
            ("fresh", &self.fresh),
            ("live", &self.live),
            ("instantiate", &self.instantiate),
            ("process", &self.process),
            ("work", &self.work),
            ("checkpoint", &sessions.checkpoint),
        ];
        cases.extend(self.component.as_ref().map(|samples| ("component", samples)));
        cases.extend(self.component_awaited.as_ref().map(|samples| ("component_awaited", samples)));
        cases.extend(self.component_async.as_ref().map(|samples| ("component_async", samples)));
        cases.extend(sessions.curve.iter().map(|(case, samples)| (*case, samples)));
        cases.extend([("fork", &sessions.fork), ("hibernate", &sessions.hibernate), ("resume", &sessions.resume)]);
        cases.extend(self.suspended.iter().flat_map(SuspendedSamples::cases));
        cases.extend([("calls", &self.journal.calls), ("journal", &self.journal.journal)]);
        cases.extend([
            ("parallel_1", &self.parallel_1.samples),
            ("parallel_n", &self.parallel_n.samples),
            ("parallel_2n", &self.parallel_2n.samples),
            ("many_sessions", &self.many.samples),
        ]);
        cases
    }
}

/// A runtime to measure, with the objects and commands that its cases need.
pub(crate) struct Subject<'a> {
    sandbox: &'a Sandbox,
    /// Like `sandbox`, but its sessions take a checkpoint before each execution.
    saving: &'a Sandbox,
    /// Like `sandbox`, but on a separate engine, whose memory no other case has used.
    apart: &'a Sandbox,
    component: Option<ComponentCase>,
    component_awaited: Option<AwaitedCase>,
    component_async: Option<ComponentCase>,
    rival: Option<&'a Rival>,
    source: &'static str,
    work: &'static str,
    program: &'a Path,
    arguments: Vec<String>,
    cache_dir: Option<&'a Path>,
}

impl<'a> Subject<'a> {
    pub(crate) fn new(
        program: &'a Path,
        args: &'a Args,
        engine: &Engine,
        runtime: &RuntimeInfo,
        [sandbox, saving, apart]: [&'a Sandbox; 3],
        rival: Option<&'a Rival>,
    ) -> anyhow::Result<Self> {
        let source = match runtime.language {
            Language::Python => "print(1)",
            Language::JavaScript => "console.log(1)",
        };
        let mut arguments = vec!["run".to_owned()];
        if !runtime.default {
            arguments.extend(["--runtime".to_owned(), runtime.name.clone()]);
        } else if runtime.language != Language::Python {
            arguments.extend(["--language".to_owned(), runtime.language.name().to_owned()]);
        }
        arguments.extend(["-e".to_owned(), source.to_owned()]);
        let component = |version| {
            let component = || ComponentCase::new(engine, runtime, source, sandbox.policy(), version);
            runtime.offered.then(component).transpose()
        };
        let awaited = || AwaitedCase::new(engine, runtime, source, sandbox.policy());
        Ok(Self {
            sandbox,
            saving,
            apart,
            component: component(ContractVersion::Blocking)?,
            component_awaited: runtime.offered.then(awaited).transpose()?,
            component_async: component(ContractVersion::Asynchronous)?,
            rival,
            source,
            work: work_source(runtime.language),
            program,
            arguments,
            cache_dir: args.cache_dir.as_deref(),
        })
    }

    /// Measures every case. The cases alternate, so that other load on the machine affects all of them.
    pub(crate) fn measure(&self, work: Work, bar: &ProgressBar) -> anyhow::Result<RuntimeSamples> {
        let mut measured = RuntimeSamples::default();
        let session = self.sandbox.session()?;
        let sessions = SessionCases::open(self.sandbox, self.saving, self.source)?;
        for turn in 0..work.turns {
            // Alternates the order, because the first process affects the file cache and the processor's clock speed.
            if turn % 2 == 0 {
                self.spawn_rival(&mut measured)?;
                self.spawn_ours(&mut measured)?;
            } else {
                self.spawn_ours(&mut measured)?;
                self.spawn_rival(&mut measured)?;
            }
            block(&mut measured.fresh, FRESH_PER_TURN, || timed(|| self.sandbox.execute(self.source)))?;
            if let Some(component) = &self.component {
                component.turn(measured.component.get_or_insert_default(), FRESH_PER_TURN)?;
            }
            if let Some(component) = &self.component_awaited {
                component.turn(measured.component_awaited.get_or_insert_default(), FRESH_PER_TURN)?;
            }
            if let Some(component) = &self.component_async {
                component.turn(measured.component_async.get_or_insert_default(), FRESH_PER_TURN)?;
            }
            measured.work.push(run_work(self.sandbox, self.work)?);
            if let Some(rival) = self.rival {
                measured.rival_work.push(rival.work(self.work)?);
            }
            block(&mut measured.live, LIVE_PER_TURN, || timed(|| session.execute(self.source)))?;
            block(&mut measured.instantiate, FRESH_PER_TURN, || Ok(self.sandbox.instantiate()?))?;
            sessions.turn(&mut measured.sessions)?;
            bar.inc(1);
        }
        session.close()?;
        drop(sessions);
        measured.sessions.curve = curve(self.sandbox, self.saving, self.source, work.curve_turns)?;
        measured.suspended = suspended::measure(self.sandbox, work.curve_turns)?;
        measured.journal = JournalSamples::measure(self.sandbox, work.curve_turns)?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..work.parallel_turns {
            measured.parallel_1.run(self.sandbox, self.source, 1, work.parallel_period)?;
            measured.parallel_n.run(self.sandbox, self.source, threads, work.parallel_period)?;
            measured.parallel_2n.run(self.sandbox, self.source, 2 * threads, work.parallel_period)?;
            bar.inc(1);
        }
        measured.many = ManySessions::measure(self.apart, self.source, work.sessions, work.session_executions)?;
        Ok(measured)
    }

    fn spawn_ours(&self, measured: &mut RuntimeSamples) -> anyhow::Result<()> {
        let mut command = Command::new(self.program);
        command.args(&self.arguments);
        if let Some(cache_dir) = self.cache_dir {
            command.arg("--cache-dir").arg(cache_dir);
        }
        measured.process.push(time_process(&mut command)?);
        Ok(())
    }

    fn spawn_rival(&self, measured: &mut RuntimeSamples) -> anyhow::Result<()> {
        if let Some(rival) = self.rival {
            measured.rival.push(rival.spawn(self.source)?);
        }
        Ok(())
    }
}
