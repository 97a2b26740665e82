//! Converts a step to an engine request, and an execution to a result.

use glovebox::{Execution, JsonText, Request, SourceKind};

use crate::{Request as CaseRequest, Step, StepResult};

pub(crate) fn request<'a>(source: &'a str, asked: &'a CaseRequest) -> Request<'a> {
    let mut request = Request::new(source);
    if let Some(name) = &asked.name {
        request = request.name(name);
    }
    if let Some(stdin) = &asked.stdin {
        request = request.stdin(stdin.as_bytes());
    }
    if let Some(kind) = &asked.kind {
        request = request.kind(match kind.as_str() {
            "detect" => SourceKind::Detect,
            "script" => SourceKind::Script,
            "module" => SourceKind::Module,
            other => panic!("unknown kind of source `{other}`"),
        });
    }
    if let Some(json) = &asked.context {
        request = request.context_text(JsonText::new(json.as_str()).expect("`context` is JSON text"));
    }
    if let Some(id) = &asked.session_id {
        request = request.session_id(id);
    }
    request
}

pub(crate) fn seen(execution: Execution, step: &Step) -> StepResult {
    let json = serde_json::to_value(&execution).expect("an execution is JSON");
    let observed = serde_json::from_value(json).expect("an execution has exactly the fields of `Observed`");
    let files = execution.files();
    let names = step.expect.files.keys();
    let files = names.filter_map(|name| Some((name.clone(), files.read(name).ok()?))).collect();
    StepResult::Executed { observed: Box::new(observed), files }
}
