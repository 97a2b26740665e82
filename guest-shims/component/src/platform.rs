//! The component's time and tools for executions.

use std::{rc::Rc, time::Duration};

use glovebox_core::{
    Moment, Platform, Watch,
    tools::{
        Answer, Checked, Failure, QueuedCall, ReadyCall, Start, ToolError, ToolErrorKind, ToolRunner, json_text, within,
    },
};

use crate::{Stopwatch, ToolHost, Toolbox, World, bindings::types};

/// The current execution of a guest. The default has no clock and never stops the guest.
pub type ExecutionCtx = glovebox_core::ExecutionCtx<ComponentPlatform>;

/// Fuel that a guest gets at a time if there is a clock to check: half a millisecond of work. The check takes less than
/// a microsecond.
const SLICE_FUEL: u64 = 2_000_000;

/// The component's platform for one execution.
#[derive(Debug, Default)]
pub struct ComponentPlatform {
    watch: Stopwatch,
}

impl ComponentPlatform {
    /// Starts an execution now.
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

/// Returns the part of the remaining fuel that a guest gets before the next check.
#[must_use]
pub(crate) fn slice(ctx: &ExecutionCtx, left: u64) -> u64 {
    let most = if ctx.watch().has_clock() { SLICE_FUEL } else { u64::MAX };
    // The slice ends where a soft stop is due.
    let before_reserve = left.checked_sub(ctx.fuel_reserve()).map_or(left, |before| before.max(1));
    most.min(before_reserve).min(left).min(i64::MAX.unsigned_abs())
}

/// Runs tools while the guest writes or reads.
///
/// There is one thread, and a tool call is a blocking call to the component's host. A call therefore runs when its turn
/// comes, and nothing runs concurrently with the guest. As in the engine, a guest that does not read its replies runs
/// out of turns.
pub struct InlineRunner {
    toolbox: Rc<Toolbox>,
    host: Option<Rc<dyn ToolHost>>,
}

/// A running call, which cannot exist here.
#[derive(Debug)]
pub enum Never {}

impl InlineRunner {
    /// Creates a runner for these tools.
    #[must_use]
    pub fn new(toolbox: Rc<Toolbox>, world: &World) -> Self {
        Self { toolbox, host: world.tools.clone() }
    }

    fn answer(&self, call: QueuedCall<Rc<Checked>>, max_bytes: u64) -> Answer {
        let QueuedCall { name, tool, arguments, text, .. } = call;
        tool.check(&arguments)?;
        let Some(host) = &self.host else {
            return Err(Failure::new(ToolErrorKind::Failed, "the tool could not be run"));
        };
        let failure = |failure: types::CallFailure| Failure::from(ToolError::from(failure));
        let result = host.call(&name, &text).map_err(failure)?;
        json_text(within(result, max_bytes)?)
    }
}

impl ToolRunner for InlineRunner {
    type Watch = Stopwatch;
    type Tool = Rc<Checked>;
    type Running = Never;
    type Wait = Never;

    const RUN_INLINE: bool = true;

    fn tools(&self) -> &Toolbox {
        &self.toolbox
    }

    fn start(&mut self, ready: ReadyCall<Rc<Checked>>) -> Result<Start<Never>, Failure> {
        let ReadyCall { call, max_bytes, .. } = ready;
        Ok(Start::Answered(self.answer(call, max_bytes)))
    }
}
