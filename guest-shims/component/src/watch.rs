//! Measurement of elapsed time.

use std::{fmt, rc::Rc, time::Duration};

use glovebox_core::{Moment, Watch};

use crate::{Clocks, Reading};

/// Measures the time since a moment. Without a clock, no time passes.
#[derive(Clone, Default)]
pub struct Stopwatch {
    clocks: Option<Rc<dyn Clocks>>,
    begun: Duration,
}

impl fmt::Debug for Stopwatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stopwatch").field("begun", &self.begun).finish_non_exhaustive()
    }
}

impl Stopwatch {
    /// Starts a measurement.
    #[must_use]
    pub fn start(clocks: Option<Rc<dyn Clocks>>) -> Self {
        let begun = clocks.as_ref().map(|clocks| clocks.read().now).unwrap_or_default();
        Self { clocks, begun }
    }

    /// Returns the clock, if there is one.
    #[must_use]
    pub fn clocks(&self) -> Option<&dyn Clocks> {
        self.clocks.as_deref()
    }

    /// Returns the state of an execution that began at that moment, from one reading of the clock. Without a clock, the
    /// host cannot cancel it.
    #[must_use]
    pub fn moment(&self) -> Moment {
        let read = |clocks: &dyn Clocks| {
            let Reading { now, is_cancelled } = clocks.read();
            Moment { elapsed: now.saturating_sub(self.begun), is_cancelled }
        };
        self.clocks().map_or(Moment { elapsed: Duration::ZERO, is_cancelled: false }, read)
    }

    /// Returns nanoseconds since 1970; 0 without a clock.
    #[must_use]
    pub fn realtime_ns(&self) -> u64 {
        self.clocks().map_or(0, Clocks::realtime_ns)
    }
}

impl Watch for Stopwatch {
    fn elapsed(&self) -> Duration {
        self.moment().elapsed
    }

    fn has_clock(&self) -> bool {
        self.clocks.is_some()
    }
}
