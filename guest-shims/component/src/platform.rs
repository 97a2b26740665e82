//! The clock and the tools of the component's executions.

use std::{fmt, rc::Rc, task::Context, time::Duration};

#[cfg(any(feature = "tools", test))]
use glovebox_core::tools::{Definition, MAX_PROVIDER_LEVELS, ToolDefinitionError, weight};
use glovebox_core::{
    Moment, Platform, Watch,
    tools::{CheckedDefinition, Toolset},
};
use glovebox_wasi::Stream;
#[cfg(any(feature = "tools", test))]
use serde_json::{Value, json};

#[cfg(any(feature = "tools", test))]
use crate::bindings::types;
use crate::{CallRunner, Clocks, Live, Pause, Reading, World, wait};

/// The context of a guest's current execution. The default has no clock and never stops the guest.
pub type ExecutionCtx = glovebox_core::ExecutionCtx<ComponentPlatform>;

/// The fuel in a guest's slice if there is a clock to check: about half a millisecond of work. A check takes less than
/// a microsecond.
const SLICE_FUEL: u64 = 2_000_000;

/// The clock of one execution in the component, and its observers.
#[derive(Debug, Default)]
pub struct ComponentPlatform {
    watch: Stopwatch,
    pause: Option<Pause>,
    /// The state that the caller observes; `None` for code that runs on behalf of no execution.
    pub live: Option<Rc<Live>>,
}

impl ComponentPlatform {
    /// Creates the context of an execution that starts now.
    #[must_use]
    pub fn begin(world: &World, timeout: Duration) -> ExecutionCtx {
        let watch = Stopwatch::start(world.clocks.clone());
        ExecutionCtx::new(Self { watch: watch.clone(), pause: world.pause, live: None }, watch, timeout)
    }

    /// Lets the host run other calls, and serves the execution's observers.
    pub(crate) fn pause(&self) {
        if let Some(pause) = self.pause {
            pause(self.live.as_deref());
        }
    }

    fn is_cancelled(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.is_cancelled())
    }
}

impl Platform for ComponentPlatform {
    type Watch = Stopwatch;
    type Tools = CallRunner;

    fn wait(&self, watch: &Stopwatch, until: Duration, heeds_cancellation: bool, is_ready: impl Fn() -> bool) {
        let Some(clocks) = watch.clocks() else { return };
        let is_ready = || {
            if let Some(live) = &self.live {
                live.serve(&mut Context::from_waker(&wait::waker()));
            }
            is_ready() || (heeds_cancellation && self.is_cancelled())
        };
        clocks.wait(until.saturating_sub(watch.elapsed()), &is_ready);
    }

    fn realtime_ns(&self) -> u64 {
        self.watch.realtime_ns()
    }

    fn moment(&self, watch: &Stopwatch) -> Moment {
        let moment = watch.moment();
        Moment { is_cancelled: moment.is_cancelled || self.is_cancelled(), ..moment }
    }

    fn output(&mut self, stream: Stream, bytes: &[u8]) {
        if let Some(live) = &self.live {
            live.add_output(stream, bytes);
        }
    }

    fn display(&mut self, message: &[u8]) {
        if let Some(live) = &self.live {
            live.add_display(message);
        }
    }
}

/// Returns the size of the guest's next slice, in fuel. The host checks the clock and the soft stop between slices.
#[must_use]
pub(crate) fn slice(ctx: &ExecutionCtx, left: u64) -> u64 {
    let is_sliced = ctx.watch().has_clock() || ctx.platform.pause.is_some();
    let max = if is_sliced { SLICE_FUEL } else { u64::MAX };
    // End the slice where a soft stop is due.
    let before_reserve = left.checked_sub(ctx.fuel_reserve()).map_or(left, |before| before.max(1));
    max.min(before_reserve).min(left).min(i64::MAX.unsigned_abs())
}

/// A measurement of elapsed time. Without a clock, no time passes.
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
    /// Starts a stopwatch. `clocks` is `None` if the component has no clock.
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

    /// Returns the elapsed time, and `true` if the host has cancelled, from a single clock reading. Without a clock,
    /// no time passes and the host cannot cancel.
    #[must_use]
    pub fn moment(&self) -> Moment {
        let read = |clocks: &dyn Clocks| {
            let Reading { now, is_cancelled } = clocks.read();
            Moment { elapsed: now.saturating_sub(self.begun), is_cancelled }
        };
        self.clocks().map_or(Moment { elapsed: Duration::ZERO, is_cancelled: false }, read)
    }

    /// Returns the nanoseconds since 1970; 0 without a clock.
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

/// Maximum number of tools, as documented in `wit/tools.wit`.
#[cfg(any(feature = "tools", test))]
const MAX_TOOLS: usize = 1_024;

/// Maximum total memory of the tools' schemas as parsed values, in bytes.
#[cfg(any(feature = "tools", test))]
const MAX_SCHEMAS_WEIGHT: u64 = 32 << 20;

/// The host's tools with their compiled schemas.
pub type Toolbox = Toolset<Rc<CheckedDefinition>>;

/// Returns the host's tools, with their schemas compiled.
///
/// # Errors
/// Fails if a tool is invalid. The text describes the problem.
#[cfg(any(feature = "tools", test))]
pub(crate) fn host_toolbox(world: &World) -> Result<Toolbox, String> {
    world.tools.as_ref().map_or_else(|| Ok(Toolbox::default()), |tools| check_tools(&tools.list()))
}

/// Returns no tools. A component without tools omits the schema compiler, which is three times as large as all other
/// code.
#[cfg(not(any(feature = "tools", test)))]
pub(crate) fn host_toolbox(_world: &World) -> Result<Toolbox, String> {
    Ok(Toolbox::default())
}

/// Checks the tools and compiles their schemas. Returns the reason if a tool is invalid.
#[cfg(any(feature = "tools", test))]
pub(crate) fn check_tools(tools: &[types::Tool]) -> Result<Toolbox, String> {
    if tools.len() > MAX_TOOLS {
        return Err(format!("the host has {} tools; the maximum is {MAX_TOOLS}", tools.len()));
    }
    let schemas = tools.iter().filter_map(|tool| tool.arguments_schema.as_ref());
    let weight = schemas.fold(0u64, |sum, text| sum.saturating_add(weight(text.as_bytes())));
    if weight > MAX_SCHEMAS_WEIGHT {
        return Err(format!(
            "the tools' schemas need up to {weight} bytes of memory when parsed; the maximum is {MAX_SCHEMAS_WEIGHT}; \
             offer fewer tools or simpler schemas"
        ));
    }
    let message = |error: ToolDefinitionError| error.to_string();
    let mut toolbox = Toolbox::default();
    for types::Tool { name, description, arguments_schema } in tools {
        let schema: Value = match arguments_schema {
            None => json!({ "type": "object" }),
            Some(text) => {
                serde_json::from_str(text).map_err(|error| format!("the schema of `{name}` is not JSON: {error}"))?
            }
        };
        let max_levels = MAX_PROVIDER_LEVELS;
        let definition = Definition { name, description, schema: &schema, is_untrusted: true, max_levels };
        toolbox.add(name, Rc::new(definition.check().map_err(message)?)).map_err(message)?;
    }
    toolbox.check().map_err(message)?;
    Ok(toolbox)
}
