//! Forwarding of requests to worker processes: the parent admits requests, chooses a worker for each, and records
//! results.

use axum::{
    body::Bytes,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use glovebox_sessions::SessionId;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use tokio::sync::oneshot;
use tracing::{Instrument as _, Span};

use super::{
    Problem, ReadBody, Shared,
    answer::again,
    budget::{Counted, HeldBytes as Room},
    forwarded::{Forwarded, TENANT},
    idempotency::{Answer, Begun, KeySlot},
    output::Form,
    session_lists,
};
use crate::{
    Door, ServiceError, Tenant,
    audit::Acted,
    tenant::{execution_span, record},
    workers::{Chosen, Done, Live, Pending, Workers},
};

/// Maximum size of a worker's response that the parent reads into memory, in bytes: to store it for an
/// `Idempotency-Key`, or to merge it.
const MAX_STORED_BYTES: usize = 64 << 20;
/// Request headers that workers receive.
const PASSED_ON: [HeaderName; 3] = [header::ACCEPT, header::CONTENT_TYPE, header::IF_MATCH];

/// Kind of a request, as far as it affects forwarding.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RouteKind {
    /// Runs a script in a new interpreter.
    Execute,
    Validate,
    List,
    Open,
    /// Accesses a session. `rest` is the path after its name.
    Session {
        id: SessionId,
        rest: String,
    },
    /// Has an invalid session name. Any worker can respond with the error.
    NoSession,
}

impl RouteKind {
    fn of(method: &Method, path: &str) -> Option<Self> {
        Some(match path.strip_prefix("/v1/")? {
            "execute" if method == Method::POST => Self::Execute,
            "validate" if method == Method::POST => Self::Validate,
            "sessions" if method == Method::GET => Self::List,
            "sessions" if method == Method::POST => Self::Open,
            path => {
                let (id, rest) =
                    path.strip_prefix("sessions/").map(|path| path.split_once('/').unwrap_or((path, "")))?;
                let id = percent_decode_str(id).decode_utf8().ok().and_then(|id| SessionId::new(id).ok());
                id.map_or(Self::NoSession, |id| Self::Session { id, rest: rest.to_owned() })
            }
        })
    }

    fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Session { id, .. } => Some(id),
            _ => None,
        }
    }

    fn is_execution(&self) -> bool {
        matches!(self, Self::Execute) || matches!(self, Self::Session { rest, .. } if rest == "execute")
    }

    fn is_fork(&self) -> bool {
        matches!(self, Self::Session { rest, .. } if rest == "fork")
    }

    /// Returns `true` if the request counts as one of the token's executions per minute.
    fn is_counted(&self, method: &Method) -> bool {
        match self {
            Self::Execute | Self::Validate => true,
            Self::Session { rest, .. } => {
                rest == "execute" || rest.starts_with("variables/") || (rest.is_empty() && method == Method::DELETE)
            }
            _ => false,
        }
    }

    /// Returns `true` if the request creates a session.
    fn makes(&self, method: &Method) -> bool {
        let imports = matches!(self, Self::Session { rest, .. } if rest.is_empty() && method == Method::PUT);
        matches!(self, Self::Open) || self.is_fork() || imports
    }
}

/// The fields of a request body that the parent reads.
#[derive(Default, Deserialize)]
struct PeekedBody {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    source: Option<String>,
}

/// A request to forward.
struct Ask {
    shared: Shared,
    tenant: Tenant,
    what: RouteKind,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
    /// Share of the memory budget for the body.
    _room: Room,
    peeked: PeekedBody,
}

/// A worker's response.
struct Answered {
    response: hyper::Response<Incoming>,
    /// Set if a script has run.
    has_run: bool,
}

/// Middleware that forwards requests to workers, if the service has workers.
pub(crate) async fn forward(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let what = shared.service.workers().and_then(|_| RouteKind::of(request.method(), request.uri().path()));
    let Some(what) = what else { return next.run(request).await };
    forwarded(shared, what, request).await.unwrap_or_else(|problem| problem.into_response())
}

