//! Creation, pausing, resumption and termination of sandboxes.

use std::{collections::HashSet, sync::Arc, time::Duration};

use glovebox::Language;
use glovebox_sessions::SessionId;

use super::{
    contexts,
    sandboxes::{Description, Sandbox, Sandboxes},
};
use crate::{Door, Script, ServiceError, SessionPage, SessionSummary, Tenant, Watch, executor::FileOperation};

/// Returns the name of a language's default context.
pub(super) fn context_name(language: Language) -> &'static str {
    language.name()
}

/// Returns the language of a sandbox's first context: Python, or JavaScript if the server does not serve Python.
pub(super) fn default_language(tenant: &Tenant) -> Language {
    let languages = [Language::Python, Language::JavaScript];
    let served = |language: &Language| tenant.service().runtimes().any(|info| info.language == *language);
    languages.into_iter().find(served).unwrap_or(Language::Python)
}

impl Sandboxes {
    /// Creates a sandbox with a Python context, or with a JavaScript context if the server does not serve Python.
    pub(super) async fn make(
        &self,
        tenant: &Tenant,
        description: Description,
        time: Duration,
    ) -> Result<Arc<Sandbox>, ServiceError> {
        let language = default_language(tenant);
        self.forget_empty(tenant).await?;
        let sandbox = self.add(Self::new_name(), tenant, description, time)?;
        match sandbox.open(context_name(language), language).await {
            Ok(_) => {
                sandbox.set_up(Some(context_name(language)));
                self.watch(&sandbox);
                Ok(sandbox)
            }
            Err(error) => {
                self.remove(tenant, &sandbox.id);
                Err(error)
            }
        }
    }

    /// Extends a sandbox's timeout to at least `time` from now. Resumes the sandbox if it is paused or from an earlier
    /// run of the server. Returns the sandbox with `true` if it was not running, or `None` if it does not exist.
    pub(super) async fn resume(
        &self,
        tenant: &Tenant,
        id: &str,
        time: Duration,
    ) -> Result<Option<(Arc<Sandbox>, bool)>, ServiceError> {
        if let Some(sandbox) = self.of(tenant, id) {
            let was_paused = sandbox.extend(time, false);
            if was_paused {
                self.watch(&sandbox);
            }
            return Ok(Some((sandbox, was_paused)));
        }
        if stored_sessions(tenant, id).await?.is_empty() {
            return Ok(None);
        }
        let last = context_with_files(tenant, id).await?;
        self.forget_empty(tenant).await?;
        let sandbox = self.add(id.to_owned(), tenant, Description::default(), time)?;
        sandbox.set_up(last.as_deref());
        self.watch(&sandbox);
        Ok(Some((sandbox, true)))
    }

    /// If the tenant has as many sandboxes as its session quota allows, removes the sandboxes that have no sessions
    /// left. Clients can delete sessions through other APIs, which do not track sandboxes.
    async fn forget_empty(&self, tenant: &Tenant) -> Result<(), ServiceError> {
        if !self.is_full(tenant) {
            return Ok(());
        }
        let before = self.all_of(tenant);
        let SessionPage { sessions, damaged, .. } = tenant.list().await?;
        let all: Vec<SessionId> = sessions.into_iter().map(|session| session.id).chain(damaged).collect();
        let with_sessions: HashSet<&str> =
            all.iter().filter_map(Self::of_session).map(|(sandbox, _)| sandbox).collect();
        for sandbox in before {
            // A busy sandbox may be replacing its only context.
            let is_idle = sandbox.turn.try_lock().is_ok();
            if is_idle && sandbox.is_set_up() && !with_sessions.contains(&*sandbox.id) {
                self.remove(tenant, &sandbox.id);
            }
        }
        Ok(())
    }

    /// Saves a sandbox's sessions and evicts them from memory. Returns `true` if the sandbox was running, or `None` if
    /// it does not exist.
    pub(super) async fn pause(&self, tenant: &Tenant, id: &str) -> Result<Option<bool>, ServiceError> {
        let Some(sandbox) = self.of(tenant, id) else {
            return Ok((!stored_sessions(tenant, id).await?.is_empty()).then_some(false));
        };
        let _turn = sandbox.turn.lock().await;
        for session in stored_sessions(tenant, id).await? {
            tenant.hibernate(&session).await?;
        }
        Ok(Some(sandbox.pause()))
    }

    /// Ends a sandbox immediately, without running exit handlers. Returns `false` if it does not exist.
    pub(super) async fn kill(&self, tenant: &Tenant, id: &str) -> Result<bool, ServiceError> {
        let sandbox = self.of(tenant, id);
        let sessions = stored_sessions(tenant, id).await?;
        if sandbox.is_none() && sessions.is_empty() {
            return Ok(false);
        }
        // Remove the sandbox first, so that no further requests reach it.
        self.remove(tenant, id);
        for session in sessions {
            tenant.remove(&session).await?;
        }
        Ok(true)
    }

