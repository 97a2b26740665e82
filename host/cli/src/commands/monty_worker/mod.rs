//! `glovebox monty-worker`: a worker process for clients of Monty. Each snippet is an execution of a session.
//! `guest.py` runs in the session: it converts values, and passes all calls to the client through a single stepped
//! tool.

mod config;
#[cfg(feature = "full")]
mod error_format;
mod feeds;
mod frame;
#[cfg(feature = "full")]
mod stubs;
#[cfg(feature = "full")]
mod types;
#[cfg(not(feature = "full"))]
#[path = "types_placeholder.rs"]
mod types;

use std::{
    io::stdin,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use clap::Args;
use glovebox::{
    CancelToken, HibernateOptions, Language, Request, ResumeOptions, Sandbox, Session, Step, Suspended, Tool,
    ToolAnswer,
};
use serde_json::json;

use self::{
    config::{DEFAULT_FEED, SessionConfig},
    feeds::{Printer, WaitingFeed, event_of, failure, finish, refusal, stop},
    frame::{DUMP_TYPES, DUMP_WAITS, FieldValue, Message, each_field, event, read_part, request, write_part},
    types::SnippetChecks,
};
use crate::{
    args::{GlobalArgs, RuntimeArgs},
    engine::{Host, Pooling},
};

const AFTER_HELP: &str = "\
Example:
  MONTY_BIN=$(command -v glovebox) python3 agent.py      run Monty's sessions in Glovebox

pydantic-monty starts `glovebox subprocess`, which is the same command. The protocol is versions 5 and 6 of \
monty/v1/monty.proto, over standard input and standard output. Ctrl-C ends the process.";

/// Run the sessions of a Monty client
///
/// pydantic-monty starts one worker for each session.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct MontyWorkerArgs {}

/// The part of the worker that runs in the guest: the names and sources of its modules, in the order of their imports.
const GUEST: [(&str, &str); 3] = [
    ("_monty_wire", include_str!("wire.py")),
    ("_monty_values", include_str!("values.py")),
    ("_monty", include_str!("guest.py")),
];
/// The source of each execution. The guest fetches the snippet with the first call, so that a suspended execution
/// records it.
const FEED_SOURCE: &str = "__import__('_monty').feed()";
const TURN_TOOL: &str = "monty_turn";
const NOT_CONFIGURED: &str = "the session is not configured; send `configure` first";

struct Worker<'a> {
    host: &'a Host,
    config: Option<SessionConfig>,
    sandbox: Option<Sandbox>,
    session: Option<Session>,
    /// The type checks of snippets, if the client has requested them.
    types: Option<SnippetChecks>,
    /// `true` if the session has run a snippet or was loaded.
    has_begun: bool,
    feed: Option<WaitingFeed>,
    /// The output of the current snippet.
    printer: Printer,
    /// Execution time of the current snippet, and of the whole session.
    feed_time: Duration,
    total_time: Duration,
}

pub(crate) fn run(global: &GlobalArgs, _: &MontyWorkerArgs) -> anyhow::Result<i32> {
    let host = Host::open(global, Pooling::Single)?;
    let mut worker = Worker::new(&host);
    let mut input = stdin().lock();
    let ended = loop {
        let handled = frame::read(&mut input).and_then(|message| match message {
            Some(message) => worker.handle(&message),
            None => Ok(false),
        });
        match handled {
            Ok(true) => {}
            ended => break ended,
        }
    };
    if let Err(error) = &ended {
        // If the client has exited, the event cannot be sent. The error is returned in any case.
        let _ = worker.send(event::FATAL_ERROR, &Message::default().bytes(1, format!("{error:#}").as_bytes()).finish());
    }
    ended.map(|_| 0)
}

impl<'a> Worker<'a> {
    fn new(host: &'a Host) -> Self {
        Self {
            host,
            config: None,
            sandbox: None,
            session: None,
            types: None,
            has_begun: false,
            feed: None,
            printer: Printer::default(),
            feed_time: Duration::ZERO,
            total_time: Duration::ZERO,
        }
    }

