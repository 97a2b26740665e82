//! Sandboxes and sessions in memory that belong to whoever asked for them, with tools of their own.

use glovebox::{
    Diagnostic, Execution, HibernateError, HibernateOptions, JsonText, Language, ResumeOptions, Sandbox, Session,
    SessionId, SessionOptions, SessionsError, Tool,
};
use serde_json::{Map, Value};

use super::{Script, Tenant, Watch};
use crate::{Door, ServiceError};

/// A sandbox as it is asked for.
#[derive(Debug, Default)]
pub struct NewSandbox {
    /// Its language. Default: the runtime's, or that of the first runtime that is served.
    pub language: Option<Language>,
    /// Its runtime, by name or alias.
    pub runtime: Option<String>,
    /// The files in each new workspace.
    pub files: Vec<(String, Vec<u8>)>,
    /// What it asks for of the tenant's policy, by the policy's own names.
    pub policy: Map<String, Value>,
    /// Tools beside the tenant's.
    pub tools: Vec<Tool>,
}

/// A tenant's sandbox with tools of its own. Cheap to clone.
#[derive(Clone, Debug)]
pub struct OwnSandbox {
    tenant: Tenant,
    sandbox: Sandbox,
}

/// A session that no store has: it is gone with its last handle.
#[derive(Clone, Debug)]
pub struct OwnSession {
    tenant: Tenant,
    session: Session,
    id: SessionId,
}

impl Tenant {
    /// Sets up a sandbox within what the tenant is granted.
    ///
    /// # Errors
    /// When it asks for more, or for what is not served.
    pub async fn own_sandbox(&self, new: NewSandbox) -> Result<OwnSandbox, ServiceError> {
        self.work(None, move |tenant| {
            let NewSandbox { language, runtime, files, policy, tools } = new;
            let sandbox = tenant.sandbox(language, runtime.as_deref(), files, &policy)?.with_tools(&tools)?;
            Ok(OwnSandbox { tenant: tenant.clone(), sandbox })
        })
        .await
    }
}

impl OwnSandbox {
    /// The language of its scripts.
    #[must_use]
    pub fn language(&self) -> Language {
        self.sandbox.language()
    }

    /// Its runtime's name.
    #[must_use]
    pub fn runtime_name(&self) -> &str {
        self.sandbox.runtime_name()
    }

    /// The interpreter's version.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.sandbox.version()
    }

    /// Opens a session.
    ///
    /// # Errors
    /// When one more may not be, or the guest refuses the context.
    pub async fn open(&self, options: SessionOptions) -> Result<OwnSession, ServiceError> {
        let id = SessionId::random();
        let options = options.id(id.to_string());
        self.session(id, move |sandbox| Ok(sandbox.open_session(options)?)).await
    }

    /// Makes a session of the bytes that [`OwnSession::hibernate`] gave.
    ///
    /// # Errors
    /// When they are not a session's of this sandbox.
    pub async fn resume(&self, state: Vec<u8>) -> Result<OwnSession, ServiceError> {
        let id = SessionId::random();
        let mut options = ResumeOptions::default();
        options.id = Some(id.to_string());
        let named = id.clone();
        self.session(id, move |sandbox| {
            let resumed = sandbox.resume(&state, options);
            Ok(resumed.map_err(|source| SessionsError::Resume { id: named, source: Box::new(source) })?)
        })
        .await
    }

    async fn session(
        &self,
        id: SessionId,
        make: impl FnOnce(&Sandbox) -> Result<Session, ServiceError> + Send + 'static,
    ) -> Result<OwnSession, ServiceError> {
        let sandbox = self.sandbox.clone();
        let session = self.tenant.work(None, move |_| make(&sandbox)).await?;
        Ok(OwnSession { tenant: self.tenant.clone(), session, id })
    }

    /// Runs a script in a new interpreter, and makes something of its execution on the thread that ran it.
    ///
    /// # Errors
    /// When it could not be carried out, and those of `then`.
    pub async fn execute_then<T: Send + 'static>(
        &self,
        door: Door,
        script: Script,
        watch: Watch,
        then: impl FnOnce(Execution) -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let sandbox = self.sandbox.clone();
        self.tenant.run(door, None, script, watch, move |request| Ok(sandbox.run(request)?), then).await
    }

    /// What the language's own parser says about a source.
    ///
    /// # Errors
    /// When it could not be asked.
    pub async fn validate(&self, mut script: Script) -> Result<Vec<Diagnostic>, ServiceError> {
        let sandbox = self.sandbox.clone();
        self.tenant.work(None, move |_| Ok(sandbox.validate_request(script.request())?)).await
    }
}

impl OwnSession {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        self.session.id()
    }

    /// Runs a script in it, and makes something of its execution on the thread that ran it.
    ///
    /// # Errors
    /// When it could not be carried out, and those of `then`.
    pub async fn execute_then<T: Send + 'static>(
        &self,
        door: Door,
        script: Script,
        watch: Watch,
        then: impl FnOnce(Execution) -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let session = self.session.clone();
        self.tenant.run(door, Some(&self.id), script, watch, move |request| Ok(session.run(request)?), then).await
    }

    /// Does something else with it, on a thread that may block.
    ///
    /// # Errors
    /// Those of `ask`, and where there is no turn for it.
    pub async fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Session) -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let session = self.session.clone();
        self.tenant.work(Some(&self.id), move |_| ask(&session)).await
    }

    /// Sets what its scripts find in the global variable `context`.
    ///
    /// # Errors
    /// When the guest refuses it.
    pub async fn set_context(&self, context: JsonText) -> Result<(), ServiceError> {
        self.ask(move |session| Ok(session.set_variable_text("context", &context)?)).await
    }

    /// A second session of it.
    ///
    /// # Errors
    /// When one more may not be.
    pub async fn fork(&self) -> Result<Self, ServiceError> {
        let id = SessionId::random();
        let options = SessionOptions::default().id(id.to_string());
        let session = self.ask(move |session| Ok(session.fork_with(options)?)).await?;
        Ok(Self { tenant: self.tenant.clone(), session, id })
    }

    /// It as bytes, not sealed.
    ///
    /// # Errors
    /// When it has ended.
    pub async fn hibernate(&self) -> Result<Vec<u8>, ServiceError> {
        self.ask(|session| session.hibernate(&HibernateOptions::default()).map_err(unhibernated)).await
    }
}

fn unhibernated(error: HibernateError) -> ServiceError {
    match error {
        HibernateError::Session(error) => error.into(),
        error => ServiceError::Invalid(glovebox::with_causes(&error)),
    }
}
