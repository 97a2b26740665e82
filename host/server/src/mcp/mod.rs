//! The Model Context Protocol, through which models run code.
//!
//! * [`McpServer`]: tools, resources and progress notifications for a [`Tenant`], independent of the transport.
//! * [`serve_stdio`]: serves a single client over standard input and output. [`router`] serves clients over HTTP.
//! * [`Upstreams`]: other MCP servers, whose tools scripts can call.
//!
//! Supports the MCP specification of 2026-07-28 and earlier versions. `rmcp` negotiates the version.

mod answer;
mod approval;
mod arguments;
mod connections;
mod files;
mod http;
mod outputs;
mod resources;
mod stdio;
mod tools;
mod upstream;

use std::{
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use glovebox::{IfExists, Language};
use rmcp::{
    RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult, ErrorCode,
        ErrorData, Implementation, JsonObject, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
        PaginatedRequestParams, ProgressNotificationParam, ProgressToken, ReadResourceRequestParams,
        ReadResourceResponse, ServerCapabilities, ServerConfig, Tool,
    },
    service::{Peer, RequestContext},
};
use serde_json::{Map, json};

use crate::{
    Door, FreshScript, Script, Service, ServiceError, Tenant, TypeCheckError, Watch, Work, executor::FinishedJob,
    tenant::ReplyRooms, text::quoted,
};
use answer::AnswerBuilder;
use approval::{ApprovedRun, RequestStates};
use arguments::{self as given, CodeLanguage};
use http::Account;
use outputs::Outputs;
use tools::Name;

pub use http::router;
pub use stdio::serve_stdio;
pub use upstream::{
    Approve, DocumentSource, EndpointConfig, Listing, OpenApiConfig, ProcessConfig, UpstreamConfig, UpstreamError,
    UpstreamTransport, Upstreams,
};

/// Instructions for models, which clients receive when they connect.
const INSTRUCTIONS: &str = "Runs Python, JavaScript and TypeScript in a sandbox. Use run_code to compute, to work \
     with data and files, and to draw. Open a session with session_open if later calls build on earlier ones.";

/// MCP tools and resources for a tenant's clients. Clones share the stored outputs.
#[derive(Clone, Debug)]
pub struct McpServer(Arc<McpInner>);

#[derive(Debug)]
struct McpInner {
    tenant: Tenant,
    outputs: Outputs,
    tools: Vec<Tool>,
    /// Seals the states of calls that wait for approvals.
    states: RequestStates,
}

/// Error message if the memory budget has no room for a response.
const NO_ROOM: &str = "the request was executed, but the server's memory for responses is full; read responses faster";

/// Error message if the memory budget has no room for the questions about a script's calls.
const NO_ROOM_TO_ASK: &str = "the script stopped at calls that need an approval, and does not continue: the server's \
     memory for responses is full, so the questions were not sent; calls that were approved earlier have run; try \
     again later";

/// Converts an error to a tool result.
fn refused(error: &ServiceError) -> CallToolResult {
    if let ServiceError::Types(TypeCheckError::Found(errors)) = error {
        return answer::with_type_errors(errors);
    }
    CallToolResult::error(vec![ContentBlock::text(format!("{}: {}", error.code(), error.public()))])
}

impl McpServer {
    /// Creates a server for a tenant.
    ///
    /// `listing` describes the host functions that scripts can call, for example the text of
    /// [`Upstreams::listing`]. It becomes part of `run_code`'s description and can be empty.
    pub fn new(tenant: Tenant, listing: &str) -> Self {
        let tenant = tenant.for_door(Door::Mcp);
        let tools = Name::tools(&tenant, listing);
        let states = RequestStates::new(tenant.name(), tenant.key().cloned());
        Self(Arc::new(McpInner { tenant, outputs: Outputs::default(), tools, states }))
    }

    async fn call(
        &self,
        name: Name,
        mut request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
        replies: &ReplyRooms,
    ) -> Result<CallToolResponse, ServiceError> {
        let tenant = &self.0.tenant.replying(replies);
        let arguments = request.arguments.take().unwrap_or_default();
        let called = match name {
            Name::RunCode => return self.run_code(arguments, request, context, tenant).await,
            Name::SessionOpen => tools::open_session(tenant, given::read(arguments)?).await,
            Name::SessionList => tools::list_sessions(tenant, given::read(arguments)?).await,
            Name::SessionFork => tools::fork_session(tenant, given::read(arguments)?).await,
            Name::SessionUndo => tools::undo_session(tenant, given::read(arguments)?).await,
            Name::SessionClose => tools::close_session(tenant, given::read(arguments)?).await,
            Name::FilesList => files::list(tenant, given::read(arguments)?).await,
            Name::FilesRead => files::read(tenant, given::read(arguments)?).await,
            Name::FilesWrite => files::write(tenant, given::read(arguments)?).await,
        };
        Ok(called?.into())
    }

