//! Asynchronous calls and streams, from the draft of version 0.3.0 of the contract. The draft can change until its
//! release.
//!
//! A component can make several calls at the same time. Dropping a call that has not returned cancels its script. The
//! component needs an asynchronous export, and a host that provides `glovebox:sandbox@0.3.0`, such as
//! `glovebox run-component`.
//!
//! ```no_run
//! use glovebox_guest::{Error, Execution, Sandbox, concurrent::join_all};
//!
//! /// Runs two scripts at the same time.
//! async fn both() -> Vec<Result<Execution, Error>> {
//!     let sandbox = Sandbox::python().concurrent();
//!     join_all(["print(1)", "print(2)"].map(|script| sandbox.execute(script))).await
//! }
//! ```
//!
//! * [`Sandbox`] executes and validates scripts, and opens sessions.
//! * [`Started`] is an execution that runs while the component reads its output, answers its tool calls, or does other
//!   work.
//! * [`Session`] is an interpreter that persists between executions. Calls into different sessions can run at the same
//!   time.
//! * [`call_tool`] calls a tool of another component, or of the host, such as a tool that a script has requested.

mod session;
mod started;
mod tasks;

use bindings::glovebox::sandbox0_3_0::{sandbox, session as sessions, tools};

use crate::{
    CallFailure, Diagnostic, Error, Execution, InputFile, Policy, ProviderInfo, Request, SessionOptions, Tool,
};

pub use sandbox::{Event, ToolRequest};
pub use session::Session;
pub use started::Started;
pub use tasks::{join_all, stream};
pub use tools::CallInfo;
pub use wit_bindgen::{StreamReader, StreamResult, StreamWriter};

#[allow(
    missing_docs,
    unreachable_pub,
    unsafe_code,
    unused_qualifications,
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::cast_lossless,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "generated: the canonical ABI is raw memory, and the generator's names are WIT's"
)]
mod bindings {
    wit_bindgen::generate!({
        path: ["wit", "wit/0.3"],
        inline: "
            package glovebox:guest-concurrent;

            world client {
                import glovebox:sandbox/sandbox@0.3.0;
                import glovebox:sandbox/session@0.3.0;
                import glovebox:sandbox/tools@0.3.0;
            }
        ",
        with: {
            // Both versions of the contract have the same types.
            "glovebox:sandbox/types@0.2.0": crate::bindings::glovebox::sandbox::types,
        },
        additional_derives: [PartialEq, Eq],
        generate_all,
    });
}

/// Describes the provider for version 0.3.0, like [`crate::info`].
#[must_use]
pub fn info() -> ProviderInfo {
    sandbox::info()
}

/// Returns the default policy, with a value in every field, like [`crate::default_policy`].
#[must_use]
pub fn default_policy() -> Policy {
    sandbox::default_policy()
}

/// Lists the tools of the component that is composed with yours (`wac plug`), or else of the host. Pass them to
/// [`Sandbox::start`] to let scripts call them.
#[must_use]
pub fn list_tools() -> Vec<Tool> {
    tools::list_tools()
}

/// Calls one of the tools of [`list_tools`]. The arguments are the text of a JSON object, and the result is JSON text.
/// Several calls can run at the same time. Dropping a call cancels it.
///
/// ```no_run
/// use glovebox_guest::{Error, concurrent::{CallInfo, Started, ToolRequest, call_tool}};
///
/// /// Forwards a script's call, and answers it.
/// async fn forward(started: &Started, call: ToolRequest) -> Result<(), Error> {
///     let info = CallInfo { id: call.id, session_id: None, timeout_ms: None };
///     started.answer(call.id, call_tool(call.name, call.arguments, info).await)
/// }
/// ```
///
/// # Errors
/// Fails if the tool fails, or if the host refuses the call.
pub async fn call_tool(
    name: impl Into<String>,
    arguments: impl Into<String>,
    info: CallInfo,
) -> Result<String, CallFailure> {
    tools::call(name.into(), arguments.into(), info).await
}

/// A sandbox with asynchronous calls, from [`crate::Sandbox::concurrent`].
///
/// Each asynchronous call and each started execution counts against the quota of started executions until it has ended.
/// A dropped call counts until its script has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox(crate::Sandbox);

impl crate::Sandbox {
    /// Returns this sandbox with asynchronous calls.
    #[must_use]
    pub fn concurrent(self) -> Sandbox {
        Sandbox(self)
    }
}

impl Sandbox {
    /// Runs a script in a new interpreter with new files, and discards both.
    ///
    /// # Errors
    /// Same as [`crate::Sandbox::execute`].
    pub async fn execute(&self, request: impl Into<Request>) -> Result<Execution, Error> {
        let crate::Sandbox { runtime, policy } = self.0.clone();
        Ok(sandbox::execute(runtime, request.into(), policy).await?)
    }

    /// Parses a source with the language's own parser, without executing it. Returns the diagnostics, or an empty list
    /// if the source is valid.
    ///
    /// # Errors
    /// Same as [`execute`](Self::execute).
    pub async fn validate(&self, request: impl Into<Request>) -> Result<Vec<Diagnostic>, Error> {
        let crate::Sandbox { runtime, policy } = self.0.clone();
        Ok(sandbox::validate(runtime, request.into(), policy).await?)
    }

    /// Starts an execution, and returns once it has begun. The script can call `tools` in addition to the provider's
    /// own tools.
    ///
    /// # Errors
    /// Same as [`crate::Sandbox::start`].
    pub async fn start(&self, request: impl Into<Request>, tools: &[Tool]) -> Result<Started, Error> {
        let crate::Sandbox { runtime, policy } = self.0.clone();
        Ok(Started { raw: sandbox::start(runtime, request.into(), policy, tools.to_vec()).await? })
    }