    /// Spawns a task that pauses or ends the sandbox when its timeout expires.
    fn watch(&self, sandbox: &Arc<Sandbox>) {
        let (sandboxes, sandbox) = (self.clone(), Arc::clone(sandbox));
        let (begun, _) = sandbox.round();
        tokio::spawn(async move {
            loop {
                let (round, left) = sandbox.round();
                if round != begun || !sandboxes.has(&sandbox) {
                    return;
                }
                if !left.is_zero() {
                    // Sleep only briefly, because a request can shorten the timeout.
                    tokio::time::sleep(left.min(Duration::from_millis(500))).await;
                    continue;
                }
                let (tenant, id) = (&sandbox.tenant, &sandbox.id);
                let ended = match sandbox.description.pauses {
                    true => sandboxes.pause(tenant, id).await.map(|_| true),
                    false => sandboxes.kill(tenant, id).await,
                };
                match ended {
                    Ok(_) => return,
                    Err(error) => {
                        tracing::warn!(target: "glovebox", sandbox = %id, %error, "cannot end a sandbox; trying again in 5 s");
                        tokio::time::sleep(Duration::from_secs(5)).await;
                    }
                }
            }
        });
    }
}

/// Returns the stored sessions of a sandbox, including damaged sessions.
pub(super) async fn stored_sessions(tenant: &Tenant, id: &str) -> Result<Vec<SessionId>, ServiceError> {
    if !Sandboxes::is_name(id) {
        return Ok(Vec::new());
    }
    let SessionPage { sessions, damaged, .. } = tenant.list().await?;
    let all = sessions.into_iter().map(|session| session.id).chain(damaged);
    Ok(all.filter(|session| Sandboxes::of_session(session).is_some_and(|(of, _)| of == id)).collect())
}

/// Returns the context that has the files of a stored sandbox, or `None` if no context has files. If the server stopped
/// while it moved the files, two contexts have files, and the context that was saved last is complete.
async fn context_with_files(tenant: &Tenant, id: &str) -> Result<Option<String>, ServiceError> {
    let SessionPage { sessions, .. } = tenant.list().await?;
    let with_files = sessions.iter().filter(|session| session.files.is_some_and(|files| files > 0));
    let contexts = with_files.filter_map(|session| Some((session.updated_at, Sandboxes::of_session(&session.id)?)));
    let last = contexts.filter(|(_, (of, _))| *of == id).max_by_key(|(updated_at, _)| *updated_at);
    Ok(last.map(|(_, (_, context))| context.to_owned()))
}

impl Sandbox {
    /// Opens a context and sets its environment variables.
    pub(super) async fn open(&self, context: &str, language: Language) -> Result<SessionSummary, ServiceError> {
        let id = self.session(context)?;
        let record = self.tenant.open(Some(id), Some(language), None, None, serde_json::Map::new(), ()).await?;
        if let Some(source) = contexts::set_env(language, &self.description.env) {
            self.run(context, source).await?;
        }
        Ok(record)
    }

    /// Returns a context's session. Opens a missing context if `language` is given.
    pub(super) async fn context(&self, name: &str, language: Option<Language>) -> Result<SessionSummary, ServiceError> {
        let id = self.session(name)?;
        match (self.tenant.session(&id).await, language) {
            (Err(error), Some(language)) if error.is_missing_session() => self.open(name, language).await,
            (found, _) => found,
        }
    }

    /// Runs setup code in a context. Fails if the code fails.
    pub(super) async fn run(&self, context: &str, source: String) -> Result<(), ServiceError> {
        let script = Script { source, ..Script::default() };
        let id = self.session(context)?;
        let execution = self.tenant.execute_in(Door::E2b, (&id).into(), script, Watch::default()).await?;
        match execution.is_success() {
            true => Ok(()),
            false => Err(ServiceError::Invalid(format!("cannot set up the context: {}", execution.outcome.describe()))),
        }
    }

    /// Moves the sandbox's files to a context. Only one context has files at a time, so that the server can identify it
    /// after a restart. The caller must hold the lock `Sandbox::turn`.
    pub(super) async fn bring_files(&self, context: &str) -> Result<(), ServiceError> {
        let last = self.last();
        if let Some(last) = last.filter(|last| last != context) {
            let (from, to) = (self.session(&last)?, self.session(context)?);
            match self.tenant.change_files(&to, FileOperation::TakeFrom { session: from }).await {
                Ok(_) => {}
                // The context was removed together with its files.
                Err(error) if error.is_missing_session() => {}
                Err(error) => return Err(error),
            }
        }
        self.set_last(Some(context));
        Ok(())
    }
}