    /// Handles a request. Returns `false` after the last request.
    fn handle(&mut self, message: &[u8]) -> anyhow::Result<bool> {
        let mut request = None;
        each_field(message, |kind, value| match value {
            FieldValue::Bytes(body) if kind < 20 => request = Some((kind, body)),
            _ => {}
        })?;
        let (kind, body) = request.context("the request contains no known message")?;
        match kind {
            request::CONFIGURE => {
                ensure!(self.config.is_none(), "the session is already configured");
                let config = SessionConfig::read(body)?;
                match SnippetChecks::of(self.host, &config) {
                    Err(error) => self.fail("RuntimeError", &format!("{error:#}"))?,
                    Ok(types) => {
                        self.configure(config)?;
                        self.types = types;
                        // Open the session now, so that opening it does not count towards the first snippet's time
                        // limit.
                        self.session = Some(self.open()?);
                        self.send(event::OK, &[])?;
                    }
                }
            }
            request::FEED => self.feed(body)?,
            request::RESUME_CALL if self.awaits_stubs() => self.receive_stubs(body)?,
            request::ABORT_FEED if self.awaits_stubs() => {
                if let Some(types) = &mut self.types {
                    drop(types.take_feed());
                }
                self.send(event::ERROR, body)?;
            }
            request::RESUME_CALL..=request::RESUME_FUTURES => {
                let feed = self.feed.take().context("no snippet is waiting for an answer")?;
                self.advance(feed, kind, body)?;
            }
            request::ABORT_FEED => {
                let feed = self.feed.take().context("no snippet is waiting for an answer")?;
                stop(&feed)?;
                // The exception is the body of both the request and the event.
                self.send(event::ERROR, body)?;
            }
            request::DUMP => self.dump()?,
            request::LOAD => {
                let mut state: &[u8] = &[];
                each_field(body, |field, value| {
                    if let (1, FieldValue::Bytes(bytes)) = (field, value) {
                        state = bytes;
                    }
                })?;
                self.load(state)?;
            }
            request::RESET => {
                *self = Self::new(self.host);
                self.send(event::OK, &[])?;
            }
            request::SHUTDOWN => {
                self.send(event::OK, &[])?;
                return Ok(false);
            }
            _ => self.fail("RuntimeError", "this worker does not support the request")?,
        }
        Ok(true)
    }

    fn configure(&mut self, config: SessionConfig) -> anyhow::Result<()> {
        let schema = json!({
            "type": "object",
            "properties": { "kind": { "type": "integer" }, "body": { "type": "string" } },
            "required": ["kind", "body"],
            "additionalProperties": false,
        });
        let tool = Tool::new(TURN_TOOL, "Passes an event to the client.").schema(schema).stepped();
        let runtime = RuntimeArgs::default();
        let sandbox = self.host.sandbox(&runtime, Some(Language::Python), &config.policy())?;
        self.sandbox =
            Some(sandbox.with_tools(&[tool]).context("cannot add the tool that passes events to the client")?);
        self.config = Some(config);
        Ok(())
    }

    fn config(&self) -> anyhow::Result<&SessionConfig> {
        self.config.as_ref().context(NOT_CONFIGURED)
    }

    fn sandbox(&self) -> anyhow::Result<&Sandbox> {
        self.sandbox.as_ref().context(NOT_CONFIGURED)
    }

    fn open(&self) -> anyhow::Result<Session> {
        let (sandbox, config) = (self.sandbox()?, self.config()?);
        let session = sandbox.session().context("cannot open the session")?;
        let execution = session.execute(&setup(config.recursion())).context("cannot prepare the session")?;
        ensure!(execution.outcome.is_success(), "cannot prepare the session: {}", execution.outcome.describe());
        Ok(session)
    }

    fn feed(&mut self, body: &[u8]) -> anyhow::Result<()> {
        ensure!(self.feed.is_none() && !self.awaits_stubs(), "another snippet is waiting for an answer");
        if let Some(types) = &mut self.types {
            self.has_begun = true;
            let version = self.sandbox.as_ref().and_then(Sandbox::version);
            match types.check(body, version) {
                Ok(None) => {}
                Ok(Some((kind, body))) => return self.send(kind, &body),
                Err(error) => return self.fail("RuntimeError", &format!("{error:#}")),
            }
        }
        // Open a new session if a script has ended the current session.
        let session = match self.session.clone().filter(|session| session.ended().is_none()) {
            Some(session) => session,
            None => self.open()?,
        };
        self.session = Some(session.clone());
        self.has_begun = true;
        self.feed_time = Duration::ZERO;
        self.printer = Printer::default();
        let (cancel, printer) = (CancelToken::new(), self.printer.clone());
        let request = Request::new(FEED_SOURCE).suspendable(true).on_output(printer.listener()).cancel(&cancel);
        let started = session.start(request)?;
        let mut feed = WaitingFeed { started, cancel, call: 0 };
        // A script can replace the worker's modules in the guest, so this step needs a time limit too.
        let Step::NeedsTools(calls) = feed.started.advance(Vec::new(), Some(DEFAULT_FEED))? else {
            stop(&feed)?;
            return self.fail("RuntimeError", "the snippet did not start");
        };
        feed.call = calls.first().map_or(0, |call| call.id);
        self.advance(feed, request::FEED, body)
    }

