//! Converts a step to an engine request, runs it, and converts the execution to a result.

use std::{error::Error, sync::Arc};

use glovebox::{
    ExecuteError, Execution, JsonText, Request, ResumeOptions, Sandbox, Session, SourceKind, Started, Step as Advanced,
    Suspended, ToolAnswer, ToolError, ToolRequest,
};

use crate::{Case, Request as CaseRequest, Step, StepResult};

pub(crate) fn request<'a>(source: &'a str, case: &'a CaseRequest) -> Request<'a> {
    let mut request = Request::new(source);
    if let Some(name) = &case.name {
        request = request.name(name);
    }
    if let Some(stdin) = &case.stdin {
        request = request.stdin(stdin.as_bytes());
    }
    if let Some(kind) = &case.kind {
        request = request.kind(match kind.as_str() {
            "detect" => SourceKind::Detect,
            "script" => SourceKind::Script,
            "module" => SourceKind::Module,
            other => panic!("unknown kind of source `{other}`"),
        });
    }
    if let Some(json) = &case.context {
        request = request.context_text(JsonText::new(json.as_str()).expect("`context` is JSON text"));
    }
    if let Some(id) = &case.session_id {
        request = request.session_id(id);
    }
    request
}

pub(crate) fn seen(execution: &Execution, step: &Step) -> StepResult {
    let json = serde_json::to_value(execution).expect("an execution is JSON");
    let observed = serde_json::from_value(json).expect("an execution has exactly the fields of `ObservedExecution`");
    let files = execution.files();
    let names = step.expect.files.keys();
    let files = names.filter_map(|name| Some((name.clone(), files.read(name).ok()?))).collect();
    StepResult::Executed { observed: Box::new(observed), files }
}

/// Runs a case's requests as suspendable executions, and answers their tool calls.
#[derive(Debug)]
pub(crate) struct SuspendingRunner<'a> {
    sandbox: &'a Sandbox,
    case: &'a Case,
}

impl<'a> SuspendingRunner<'a> {
    pub(crate) fn new(sandbox: &'a Sandbox, case: &'a Case) -> Self {
        Self { sandbox, case }
    }

    /// Runs a request, in `session` if there is one. Whenever the execution waits for tools, suspends and resumes it,
    /// and answers the first call. Afterwards, `session` is the session in which the execution ended.
    pub(crate) fn run(
        &self,
        mut session: Option<&mut Session>,
        request: Request<'_>,
    ) -> Result<Arc<Execution>, Box<dyn Error>> {
        let mut started = self.start(session.as_deref(), request.suspendable(true))?;
        let mut answers = Vec::new();
        loop {
            let calls = match started.advance(answers, None)? {
                Advanced::Done(execution) => return Ok(execution),
                Advanced::NeedsTools(calls) => calls,
                Advanced::Running => unreachable!("there is no time limit"),
            };
            let suspended = Suspended::from_bytes(&started.suspend()?.to_bytes(None), None)?;
            if let Some(session) = session.as_deref_mut() {
                *session = self.sandbox.resume_suspended_session(&suspended, ResumeOptions::default())?;
            }
            started = self.start(session.as_deref(), suspended.request())?;
            // A resumed execution accepts answers once it waits again.
            let Advanced::NeedsTools(again) = started.advance(Vec::new(), None)? else {
                return Err("the resumed execution does not wait".into());
            };
            assert_eq!(again, calls, "the resumed execution waits for other calls");
            answers = calls.iter().take(1).map(|call| self.answer(call)).collect();
        }
    }

    fn start(&self, session: Option<&Session>, request: Request<'_>) -> Result<Started, ExecuteError> {
        match session {
            Some(session) => session.start(request),
            None => self.sandbox.start(request),
        }
    }

    fn answer(&self, call: &ToolRequest) -> ToolAnswer {
        let answer = self.case.tools[&call.name].answer(call.arguments.clone());
        ToolAnswer { id: call.id, answer: answer.map_err(ToolError::from) }
    }
}
