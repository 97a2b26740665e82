//! Checks the syntax and, on request, the types of a tenant's scripts without running them. The embedder's checker
//! ([`ServiceConfig::type_checker`](crate::ServiceConfig::type_checker)) checks types.

use std::{error::Error, fmt, sync::Arc};

use glovebox::{CancelToken, Diagnostic, Language, RuntimeInfo, SessionVariable, Tool, check_tools};
use glovebox_sessions::SessionId;
use tracing::Instrument as _;

use super::{
    FreshScript, Script, Tenant, Work,
    execute::{CancelOnDrop, unless_cancelled},
};
use crate::{
    NotInFleet, Service, ServiceError,
    error_codes::{Code, INVALID, TOO_LARGE, TYPE_ERRORS, UNAVAILABLE, UNSUPPORTED},
    executor::SessionOperation,
};

/// Maximum length of a script whose types are checked, in bytes.
const MAX_CHECKED_BYTES: usize = 256 << 10;

/// Maximum number of type errors in a response. Later errors are usually consequences of the first error.
const MAX_TYPE_ERRORS: usize = 20;

/// A type checker for Python scripts. It does not run the scripts.
pub trait CheckTypes: fmt::Debug + Send + Sync {
    /// Returns the type errors of a script. The script, and the schemas of its tools, are untrusted, so a check must
    /// limit its time, its memory and the length of its messages. It runs on a blocking thread. If `cancel` is
    /// cancelled, the check must return soon, with any result.
    ///
    /// # Errors
    /// Fails if the check cannot run or exceeds its limits. The error is only for the service's log.
    fn check(
        &self,
        script: &TypedScript<'_>,
        cancel: &CancelToken,
    ) -> Result<Vec<Diagnostic>, Box<dyn Error + Send + Sync>>;
}

/// A Python script without syntax errors, and its environment.
#[derive(Clone, Copy, Debug)]
pub struct TypedScript<'a> {
    /// The source text.
    pub source: &'a str,
    /// The version of the interpreter, such as `3.15.0`, if known.
    pub version: Option<&'a str>,
    /// The name of the runtime or of the custom image.
    pub runtime: &'a str,
    /// All tools that the script can call, or `None` if they are unknown.
    pub tools: Option<&'a [Tool]>,
    /// The global variables of the session in which the script runs. Empty outside a session. `None` if the variables
    /// are unknown: the script can then use any name.
    pub variables: Option<&'a [SessionVariable]>,
    /// The tenant's name. A checker that keeps state, such as a running process, must not share this state between
    /// owners.
    pub owner: &'a str,
}

/// The reason why a script was not run after a type check.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TypeCheckError {
    /// The service has no checker.
    #[error(
        "this server does not check types; start it with `--types`, as in `glovebox serve --types` and `glovebox mcp --types`, or remove `check_types`"
    )]
    NotEnabled,
    /// The script is not Python.
    #[error("`check_types` supports only Python, and the script is {}; remove `check_types`", .0.name())]
    Language(Language),
    /// The script is too long for a type check.
    #[error(
        "the script is {bytes} bytes long; the maximum for a type check is {MAX_CHECKED_BYTES}; send a shorter script, or remove `check_types`"
    )]
    TooLong {
        /// The length of the script in bytes.
        bytes: usize,
    },
    /// The script has type errors.
    #[error("the script was not run, because it has type errors; correct them, or remove `check_types`")]
    Found(Vec<Diagnostic>),
    /// The check failed or exceeded its limits. The reason can contain details about the host.
    #[error(
        "the script was not run: its type check failed or exceeded the limits; send a simpler script, or remove `check_types`"
    )]
    Failed(#[source] Box<dyn Error + Send + Sync>),
}

impl TypeCheckError {
    pub(crate) fn kind(&self) -> Code {
        match self {
            Self::NotEnabled => UNSUPPORTED,
            Self::Language(_) => INVALID,
            Self::TooLong { .. } => TOO_LARGE,
            Self::Found(_) => TYPE_ERRORS,
            Self::Failed(_) => UNAVAILABLE,
        }
    }
}