async fn forwarded(shared: Shared, what: RouteKind, request: Request) -> Result<Response, Problem> {
    let tenant = shared.tenants.authenticate(request.headers())?.clone();
    let (parts, body) = request.into_parts();
    let read = shared.bodies.read(Some(tenant.name()), &parts.headers, body).await?;
    let (known, name, headers) = (shared.clone(), tenant.name().to_owned(), parts.headers.clone());
    let (begun, read, peeked, what) = read
        .parse_with(move |read: ReadBody| {
            let begun = match &what {
                RouteKind::Execute => known.answered.begin(&name, &headers, &[b"execute", &read.bytes])?,
                RouteKind::Session { id, rest } if rest == "execute" => {
                    known.answered.begin(&name, &headers, &[b"session", id.as_str().as_bytes(), &read.bytes])?
                }
                _ => Begun::Unkeyed,
            };
            let is_looked_at = what.is_execution() || what.is_fork() || what == RouteKind::Open;
            // The worker refuses a body that cannot be parsed.
            let peeked = if is_looked_at {
                serde_json::from_slice(&read.bytes).unwrap_or_default()
            } else {
                PeekedBody::default()
            };
            Ok((begun, read, peeked, what))
        })
        .await?;
    let form = Form::of(&parts.headers);
    let is_stream = form != Form::Whole && what.is_execution();
    let (bytes, room) = read.into_parts();
    let (method, uri, headers) = (parts.method, parts.uri, parts.headers);
    let ask =
        Ask { shared: shared.clone(), tenant, what, method, uri, headers, body: bytes.into(), _room: room, peeked };
    match begun {
        Begun::Again(answer) => again(&shared, ask.tenant.name(), answer.body, answer.etag).await,
        Begun::First(_) if is_stream => Err(Problem::invalid(
            "`Idempotency-Key` is not supported with streamed responses; leave it out, or accept `application/json`",
        )),
        // Continues even if the client disconnects, so that a retry finds the response.
        Begun::First(slot) => {
            tokio::spawn(ask.once(slot).in_current_span()).await.map_err(|_| ServiceError::Panicked)?
        }
        Begun::Unkeyed if ask.what == RouteKind::List => ask.list().await,
        Begun::Unkeyed => {
            let name = ask.tenant.name().to_owned();
            let answered = ask.carry_out().await?;
            Forwarded::answer(&shared.bodies, &name, answered.response, is_stream.then_some(form)).await
        }
    }
}

impl Ask {
    /// Forwards a request with an `Idempotency-Key`, and stores the response for retries.
    async fn once(self, slot: KeySlot) -> Result<Response, Problem> {
        let (shared, name) = (self.shared.clone(), self.tenant.name().to_owned());
        let answered = match self.carry_out().await {
            Ok(answered) => answered,
            Err(error) => {
                if error.has_run() {
                    slot.forget();
                }
                return Err(error.into());
            }
        };
        let (parts, body) = answered.response.into_parts();
        let Ok(body) = Limited::new(body, MAX_STORED_BYTES).collect().await else {
            slot.forget();
            return Err(ServiceError::WorkerDied.into());
        };
        let body = body.to_bytes();
        let etag = parts.headers.get(header::ETAG).and_then(|etag| etag.to_str().ok());
        let etag = etag.map(|etag| etag.trim_matches('"').to_owned());
        if parts.status.is_success() {
            slot.done(Answer { body: body.clone(), etag: etag.clone() });
            return again(&shared, &name, body, etag).await;
        }
        // The script has run. A retry must not run it again for lack of a response.
        if answered.has_run {
            slot.forget();
        }
        let parts = Forwarded::head(&parts);
        let mut response = shared.bodies.answer(&name, body).await?.into_response();
        (*response.status_mut(), *response.headers_mut()) = parts;
        response.extensions_mut().insert(Counted);
        Ok(response)
    }

