//! Access checks, and the handlers of requests: they run scripts in a new interpreter, or in a session whose state the
//! client stores.
//!
//! Between two requests, a session consists only of bytes: the provider's hibernated state, sealed with the operator's
//! key. The engine uses the same format. `glovebox serve` with the same key therefore accepts the adapter's states
//! (`PUT /v1/sessions/{id}`), and the adapter accepts states of `glovebox serve` (`GET …/state`).

use base64::{Engine as _, prelude::BASE64_STANDARD};
use glovebox_core::{
    Language,
    hibernate::{self, HibernatedInfo, SessionKey},
};
use glovebox_guest::{Blob, Diagnostic, Error, Runtime, Sandbox, Session, SessionOptions};
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    answer::{ExecutionAnswer, ReturnedFiles, finish},
    http::{Answer, Problem, Request},
    policy::{self, Settings},
    wire::{self, ExecuteBody, FreshExecution, NewSession, OpenBody, SessionExecution},
};

/// The handler for a path.
type Route = fn(&Settings, &[u8]) -> Result<Answer, Problem>;

/// The routes for `POST` requests with a body.
const ROUTES: [(&str, Route); 4] = [
    ("/v1/execute", execute),
    ("/v1/validate", validate),
    ("/v1/sessions", open_session),
    ("/v1/sessions/execute", execute_in_session),
];

/// The path of the health check, which needs no token.
const HEALTH: &str = "/healthz";

/// A request that has passed the access checks, and is answered with its body.
#[derive(Debug)]
pub(crate) struct AdmittedRequest<'a> {
    settings: &'a Settings,
    route: Route,
}

impl AdmittedRequest<'_> {
    /// Returns the maximum size of the body.
    pub(crate) fn max_body_bytes(&self) -> usize {
        self.settings.body_bytes
    }

    /// Answers the request with this body.
    pub(crate) fn answer(&self, body: Result<Vec<u8>, Problem>) -> Answer {
        body.and_then(|body| (self.route)(self.settings, &body)).unwrap_or_else(Answer::from)
    }
}

/// Checks access to a route. `Err` contains the answer if it does not depend on the body: a rejection or the health.
pub(crate) fn admit<'a>(
    settings: &'a Result<Settings, Problem>,
    request: &Request,
) -> Result<AdmittedRequest<'a>, Answer> {
    admit_to(&ROUTES, settings, request)
}

fn admit_to<'a>(
    routes: &[(&str, Route)],
    settings: &'a Result<Settings, Problem>,
    request: &Request,
) -> Result<AdmittedRequest<'a>, Answer> {
    let settings = settings.as_ref().map_err(Clone::clone)?;
    if request.path == HEALTH {
        return Err(match request.method.as_str() {
            "GET" | "HEAD" => Answer::text("ok\n"),
            _ => no_method().into(),
        });
    }
    check_origin(request)?;
    check_token(settings.token.as_ref(), request)?;
    let Some((_, route)) = routes.iter().find(|(path, _)| *path == request.path) else {
        let paths: Vec<_> = routes.iter().map(|(path, _)| *path).collect();
        let detail = format!("unknown path; use {} or {HEALTH}", paths.join(", "));
        return Err(Problem::new(404, "no-route", detail).into());
    };
    if request.method != "POST" {
        return Err(no_method().into());
    }
    let max = settings.body_bytes;
    // Reject a body whose announced size exceeds the limit, without reading it.
    let announced = request.header("content-length").and_then(|length| length.parse::<u64>().ok());
    if announced.is_some_and(|length| length > max as u64) {
        return Err(body_too_large(max).into());
    }
    Ok(AdmittedRequest { settings, route: *route })
}

pub(crate) fn body_too_large(max: usize) -> Problem {
    Problem::too_large(format!("the request body is larger than {max} bytes; send a smaller body"))
}

fn no_method() -> Problem {
    Problem::new(405, "no-method", "method not allowed; use `GET` for /healthz and `POST` for all other paths")
}

/// The token that requests must contain. Only the token's digest is stored.
#[derive(Clone, Debug)]
pub(crate) struct Token([u8; 32]);

