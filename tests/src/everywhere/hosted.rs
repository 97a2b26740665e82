//! A host's process, which is asked for a case's results.

use std::{
    num::NonZero,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use super::{Answer, Host, Worker};
use crate::{
    Case, StepResult,
    case_line::{LineOptions, case_line, results},
};

/// The timeout of a host for a case: many times what the slowest takes on a busy machine. The first answer comes after
/// compiling.
const ANSWER: Duration = Duration::from_secs(300);

/// A host with as many pairs of processes as trials run at once, shared by all trials: one process for cases without
/// tools, and one for a case with tools, because an instance asks its host for tools only once.
#[derive(Clone, Debug)]
pub struct Hosted(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    workers: Vec<Mutex<Workers>>,
    /// Whether one of them has answered: it has then compiled, for half a minute, and cached the result for the others.
    is_warm: AtomicBool,
}

#[derive(Debug)]
struct Workers {
    without_tools: Worker,
    with_tools: Worker,
    /// The name of the case whose tools the instance in `with_tools` knows.
    tools_of: Option<String>,
}

impl Hosted {
    /// Each host, or the command that builds what it lacks.
    #[must_use]
    pub fn all(program: &str) -> Vec<(Host, Result<Self, String>)> {
        Host::ALL.into_iter().map(|host| (host, Self::of(host, program))).collect()
    }

    /// A host.
    ///
    /// # Errors
    /// The command that builds what it lacks.
    pub fn of(host: Host, program: &str) -> Result<Self, String> {
        let most = thread::available_parallelism().map_or(1, NonZero::get);
        Self::pool(most, host, program)
    }

    /// A host with one pair of processes, so that its only user knows which process it is.
    ///
    /// # Errors
    /// The command that builds what it lacks.
    pub fn alone(host: Host, program: &str) -> Result<Self, String> {
        Self::pool(1, host, program)
    }

    fn pool(count: usize, host: Host, program: &str) -> Result<Self, String> {
        let workers = (0..count).map(|_| Workers::of_host(host, program).map(Mutex::new)).collect::<Result<_, _>>()?;
        Ok(Self(Arc::new(Pool { workers, is_warm: AtomicBool::new(false) })))
    }

    /// An unused pair, or the first that becomes free.
    fn workers(&self) -> MutexGuard<'_, Workers> {
        let Pool { workers, is_warm } = &*self.0;
        let first = || workers[0].lock().unwrap_or_else(PoisonError::into_inner);
        if !is_warm.load(Ordering::Acquire) {
            return first();
        }
        let free = workers.iter().find_map(|workers| match workers.try_lock() {
            Ok(workers) => Some(workers),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        });
        free.unwrap_or_else(first)
    }

    /// The process for cases without tools, once it has run one.
    #[must_use]
    pub fn process(&self) -> Option<u32> {
        self.workers().without_tools.process()
    }

    /// Runs cases with nothing in between: the result of each, and whether the instance that ran the first also ran the
    /// last. Cases with tools must have the same name.
    pub fn run(&self, runtime: &str, cases: &[&Case]) -> (Vec<Result<Vec<StepResult>, String>>, bool) {
        let mut workers = self.workers();
        let worker = workers.of(cases);
        let mut first = None;
        let mut all = Vec::new();
        for case in cases {
            let options = LineOptions { any_clock_and_entropy: true, ..LineOptions::default() };
            let answer = worker.ask(&case_line(case, runtime, options).to_string(), ANSWER);
            all.push(match answer {
                Answer::Line(line) => results(line.as_bytes()).map_err(|error| format!("{error}: {line}\n")),
                Answer::Broke(how) => Err(format!("the instance ended: {how}\n")),
            });
            first.get_or_insert(worker.started());
            self.0.is_warm.store(true, Ordering::Release);
        }
        (all, first == Some(worker.started()))
    }
}

impl Workers {
    fn of_host(host: Host, program: &str) -> Result<Self, String> {
        let (without_tools, with_tools) = (Worker::new(host.command(program)?), Worker::new(host.command(program)?));
        Ok(Self { without_tools, with_tools, tools_of: None })
    }

    /// The process for these cases: one whose instance knows their tools, or a new one.
    fn of(&mut self, cases: &[&Case]) -> &mut Worker {
        let Some(case) = cases.iter().find(|case| !case.tools.is_empty()) else { return &mut self.without_tools };
        let name = format!("{}/{}", case.language.name(), case.name);
        if self.tools_of.as_ref() != Some(&name) {
            self.with_tools.end();
            self.tools_of = Some(name);
        }
        &mut self.with_tools
    }
}