    /// Lists all sessions. Each worker knows only which of its own sessions are in memory, so all lists are merged.
    async fn list(self) -> Result<Response, Problem> {
        let workers = self.workers()?;
        let held = self.tenant.admit(None).await?;
        let mut lists = Vec::new();
        for index in 0..workers.count() {
            let live = workers.ready(Chosen::Number(index), self.shared.service.wait()).await?;
            let response = live.send(self.request()?, Box::new(|_| ())).await?.0;
            if !response.status().is_success() {
                return Forwarded::answer(&self.shared.bodies, self.tenant.name(), response, None).await;
            }
            let read = Limited::new(response.into_body(), MAX_STORED_BYTES).collect().await;
            lists.push(read.map_err(|_| ServiceError::WorkerDied)?.to_bytes());
        }
        drop(held);
        let name = self.tenant.name();
        let merged = session_lists::merged(&lists, |id, index| workers.home(name, id) == index)?;
        again(&self.shared, name, merged.into(), None).await
    }

    fn workers(&self) -> Result<&Workers, ServiceError> {
        self.shared.service.workers().ok_or(ServiceError::NoWorker)
    }

    /// Forwards a request once it is admitted. A streamed response continues after this function returns.
    async fn carry_out(mut self) -> Result<Answered, ServiceError> {
        let service = self.shared.service.clone();
        let refused = |error: ServiceError| {
            if self.what.is_execution() {
                self.tenant.refused(Door::Http, &error);
            }
            error
        };
        if self.what.is_counted(&self.method) {
            self.tenant.check_rate().map_err(refused)?;
        }
        let _making = if self.what.makes(&self.method) { Some(self.tenant.making().await) } else { None };
        let held = self.tenant.admit(self.what.session()).await.map_err(refused)?;
        let chosen = self.name_it();
        let live = self.workers()?.ready(chosen, service.wait()).await?;
        let (done, is_done) = oneshot::channel();
        let pending = self.pending(held, done);
        let response = live.clone().send(self.request()?, pending).await?.0;
        if is_stream(&response) {
            return Ok(Answered { response, has_run: false });
        }
        let has_run = is_done.await.unwrap_or(true);
        if self.what.is_fork() && response.status().is_success() {
            self.hibernate_stray_fork(live, chosen).await?;
        }
        Ok(Answered { response, has_run })
    }

    /// Returns the completion callback of the request. It records metrics and audit events, releases the admission, and
    /// reports whether a script has run.
    fn pending(&mut self, held: crate::tenant::WorkPermits, done: oneshot::Sender<bool>) -> Pending {
        let tenant = self.tenant.clone();
        let is_execution = self.what.is_execution();
        let opened = || self.peeked.id.as_ref().and_then(|id| SessionId::new(id).ok());
        let session = self.what.session().cloned().or_else(|| opened().filter(|_| self.what == RouteKind::Open));
        let source = self.peeked.source.take().unwrap_or_default();
        let span = if is_execution { execution_span(&Span::current()) } else { Span::none() };
        Box::new(move |Done { ended, acted }| {
            let has_run =
                ended.as_ref().is_some_and(|ended| ended.as_ref().map_or_else(|failed| failed.has_run, |_| true));
            match ended {
                Some(ended) if is_execution => {
                    record(&span, &ended);
                    tenant.note_ended(Door::Http, session.as_ref(), &source, &ended);
                }
                // The worker died before it reported what it did with the session.
                Some(Err(failed)) if session.is_some() => tenant.note_act(session.as_ref(), &Acted::lost(&failed)),
                _ => {}
            }
            if let Some(acted) = acted {
                tenant.note_act(session.as_ref(), &acted);
            }
            drop(held);
            let _ = done.send(has_run);
        })
    }

    /// Chooses the worker for a request. A new session gets its name here, since the name determines the worker.
    fn name_it(&mut self) -> Chosen {
        let Some(workers) = self.shared.service.workers() else { return Chosen::Any };
        let home = |id: &SessionId| workers.home(self.tenant.name(), id);
        match &self.what {
            RouteKind::Open => {
                let given = self.peeked.id.as_ref().map(SessionId::new);
                let id = match given {
                    Some(Ok(id)) => id,
                    Some(Err(_)) => return Chosen::Any,
                    None => SessionId::random(),
                };
                let home = home(&id);
                self.set_id(&id);
                Chosen::Number(home)
            }
            RouteKind::Session { id, .. } => {
                let original = home(id);
                if self.what.is_fork() && self.peeked.id.is_none() {
                    // Picks a name that belongs to the original's worker, where the fork is in memory.
                    let mut fork = SessionId::random();
                    for _ in 0..1_000 {
                        if home(&fork) == original {
                            break;
                        }
                        fork = SessionId::random();
                    }
                    self.set_id(&fork);
                }
                Chosen::Number(original)
            }
            _ => Chosen::Any,
        }
    }