impl Token {
    pub(crate) fn new(token: &str) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// Returns `true` if `token` is the expected one. Comparing digests leaks nothing about the token through timing.
    fn is(&self, token: &str) -> bool {
        Sha256::digest(token).as_slice() == self.0
    }
}

/// Rejects a request that a browser sends for a page of another origin.
pub(crate) fn check_origin(request: &Request) -> Result<(), Problem> {
    if !request.has("origin") {
        return Ok(());
    }
    let origin = request.header("origin").unwrap_or_default();
    let host = request.authority.as_deref().or_else(|| request.header("host")).unwrap_or_default();
    match origin.split_once("://") {
        Some((_, authority)) if !host.is_empty() && authority.eq_ignore_ascii_case(host) => Ok(()),
        _ => {
            Err(Problem::new(403, "origin", "requests with this `Origin` are not allowed; send requests from a server"))
        }
    }
}

/// Rejects a request without the right token, if a token is configured.
pub(crate) fn check_token(token: Option<&Token>, request: &Request) -> Result<(), Problem> {
    let Some(token) = token else { return Ok(()) };
    let bearer = request.header("authorization").and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    match bearer.or_else(|| request.header("x-api-key")) {
        Some(shown) if token.is(shown) => Ok(()),
        Some(_) => {
            Err(Problem::new(401, "unauthorized", "unknown token; check the `authorization` or `x-api-key` header"))
        }
        None => {
            let detail = "missing token; send it as `Authorization: Bearer TOKEN` or `X-API-Key: TOKEN`";
            Err(Problem::new(401, "unauthorized", detail))
        }
    }
}

/// Runs a script in a new interpreter with a new workspace.
fn execute(settings: &Settings, body: &[u8]) -> Result<Answer, Problem> {
    let FreshExecution { runtime, policy, request, patterns } = wire::json::<ExecuteBody>(body)?.fresh()?;
    let started = sandbox(settings, runtime, &policy)?.start(request, &[])?;
    let execution = finish(&started)?;
    let returned =
        if patterns.is_empty() { ReturnedFiles::default() } else { ReturnedFiles::of(&started.files()?, &patterns)? };
    Answer::json(200, &ExecutionAnswer::new(&started, execution, returned))
}

/// Returns the diagnostics of the language's own parser, without executing the script.
fn validate(settings: &Settings, body: &[u8]) -> Result<Answer, Problem> {
    let FreshExecution { runtime, policy, request, .. } = wire::json::<ExecuteBody>(body)?.fresh()?;
    let diagnostics = sandbox(settings, runtime, &policy)?.validate(request)?;
    let diagnostics: Vec<Value> = diagnostics
        .into_iter()
        .map(|Diagnostic { line, column, message }| json!({ "line": line, "column": column, "message": message }))
        .collect();
    Answer::json(200, &json!({ "diagnostics": diagnostics }))
}

fn sandbox(
    settings: &Settings,
    runtime: Option<Runtime>,
    requested: &serde_json::Map<String, Value>,
) -> Result<Sandbox, Problem> {
    let policy = policy::narrow_policy(&settings.policy, requested)?;
    Ok(Sandbox::new(runtime.map_or_else(first_runtime, Ok)?).policy(policy::to_wit(&policy)))
}

/// Returns the runtime for requests that specify none.
fn first_runtime() -> Result<Runtime, Problem> {
    let first = glovebox_guest::info().runtimes.into_iter().next();
    first.map(|runtime| Runtime::Named(runtime.name)).ok_or_else(|| Problem::internal("the provider has no runtime"))
}

/// The name under which session states are sealed. States that leave a server are sealed under an empty name.
const NAME: &str = "";

/// A session as the client receives it.
#[derive(Debug, Serialize)]
struct OpenedSession {
    /// The sealed state in base64.
    state: String,
    language: Language,
    runtime: String,
    version: Option<String>,
    /// The number of completed executions.
    executions: u64,
    /// The size of the sealed state in bytes.
    bytes: usize,
}