    /// Starts an execution like [`start`](Self::start). [`Started::suspend`] can serialize the execution.
    ///
    /// # Errors
    /// Same as [`crate::Sandbox::start_suspendable`].
    pub async fn start_suspendable(&self, request: impl Into<Request>, tools: &[Tool]) -> Result<Started, Error> {
        let crate::Sandbox { runtime, policy } = self.0.clone();
        Ok(Started { raw: sandbox::start_suspendable(runtime, request.into(), policy, tools.to_vec()).await? })
    }

    /// Continues an execution from the result of [`Started::suspend`], or of [`crate::Started::suspend`]. For an
    /// execution in a session, call [`resume_suspended_session`](Self::resume_suspended_session) instead. The script
    /// repeats its earlier steps without calling tools, and then waits for the answers that were missing.
    /// [`Started::events`] returns the unanswered calls again. Pass the same `files` as in the first request. The
    /// bytes do not set limits or grant permissions. A deadline in the first request does not apply.
    ///
    /// # Errors
    /// Same as [`start_suspendable`](Self::start_suspendable). Also [`Error::NotResumable`] if the bytes are damaged,
    /// belong to another runtime, or contain an execution in a session. [`Started::finish`] returns this error if the
    /// script behaves differently than in the first run.
    pub async fn resume_suspended(
        &self,
        suspended: impl Into<Vec<u8>>,
        files: &[InputFile],
        tools: &[Tool],
    ) -> Result<Started, Error> {
        let crate::Sandbox { runtime, policy } = self.0.clone();
        let (files, tools) = (files.to_vec(), tools.to_vec());
        Ok(Started { raw: sandbox::resume_suspended(runtime, suspended.into(), files, policy, tools).await? })
    }

    /// Continues an execution from [`Session::start_suspendable`], with the result of [`Started::suspend`]. Returns a new
    /// session in its state before the execution, and the execution, which runs in this session and repeats its earlier
    /// steps like [`resume_suspended`](Self::resume_suspended). Several calls can continue copies of one execution, each
    /// in its own session. All these sessions draw the same random numbers from the interpreter's generators.
    ///
    /// ```no_run
    /// use glovebox_guest::{Error, Sandbox, SessionOptions, Tool, concurrent::Event};
    ///
    /// # async fn example() -> Result<(), Error> {
    /// let (sandbox, tools) = (Sandbox::python().concurrent(), [Tool::new("pay", "Pays.")]);
    /// let options = SessionOptions { tools: Some(tools.to_vec()), ..SessionOptions::default() };
    /// let session = sandbox.session(&options).await?;
    /// session.execute("total = 20").await?;
    /// let started = session.start_suspendable("receipt = tools.pay(euros=total)").await?;
    /// started.events()?.next().await;
    /// let bytes = started.suspend().await?;
    ///
    /// // Days later, in another instance or on another host:
    /// let (session, resumed) = sandbox.resume_suspended_session(bytes, &tools).await?;
    /// if let Some(Event::ToolRequest(call)) = resumed.events()?.next().await {
    ///     resumed.answer(call.id, Ok("17".into()))?;
    /// }
    /// resumed.finish().await?;
    /// let receipt = session.get_variable("receipt").await?;
    /// # let _ = receipt;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Same as [`session`](Self::session) and [`Session::start_suspendable`]. Also [`Error::NotResumable`] if the bytes
    /// are damaged, belong to another runtime, or contain an execution outside sessions. [`Started::finish`] returns
    /// this error if the script behaves differently than in the first run.
    pub async fn resume_suspended_session(
        &self,
        suspended: impl Into<Vec<u8>>,
        tools: &[Tool],
    ) -> Result<(Session, Started), Error> {
        let crate::Sandbox { runtime, policy } = self.0.clone();
        let tools = tools.to_vec();
        let resume = |suspended| sessions::Session::resume_suspended(runtime, suspended, policy, tools);
        let (session, started) = tasks::send(suspended.into(), resume).await?;
        Ok((Session { raw: session }, Started { raw: started }))
    }

    /// Opens a session: an interpreter that persists between executions.
    ///
    /// # Errors
    /// Same as [`crate::Sandbox::open_session`].
    pub async fn session(&self, options: &SessionOptions) -> Result<Session, Error> {
        let crate::Sandbox { runtime, policy } = self.0.clone();
        Ok(Session { raw: sessions::Session::open(runtime, policy, options_of(options)).await? })
    }

    /// Restores a session from the result of [`Session::hibernate`]. The bytes do not change limits or grant
    /// permissions.
    ///
    /// # Errors
    /// Same as [`session`](Self::session). Also [`Error::NotResumable`] if the bytes are not a session that this
    /// provider, runtime and policy can resume.
    pub async fn resume(&self, state: impl Into<Vec<u8>>, options: &SessionOptions) -> Result<Session, Error> {
        tasks::send(state.into(), |state| self.resume_from(state, options)).await
    }

    /// Like [`resume`](Self::resume), but reads the bytes from a stream.
    ///
    /// # Errors
    /// Same as [`resume`](Self::resume).
    pub async fn resume_from(&self, state: StreamReader<u8>, options: &SessionOptions) -> Result<Session, Error> {
        let crate::Sandbox { runtime, policy } = self.0.clone();
        Ok(Session { raw: sessions::Session::resume(runtime, state, policy, options_of(options)).await? })
    }
}

fn options_of(options: &SessionOptions) -> sessions::SessionOptions {
    let SessionOptions { context, tools } = options.clone();
    sessions::SessionOptions { context, tools }
}