/// A script whose types are checked if its syntax is correct.
struct TypeCheck {
    checker: Arc<dyn CheckTypes>,
    source: String,
    tools: Vec<Tool>,
    /// The session's variables, or `None` if they are unknown.
    variables: Option<Vec<SessionVariable>>,
    /// The tenant's name.
    owner: String,
}

/// The problems of a script. Types are checked only if the syntax is correct, so at least one of the lists is empty.
#[derive(Default)]
struct Findings {
    syntax_errors: Vec<Diagnostic>,
    type_errors: Vec<Diagnostic>,
}

impl TypeCheck {
    /// Checks the types. Must be called on a blocking thread.
    fn run(&self, runtime: &RuntimeInfo, cancel: &CancelToken) -> Result<Vec<Diagnostic>, ServiceError> {
        check_tools(&self.tools)?;
        let script = TypedScript {
            source: &self.source,
            version: Some(&runtime.version),
            runtime: &runtime.name,
            tools: Some(&self.tools),
            variables: self.variables.as_deref(),
            owner: &self.owner,
        };
        let found = self.checker.check(&script, cancel);
        if cancel.is_cancelled() {
            return Err(ServiceError::Cancelled);
        }
        let mut found = found.map_err(TypeCheckError::Failed)?;
        found.truncate(MAX_TYPE_ERRORS);
        Ok(found)
    }
}

impl Tenant {
    /// Checks a script's syntax with the parser of its language, and on request its types, without running it.
    ///
    /// # Errors
    /// Fails for the same reasons as [`execute`](Self::execute). Syntax and type errors are returned as diagnostics.
    pub async fn validate(&self, fresh: FreshScript) -> Result<Vec<Diagnostic>, ServiceError> {
        self.validate_for(fresh, None).await
    }

    /// Like [`validate`](Self::validate), but for a script that will run in a session. The type check also uses the
    /// session's variables. Waits for the session like an execution, and does not change it.
    ///
    /// # Errors
    /// Fails for the same reasons as [`execute_in`](Self::execute_in).
    pub async fn validate_in(&self, id: SessionId, script: Script) -> Result<Vec<Diagnostic>, ServiceError> {
        self.validate_for(FreshScript { script, ..FreshScript::default() }, Some(id)).await
    }

    async fn validate_for(
        &self,
        mut fresh: FreshScript,
        session: Option<SessionId>,
    ) -> Result<Vec<Diagnostic>, ServiceError> {
        self.check_rate()?;
        let check = match fresh.script.check_types {
            true if session.is_some() && self.inner.executor.has_remote_sessions() => {
                return Err(ServiceError::NotInFleet(NotInFleet::TypeChecks));
            }
            true => {
                fresh.script.offer(self.callbacks())?;
                Some(self.type_check(&fresh.script)?)
            }
            false => None,
        };
        // The syntax check needs no tools.
        fresh.script.tools.clear();
        let held = self.admit(session.as_ref()).await?;
        let (Findings { mut syntax_errors, type_errors }, _held) =
            self.find_errors(fresh, session, check, held).await?;
        syntax_errors.extend(type_errors);
        Ok(syntax_errors)
    }

