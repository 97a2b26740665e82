//! Times between the end of one execution in a session and the next execution, and the activity by time of day.

use serde::Deserialize;

use crate::random::Random;

/// A distribution of times, in seconds.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Distribution {
    /// Pareto distribution of the second kind: a power law with exponent `tail`, truncated at `max_s`.
    Lomax {
        /// The exponent of the survival function. Smaller values have heavier tails.
        tail: f64,
        /// The median of the distribution before truncation.
        median_s: f64,
        /// Maximum time.
        max_s: f64,
    },
    /// Log-normal distribution.
    LogNormal {
        /// Median.
        median_s: f64,
        /// The standard deviation of the logarithm.
        sigma: f64,
    },
    /// Exponential distribution, as in a Poisson process.
    Exponential {
        /// Mean.
        mean_s: f64,
    },
}

impl Distribution {
    /// Returns the distribution with all times multiplied by `factor`.
    pub fn scaled(self, factor: f64) -> Self {
        match self {
            Self::Lomax { tail, median_s, max_s } => {
                Self::Lomax { tail, median_s: median_s * factor, max_s: max_s * factor }
            }
            Self::LogNormal { median_s, sigma } => Self::LogNormal { median_s: median_s * factor, sigma },
            Self::Exponential { mean_s } => Self::Exponential { mean_s: mean_s * factor },
        }
    }

    /// Returns the probability that a time is at most `x` seconds.
    pub fn below(self, x: f64) -> f64 {
        match self {
            Self::Lomax { tail, median_s, max_s } => {
                let scale = lomax_scale(tail, median_s);
                let uncut = |x: f64| 1.0 - libm::pow(1.0 + x / scale, -tail);
                (uncut(x) / uncut(max_s)).min(1.0)
            }
            Self::LogNormal { median_s, sigma } => {
                0.5 * libm::erfc(-libm::log(x.max(1e-300) / median_s) / sigma * core::f64::consts::FRAC_1_SQRT_2)
            }
            Self::Exponential { mean_s } => 1.0 - libm::exp(-x / mean_s),
        }
    }

    /// Samples a time.
    pub fn sample(self, random: &mut Random) -> f64 {
        match self {
            Self::Lomax { tail, median_s, max_s } => {
                let scale = lomax_scale(tail, median_s);
                let cut = 1.0 - libm::pow(1.0 + max_s / scale, -tail);
                scale * (libm::pow(1.0 - random.unit() * cut, -1.0 / tail) - 1.0)
            }
            Self::LogNormal { median_s, sigma } => random.log_normal(median_s, sigma),
            Self::Exponential { mean_s } => -mean_s * libm::log(random.unit()),
        }
    }
}

fn lomax_scale(tail: f64, median_s: f64) -> f64 {
    median_s / (libm::pow(2.0, 1.0 / tail) - 1.0)
}

/// A component of a mixture.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The probability of this component.
    pub share: f64,
    /// `true` for people's pauses, which are shorter at busy times of the day.
    pub daily: bool,
    /// The distribution of the time.
    pub time: Distribution,
}

/// Times between executions: independent samples of a mixture.
#[derive(Clone, Debug)]
pub struct Gaps {
    parts: Vec<Part>,
    /// A grid of times that grow by a constant factor. For each time, `survived_s` is the integral of the survival
    /// function up to that time, and `biased_s` the integral of the density weighted by time.
    grid: Vec<f64>,
    survived_s: Vec<f64>,
    biased_s: Vec<f64>,
}

const POINTS: usize = 4_000;
const FIRST_S: f64 = 1e-3;
const LAST_S: f64 = 1e7;

impl Gaps {
    /// Creates the mixture. Times that depend on the time of day are divided by `intensity`.
    pub fn new(parts: &[Part], intensity: f64) -> Self {
        let scaled = |part: &Part| Part {
            time: if part.daily { part.time.scaled(1.0 / intensity) } else { part.time },
            ..*part
        };
        let parts: Vec<Part> = parts.iter().map(scaled).collect();
        let step = libm::log(LAST_S / FIRST_S) / (POINTS - 2) as f64;
        let mut grid = vec![0.0];
        grid.extend((0..POINTS - 1).map(|i| FIRST_S * libm::exp(step * i as f64)));
        let below: Vec<f64> =
            grid.iter().map(|x| parts.iter().map(|part| part.share * part.time.below(*x)).sum()).collect();
        let (mut survived_s, mut biased_s) = (vec![0.0], vec![0.0]);
        let (mut survived, mut biased) = (0.0, 0.0);
        for i in 1..POINTS {
            let width = grid[i] - grid[i - 1];
            survived += width * (1.0 - 0.5 * (below[i] + below[i - 1]));
            biased += (below[i] - below[i - 1]) * 0.5 * (grid[i] + grid[i - 1]);
            survived_s.push(survived);
            biased_s.push(biased);
        }
        Self { parts, grid, survived_s, biased_s }
    }

    /// Returns the mean time in seconds.
    pub fn mean_s(&self) -> f64 {
        self.survived_s[POINTS - 1]
    }

    /// Returns the probability that a time exceeds `x`: the share of executions whose session was idle for longer than
    /// `x`.
    pub fn longer(&self, x: f64) -> f64 {
        1.0 - self.parts.iter().map(|part| part.share * part.time.below(x)).sum::<f64>()
    }

    /// Returns the share of time that is within `x` after an execution. It is also the share of sessions in memory if
    /// each session stays there for `x`.
    pub fn within(&self, x: f64) -> f64 {
        let i = self.grid.partition_point(|each| *each < x).clamp(1, POINTS - 1);
        let share = (x - self.grid[i - 1]) / (self.grid[i] - self.grid[i - 1]);
        (self.survived_s[i - 1] + share.min(1.0) * (self.survived_s[i] - self.survived_s[i - 1])) / self.mean_s()
    }

    /// Samples a time. The second value is `true` if the time depends on the time of day.
    pub fn sample(&self, random: &mut Random) -> (f64, bool) {
        let part = &self.parts[random.index(self.parts.iter().map(|part| part.share))];
        (part.time.sample(random), part.daily)
    }

    /// Samples a session at a random time: the time since its last execution, and the time until the next one.
    pub fn equilibrium(&self, random: &mut Random) -> (f64, f64) {
        let goal = random.unit() * self.biased_s[POINTS - 1];
        let i = self.biased_s.partition_point(|each| *each < goal).clamp(1, POINTS - 1);
        let share = (goal - self.biased_s[i - 1]) / (self.biased_s[i] - self.biased_s[i - 1]);
        let gap = self.grid[i - 1] + share * (self.grid[i] - self.grid[i - 1]);
        let age = gap * random.unit();
        (age, gap - age)
    }
}

/// Returns the activity at a time of day: a wave in hourly steps, highest at noon.
pub fn hourly(amplitude: f64, now_s: f64) -> f64 {
    let hour = (now_s / 3_600.0).floor() + 0.5;
    1.0 - amplitude * libm::cos(core::f64::consts::TAU * hour / 24.0)
}

/// Returns the time at which `gap_s` has passed on a clock whose rate is the activity.
pub fn later(mut now_s: f64, mut gap_s: f64, amplitude: f64) -> f64 {
    loop {
        let rate = hourly(amplitude, now_s);
        let hour_ends = ((now_s / 3_600.0).floor() + 1.0) * 3_600.0;
        if gap_s <= rate * (hour_ends - now_s) {
            return now_s + gap_s / rate;
        }
        gap_s -= rate * (hour_ends - now_s);
        now_s = hour_ends;
    }
}
