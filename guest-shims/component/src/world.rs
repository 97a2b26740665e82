//! What the component's host provides.

use std::{fmt, rc::Rc, sync::Arc, time::Duration};

use crate::{Guests, LibraryBytes, bindings::types};

/// The clocks of the host.
pub trait Clocks {
    /// Reads the clock, once for both values, since it is read twice in a millisecond.
    fn read(&self) -> Reading;

    /// Nanoseconds since 1970.
    fn realtime_ns(&self) -> u64;

    /// Waits. It may return early where the host cancels.
    fn sleep(&self, duration: Duration);
}

/// A reading of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The time since some moment. It never decreases.
    pub now: Duration,
    /// Whether the host wants to cancel the running execution.
    pub is_cancelled: bool,
}

/// Answers the calls of scripts: the interface `tools` that the component imports.
pub trait ToolHost {
    /// The tools, always the same ones.
    fn list(&self) -> Vec<types::Tool>;

    /// Calls a tool.
    fn call(&self, name: &str, arguments: &str) -> Result<String, types::CallFailure>;
}

/// The guests, and what the host provides.
#[derive(Clone)]
pub struct World {
    /// The guests of the woven module.
    pub guests: Rc<dyn Guests>,
    /// Their libraries. File systems hold on to it, which may be shared by threads.
    pub libraries: Arc<dyn LibraryBytes>,
    /// The clocks. Without them there are no limits on time.
    pub clocks: Option<Rc<dyn Clocks>>,
    /// Who answers the tools of scripts.
    pub tools: Option<Rc<dyn ToolHost>>,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World")
            .field("has_clocks", &self.clocks.is_some())
            .field("has_tools", &self.tools.is_some())
            .finish_non_exhaustive()
    }
}
