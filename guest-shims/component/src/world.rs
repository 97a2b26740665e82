//! The interface to the component's host.

use std::{fmt, rc::Rc, sync::Arc, time::Duration};

use crate::{Guests, LibraryBytes, bindings::types};

/// The clocks of the host.
pub trait Clocks {
    /// Reads the clock. One reading gives both values, because it happens twice per millisecond.
    fn read(&self) -> Reading;

    /// Returns nanoseconds since 1970.
    fn realtime_ns(&self) -> u64;

    /// Waits. Returns early if the host cancels.
    fn sleep(&self, duration: Duration);
}

/// A reading of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The time since a fixed moment. Never decreases.
    pub now: Duration,
    /// `true` once the host cancels the running execution.
    pub is_cancelled: bool,
}

/// Answers the calls of scripts, through the component's import of the interface `tools`.
pub trait ToolHost {
    /// Returns the tools. The list never changes.
    fn list(&self) -> Vec<types::Tool>;

    /// Calls a tool.
    fn call(&self, name: &str, arguments: &str) -> Result<String, types::CallFailure>;
}

/// The guests, the clocks and the tools.
#[derive(Clone)]
pub struct World {
    /// The guests of the woven module.
    pub guests: Rc<dyn Guests>,
    /// The guests' libraries. File systems hold them, and may be shared between threads.
    pub libraries: Arc<dyn LibraryBytes>,
    /// The clocks. Without them, time limits do not apply.
    pub clocks: Option<Rc<dyn Clocks>>,
    /// The host's tools, if the component imports them.
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
