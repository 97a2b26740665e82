//! Output of executions that Python advances in several steps.

use std::{
    mem,
    sync::{Mutex, MutexGuard, PoisonError, mpsc::Sender},
};

use glovebox::Stream;

use crate::interrupt::Event;

/// A relay that sends output to the event channel of the current step. Between steps, it keeps output for the next
/// step: after a tool call has timed out, a script continues without an answer.
#[derive(Default)]
pub(crate) struct OutputRelay(Mutex<RelayState>);

#[derive(Default)]
struct RelayState {
    /// The event channel of the current step; `None` between steps.
    events: Option<Sender<Event>>,
    held: Vec<(Stream, Vec<u8>)>,
}

impl OutputRelay {
    fn state(&self) -> MutexGuard<'_, RelayState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn pass_on(&self, stream: Stream, bytes: &[u8]) {
        let mut state = self.state();
        if let Some(events) = &state.events {
            // Cannot fail: `run_attended` receives until the step has ended.
            let _ = events.send(Event::Output(stream, bytes.to_vec()));
        } else {
            state.held.push((stream, bytes.to_vec()));
        }
    }

    /// Sends the held output to `events`, and all further output until the step is dropped.
    pub(crate) fn begin_step(&self, events: Sender<Event>) -> RelayStep<'_> {
        let mut state = self.state();
        for (stream, bytes) in mem::take(&mut state.held) {
            // Cannot fail: `run_attended` receives until the step has ended.
            let _ = events.send(Event::Output(stream, bytes));
        }
        state.events = Some(events);
        RelayStep(self)
    }
}

/// A step of an execution. Dropping it closes the relay's event channel.
pub(crate) struct RelayStep<'a>(&'a OutputRelay);

impl Drop for RelayStep<'_> {
    fn drop(&mut self) {
        self.0.state().events = None;
    }
}
