//! The sessions of a tenant.

use glovebox::{
    ActiveSession, CheckpointId, CheckpointInfo, FilesError, GuestValue, IfExists, JsonText, Language, NewSession,
    PageRequest, SessionFiles, SessionGuard, SessionId, Sessions, SessionsError,
};

use super::{Changed, NotInFleet, SessionPage, SessionSummary, Target, Tenant, generation};
use crate::{
    ServiceError,
    audit::{Act, Acted, Asked},
};

impl Tenant {
    /// Opens a session; without an id it has one of 128 random bits. `None` as language and runtime means the first that is served.
    ///
    /// # Errors
    /// When there is one of this name, or one more may not be.
    pub async fn open(
        &self,
        id: Option<SessionId>,
        language: Option<Language>,
        runtime: Option<&str>,
        context: Option<JsonText>,
    ) -> Result<SessionSummary, ServiceError> {
        if let Some(fleet) = &self.0.fleet {
            return self.open_in_fleet(fleet, id, language, runtime, context).await;
        }
        let runtime = self.0.service.runtime(language, runtime)?;
        let mut new = NewSession::default().language(runtime.language).runtime(&runtime.name);
        new.context = context;
        let id = id.unwrap_or_else(SessionId::random);
        self.work(None, move |tenant| {
            let made = tenant.make(&id, |sessions, id| sessions.create(id, new));
            tenant.told(&id, Act::new("open"), made)
        })
        .await
    }

    /// A second session of one.
    ///
    /// # Errors
    /// As [`open`](Self::open), and when there is no such session.
    pub async fn fork(
        &self,
        target: impl Into<Target>,
        fork: Option<SessionId>,
    ) -> Result<SessionSummary, ServiceError> {
        self.check_stored(NotInFleet::Fork)?;
        let (target, fork) = (target.into(), fork.unwrap_or_else(SessionId::random));
        let id = target.id.clone();
        self.work(Some(&id), move |tenant| {
            let made = tenant
                .check_generation(&target)
                .and_then(|_| tenant.make(&fork, |sessions, fork| sessions.fork(&target.id, fork)));
            tenant.told(&target.id, Act::new("fork").of(fork.as_str()), made)
        })
        .await
    }

    /// Makes a session where one more may be. Called on a thread that may block.
    fn make(
        &self,
        id: &SessionId,
        make: impl FnOnce(&Sessions, SessionId) -> Result<SessionGuard, SessionsError>,
    ) -> Result<SessionSummary, ServiceError> {
        let _making = self.0.making.blocking_lock();
        let (sessions, most) = (&self.0.sessions, self.0.max_sessions);
        if sessions.count(most)? >= most {
            return Err(ServiceError::TooMany { what: "sessions", most });
        }
        make(sessions, id.clone())?;
        self.record(id).map(SessionSummary::from)
    }