    /// Adds a name to a body without one.
    fn set_id(&mut self, id: &SessionId) {
        if self.peeked.id.is_none()
            && let Some(body) = session_lists::with_id(&self.body, id)
        {
            self.body = body.into();
            self.peeked.id = Some(id.to_string());
        }
    }

    /// Hibernates a fork on the worker that made it, if its name belongs to another worker.
    async fn hibernate_stray_fork(&self, made_by: std::sync::Arc<Live>, chosen: Chosen) -> Result<(), ServiceError> {
        let Some(Ok(fork)) = self.peeked.id.as_ref().map(SessionId::new) else { return Ok(()) };
        if Chosen::Number(self.workers()?.home(self.tenant.name(), &fork)) == chosen {
            return Ok(());
        }
        let uri = format!("/v1/sessions/{fork}/hibernate").parse().map_err(|_| ServiceError::NoWorker)?;
        let ask = self.request_to(Method::POST, &uri, Bytes::new())?;
        made_by.send(ask, Box::new(|_| ())).await.map(drop)
    }

    fn request(&self) -> Result<hyper::Request<Full<Bytes>>, ServiceError> {
        self.request_to(self.method.clone(), &self.uri, self.body.clone())
    }

    fn request_to(&self, method: Method, uri: &Uri, body: Bytes) -> Result<hyper::Request<Full<Bytes>>, ServiceError> {
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let mut request = hyper::Request::builder()
            .method(method)
            .uri(path.to_owned())
            .body(Full::new(body))
            .map_err(|error| ServiceError::Invalid(error.to_string()))?;
        let headers = request.headers_mut();
        for name in PASSED_ON {
            if let Some(value) = self.headers.get(&name) {
                headers.insert(name, value.clone());
            }
        }
        let tenant =
            HeaderValue::from_str(self.tenant.name()).map_err(|error| ServiceError::Invalid(error.to_string()))?;
        headers.insert(TENANT, tenant);
        Ok(request)
    }
}

/// Returns `true` if a response is streamed.
fn is_stream(response: &hyper::Response<Incoming>) -> bool {
    let media_type = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    response.status().is_success()
        && media_type.is_some_and(|media_type| matches!(media_type, "text/event-stream" | "application/x-ndjson"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_scripts_is_passed_on_and_nothing_else() {
        let of = |method: Method, path: &str| RouteKind::of(&method, path);
        let session =
            |id: &str, rest: &str| Some(RouteKind::Session { id: SessionId::new(id).unwrap(), rest: rest.into() });
        assert_eq!(of(Method::POST, "/v1/execute"), Some(RouteKind::Execute));
        assert_eq!(of(Method::POST, "/v1/sessions/a/files/b/c"), session("a", "files/b/c"));
        assert_eq!(of(Method::PUT, "/v1/sessions/%61"), session("a", ""));
        assert_eq!(of(Method::GET, "/v1/sessions/a%2fb/files"), Some(RouteKind::NoSession));
        for path in ["/metrics", "/v1/info", "/v1/openapi.json", "/healthz", "/v1/executed", "/", "/v2/execute"] {
            assert_eq!(of(Method::GET, path), None, "{path}");
        }
        assert!(of(Method::PUT, "/v1/sessions/a").unwrap().makes(&Method::PUT));
        assert!(!of(Method::PUT, "/v1/sessions/a/files/fork").unwrap().makes(&Method::PUT));
        assert!(of(Method::DELETE, "/v1/sessions/a").unwrap().is_counted(&Method::DELETE));
        assert!(!of(Method::DELETE, "/v1/sessions/a/files/b").unwrap().is_counted(&Method::DELETE));
    }
}
