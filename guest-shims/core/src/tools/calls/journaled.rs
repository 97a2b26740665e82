//! The tool calls of an execution that has a journal.

use std::{collections::BTreeMap, time::Duration};

use super::{Done, QueuedCall, ToolCalls, ToolRunner};
use crate::{
    journal::{CallEnded, UnansweredCall},
    tools::{Answer, CallFailure, hold_answer},
};

/// The state of the calls that only an execution with a journal has.
pub(super) struct JournaledCalls<T> {
    /// The calls that have ended since the last [`ToolCalls::take_ended`].
    pub(super) ended: Vec<CallEnded>,
    /// The number of replies so far that no end of a call caused, such as errors about unknown tools.
    pub(super) own_replies: u64,
    /// The names and arguments of the calls that were started and have not ended, by position.
    pub(super) started: BTreeMap<usize, (String, String)>,
    /// The calls that the script has repeated and whose end has not been repeated yet. `None` once the execution
    /// continues.
    pub(super) repeated: Option<Vec<QueuedCall<T>>>,
}

impl<R: ToolRunner> ToolCalls<R> {
    /// Keeps track of the calls for a journal. With `repeats`, no tool is called until [`go_on`](Self::go_on).
    pub(crate) fn journal(&mut self, repeats: bool) {
        let repeated = repeats.then(Vec::new);
        self.journaled = Some(JournaledCalls { ended: Vec::new(), own_replies: 0, started: BTreeMap::new(), repeated });
    }

    pub(super) fn repeated(&mut self) -> Option<&mut Vec<QueuedCall<R::Tool>>> {
        self.journaled.as_mut()?.repeated.as_mut()
    }

    /// Takes the calls that have ended, in order, for the journal.
    pub(crate) fn take_ended(&mut self) -> Vec<CallEnded> {
        self.journaled.as_mut().map(|journaled| std::mem::take(&mut journaled.ended)).unwrap_or_default()
    }

    /// Repeats the end of a call. Returns `false` if the script has not made the call again, or has not received the
    /// replies that preceded the end.
    pub(crate) fn repeat_end(&mut self, end: &CallEnded) -> bool {
        if self.journaled.as_ref().is_some_and(|journaled| journaled.own_replies < end.own_replies) {
            return false;
        }
        loop {
            let Some(repeated) = self.repeated() else { return false };
            if let Some(at) = repeated.iter().position(|call| call.index == end.index) {
                let QueuedCall { id, index, name, tool, .. } = repeated.remove(at);
                self.runner.repeated(&name, &tool);
                let CallEnded { answer, has_run, ended, .. } = end.clone();
                if has_run {
                    let (answer, held) = hold_answer(&self.account, answer);
                    self.reply(id, Done { index, answer, held, ended });
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

    /// Repeats the start of the next queued call, without calling the tool. Returns `false` if no call may start.
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

    /// Returns the unanswered calls, or `None` if one of them cannot be started again after a suspension.
    pub(crate) fn unanswered(&self) -> Option<Vec<UnansweredCall>> {
        if !self.running.iter().all(|call| self.runner.can_restart(&call.running)) {
            return None;
        }
        let journaled = self.journaled.as_ref()?;
        if let Some(repeated) = &journaled.repeated {
            let mut calls: Vec<_> = repeated
                .iter()
                .map(|call| UnansweredCall { index: call.index, name: call.name.clone(), arguments: call.text.clone() })
                .collect();
            calls.sort_by_key(|call| call.index);
            return Some(calls);
        }
        let calls = journaled.started.iter();
        let unanswered = |(index, (name, arguments)): (&usize, &(String, String))| UnansweredCall {
            index: *index,
            name: name.clone(),
            arguments: arguments.clone(),
        };
        Some(calls.map(unanswered).collect())
    }

    /// Ends the repetition: starts the calls that the recording leaves unanswered, so that the caller can answer them.
    /// `extension` is the time by which the execution's timeout was extended.
    pub(crate) fn go_on(&mut self, extension: Duration) {
        self.timeout = self.timeout.saturating_add(extension);
        let repeated = self.journaled.as_mut().and_then(|journaled| journaled.repeated.take());
        for call in repeated.unwrap_or_default() {
            self.start_call(call);
        }
    }

    /// Adds the end of a call to the journal.
    pub(super) fn journal_end(&mut self, index: usize, answer: &Answer, has_run: bool, ended: Duration) {
        if let Some(journaled) = &mut self.journaled {
            journaled.started.remove(&index);
            let own_replies = journaled.own_replies;
            journaled.ended.push(CallEnded { index, answer: answer.clone(), has_run, ended, own_replies });
        }
    }

    /// Records a call that its tool has not answered: it could not be started, or exceeded its timeout.
    pub(super) fn ended_unrun(&mut self, id: u64, index: usize, failure: CallFailure, ended: Duration) {
        let answer = Err(failure);
        self.journal_end(index, &answer, false, ended);
        self.finish(id, index, answer, ended);
    }

    /// Handles a guest's message. Returns `true` if it is a tool call.
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
