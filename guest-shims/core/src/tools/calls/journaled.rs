//! The tool calls of an execution that has a journal.

use std::{collections::BTreeMap, mem, time::Duration};

use super::{FinishedCall, QueuedCall, ToolCalls, ToolRunner};
use crate::{
    Watch as _,
    journal::{CallEnded, SuspendedCalls, UnansweredCall},
    tools::{Answer, CallFailure, hold_answer},
};

/// The additional state of the calls in an execution with a journal.
pub(super) struct JournaledCalls<T> {
    /// The calls that have ended since the last call of [`ToolCalls::take_ended`].
    pub(super) ended: Vec<CallEnded>,
    /// The number of replies so far that did not report the end of a call, such as errors about unknown tools.
    pub(super) own_replies: u64,
    /// The names and arguments of the calls that were started and have not ended, by position.
    pub(super) started: BTreeMap<usize, (String, String)>,
    /// The calls that the script has repeated during the replay but whose completion has not been replayed yet. `None`
    /// after the replay.
    pub(super) repeated: Option<Vec<QueuedCall<T>>>,
    /// The replayed calls that have ended and count towards the maximum number of calls to their tool.
    counted: Vec<(String, T)>,
    /// The times of the calls before the suspension, by position.
    times: Vec<Duration>,
    /// The number of refused calls before the suspension.
    refused: u64,
    /// The duration of the replay. The records of calls exclude this duration.
    repeating: Duration,
}

impl<R: ToolRunner> ToolCalls<R> {
    /// Starts keeping track of the calls for a journal. `repeats` contains the times of the calls to replay. If
    /// `repeats` is set, no tool is called until [`start_unanswered`](Self::start_unanswered).
    pub(crate) fn journal(&mut self, repeats: Option<Vec<Duration>>) {
        self.journaled = Some(JournaledCalls {
            ended: Vec::new(),
            own_replies: 0,
            started: BTreeMap::new(),
            repeated: repeats.is_some().then(Vec::new),
            counted: Vec::new(),
            times: repeats.unwrap_or_default(),
            refused: 0,
            repeating: Duration::ZERO,
        });
    }

    /// Converts a time on the watch to a time in the records, which excludes the duration of a replay.
    pub(super) fn recorded_time(&self, at: Duration) -> Duration {
        at.saturating_sub(self.journaled.as_ref().map_or(Duration::ZERO, |journaled| journaled.repeating))
    }

    /// Returns the time of the next call for its record. A replayed call keeps its original time.
    pub(super) fn time_of_call(&self) -> Duration {
        let first = self.journaled.as_ref().and_then(|journaled| journaled.times.get(self.tally.recorded()));
        first.copied().unwrap_or_else(|| self.recorded_time(self.watch.elapsed()))
    }

    /// Returns the number of refused calls that were already reported before a suspension.
    pub(super) fn repeated_refusals(&self) -> u64 {
        match &self.journaled {
            Some(journaled) if journaled.repeated.is_some() => self.tally.refused(),
            Some(journaled) => journaled.refused,
            None => 0,
        }
    }

    pub(super) fn repeated(&mut self) -> Option<&mut Vec<QueuedCall<R::Tool>>> {
        self.journaled.as_mut()?.repeated.as_mut()
    }

    /// Takes the calls that have ended, in order, for the journal.
    pub(crate) fn take_ended(&mut self) -> Vec<CallEnded> {
        self.journaled.as_mut().map(|journaled| mem::take(&mut journaled.ended)).unwrap_or_default()
    }

    /// Replays the end of a call. Returns `false` if the script has not made the call again, or has not received the
    /// replies that preceded the end.
    pub(crate) fn repeat_end(&mut self, end: &CallEnded) -> bool {
        if self.journaled.as_ref().is_some_and(|journaled| journaled.own_replies < end.own_replies) {
            return false;
        }
        loop {
            let Some(repeated) = self.repeated() else { return false };
            if let Some(at) = repeated.iter().position(|call| call.index == end.index) {
                let QueuedCall { id, index, name, tool, .. } = repeated.remove(at);
                let CallEnded { answer, has_run, is_counted, ended, .. } = end.clone();
                if is_counted && let Some(journaled) = &mut self.journaled {
                    journaled.counted.push((name, tool));
                }
                if has_run {
                    let (answer, held) = hold_answer(&self.account, answer);
                    self.reply(id, FinishedCall { index, answer, held, ended });
                } else {
                    self.finish(id, index, answer, ended);
                }
                return true;
            }
            if !self.repeat_start() {
                return false;
            }
        }
    }