/// The result of a script in a session, and the session's new state.
#[derive(Debug, Serialize)]
struct SessionExecutionAnswer {
    #[serde(flatten)]
    execution: ExecutionAnswer,
    /// The new sealed state in base64, or null if the session has ended.
    state: Option<String>,
    /// The reason why the session ended.
    session_ended: Option<String>,
}

/// Opens a session. The response contains its complete sealed state.
fn open_session(settings: &Settings, body: &[u8]) -> Result<Answer, Problem> {
    let key = settings.session_key()?;
    let body = if body.is_empty() { OpenBody::default() } else { wire::json(body)? };
    let NewSession { runtime, context } = body.open()?;
    let runtime = runtime.map_or_else(first_runtime, Ok)?;
    let sandbox = Sandbox::new(runtime).policy(policy::to_wit(&settings.policy));
    let session = sandbox.open_session(&SessionOptions { context, tools: None })?;
    let state = seal(settings, key, &session)?;
    let HibernatedInfo { language, runtime, version, executions, .. } = HibernatedInfo::read(&state)?;
    let bytes = state.len();
    Answer::json(
        201,
        &OpenedSession { state: BASE64_STANDARD.encode(state), language, runtime, version, executions, bytes },
    )
}

/// Runs a script in a session. The response contains the session's new sealed state.
fn execute_in_session(settings: &Settings, body: &[u8]) -> Result<Answer, Problem> {
    let key = settings.session_key()?;
    let SessionExecution { state, request, patterns } =
        wire::json::<ExecuteBody>(body)?.in_session(settings.state_bytes)?;
    let session = resume(settings, key, state)?;
    let started = session.start(request)?;
    let execution = finish(&started)?;
    let returned = match session.files() {
        Ok(files) if !patterns.is_empty() => ReturnedFiles::of(&files, &patterns)?,
        Ok(_) | Err(Error::SessionEnded(_)) => ReturnedFiles::default(),
        Err(error) => return Err(error.into()),
    };
    let session_ended = session.info().ended;
    let state = match session_ended {
        Some(_) => None,
        None => Some(BASE64_STANDARD.encode(seal(settings, key, &session)?)),
    };
    let execution = ExecutionAnswer::new(&started, execution, returned);
    Answer::json(200, &SessionExecutionAnswer { execution, state, session_ended })
}

/// Resumes a session from a state that this server sealed. Any other state is rejected before it is decompressed.
fn resume(settings: &Settings, key: &SessionKey, state: Vec<u8>) -> Result<Session, Problem> {
    let plain = hibernate::unseal(&state, key, NAME)?;
    drop(state);
    let HibernatedInfo { runtime, .. } = HibernatedInfo::read(&plain)?;
    let blob = Blob::of(&plain)?;
    let sandbox = Sandbox::named(runtime).policy(policy::to_wit(&settings.policy));
    Ok(sandbox.resume(&blob, &SessionOptions::default())?)
}