    /// Some sessions, in the order of their names.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn list_page(&self, page: PageRequest) -> Result<SessionPage, ServiceError> {
        if let Some(fleet) = &self.0.fleet {
            return self.list_page_in_fleet(fleet, page).await;
        }
        self.work(None, move |tenant| Ok(tenant.0.sessions.list(&page)?.into())).await
    }

    /// Every session, in the order of their names: no more than the tenant may have.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn list(&self) -> Result<SessionPage, ServiceError> {
        if let Some(fleet) = &self.0.fleet {
            return self.list_in_fleet(fleet).await;
        }
        self.work(None, |tenant| Ok(tenant.0.sessions.list_all()?.into())).await
    }

    /// What a session is.
    ///
    /// # Errors
    /// When there is no such session.
    pub async fn session(&self, id: &SessionId) -> Result<SessionSummary, ServiceError> {
        if let Some(fleet) = &self.0.fleet {
            return self.session_in_fleet(fleet, id).await;
        }
        let id = id.clone();
        self.work(None, move |tenant| tenant.record(&id).map(SessionSummary::from)).await
    }

    /// Saves the state of a session, to come back to it.
    ///
    /// # Errors
    /// When there is no such session, or no room.
    pub async fn checkpoint(&self, target: impl Into<Target>) -> Result<Changed<CheckpointId>, ServiceError> {
        self.check_stored(NotInFleet::Checkpoints)?;
        self.change(target.into(), Act::new("checkpoint"), |session| session.checkpoint()).await
    }

    /// Sets a session back: to a checkpoint, or to before its last execution.
    ///
    /// # Errors
    /// When there is no such session or state.
    pub async fn undo(
        &self,
        target: impl Into<Target>,
        to: Option<CheckpointId>,
    ) -> Result<Changed<CheckpointId>, ServiceError> {
        if let Some(fleet) = &self.0.fleet {
            return self.undo_in_fleet(fleet, target.into(), to).await;
        }
        self.change(target.into(), Act::new("undo"), move |session| match to {
            Some(checkpoint) => session.undo_to(checkpoint).map(|()| checkpoint),
            None => session.undo(),
        })
        .await
    }

    /// Writes a session to the store and gives up its memory. Whether it was in memory.
    ///
    /// # Errors
    /// When there is no such session, or it cannot be written.
    pub async fn hibernate(&self, target: impl Into<Target>) -> Result<Changed<bool>, ServiceError> {
        self.check_stored(NotInFleet::Hibernate)?;
        let target = target.into();
        let id = target.id.clone();
        self.work(Some(&id), move |tenant| {
            let hibernated = tenant
                .check_generation(&target)
                .and_then(|_| tenant.0.sessions.hibernate(&target.id).map_err(ServiceError::from));
            let value = tenant.told(&target.id, Act::new("hibernate"), hibernated)?;
            Ok(Changed { value, generation: tenant.generation(&target.id) })
        })
        .await
    }

    /// Ends a session and removes it. Exit handlers of one that can be resumed run.
    ///
    /// # Errors
    /// When there is no such session.
    pub async fn close(&self, target: impl Into<Target>) -> Result<(), ServiceError> {
        self.check_rate()?;
        let target = target.into();
        if let Some(fleet) = &self.0.fleet {
            return self.close_in_fleet(fleet, target).await;
        }
        let id = target.id.clone();
        self.work(Some(&id), move |tenant| {
            let closed = tenant.check_generation(&target).and_then(|_| match tenant.0.sessions.close(&target.id) {
                Ok(()) => Ok(()),
                Err(error @ (SessionsError::NotFound { .. } | SessionsError::InUse { .. })) => Err(error.into()),
                // One that cannot be resumed can still be removed.
                Err(_) => Ok(tenant.0.sessions.delete(&target.id).map(drop)?),
            });
            tenant.told(&target.id, Act::new("close"), closed)
        })
        .await
    }

    /// Removes a session without having its exit handlers run. Whether there was one.
    ///
    /// # Errors
    /// When it is in use.
    pub async fn remove(&self, id: &SessionId) -> Result<bool, ServiceError> {
        if let Some(fleet) = &self.0.fleet {
            return self.remove_in_fleet(fleet, id).await;
        }
        let session = id.clone();
        self.work(Some(id), move |tenant| {
            let removed = tenant.0.sessions.delete(&session).map_err(ServiceError::from);
            tenant.told(&session, Act::new("remove"), removed)
        })
        .await
    }

    /// The states that a session can be set back to, oldest first.
    ///
    /// # Errors
    /// When there is no such session.
    pub async fn checkpoints(&self, id: &SessionId) -> Result<Vec<CheckpointInfo>, ServiceError> {
        self.check_stored(NotInFleet::Checkpoints)?;
        self.with_session(id.into(), None, |session| Ok(session.checkpoints()?)).await
    }

    /// A global variable of a session.
    ///
    /// # Errors
    /// When there is no such session, or the value cannot be had.
    pub async fn get_variable(&self, id: &SessionId, name: String) -> Result<Option<GuestValue>, ServiceError> {
        self.check_stored(NotInFleet::Variables)?;
        self.check_rate()?;
        // Code of the guest's may run for it.
        let act = Act::new("get-variable").of(&name);
        self.with_session(id.into(), Some(act), move |session| Ok(session.get_variable(&name)?)).await
    }

    /// Sets a global variable of a session, and saves it.
    ///
    /// # Errors
    /// When there is no such session, or the guest refuses the value.
    pub async fn set_variable(
        &self,
        target: impl Into<Target>,
        name: String,
        json: JsonText,
    ) -> Result<Changed<()>, ServiceError> {
        self.check_stored(NotInFleet::Variables)?;
        self.check_rate()?;
        let act = Act::new("set-variable").of(&name);
        self.change(target.into(), act, move |session| session.set_variable_text(&name, &json)).await
    }

    /// Looks at the files of a session. `path`: what is looked at, for the audit log.
    ///
    /// # Errors
    /// When there is no such session, or what was asked was refused.
    pub async fn files<T: Send + 'static>(
        &self,
        id: &SessionId,
        path: &str,
        ask: impl FnOnce(&SessionFiles) -> Result<T, FilesError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        self.check_stored(NotInFleet::Files)?;
        let act = Act::new("read-files").of(path);
        self.with_session(id.into(), Some(act), move |session| Ok(ask(&session.files())?)).await
    }

    /// Changes the files of a session, and saves it. `path`: what is changed, for the audit log.
    ///
    /// # Errors
    /// When there is no such session, or what was asked was refused.
    pub async fn change_files<T: Send + 'static>(
        &self,
        target: impl Into<Target>,
        path: &str,
        change: impl FnOnce(&SessionFiles) -> Result<T, FilesError> + Send + 'static,
    ) -> Result<Changed<T>, ServiceError> {
        self.check_stored(NotInFleet::Files)?;
        let act = Act::new("change-files").of(path);
        self.change(target.into(), act, move |session| change(&session.files())).await
    }

    /// A session as bytes.
    ///
    /// # Errors
    /// When there is no such session.
    pub async fn export(&self, id: &SessionId) -> Result<Vec<u8>, ServiceError> {
        self.check_stored(NotInFleet::Export)?;
        let session = id.clone();
        self.work(Some(id), move |tenant| {
            let exported = tenant.0.sessions.export(&session).map_err(ServiceError::from);
            tenant.told(&session, Act::new("export"), exported)
        })
        .await
    }

    /// How many bytes [`export`](Self::export) gives.
    ///
    /// # Errors
    /// As [`export`](Self::export).
    pub async fn exported_bytes(&self, id: &SessionId) -> Result<u64, ServiceError> {
        self.check_stored(NotInFleet::Export)?;
        Ok(self.session(id).await?.bytes)
    }

    /// A session of bytes that [`export`](Self::export) gave.
    ///
    /// # Errors
    /// When there is one of this name, one more may not be, or the bytes are not a session's.
    pub async fn import(
        &self,
        id: SessionId,
        bytes: impl AsRef<[u8]> + Send + 'static,
    ) -> Result<SessionSummary, ServiceError> {
        self.check_stored(NotInFleet::Import)?;
        self.work(Some(&id.clone()), move |tenant| {
            let made = tenant.make(&id, |sessions, id| sessions.import(id, bytes.as_ref(), IfExists::Fail));
            tenant.told(&id, Act::new("import"), made)
        })
        .await
    }

    /// Changes a session outside of any script, and saves it.
    async fn change<T: Send + 'static, E: 'static>(
        &self,
        target: Target,
        act: Act,
        change: impl FnOnce(&ActiveSession) -> Result<T, E> + Send + 'static,
    ) -> Result<Changed<T>, ServiceError>
    where
        ServiceError: From<E>,
    {
        let id = target.id.clone();
        let tenant = self.clone();
        self.with_session(target, Some(act), move |session| {
            let value = change(session)?;
            session.save()?;
            Ok(Changed { value, generation: tenant.generation(&id) })
        })
        .await
    }

    async fn with_session<T: Send + 'static>(
        &self,
        target: Target,
        act: Option<Act>,
        work: impl FnOnce(&ActiveSession) -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let id = target.id.clone();
        self.work(Some(&id), move |tenant| {
            let done = || {
                tenant.check(&target)?;
                work(&tenant.0.sessions.open(&target.id)?.activate()?)
            };
            match act {
                Some(act) => tenant.told(&target.id, act, done()),
                None => done(),
            }
        })
        .await
    }

    /// The session's generation now. Called on a thread that may block.
    fn generation(&self, id: &SessionId) -> Option<String> {
        self.record(id).ok().as_ref().map(generation)
    }

    /// Writes down what was done with a session, or tells the parent of this worker, who does.
    pub(super) fn told<T>(&self, id: &SessionId, act: Act, result: Result<T, ServiceError>) -> Result<T, ServiceError> {
        let acted = act.ended(result.as_ref().err());
        match &self.2 {
            Some(told) => told.acted(acted),
            None => self.note_act(Some(id), &acted),
        }
        result
    }

    /// Writes down what was done with a session, here or in a worker.
    pub(crate) fn note_act(&self, session: Option<&SessionId>, acted: &Acted) {
        if let Some(audit) = &self.0.service.0.audit {
            let asked = Asked { door: self.1, tenant: &self.0.name, session: session.map(SessionId::as_str) };
            audit.act(&asked, acted);
        }
    }
}