    /// Checks the types of a script before it runs, if [`Script::check_types`] is set. The check holds the permits
    /// `held` until it ends, even if the caller drops the future. Returns the permits for the execution.
    ///
    /// # Errors
    /// Fails with [`TypeCheckError::Found`] if the script has type errors. Ignores syntax errors, which the script
    /// raises when it runs.
    pub(super) async fn check_types<H: Send + 'static>(&self, work: &mut Work, held: H) -> Result<H, ServiceError> {
        if !work.script().check_types || work.resumption().is_some() {
            return Ok(held);
        }
        let session = work.session().cloned();
        if self.is_remote(work) {
            return Err(ServiceError::NotInFleet(NotInFleet::TypeChecks));
        }
        let check = self.type_check(work.script())?;
        let script = Script { source: check.source.clone(), ..Script::default() };
        let fresh = match work {
            Work::Fresh(fresh) => FreshScript {
                script,
                language: fresh.language,
                runtime: fresh.runtime.clone(),
                ..FreshScript::default()
            },
            Work::InSession(..) => FreshScript { script, ..FreshScript::default() },
        };
        let (Findings { type_errors, .. }, held) = self.find_errors(fresh, session, Some(check), held).await?;
        if type_errors.is_empty() { Ok(held) } else { Err(TypeCheckError::Found(type_errors).into()) }
    }

    /// Prepares a type check. Fails if the service has no checker, or if the script is too long.
    fn type_check(&self, script: &Script) -> Result<TypeCheck, ServiceError> {
        let checker = self.inner.service.type_checker().ok_or(TypeCheckError::NotEnabled)?;
        let bytes = script.source.len();
        if bytes > MAX_CHECKED_BYTES {
            return Err(TypeCheckError::TooLong { bytes }.into());
        }
        let tools = self.inner.config.tools.iter().chain(&script.tools).cloned().collect();
        Ok(TypeCheck {
            checker: Arc::clone(checker),
            source: script.source.clone(),
            tools,
            variables: Some(Vec::new()),
            owner: self.inner.config.name.clone(),
        })
    }

    /// Checks a script in a separate task, which holds `held` until it ends. Dropping the future cancels the check.
    async fn find_errors<H: Send + 'static>(
        &self,
        fresh: FreshScript,
        session: Option<SessionId>,
        check: Option<TypeCheck>,
        held: H,
    ) -> Result<(Findings, H), ServiceError> {
        let (tenant, cancel) = (self.clone(), self.inner.service.token());
        let _cancel = CancelOnDrop(cancel.clone());
        let work = async move {
            let findings = tenant.findings(fresh, session, check, &cancel).await?;
            Ok::<_, ServiceError>((findings, held))
        };
        tokio::spawn(work.in_current_span()).await.map_err(|_| ServiceError::Panicked)?
    }

    async fn findings(
        &self,
        mut fresh: FreshScript,
        session: Option<SessionId>,
        check: Option<TypeCheck>,
        cancel: &CancelToken,
    ) -> Result<Findings, ServiceError> {
        if let Some(id) = session.clone() {
            let mut reply = self.inner.executor.session(SessionOperation::Describe { id }.into()).await?;
            self.keep(reply.rooms.drain(..));
            let session = reply.session()?;
            (fresh.language, fresh.runtime) = (Some(session.language), Some(session.runtime));
        }
        let Some(mut check) = check else {
            return Ok(Findings { syntax_errors: self.syntax_errors(fresh).await?, ..Findings::default() });
        };
        let runtime = self.inner.service.runtime(fresh.language, fresh.runtime.as_deref())?;
        if runtime.language != Language::Python {
            return Err(TypeCheckError::Language(runtime.language).into());
        }
        let runtime = runtime.clone();
        let syntax_errors = self.syntax_errors(fresh).await?;
        if !syntax_errors.is_empty() {
            return Ok(Findings { syntax_errors, ..Findings::default() });
        }
        let permit =
            unless_cancelled(Some(cancel), self.inner.service.admit_type_check(&self.inner.config.name)).await?;
        // Reading the variables copies the session. The permit therefore also limits the number of copies.
        if let Some(id) = session {
            let mut reply = self.inner.executor.session(SessionOperation::Variables { id }.into()).await?;
            self.keep(reply.rooms.drain(..));
            check.variables = reply.variables()?;
        }
        let cancel = cancel.clone();
        let checked = Service::blocking(move || {
            let _permit = permit;
            check.run(&runtime, &cancel)
        });
        Ok(Findings { type_errors: checked.await??, ..Findings::default() })
    }

    async fn syntax_errors(&self, fresh: FreshScript) -> Result<Vec<Diagnostic>, ServiceError> {
        let (found, room) = self.inner.executor.validate(fresh).await?;
        self.keep(room);
        Ok(found)
    }
}