    /// Returns `true` if a snippet waits for the stubs of the modules that it imports.
    fn awaits_stubs(&self) -> bool {
        self.types.as_ref().is_some_and(SnippetChecks::awaits_stubs)
    }

    /// Handles the stubs of modules, and runs the snippet that waits for them.
    fn receive_stubs(&mut self, answer: &[u8]) -> anyhow::Result<()> {
        let types = self.types.as_mut().context("no snippet is waiting for stubs")?;
        let feed = types.take_feed().context("no snippet is waiting for stubs")?;
        match types.receive_stubs(answer) {
            Ok(None) => self.feed(&feed),
            Ok(Some(exception)) => self.send(event::ERROR, &Message::default().bytes(1, &exception).finish()),
            Err(error) => self.fail("RuntimeError", &format!("{error:#}")),
        }
    }

    /// Passes a request to the guest, and the guest's next event to the client.
    fn advance(&mut self, mut feed: WaitingFeed, kind: u64, body: &[u8]) -> anyhow::Result<()> {
        let mut answer = vec![u8::try_from(kind)?];
        answer.extend_from_slice(body);
        let mut answers = vec![ToolAnswer::value(feed.call, &json!(BASE64_STANDARD.encode(answer)))];
        let (feed_limit, turn_limit) = self.config()?.times();
        let limit = feed_limit.saturating_sub(self.feed_time).min(turn_limit);
        let begun = Instant::now();
        loop {
            let remaining = limit.saturating_sub(begun.elapsed());
            let step = feed.started.advance(answers, Some(remaining))?;
            let elapsed = begun.elapsed();
            match step {
                Step::Running => {
                    self.add_time(elapsed);
                    stop(&feed)?;
                    return self.fail("TimeoutError", &format!("time limit exceeded: {elapsed:?} > {limit:?}"));
                }
                Step::Done(execution) => {
                    self.add_time(elapsed);
                    let (name, message) = failure(&execution);
                    return self.fail(name, &message);
                }
                Step::NeedsTools(calls) => {
                    let Some((call, others)) = calls.split_first() else {
                        bail!("the script is waiting, but has no pending call")
                    };
                    let mut refused: Vec<_> = others.iter().map(refusal).collect();
                    match event_of(call) {
                        Some((kind @ (event::COMPLETE | event::ERROR), body)) => {
                            self.add_time(elapsed);
                            let execution = finish(&feed, call.id)?;
                            let has_ended = self.session.as_ref().is_none_or(|session| session.ended().is_some());
                            if has_ended || execution.rolled_back_to.is_some() {
                                return self
                                    .fail("RuntimeError", "the snippet did not end normally; its changes are lost");
                            }
                            if let (event::COMPLETE, Some(types)) = (kind, &mut self.types) {
                                types.commit();
                            }
                            return self.send(kind, &body);
                        }
                        Some((kind, body)) if refused.is_empty() => {
                            self.add_time(elapsed);
                            feed.call = call.id;
                            self.feed = Some(feed);
                            return self.send(kind, &body);
                        }
                        _ => refused.push(refusal(call)),
                    }
                    answers = refused;
                }
            }
        }
    }

    fn add_time(&mut self, elapsed: Duration) {
        self.feed_time = self.feed_time.saturating_add(elapsed);
        self.total_time = self.total_time.saturating_add(elapsed);
    }

    /// Sends the session's state. It consists of a byte with flags, the configuration, the state of the type checks if
    /// there is one, and the session or the suspended execution. Suspending ends the execution, so the execution is
    /// then resumed.
    fn dump(&mut self) -> anyhow::Result<()> {
        let config = self.config()?.clone();
        if self.awaits_stubs() {
            return self.fail("RuntimeError", "cannot dump while a snippet waits for the stubs of its modules");
        }
        let waits = self.feed.is_some();
        let types = self.types.as_ref().map(|types| types.dump(waits));
        let mut state = vec![u8::from(waits) * DUMP_WAITS + u8::from(types.is_some()) * DUMP_TYPES];
        write_part(&mut state, &config.message)?;
        if let Some(types) = &types {
            write_part(&mut state, types)?;
        }
        if let Some(feed) = &self.feed {
            let suspended = match feed.started.suspend() {
                Ok(suspended) => suspended,
                Err(error) => return self.fail("RuntimeError", &format!("cannot suspend the snippet: {error}")),
            };
            state.extend_from_slice(&suspended.to_bytes(None));
            self.resume(&suspended)?;
        } else if let Some(session) = &self.session {
            state.extend_from_slice(&session.hibernate(&HibernateOptions::default())?);
        }
        self.send(event::DUMP_RESULT, &Message::default().bytes(1, &state).finish())
    }