/// Returns a session's state, sealed for the client.
fn seal(settings: &Settings, key: &SessionKey, session: &Session) -> Result<Vec<u8>, Problem> {
    let blob = session.hibernate()?;
    let (bytes, max) = (blob.size(), settings.state_bytes);
    if usize::try_from(bytes).map_or(true, |bytes| bytes > max) {
        let detail = format!(
            "the session's state is {bytes} bytes; the maximum is {max}; continue with the previous state, and keep less data in variables and files"
        );
        return Err(Problem::new(500, "unsaved", detail));
    }
    Ok(hibernate::seal(&blob.to_vec(), key, NAME)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{self, tests::read as settings};

    const ECHO: [(&str, Route); 1] = [("/echo", |_, body| {
        Ok(Answer { status: 200, content_type: "text/plain", headers: Vec::new(), body: body.to_vec() })
    })];

    fn send(settings: &Result<Settings, Problem>, method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
        let request = Request { method: method.into(), path: path.into(), authority: Some("here".into()), headers };
        let read = |max: usize| if max < 5 { Err(body_too_large(max)) } else { Ok(b"hello".to_vec()) };
        let answer = match admit_to(&ECHO, settings, &request) {
            Ok(admitted) => admitted.answer(read(admitted.max_body_bytes())),
            Err(answer) => answer,
        };
        (answer.status, String::from_utf8(answer.body).unwrap())
    }

    #[test]
    fn each_route_accepts_its_method_only() {
        let settings = settings(&[]);
        assert_eq!(send(&settings, "POST", "/echo", &[]), (200, "hello".into()));
        assert_eq!(send(&settings, "GET", "/healthz", &[]), (200, "ok\n".into()));
        for (method, path, status) in [
            ("GET", "/echo", 405),
            ("POST", "/healthz", 405),
            ("POST", "/echo/", 404),
            ("POST", "/", 404),
            ("GET", "/v1/info", 404),
        ] {
            assert_eq!(send(&settings, method, path, &[]).0, status, "{method} {path}");
        }
    }

    #[test]
    fn body_size_is_limited() {
        let status = |max: &str, length: &str| {
            send(&settings(&[(policy::BODY_BYTES, max)]), "POST", "/echo", &[("content-length", length)]).0
        };
        assert_eq!(status("5", "5"), 200);
        assert_eq!(status("5", "6"), 413, "the announced length exceeds the limit");
        assert_eq!(status("4", "3"), 413, "the actual length exceeds the limit");
    }

    #[test]
    fn only_health_needs_no_token() {
        let settings = settings(&[(policy::TOKEN, "secret")]);
        assert_eq!(send(&settings, "GET", "/healthz", &[]).0, 200);
        assert_eq!(send(&settings, "POST", "/echo", &[]).0, 401);
        assert_eq!(send(&settings, "POST", "/nothing", &[]).0, 401);
        assert_eq!(send(&settings, "POST", "/echo", &[("authorization", "Bearer secret")]).0, 200);
        assert_eq!(send(&settings, "POST", "/echo", &[("origin", "http://elsewhere")]).0, 403);
    }

    #[test]
    fn invalid_setting_is_reported_on_every_route() {
        let settings = settings(&[(policy::BODY_BYTES, "much")]);
        for path in ["/healthz", "/echo"] {
            let (status, body) = send(&settings, "GET", path, &[]);
            assert!(status == 500 && body.contains("GLOVEBOX_BODY_BYTES"), "{body}");
        }
    }

    fn request(headers: &[(&str, &str)]) -> Request {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
        Request { authority: Some("box.example:8080".into()), headers, ..Request::default() }
    }

    #[test]
    fn configured_token_is_required() {
        let token = Token::new("secret");
        let status = |headers| check_token(Some(&token), &request(headers)).map_err(|problem| problem.status);
        assert_eq!(status(&[("authorization", "Bearer secret")]), Ok(()));
        assert_eq!(status(&[("authorization", "bearer  secret")]), Ok(()));
        assert_eq!(status(&[("x-api-key", "secret")]), Ok(()));
        for headers in [
            &[][..],
            &[("authorization", "Bearer secret2")],
            &[("authorization", "Bearer ")],
            &[("authorization", "Basic secret")],
            &[("authorization", "secret")],
            &[("x-api-key", "Secret")],
            &[("x-api-key", "secret"), ("x-api-key", "secret")],
        ] {
            assert_eq!(status(headers), Err(401), "{headers:?}");
        }
        assert_eq!(check_token(None, &request(&[])), Ok(()));
    }

    #[test]
    fn cross_origin_requests_are_rejected() {
        let status = |origin| check_origin(&request(&[("origin", origin)])).map_err(|problem| problem.status);
        assert_eq!(status("http://box.example:8080"), Ok(()));
        assert_eq!(status("https://BOX.example:8080"), Ok(()));
        for origin in ["", "null", "http://box.example", "http://evil.example:8080", "box.example:8080"] {
            assert_eq!(status(origin), Err(403), "{origin}");
        }
        assert_eq!(check_origin(&request(&[])), Ok(()));
        let nameless = Request { authority: None, ..request(&[("origin", "http://")]) };
        assert!(check_origin(&nameless).is_err());
    }
}
