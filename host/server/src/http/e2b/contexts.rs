//! A sandbox's contexts, and executions in them.

use std::collections::BTreeMap;

use axum::{Json, extract::State, http::StatusCode, response::Response};
use glovebox::Language;
use glovebox_sessions::SessionId;
use serde::{Deserialize, Serialize};

use super::{
    files::{WORKSPACE, absolute, relative},
    form::{Entries, check_env, unsupported},
    lifecycle::{context_name, default_language, stored_sessions},
    lines,
    sandboxes::{RequestedSandbox, Sandbox, Sandboxes},
};
use crate::{
    Door, Script, ServiceError, SessionPage, SessionSummary, Watch, Work,
    executor::FinishedJob,
    http::{
        InPath, Problem, ReadBody, Shared,
        budget::ChargedBytes,
        output::{Pieces, Responder, ResponseForm},
    },
};

#[derive(Debug, Serialize)]
pub(super) struct ContextAnswer {
    id: String,
    language: &'static str,
    cwd: String,
}

impl ContextAnswer {
    fn of(record: &SessionSummary) -> Option<Self> {
        let (_, id) = Sandboxes::of_session(&record.id)?;
        Some(Self { id: id.to_owned(), language: record.language.name(), cwd: WORKSPACE.to_owned() })
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NewContext {
    language: Option<String>,
    cwd: Option<String>,
}

/// Parses a language name as E2B clients write it. Fails if Glovebox does not support the language.
pub(super) fn language(name: &str) -> Result<Language, Problem> {
    match name.to_ascii_lowercase().as_str() {
        "python" | "py" => Ok(Language::Python),
        "javascript" | "js" | "typescript" | "ts" => Ok(Language::JavaScript),
        _ => Err(unsupported(&format!("the language `{}`", glovebox::escaped(name)))),
    }
}

/// Fails unless `name` consists of 1 to 40 ASCII letters and digits.
fn check_name(name: &str) -> Result<(), Problem> {
    let is_one = (1..=40).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_one.then_some(()).ok_or_else(|| no_context(name))
}

fn no_context(name: &str) -> Problem {
    let detail = format!("the sandbox has no context `{}`; create it first", glovebox::escaped(name));
    Problem::new(StatusCode::NOT_FOUND, "not-found", detail)
}

/// Opens a context.
pub(super) async fn create(
    RequestedSandbox(sandbox): RequestedSandbox,
    read: ReadBody,
) -> Result<(StatusCode, Json<ContextAnswer>), Problem> {
    let (new, _held): (NewContext, ChargedBytes) = read.json_or_default()?;
    let language = new.language.as_deref().map_or(Ok(Language::Python), language)?;
    let directory = new.cwd.as_deref().map(relative).transpose()?.filter(|path| !path.is_empty());
    if directory.is_some() && language != Language::Python {
        return Err(unsupported("`cwd` for JavaScript"));
    }
    let mut id = SessionId::random().to_string();
    id.truncate(16);
    let _turn = sandbox.turn.lock().await;
    sandbox.open(&id, language).await?;
    let mut cwd = WORKSPACE.to_owned();
    if let Some(directory) = directory {
        sandbox.bring_files(&id).await?;
        cwd = absolute(&directory);
        if let Some(source) = change_directory(&cwd) {
            sandbox.run(&id, source).await?;
        }
    }
    Ok((StatusCode::CREATED, Json(ContextAnswer { id, language: language.name(), cwd })))
}

pub(super) async fn list(RequestedSandbox(sandbox): RequestedSandbox) -> Result<Json<Vec<ContextAnswer>>, Problem> {
    let mut contexts = BTreeMap::new();
    for session in stored_sessions(&sandbox.tenant, &sandbox.id).await? {
        let record = sandbox.tenant.session(&session).await?;
        contexts.insert(session.to_string(), ContextAnswer::of(&record));
    }
    Ok(Json(contexts.into_values().flatten().collect()))
}

/// Removes a context. If the context has the sandbox's files, moves them to another context first. If the default
/// context has the files and is the only context, replaces it with a new one instead.
pub(super) async fn remove(
    RequestedSandbox(sandbox): RequestedSandbox,
    InPath(name): InPath<String>,
) -> Result<StatusCode, Problem> {
    check_name(&name)?;
    let _turn = sandbox.turn.lock().await;
    if sandbox.last().as_ref() == Some(&name) {
        match other_context(&sandbox, &name).await? {
            Some(other) => sandbox.bring_files(&other).await?,
            None => {
                replace(&sandbox, &name).await?;
                return Ok(StatusCode::NO_CONTENT);
            }
        }
    }
    if !sandbox.tenant.remove(&sandbox.session(&name)?).await? {
        return Err(no_context(&name));
    }
    sandbox.forget(&name);
    Ok(StatusCode::NO_CONTENT)
}

/// Returns a context other than `name`, preferably a default context. Opens the default context if there is no other
/// context. Returns `None` if `name` is the default context and there is no other context.
async fn other_context(sandbox: &Sandbox, name: &str) -> Result<Option<String>, ServiceError> {
    let SessionPage { sessions, .. } = sandbox.tenant.list().await?;
    let contexts = sessions.iter().filter_map(|session| Sandboxes::of_session(&session.id));
    let others = contexts.filter(|(of, other)| *of == sandbox.id && *other != name);
    let others: Vec<&str> = others.map(|(_, other)| other).collect();
    let defaults = [Language::Python, Language::JavaScript].map(context_name);
    if let Some(other) = defaults.into_iter().find(|default| others.contains(default)).or(others.first().copied()) {
        return Ok(Some(other.to_owned()));
    }
    let language = default_language(&sandbox.tenant);
    let default = context_name(language);
    if default == name {
        return Ok(None);
    }
    sandbox.open(default, language).await?;
    Ok(Some(default.to_owned()))
}

/// Replaces a context with a new one. The sandbox retains its files.
pub(super) async fn restart(
    RequestedSandbox(sandbox): RequestedSandbox,
    InPath(name): InPath<String>,
) -> Result<StatusCode, Problem> {
    check_name(&name)?;
    let _turn = sandbox.turn.lock().await;
    replace(&sandbox, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Replaces a context with a new one. The caller must hold the lock `Sandbox::turn`.
async fn replace(sandbox: &Sandbox, name: &str) -> Result<(), Problem> {
    let id = sandbox.session(name)?;
    let language = sandbox.context(name, None).await.map_err(|_| no_context(name))?.language;
    // If this context has the sandbox's files, move them to a temporary context while it is replaced.
    let mut temporary = SessionId::random().to_string();
    temporary.truncate(16);
    if sandbox.last().as_deref() == Some(name) {
        sandbox.open(&temporary, language).await?;
        sandbox.bring_files(&temporary).await?;
    }
    sandbox.tenant.remove(&id).await?;
    // If this fails, the temporary context retains the files.
    sandbox.open(name, language).await?;
    if sandbox.last().as_ref() == Some(&temporary) {
        sandbox.bring_files(name).await?;
        sandbox.tenant.remove(&sandbox.session(&temporary)?).await?;
    }
    Ok(())
}

#[derive(Debug, Deserialize)]
pub(super) struct CodeRequest {
    code: String,
    #[serde(default)]
    context_id: Option<String>,
    #[serde(default)]
    language: Option<String>,
    #[serde(default)]
    env_vars: Option<Entries>,
}

/// Executes code. Streams output while the script writes it, then the displays and the value of the last expression.
pub(super) async fn execute(
    State(shared): State<Shared>,
    RequestedSandbox(sandbox): RequestedSandbox,
    read: ReadBody,
) -> Result<Response, Problem> {
    let read = read.parse_with(|read| read.json::<CodeRequest>());
    let (body, held): (CodeRequest, ChargedBytes) = read.await?;
    let env = body.env_vars.map(|Entries(entries)| entries).unwrap_or_default();
    check_env("env_vars", &env)?;
    if body.context_id.is_some() && body.language.is_some() {
        return Err(Problem::invalid("`context_id` and `language` are mutually exclusive; remove one of them"));
    }
    let wanted = body.language.as_deref().map(language).transpose()?;
    let is_typescript =
        body.language.is_some_and(|name| matches!(name.to_ascii_lowercase().as_str(), "typescript" | "ts"));
    let (context, wanted) = match body.context_id {
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
        Err(error) if error.is_missing_session() => return Err(no_context(&context)),
        record => record?,
    };
    let name = is_typescript.then(|| "main.ts".to_owned());
    let script = Script { source: body.code, name, ..Script::default() };
    let responder = Responder::new(&shared, &sandbox.tenant, ResponseForm::Lines);
    Ok(Pieces::answer(responder, move |pieces| async move {
        let count = sandbox.count(&context);
        let watch = Watch { on_output: Some(pieces.on_output_with(lines::output)), ..Watch::default() };
        let framing = pieces.clone();
        let then = move |finished: FinishedJob| lines::end(&framing, &finished.execution, count);
        let executed = async {
            let _turn = sandbox.turn.lock().await;
            sandbox.bring_files(&context).await?;
            let exchange = exchange_env(record.language, &env);
            if let Some((before, _)) = &exchange {
                sandbox.run(&context, before.clone()).await?;
            }
            let work = Work::InSession((&sandbox.session(&context)?).into(), Box::new(script));
            let executed = sandbox.tenant.execute_then(Door::E2b, work, watch, then).await;
            if let Some((_, after)) = exchange {
                sandbox.run(&context, after).await?;
            }
            executed
        };
        let end = executed.await;
        drop(held);
        pieces.end(end.or_else(|error| lines::failure_lines(&pieces, &error, count))).await;
    }))
}

/// Returns code that sets environment variables, or `None` if `env` is empty.
pub(super) fn set_env(language: Language, env: &BTreeMap<String, String>) -> Option<String> {
    if env.is_empty() {
        return None;
    }
    let literal = literal(env)?;
    Some(match language {
        Language::Python => format!("__import__('os').environ.update(__import__('json').loads({literal})) or None"),
        Language::JavaScript => format!("void Object.assign(process.env, JSON.parse({literal}))"),
    })
}

/// Returns code to run before and after an execution. The first string sets environment variables and saves their old
/// values; the second string restores the old values.
fn exchange_env(language: Language, env: &BTreeMap<String, String>) -> Option<(String, String)> {
    let set = set_env(language, env)?;
    let names = literal(&env.keys().collect::<Vec<_>>())?;
    Some(match language {
        Language::Python => (
            format!(
                "__import__('sys').__dict__['_e2b_env'] = {{name: __import__('os').environ.get(name) for name in __import__('json').loads({names})}}\n{set}"
            ),
            "for _e2b_name, _e2b_value in __import__('sys').__dict__.pop('_e2b_env', {}).items():\n    \
             __import__('os').environ.pop(_e2b_name, None) if _e2b_value is None else __import__('os').environ.__setitem__(_e2b_name, _e2b_value)\n\
             globals().pop('_e2b_name', None); globals().pop('_e2b_value', None); None"
                .to_owned(),
        ),
        Language::JavaScript => (
            format!(
                "void (globalThis[Symbol.for('e2b.env')] = JSON.parse({names}).map((name) => [name, process.env[name]]));\n{set}"
            ),
            "void (globalThis[Symbol.for('e2b.env')] ?? []).forEach(([name, value]) => { if (value === undefined) delete process.env[name]; else process.env[name] = value; })"
                .to_owned(),
        ),
    })
}

/// Returns Python code that creates a directory below the workspace and makes it the current directory.
fn change_directory(path: &str) -> Option<String> {
    let literal = serde_json::to_string(path).ok()?;
    Some(format!("__import__('os').makedirs({literal}, exist_ok=True) or __import__('os').chdir({literal})"))
}

/// Returns a value's JSON as a string literal that is valid in both languages. Escapes the line separators U+2028 and
/// U+2029, which JSON strings can contain unescaped.
fn literal(value: &impl Serialize) -> Option<String> {
    let json = serde_json::to_string(value).ok()?;
    let text = serde_json::to_string(&json).ok()?;
    Some(text.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029"))
}