    async fn run_code(
        &self,
        arguments: JsonObject,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
        tenant: &Tenant,
    ) -> Result<CallToolResponse, ServiceError> {
        let needs_approval = !tenant.approved_tools().is_empty();
        if request.request_state.is_some() && !needs_approval {
            return Err(ServiceError::Invalid(
                "`requestState` is unexpected, because no tool of this server needs an approval; call `run_code` \
                 without it"
                    .to_owned(),
            ));
        }
        let (arguments, digest) = match needs_approval {
            true => approval::with_digest(arguments).await?,
            false => (arguments, Default::default()),
        };
        let given: given::RunCode = given::read(arguments)?;
        let max_ms = self.0.tenant.policy().limits.timeout_ms;
        if let Some(timeout_ms) = given.timeout_ms.filter(|timeout_ms| !(1..=max_ms).contains(timeout_ms)) {
            return Err(ServiceError::Invalid(format!(
                "`timeout_ms` is {timeout_ms}; it must be between 1 and {max_ms}"
            )));
        }
        let max = Duration::from_millis(given.timeout_ms.unwrap_or(max_ms));
        let last = LastLine::default();
        let reported = last.clone();
        let run = async move {
            if needs_approval {
                let run = ApprovedRun { server: self, tenant, given, arguments: digest, context, last };
                return run.run(request.request_state, request.input_responses.unwrap_or_default()).await;
            }
            Ok(self.run_at_once(given, last.watch()).await?.into())
        };
        match context.meta.get_progress_token() {
            Some(token) => tokio::select! {
                answer = run => answer,
                never = report_progress(context.peer.clone(), token, max, reported) => match never {},
            },
            None => run.await,
        }
    }

    /// Runs a script to its end.
    async fn run_at_once(&self, given: given::RunCode, watch: Watch) -> Result<CallToolResult, ServiceError> {
        let answering = AnswerBuilder::new(self, &given)?;
        let then = move |finished: FinishedJob| Ok(answering.answer(&finished.execution));
        let work = self.work(given).await?;
        self.0.tenant.execute_then(Door::Mcp, work, watch, then).await
    }

    /// Returns the work that runs a script. If the script runs in a session, first writes the given files.
    async fn work(&self, given: given::RunCode) -> Result<Work, ServiceError> {
        let given::RunCode { language, code, session, timeout_ms, check_types, files } = given;
        let decode = move || {
            let files = files.into_iter().map(|file| {
                let bytes = given::content(&file.path, file.text, file.base64)?;
                Ok((file.path, bytes))
            });
            files.collect::<Result<Vec<_>, ServiceError>>()
        };
        // Decode on a blocking thread: the files can have 36 MiB in total, and decoding them takes a few hundredths of
        // a second.
        let files = Service::blocking(decode).await??;
        let script = Script { source: code, name: language.file_name(), check_types, ..Script::default() };
        Ok(match session {
            Some(session) => self.work_in(&session, language, script, timeout_ms, files).await?,
            None => {
                let mut policy = Map::new();
                if let Some(timeout_ms) = timeout_ms {
                    policy.insert("limits".to_owned(), json!({ "timeout_ms": timeout_ms }));
                }
                let fresh = FreshScript {
                    script,
                    language: Some(language.language()),
                    files,
                    policy,
                    ..FreshScript::default()
                };
                Work::Fresh(Box::new(fresh))
            }
        })
    }

