//! A started execution that the host holds for a component.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::{
    quotas::{OverQuota, Share},
    session_resource::Stepping,
};
use crate::{Execution, Files, Started};

/// A started execution.
#[expect(unreachable_pub, reason = "the bindings export it again, in a private module as well")]
#[derive(Debug)]
pub struct Stepped {
    pub(super) started: Started,
    pub(super) left: Arc<Left>,
    /// In a session: keeps the session busy until the component has seen the end.
    pub(super) stepping: Option<Stepping>,
    pub(super) is_in_session: bool,
    pub(super) is_done: bool,
}

/// The results of a started execution that the host holds.
#[derive(Debug)]
pub(super) struct Left {
    /// The share for the output, and for the whole result after the end.
    share: Mutex<Share>,
    files: Mutex<LeftFiles>,
    /// Set if the result exceeded the quota and was dropped.
    pub(super) over_quota: OnceLock<OverQuota>,
}

/// The files of an execution outside a session.
#[derive(Debug)]
pub(super) enum LeftFiles {
    None,
    Held { files: Files, _share: Share },
    TooLarge(OverQuota),
}

impl Left {
    pub(super) fn new(share: Share) -> Arc<Self> {
        Arc::new(Self { share: Mutex::new(share), files: Mutex::new(LeftFiles::None), over_quota: OnceLock::new() })
    }

    pub(super) fn files(&self) -> MutexGuard<'_, LeftFiles> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the result. Its output is at most the size that was counted before, but the other parts may exceed the
    /// quota. In that case the result is emptied.
    pub(super) fn finish(&self, execution: &mut Execution) {
        let mut share = self.share.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = share.resize(result_bytes(execution)) {
            empty(execution);
            self.over_quota.get_or_init(|| error);
        }
    }
}

/// Clears all parts of a result except its files. The output stays within the share that was counted for it.
fn empty(execution: &mut Execution) {
    let Execution {
        stdout,
        stderr,
        value,
        displays,
        interrupted,
        files_created,
        files_modified,
        files_deleted,
        tool_calls,
        guidance,
        ..
    } = execution;
    for output in [stdout, stderr] {
        output.bytes.shrink_to_fit();
    }
    (*value, *interrupted) = (None, None);
    for names in [files_created, files_modified, files_deleted] {
        *names = Vec::new();
    }
    (*tool_calls, *displays) = (Vec::new(), Vec::new());
    (guidance.advice, guidance.fuel.likely_causes) = (Vec::new(), Vec::new());
    execution.outcome = crate::Outcome::Completed;
}

/// Returns the approximate size of a result without its files, in bytes.
fn result_bytes(execution: &Execution) -> u64 {
    let text = |text: &str| size_of::<String>() + text.len();
    let option = |of: &Option<String>| of.as_deref().map_or(0, text);
    let raised = [execution.interrupted.as_ref(), execution.outcome.raised()].into_iter().flatten();
    let raised = raised.map(|raised| text(&raised.type_name) + text(&raised.message) + text(&raised.traceback));
    let Execution { files_created, files_modified, files_deleted, .. } = execution;
    let names = [files_created, files_modified, files_deleted].into_iter().flatten().map(|name| text(name));
    let calls = execution.tool_calls.iter().map(|call| {
        let said = match &call.outcome {
            crate::ToolOutcome::Returned(said) | crate::ToolOutcome::Failed { message: said, .. } => option(said),
            crate::ToolOutcome::Unfinished => 0,
        };
        size_of_val(call) + text(&call.name) + option(&call.arguments) + said
    });
    let value = execution.value.as_ref().map_or(0, |value| text(&value.repr) + option(&value.json));
    let displays = execution.displays.iter().map(|display| {
        let forms = display.forms.iter().map(|form| size_of_val(form) + form.media_type.len() + form.data.len());
        size_of_val(display) + forms.sum::<usize>()
    });
    let advice = execution.guidance.advice.iter().map(|advice| {
        let correction = advice.correction.as_ref().map_or(0, |correction| text(&correction.text));
        let steps = advice.steps.iter().map(|step| text(step)).sum::<usize>();
        size_of_val(advice) + text(&advice.summary) + steps + correction
    });
    let causes = execution.guidance.fuel.likely_causes.iter().map(|cause| text(cause));
    let parts = raised.chain(names).chain(calls).chain(displays).chain(advice).chain(causes);
    let rest = parts.fold(size_of::<Execution>() + value, usize::saturating_add);
    (execution.stdout.bytes.capacity() + execution.stderr.bytes.capacity()).saturating_add(rest) as u64
}
