//! Execution of code in a context.

use std::collections::BTreeMap;

use axum::response::Response;
use glovebox::Language;
use glovebox_sessions::SessionsError;
use serde::Deserialize;

use super::{
    super::{
        Problem, ReadBody, Shared,
        budget::Held,
        output::{Form, Pieces},
    },
    caller::Asked,
    code::{self, is_env_name},
    contexts::{check_name, language, no_context},
    failure::Failure,
    form::{Entries, check_entries},
    lifecycle::context_name,
    lines,
    sandboxes::Sandbox,
};
use crate::{Door, Script, ServiceError, Watch};

/// Request to execute code.
#[derive(Debug, Deserialize)]
pub(super) struct Code {
    code: String,
    #[serde(default)]
    context_id: Option<String>,
    #[serde(default)]
    language: Option<String>,
    #[serde(default)]
    env_vars: Option<Entries>,
}

/// Executes code. Streams output as the script writes it, then the displays and the value of the last expression.
pub(super) async fn execute(
    axum::extract::State(shared): axum::extract::State<Shared>,
    Asked(sandbox): Asked,
    read: Result<ReadBody, Problem>,
) -> Result<Response, Failure> {
    let read = read?.aside(|read| read.json::<Code>());
    let (asked, held): (Code, Held) = read.await?;
    let env = asked.env_vars.map(|Entries(entries)| entries).unwrap_or_default();
    check_entries("env_vars", &env)?;
    if let Some(name) = env.keys().find(|name| !is_env_name(name)) {
        return Err(Failure::invalid(format!("`{}` in `env_vars` is not a valid name", glovebox::escaped(name))));
    }
    if asked.context_id.is_some() && asked.language.is_some() {
        return Err(Failure::invalid("`context_id` and `language` are mutually exclusive; remove one of them"));
    }
    let wanted = asked.language.as_deref().map(language).transpose()?;
    let is_typescript =
        asked.language.is_some_and(|name| matches!(name.to_ascii_lowercase().as_str(), "typescript" | "ts"));
    let (context, wanted) = match asked.context_id {
        Some(context) => {
            check_name(&context)?;
            (context, None)
        }
        None => {
            let language = wanted.unwrap_or(Language::Python);
            (context_name(language).to_owned(), Some(language))
        }
    };
    let record = match sandbox.context(&context, wanted).await {
        Err(ServiceError::Sessions(SessionsError::NotFound { .. })) => return Err(no_context(&context)),
        record => record?,
    };
    let name = is_typescript.then(|| "main.ts".to_owned());
    let script = Script { source: asked.code, name, ..Script::default() };
    let running = Running { context, language: record.language, script, env };
    let tenant = sandbox.tenant.name().to_owned();
    Ok(Pieces::answer(Form::Lines, &shared.bodies, tenant, move |pieces| async move {
        let count = sandbox.count(&running.context);
        let watch = Watch { on_output: Some(pieces.on_output_with(lines::output)), ..Watch::default() };
        let executed = running.run(&sandbox, watch).await;
        drop(held);
        let end = lines::end(executed, count);
        pieces.end(pieces.made(end)).await;
    }))
}

/// An execution that is about to start.
struct Running {
    context: String,
    language: Language,
    script: Script,
    env: BTreeMap<String, String>,
}

impl Running {
    async fn run(self, sandbox: &Sandbox, watch: Watch) -> Result<glovebox::Execution, ServiceError> {
        let Self { context, language, script, env } = self;
        let _turn = sandbox.turn.lock().await;
        sandbox.bring_files(&context).await?;
        let exchange = code::exchange_env(language, &env);
        if let Some((before, _)) = &exchange {
            sandbox.run(&context, before.clone()).await?;
        }
        let id = sandbox.session(&context)?;
        let executed = sandbox.tenant.execute_in(Door::E2b, (&id).into(), script, watch).await;
        if let Some((_, after)) = exchange {
            sandbox.run(&context, after).await?;
        }
        executed
    }
}