    /// Replays the start of the next queued call, without calling the tool. Returns `false` if no call may start.
    pub(super) fn repeat_start(&mut self) -> bool {
        let (running, unread, at_once) = (self.running.len(), self.unread_ran, self.at_once);
        let Some(repeated) = self.journaled.as_mut().and_then(|journaled| journaled.repeated.as_mut()) else {
            return false;
        };
        if running + repeated.len() + unread >= at_once {
            return false;
        }
        let Some(call) = self.queued.pop_front() else { return false };
        repeated.push(call);
        true
    }

    /// Returns replayed calls to the queue, until it contains `queued` calls as in the recording. A replay starts
    /// calls as early as `tool_calls_at_once` allows. In the first run, [`ToolRunner::turn`] may have delayed the
    /// calls further.
    pub(crate) fn requeue(&mut self, queued: usize) {
        let Some(repeated) = self.journaled.as_mut().and_then(|journaled| journaled.repeated.as_mut()) else { return };
        while self.queued.len() < queued {
            // Calls start in order, so the last calls were delayed.
            let Some(call) = repeated.pop() else { return };
            self.queued.push_front(call);
        }
    }

    /// Returns the calls to save with a suspended execution. Returns `None` without a journal, or if an unanswered call
    /// cannot be restarted after the suspension.
    pub(crate) fn suspended(&self) -> Option<SuspendedCalls> {
        if !self.running.iter().all(|call| self.runner.can_restart(&call.running)) {
            return None;
        }
        let journaled = self.journaled.as_ref()?;
        let call = |index: usize, name: &str, arguments: &str| UnansweredCall {
            index,
            name: name.to_owned(),
            arguments: arguments.to_owned(),
        };
        let unanswered: Vec<_> = match &journaled.repeated {
            Some(repeated) => {
                repeated.iter().map(|repeated| call(repeated.index, &repeated.name, &repeated.text)).collect()
            }
            None => journaled.started.iter().map(|(index, (name, text))| call(*index, name, text)).collect(),
        };
        Some(SuspendedCalls { unanswered, queued: self.queued.len(), times: self.tally.times() })
    }

    /// Ends the replay: starts the calls that the recording leaves unanswered, so that the caller can answer them.
    /// `repeating` is the time that the replay took, by which the execution's timeout was extended.
    pub(crate) fn start_unanswered(&mut self, repeating: Duration) {
        self.timeout = self.timeout.saturating_add(repeating);
        let refused = self.tally.refused();
        let Some(journaled) = &mut self.journaled else { return };
        (journaled.refused, journaled.repeating) = (refused, repeating);
        let (calls, counted) = (journaled.repeated.take().unwrap_or_default(), mem::take(&mut journaled.counted));
        for call in calls {
            self.start_call(call);
        }
        // Count the ended calls last, so that the limits do not refuse the unanswered calls, which they admitted in the
        // first run.
        for (name, tool) in counted {
            self.runner.count_repeated(&name, &tool);
        }
    }

    /// Adds the end of a call to the journal. `ended` excludes the duration of a replay.
    pub(super) fn journal_end(&mut self, index: usize, answer: &Answer, has_run: bool, ended: Duration) {
        if let Some(journaled) = &mut self.journaled {
            let is_counted = journaled.started.remove(&index).is_some();
            let (answer, own_replies) = (answer.clone(), journaled.own_replies);
            journaled.ended.push(CallEnded { index, answer, has_run, is_counted, ended, own_replies });
        }
    }

    /// Records a call without an answer from its tool, because the call could not be started or exceeded its timeout.
    pub(super) fn ended_unrun(&mut self, id: u64, index: usize, failure: CallFailure, ended: Duration) {
        let (answer, ended) = (Err(failure), self.recorded_time(ended));
        self.journal_end(index, &answer, false, ended);
        self.finish(id, index, answer, ended);
    }

    /// Handles a guest's message. Returns `true` if the message is a tool call.
    pub fn send(&mut self, text: &[u8]) -> bool {
        let ended = |calls: &Self| calls.journaled.as_ref().map_or(0, |journaled| journaled.ended.len());
        let (unread_before, ended_before) = (self.unread.len(), ended(self));
        let is_call = self.take_message(text);
        let own_replies = (self.unread.len() - unread_before).saturating_sub(ended(self) - ended_before);
        if let Some(journaled) = &mut self.journaled {
            journaled.own_replies += own_replies as u64;
        }
        is_call
    }
}