    /// Handles a request to restore a dump.
    fn load(&mut self, state: &[u8]) -> anyhow::Result<()> {
        ensure!(!self.has_begun, "the session has already begun");
        let (config, sandbox) = (self.config.clone(), self.sandbox.clone());
        match self.restore(state) {
            Ok(None) => self.send(event::OK, &[]),
            Ok(Some((kind, body))) => self.send(kind, &body),
            Err(error) => {
                // The client's session must keep its own limits instead of those in the dump.
                (self.config, self.sandbox) = (config, sandbox);
                self.fail("ValueError", &format!("cannot load the dump: {error:#}"))
            }
        }
    }

    /// Restores a state that [`dump`](Self::dump) has sent, within the client's limits. The state may be forged. If a
    /// snippet waits, returns the event that the client must answer.
    fn restore(&mut self, state: &[u8]) -> anyhow::Result<Option<(u64, Vec<u8>)>> {
        let invalid = "the bytes are not a dump of this worker";
        let (&flags, mut bytes) = state.split_first().context(invalid)?;
        let config = SessionConfig::read(read_part(&mut bytes).context(invalid)?)?;
        let config = match &self.config {
            Some(client) => config.within(client),
            None => config,
        };
        let mut types = SnippetChecks::of(self.host, &config)?;
        if flags & DUMP_TYPES != 0 {
            let dumped = read_part(&mut bytes).context(invalid)?;
            if let Some(types) = &mut types {
                types.load(dumped)?;
            }
        }
        self.configure(config)?;
        let event = if flags & DUMP_WAITS == 0 {
            self.session = Some(self.sandbox()?.resume(bytes, ResumeOptions::default())?);
            None
        } else {
            Some(self.resume(&Suspended::from_bytes(bytes, None)?)?)
        };
        (self.types, self.has_begun) = (types, true);
        Ok(event)
    }

    /// Restores a snippet that waits for its client, and returns the event that its client must answer.
    fn resume(&mut self, suspended: &Suspended) -> anyhow::Result<(u64, Vec<u8>)> {
        let session = self.sandbox()?.resume_suspended_session(suspended, ResumeOptions::default())?;
        let (cancel, printer) = (CancelToken::new(), self.printer.clone());
        let started = session.start(suspended.request().on_output(printer.listener()).cancel(&cancel))?;
        // Resuming repeats the snippet's computations. Their limit is the client's limit or the default limit,
        // whichever is higher.
        let (feed_limit, _) = self.config()?.times();
        let Step::NeedsTools(calls) = started.advance(Vec::new(), Some(feed_limit.max(DEFAULT_FEED)))? else {
            bail!("the suspended snippet is not waiting for a call");
        };
        let call = calls.first().context("the suspended snippet is not waiting for a call")?;
        let event = event_of(call)
            .context("the suspended snippet is waiting for a call that the protocol cannot pass to the client")?;
        self.session = Some(session);
        self.feed = Some(WaitingFeed { started, cancel, call: call.id });
        Ok(event)
    }

    fn fail(&self, name: &str, message: &str) -> anyhow::Result<()> {
        let exception = Message::default().bytes(1, name.as_bytes()).bytes(2, message.as_bytes()).finish();
        self.send(event::ERROR, &Message::default().bytes(1, &exception).finish())
    }

    /// Sends an event with the session's times and limits.
    fn send(&self, kind: u64, body: &[u8]) -> anyhow::Result<()> {
        if self.feed.is_none() {
            self.printer.finish();
        }
        let mut message = Message::default().bytes(kind, body);
        if let Some(config) = &self.config {
            let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
            message = message
                .number(20, micros(self.total_time))
                .optional(22, config.max_suspensions)
                .bytes(23, &config.script_name)
                .number(24, micros(self.feed_time))
                .optional(25, config.feed_micros)
                .optional(26, config.turn_micros)
                .optional(27, config.sleep_micros);
        }
        frame::write(&message.finish()).context("cannot write an event")
    }
}

/// Returns the script that prepares a session.
fn setup(recursion: u64) -> String {
    // A JSON array of strings is also valid Python.
    let modules = json!(GUEST);
    format!(
        "def load(modules):
    import sys, types
    for name, source in modules:
        module = sys.modules[name] = types.ModuleType(name)
        exec(source, vars(module))

load({modules})
del load
__import__('_monty').start(tools.{TURN_TOOL}, {recursion})
"
    )
}
