//! Host processes that run cases and return their results.

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

/// The timeout for a host to run a case: many times the duration of the slowest case on a busy machine. The first case
/// also waits for compilation.
const ANSWER: Duration = Duration::from_secs(300);

/// A host with one pair of processes per concurrent trial, shared by all trials. One process of a pair runs cases
/// without tools, and the other runs cases with tools. An instance requests the tools from its host only once, so a
/// case with other tools needs a new instance.
#[derive(Clone, Debug)]
pub struct HostPool(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    workers: Vec<Mutex<Workers>>,
    /// `true` after the first answer. The program has then been compiled, which takes half a minute, and its code is
    /// cached for the other processes.
    is_warm: AtomicBool,
}

#[derive(Debug)]
struct Workers {
    without_tools: Worker,
    with_tools: Worker,
    /// The name of the case whose tools the instance in `with_tools` has loaded.
    tools_of: Option<String>,
}

impl HostPool {
    /// Creates every host. If a component or tool is missing, the error contains the command that builds it.
    pub fn all(program: &str) -> Vec<(Host, Result<Self, String>)> {
        Host::ALL.into_iter().map(|host| (host, Self::of(host, program))).collect()
    }

    /// Creates a host.
    ///
    /// # Errors
    /// Fails if a component or tool is missing. The error contains the command that builds it.
    pub fn of(host: Host, program: &str) -> Result<Self, String> {
        let max = thread::available_parallelism().map_or(1, NonZero::get);
        Self::pool(max, host, program)
    }

    /// Creates a host with a single pair of processes, so that its only user can identify the process.
    ///
    /// # Errors
    /// Same as [`of`](Self::of).
    pub fn alone(host: Host, program: &str) -> Result<Self, String> {
        Self::pool(1, host, program)
    }

    fn pool(count: usize, host: Host, program: &str) -> Result<Self, String> {
        let workers = (0..count).map(|_| Workers::of_host(host, program).map(Mutex::new)).collect::<Result<_, _>>()?;
        Ok(Self(Arc::new(Pool { workers, is_warm: AtomicBool::new(false) })))
    }

    /// Acquires an unused pair, or waits for the first pair. Uses only the first pair until it has answered once, so
    /// that one process compiles the program for the others.
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

    /// Returns the ID of the process for cases without tools, after it has run a case.
    pub fn process(&self) -> Option<u32> {
        self.workers().without_tools.process()
    }

    /// Runs cases consecutively, with no other cases in between. Returns the result of each case, and `true` if one
    /// instance ran all of them. Cases with tools must have the same name.
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

    /// Returns the process for these cases: a process whose instance has loaded their tools, or a new one.
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
