//! The clock and the tools of the component's executions.

use std::{fmt, rc::Rc, time::Duration};

#[cfg(any(feature = "tools", test))]
use glovebox_core::tools::{Definition, MAX_PROVIDER_LEVELS, ToolDefinitionError, weight};
use glovebox_core::{
    Moment, Platform, Watch,
    tools::{
        Answer, CallFailure, CallStart, CheckedDefinition, QueuedCall, ReadyCall, ToolError, ToolErrorKind, ToolRunner,
        Toolset, json_text, within,
    },
};
#[cfg(any(feature = "tools", test))]
use serde_json::{Value, json};

use crate::{Clocks, Reading, ToolHost, World, bindings::types};

/// The context of a guest's current execution. The default has no clock and never stops the guest.
pub type ExecutionCtx = glovebox_core::ExecutionCtx<ComponentPlatform>;

/// The fuel in a guest's slice if there is a clock to check: about half a millisecond of work. A check takes less than
/// a microsecond.
const SLICE_FUEL: u64 = 2_000_000;

/// The clock of one execution in the component.
#[derive(Debug, Default)]
pub struct ComponentPlatform {
    watch: Stopwatch,
}

impl ComponentPlatform {
    /// Creates the context of an execution that starts now.
    #[must_use]
    pub fn begin(world: &World, timeout: Duration) -> ExecutionCtx {
        let watch = Stopwatch::start(world.clocks.clone());
        ExecutionCtx::new(Self { watch: watch.clone() }, watch, timeout)
    }
}

impl Platform for ComponentPlatform {
    type Watch = Stopwatch;
    type Tools = InlineRunner;

    fn wait(&self, watch: &Stopwatch, until: Duration, _heeds_cancellation: bool, _is_ready: impl Fn() -> bool) {
        if let Some(clocks) = watch.clocks() {
            clocks.sleep(until.saturating_sub(watch.elapsed()));
        }
    }

    fn realtime_ns(&self) -> u64 {
        self.watch.realtime_ns()
    }

    fn moment(&self, watch: &Stopwatch) -> Moment {
        watch.moment()
    }
}

/// Returns the size of the guest's next slice, in fuel. The host checks the clock and the soft stop between slices.
#[must_use]
pub(crate) fn slice(ctx: &ExecutionCtx, left: u64) -> u64 {
    let max = if ctx.watch().has_clock() { SLICE_FUEL } else { u64::MAX };
    // End the slice where a soft stop is due.
    let before_reserve = left.checked_sub(ctx.fuel_reserve()).map_or(left, |before| before.max(1));
    max.min(before_reserve).min(left).min(i64::MAX.unsigned_abs())
}

/// A runner that runs tools while the guest writes to the tool device or reads from it.
///
/// The component has a single thread, and a tool call blocks in the component's host. A call therefore runs when it is
/// started, and the guest waits. As in the engine, a guest that reads no replies can start only a limited number of
/// calls.
pub struct InlineRunner {
    toolbox: Rc<Toolbox>,
    host: Option<Rc<dyn ToolHost>>,
}

/// A handle to a running call. No value exists, because every call finishes when it is started.
#[derive(Debug)]
pub enum Never {}

impl InlineRunner {
    /// Creates a runner for these tools.
    #[must_use]
    pub fn new(toolbox: Rc<Toolbox>, world: &World) -> Self {
        Self { toolbox, host: world.tools.clone() }
    }

    fn answer(&self, call: QueuedCall<Rc<CheckedDefinition>>, max_bytes: u64) -> Answer {
        let QueuedCall { name, tool, arguments, text, .. } = call;
        tool.check(&arguments)?;
        let Some(host) = &self.host else {
            return Err(CallFailure::new(
                ToolErrorKind::Failed,
                "the tool cannot be called: the provider has no tool host",
            ));
        };
        let failure = |failure: types::CallFailure| CallFailure::from(ToolError::from(failure));
        let result = host.call(&name, &text).map_err(failure)?;
        json_text(within(result, max_bytes)?)
    }
}

impl ToolRunner for InlineRunner {
    type Watch = Stopwatch;
    type Tool = Rc<CheckedDefinition>;
    type Running = Never;
    type Wait = Never;

    const RUN_INLINE: bool = true;

    fn tools(&self) -> &Toolbox {
        &self.toolbox
    }

    fn start(&mut self, ready: ReadyCall<Rc<CheckedDefinition>>) -> Result<CallStart<Never>, CallFailure> {
        let ReadyCall { call, max_bytes, .. } = ready;
        Ok(CallStart::Answered(self.answer(call, max_bytes)))
    }
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
