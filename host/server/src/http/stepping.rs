//! Executions in steps: the client answers the tool calls.

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use glovebox::ToolAnswer;

use super::{
    Caller, InPath, Problem, ReadBody, Shared,
    answer::{made, needs_tools, result_piece, whole},
    budget::{Held, Made},
    output::{Form, Pieces},
    tools::{ContinueBody, NeedsToolsAnswer},
    wire::ExecutionAnswer,
};
use crate::{Door, Ended, ServiceError, Stepped, Tenant, Watch, Work};

/// A step of an execution.
pub(super) enum Asking {
    Start { work: Work, patterns: Vec<String> },
    GoOn { execution: String, answers: Vec<ToolAnswer> },
}

/// Resumes an execution that waits for answers to tool calls.
///
/// The response has the same forms as that of the request that started the execution: `Accept` selects streaming.
#[utoipa::path(post, path = "/v1/executions/{id}/continue", operation_id = "continue_execution", tag = "scripts", security(("token" = [])), request_body = ContinueBody, params(("id" = String, Path)),
    responses((status = 200, description = "Outcome of the script, whether it succeeded or not.", body = ExecutionAnswer),
        (status = 202, description = "The execution waits for further answers.", body = NeedsToolsAnswer),
        (status = 404, description = "The execution does not exist: it has ended, was cancelled, or has expired.", body = Problem),
        (status = "4XX", description = "The answers were refused.", body = Problem),
        (status = "5XX", description = "The server could not resume the execution.", body = Problem)))]
pub(crate) async fn go_on(
    State(shared): State<Shared>,
    Caller(tenant): Caller,
    InPath(execution): InPath<String>,
    headers: HeaderMap,
    read: ReadBody,
) -> Result<Response, Problem> {
    let (answers, held) = read
        .aside(|read| {
            let (body, held): (ContinueBody, Held) = read.json_or_default()?;
            Ok((body.answers()?, held))
        })
        .await?;
    step(shared, tenant, Asking::GoOn { execution, answers }, Form::of(&headers), held).await
}

/// Cancels an execution that waits for answers to tool calls.
#[utoipa::path(delete, path = "/v1/executions/{id}", operation_id = "cancel_execution", tag = "scripts", security(("token" = [])), params(("id" = String, Path)),
    responses((status = 204, description = "The execution is cancelled. Its session is as after any cancelled execution."), (status = "4XX", description = "The request was refused.", body = Problem),
        (status = "5XX", description = "The server could not carry out the request.", body = Problem)))]
pub(crate) async fn cancel(Caller(tenant): Caller, InPath(execution): InPath<String>) -> Result<StatusCode, Problem> {
    tenant.cancel(&execution).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Takes a step, and responds in the form that the client accepts.
pub(super) async fn step(
    shared: Shared,
    tenant: Tenant,
    asking: Asking,
    form: Form,
    held: Held,
) -> Result<Response, Problem> {
    if form == Form::Whole {
        let (bodies, name) = (shared.bodies.clone(), tenant.name().to_owned());
        let then = move |Ended { execution, generation, return_files }| {
            Ok((made(&bodies, &name, execution, &return_files)?, generation))
        };
        let stepped = asking.step(&tenant, Watch::default(), then).await?;
        drop(held);
        return match stepped {
            Stepped::Done((made, generation)) => whole(&shared, tenant.name(), made, generation).await,
            Stepped::NeedsTools(needs) => needs_tools(&shared, tenant.name(), needs).await,
        };
    }
    let bodies = shared.bodies.clone();
    Ok(Pieces::answer(form, &bodies, tenant.name().to_owned(), move |pieces| async move {
        let watch = Watch { on_output: Some(pieces.on_output()), ..Watch::default() };
        let framing = pieces.clone();
        let then = move |ended: Ended| result_piece(&framing, ended.execution, &ended.return_files);
        let stepped = asking.step(&tenant, watch, then).await;
        drop(held);
        pieces.end(stepped.and_then(|stepped| last(&pieces, stepped))).await;
    }))
}

fn last(pieces: &Pieces, stepped: Stepped<Made>) -> Result<Made, ServiceError> {
    match stepped {
        Stepped::Done(piece) => Ok(piece),
        Stepped::NeedsTools(needs) => {
            let (answer, len) = NeedsToolsAnswer::new(needs);
            let room = pieces.bodies().reserve(pieces.tenant(), len)?;
            let json = serde_json::to_vec(&answer).map_err(|error| ServiceError::Invalid(error.to_string()))?;
            Ok(Made { bytes: pieces.framed("needs-tools", &json), room })
        }
    }
}

impl Asking {
    async fn step<T: Send + 'static>(
        self,
        tenant: &Tenant,
        watch: Watch,
        then: impl FnOnce(Ended) -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<Stepped<T>, ServiceError> {
        match self {
            Self::Start { work, patterns } => tenant.start_then(Door::Http, work, patterns, watch, then).await,
            Self::GoOn { execution, answers } => tenant.go_on_then(&execution, answers, watch, then).await,
        }
    }
}
