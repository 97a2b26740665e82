//! Measures fresh executions on several threads.

use std::{
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use anyhow::anyhow;
use glovebox::Sandbox;

use crate::samples::Samples;

/// The executions on several threads, and the total time that they took.
#[derive(Clone, Debug, Default)]
pub(crate) struct Throughput {
    pub(crate) samples: Samples,
    busy: Duration,
}

impl Throughput {
    /// Returns the number of executions per second.
    pub(crate) fn rate(&self) -> f64 {
        if self.busy.is_zero() { 0.0 } else { self.samples.len() as f64 / self.busy.as_secs_f64() }
    }

    /// Runs the script repeatedly on `threads` threads for `period`, and collects the samples.
    pub(crate) fn run(
        &mut self,
        sandbox: &Sandbox,
        source: &str,
        threads: usize,
        period: Duration,
    ) -> anyhow::Result<()> {
        let barrier = Barrier::new(threads + 1);
        let (all, busy) = thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|_| {
                    scope.spawn(|| {
                        barrier.wait();
                        work(sandbox, source, period)
                    })
                })
                .collect();
            barrier.wait();
            let start = Instant::now();
            let all: Vec<_> = workers.into_iter().map(thread::ScopedJoinHandle::join).collect();
            (all, start.elapsed())
        });
        for samples in all {
            self.samples.extend(samples.map_err(|_| anyhow!("a worker thread panicked"))??);
        }
        self.busy += busy;
        Ok(())
    }
}

fn work(sandbox: &Sandbox, source: &str, period: Duration) -> anyhow::Result<Samples> {
    let begin = Instant::now();
    let mut samples = Samples::default();
    while begin.elapsed() < period {
        let start = Instant::now();
        sandbox.execute(source)?;
        samples.push(start.elapsed());
    }
    Ok(samples)
}
