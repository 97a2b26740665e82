//! Measured times, and their percentiles.

use std::time::{Duration, Instant};

use anyhow::ensure;
use glovebox::Execution;

/// The measured times of one case.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    pub(crate) fn push(&mut self, time: Duration) {
        self.0.push(time);
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns a percentile in milliseconds (nearest rank), or 0 if there are no samples.
    pub(crate) fn percentile_ms(&self, percent: usize) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent).div_ceil(100).max(1);
        sorted.get(rank - 1).map_or(0.0, |time| time.as_secs_f64() * 1000.0)
    }
}

/// Measures `count` consecutive runs after one warm-up run.
pub(crate) fn block(
    into: &mut Samples,
    count: usize,
    mut run: impl FnMut() -> anyhow::Result<Duration>,
) -> anyhow::Result<()> {
    run()?;
    for _ in 0..count {
        into.push(run()?);
    }
    Ok(())
}

/// Times an execution, whose script must print 1.
pub(crate) fn timed<E: std::error::Error + Send + Sync + 'static>(
    run: impl FnOnce() -> Result<Execution, E>,
) -> anyhow::Result<Duration> {
    let start = Instant::now();
    let execution = run()?;
    let took = start.elapsed();
    ensure!(
        execution.is_success() && execution.stdout.bytes == b"1\n",
        "the script did not print 1 but ended with {:?}",
        execution.outcome
    );
    Ok(took)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Samples;

    #[test]
    fn percentiles_are_measured_values() {
        let samples = Samples((1..=200).rev().map(Duration::from_millis).collect());
        assert_eq!(samples.percentile_ms(50), 100.0);
        assert_eq!(samples.percentile_ms(99), 198.0);
        assert_eq!(Samples(vec![Duration::from_millis(7)]).percentile_ms(99), 7.0);
        assert_eq!(Samples::default().percentile_ms(50), 0.0);
    }
}