    /// Writes files to a session and returns the work that runs a script in it.
    async fn work_in(
        &self,
        session: &str,
        language: CodeLanguage,
        mut script: Script,
        timeout_ms: Option<u64>,
        files: Vec<(String, Vec<u8>)>,
    ) -> Result<Work, ServiceError> {
        let tenant = &self.0.tenant;
        let id = given::session_id(session)?;
        let its: Language = tenant.session(&id).await?.language;
        if its != language.language() {
            let text =
                format!("session `{id}` runs {}, not {}; open another session", its.name(), language.language().name());
            return Err(ServiceError::Invalid(text));
        }
        if !files.is_empty() {
            tenant.write_files(&id, files, IfExists::Replace, ()).await?;
        }
        script.cancel_after = timeout_ms.map(Duration::from_millis);
        Ok(Work::InSession((&id).into(), Box::new(script)))
    }
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        let about = Implementation::new("glovebox", env!("CARGO_PKG_VERSION"))
            .with_title("Glovebox")
            .with_description("A sandbox for Python and JavaScript");
        ServerConfig::new(capabilities).with_server_info(about).with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.0.tools.clone()))
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let message = format!("unknown method `{}`", glovebox::escaped(&quoted(&request.method)));
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let (_, name) = Name::ALL.into_iter().find(|(name, _)| *name == request.name).ok_or_else(|| {
            let names = Name::ALL.map(|(name, _)| name).join(", ");
            let name = quoted(&request.name);
            ErrorData::invalid_params(format!("unknown tool `{}`; use one of {names}", glovebox::escaped(&name)), None)
        })?;
        let replies = ReplyRooms::default();
        tokio::select! {
            // A cancelled request needs no response. Dropping `call` cancels its work.
            biased;
            () = context.ct.cancelled() => Err(ErrorData::internal_error("cancelled", None)),
            result = self.call(name, request, &context, &replies) => {
                let response = result.unwrap_or_else(|error| refused(&error).into());
                let counted = match &response {
                    CallToolResponse::Complete(result) => Account::count(&context, replies.take(), result).await,
                    CallToolResponse::InputRequired(result) => Account::count(&context, replies.take(), result).await,
                    _ => Ok(()),
                };
                let no_room = match &response {
                    CallToolResponse::InputRequired(_) => NO_ROOM_TO_ASK,
                    _ => NO_ROOM,
                };
                let unavailable = || CallToolResult::error(vec![ContentBlock::text(format!("unavailable: {no_room}"))]);
                Ok(counted.map_or_else(|_| unavailable().into(), |()| response))
            }
        }
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(self.0.outputs.list()))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(resources::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let replies = ReplyRooms::default();
        let tenant = self.0.tenant.replying(&replies);
        let read = resources::read(&tenant, &self.0.outputs, &request.uri).await?;
        let counted = Account::count(&context, replies.take(), &read).await;
        counted.map_err(|_| ErrorData::internal_error(NO_ROOM, None))?;
        Ok(read.into())
    }
}

/// The interval between progress notifications. People hardly notice faster updates, and this rate costs clients
/// little.
const EVERY: Duration = Duration::from_millis(250);

/// Maximum length of the last line in a progress notification, in characters.
const MAX_LINE_CHARS: usize = 200;

/// The number of output bytes that are retained to find the last line.
const TAIL_BYTES: usize = 4 * MAX_LINE_CHARS;

/// The end of a script's output.
#[derive(Clone, Debug, Default)]
struct LastLine(Arc<Mutex<Vec<u8>>>);

impl LastLine {
    /// Creates a `Watch` that records the end of the output.
    fn watch(&self) -> Watch {
        let tail = Arc::clone(&self.0);
        Watch {
            on_output: Some(Box::new(move |_, bytes| {
                let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
                let new = bytes.get(bytes.len().saturating_sub(TAIL_BYTES)..).unwrap_or_default();
                tail.extend_from_slice(new);
                let beyond = tail.len().saturating_sub(TAIL_BYTES);
                tail.drain(..beyond);
            })),
            ..Watch::default()
        }
    }

    /// Returns the last non-empty line, cut to [`MAX_LINE_CHARS`], with control characters escaped.
    fn line(&self) -> Option<String> {
        let tail = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let text = String::from_utf8_lossy(&tail);
        let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
        let short: String = line.chars().take(MAX_LINE_CHARS).collect();
        Some(glovebox::escaped_text(&short).to_string())
    }
}

/// Notifies the client of the elapsed time and the last line of output, until the future is dropped. Never returns.
async fn report_progress(peer: Peer<RoleServer>, token: ProgressToken, max: Duration, last: LastLine) -> Infallible {
    let begun = Instant::now();
    let mut ticks = tokio::time::interval(EVERY);
    // Do not send a burst of missed notifications to a slow client.
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // The first tick completes immediately.
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let seconds = begun.elapsed().as_secs_f64();
        let mut progress =
            ProgressNotificationParam::new(token.clone(), seconds).with_total(max.as_secs_f64().max(seconds));
        let line = last.line().map(|line| format!(": {line}")).unwrap_or_default();
        progress = progress.with_message(format!("{seconds:.1} s{line}"));
        if peer.notify_progress(progress).await.is_err() {
            // The client has disconnected. Another task cancels the execution.
            return std::future::pending().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use glovebox::Stream;

    use super::*;

    #[test]
    fn last_line_is_escaped_and_truncated() {
        let last = LastLine::default();
        let mut on_output = last.watch().on_output.unwrap();
        assert_eq!(last.line(), None);
        on_output(Stream::Stdout, b"first\nsecond \x1b[2J\n\n");
        assert_eq!(last.line().as_deref(), Some("second \\u{1b}[2J"));
        on_output(Stream::Stderr, b"thi");
        on_output(Stream::Stdout, b"rd");
        assert_eq!(last.line().as_deref(), Some("third"));
        on_output(Stream::Stdout, &b"y".repeat(1 << 20));
        assert_eq!(last.line(), Some("y".repeat(MAX_LINE_CHARS)));
        assert!(last.0.lock().unwrap().len() <= TAIL_BYTES);
    }
}
