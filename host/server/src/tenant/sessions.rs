//! Operations on a tenant's sessions, and their records in the store.

use glovebox::{CheckpointId, CheckpointInfo, FilesError, GuestValue, IfExists, JsonText, Language, SessionFiles};
use glovebox_sessions::{
    ActiveSession, NewSession, PageRequest, SessionGuard, SessionId, SessionRecord, Sessions, SessionsError,
};

use super::{Changed, NotInFleet, SessionPage, SessionSummary, Target, Tenant, generation};
use crate::{
    ServiceError,
    audit::{Act, Acted, AuditSubject},
};

impl Tenant {
    /// Opens a session. Without an `id` it gets a random one of 128 bits. Without `language` and `runtime` it uses the
    /// first served runtime.
    ///
    /// # Errors
    /// Fails if a session of this name exists, or if the tenant's maximum number of sessions is reached.
    pub async fn open(
        &self,
        id: Option<SessionId>,
        language: Option<Language>,
        runtime: Option<&str>,
        context: Option<JsonText>,
    ) -> Result<SessionSummary, ServiceError> {
        if let Some(fleet) = &self.inner.fleet {
            return self.open_in_fleet(fleet, id, language, runtime, context).await;
        }
        let runtime = self.inner.service.runtime(language, runtime)?;
        let mut new = NewSession::default().language(runtime.language).runtime(&runtime.name);
        new.context = context;
        let id = id.unwrap_or_else(SessionId::random);
        self.work(None, move |tenant| {
            let made = tenant.make(&id, |sessions, id| sessions.create(id, new));
            tenant.record_act(&id, Act::new("open"), made)
        })
        .await
    }

    /// Forks a session into an independent copy.
    ///
    /// # Errors
    /// Fails like [`open`](Self::open), and if the session does not exist.
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
            tenant.record_act(&target.id, Act::new("fork").of(fork.as_str()), made)
        })
        .await
    }

    /// Creates a session unless the maximum number is reached. Called on a blocking thread.
    fn make(
        &self,
        id: &SessionId,
        make: impl FnOnce(&Sessions, SessionId) -> Result<SessionGuard, SessionsError>,
    ) -> Result<SessionSummary, ServiceError> {
        let _making = self.inner.making.blocking_lock();
        let (sessions, most) = (&self.inner.sessions, self.inner.max_sessions);
        if sessions.count(most)? >= most {
            return Err(ServiceError::TooMany { what: "sessions", most });
        }
        make(sessions, id.clone())?;
        self.record(id).map(SessionSummary::from)
    }

    /// Returns a page of sessions, in the order of their names.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    pub async fn list_page(&self, page: PageRequest) -> Result<SessionPage, ServiceError> {
        if let Some(fleet) = &self.inner.fleet {
            return self.list_page_in_fleet(fleet, page).await;
        }
        self.work(None, move |tenant| Ok(tenant.inner.sessions.list(&page)?.into())).await
    }

    /// Returns all sessions, in the order of their names. Their number is limited by the tenant's quota.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    pub async fn list(&self) -> Result<SessionPage, ServiceError> {
        if let Some(fleet) = &self.inner.fleet {
            return self.list_in_fleet(fleet).await;
        }
        self.work(None, |tenant| Ok(tenant.inner.sessions.list_all()?.into())).await
    }

    /// Describes a session.
    ///
    /// # Errors
    /// Fails if the session does not exist.
    pub async fn session(&self, id: &SessionId) -> Result<SessionSummary, ServiceError> {
        if let Some(fleet) = &self.inner.fleet {
            return self.session_in_fleet(fleet, id).await;
        }
        let id = id.clone();
        self.work(None, move |tenant| tenant.record(&id).map(SessionSummary::from)).await
    }

    /// Takes a checkpoint of a session, for [`undo`](Self::undo).
    ///
    /// # Errors
    /// Fails if the session does not exist, or if the store has no room.
    pub async fn checkpoint(&self, target: impl Into<Target>) -> Result<Changed<CheckpointId>, ServiceError> {
        self.check_stored(NotInFleet::Checkpoints)?;
        self.change(target.into(), Act::new("checkpoint"), |session| session.checkpoint()).await
    }

    /// Restores a checkpoint of a session, or the state before its last execution.
    ///
    /// # Errors
    /// Fails if the session or the checkpoint does not exist.
    pub async fn undo(
        &self,
        target: impl Into<Target>,
        to: Option<CheckpointId>,
    ) -> Result<Changed<CheckpointId>, ServiceError> {
        if let Some(fleet) = &self.inner.fleet {
            return self.undo_in_fleet(fleet, target.into(), to).await;
        }
        self.change(target.into(), Act::new("undo"), move |session| match to {
            Some(checkpoint) => session.undo_to(checkpoint).map(|()| checkpoint),
            None => session.undo(),
        })
        .await
    }

    /// Saves a session and evicts it from memory. Returns `false` if it was not in memory.
    ///
    /// # Errors
    /// Fails if the session does not exist or cannot be saved.
    pub async fn hibernate(&self, target: impl Into<Target>) -> Result<Changed<bool>, ServiceError> {
        self.check_stored(NotInFleet::Hibernate)?;
        let target = target.into();
        let id = target.id.clone();
        self.work(Some(&id), move |tenant| {
            let hibernated = tenant
                .check_generation(&target)
                .and_then(|_| tenant.inner.sessions.hibernate(&target.id).map_err(ServiceError::from));
            let value = tenant.record_act(&target.id, Act::new("hibernate"), hibernated)?;
            Ok(Changed { value, generation: tenant.generation(&target.id) })
        })
        .await
    }

    /// Closes and removes a session. Its exit handlers run if it can be resumed.
    ///
    /// # Errors
    /// Fails if the session does not exist.
    pub async fn close(&self, target: impl Into<Target>) -> Result<(), ServiceError> {
        self.check_rate()?;
        let target = target.into();
        if let Some(fleet) = &self.inner.fleet {
            return self.close_in_fleet(fleet, target).await;
        }
        let id = target.id.clone();
        self.work(Some(&id), move |tenant| {
            let closed = tenant.check_generation(&target).and_then(|_| match tenant.inner.sessions.close(&target.id) {
                Ok(()) => Ok(()),
                Err(error @ (SessionsError::NotFound { .. } | SessionsError::InUse { .. })) => Err(error.into()),
                // A session that cannot be resumed can still be removed.
                Err(_) => Ok(tenant.inner.sessions.delete(&target.id).map(drop)?),
            });
            tenant.record_act(&target.id, Act::new("close"), closed)
        })
        .await
    }

    /// Removes a session without running its exit handlers. Returns `false` if it did not exist.
    ///
    /// # Errors
    /// Fails if the session is in use.
    pub async fn remove(&self, id: &SessionId) -> Result<bool, ServiceError> {
        if let Some(fleet) = &self.inner.fleet {
            return self.remove_in_fleet(fleet, id).await;
        }
        let session = id.clone();
        self.work(Some(id), move |tenant| {
            let removed = tenant.inner.sessions.delete(&session).map_err(ServiceError::from);
            tenant.record_act(&session, Act::new("remove"), removed)
        })
        .await
    }

    /// Returns the checkpoints of a session, oldest first.
    ///
    /// # Errors
    /// Fails if the session does not exist.
    pub async fn checkpoints(&self, id: &SessionId) -> Result<Vec<CheckpointInfo>, ServiceError> {
        self.check_stored(NotInFleet::Checkpoints)?;
        self.with_session(id.into(), None, |session| Ok(session.checkpoints()?)).await
    }

    /// Returns a global variable of a session.
    ///
    /// # Errors
    /// Fails if the session does not exist, or if the value cannot be read.
    pub async fn get_variable(&self, id: &SessionId, name: String) -> Result<Option<GuestValue>, ServiceError> {
        self.check_stored(NotInFleet::Variables)?;
        self.check_rate()?;
        // Reading a variable may run code of the guest.
        let act = Act::new("get-variable").of(&name);
        self.with_session(id.into(), Some(act), move |session| Ok(session.get_variable(&name)?)).await
    }

    /// Sets a global variable of a session, and saves the session.
    ///
    /// # Errors
    /// Fails if the session does not exist, or if the guest rejects the value.
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

    /// Reads the files of a session. `path` is recorded in the audit log.
    ///
    /// # Errors
    /// Fails if the session does not exist, and with the errors of `ask`.
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

    /// Changes the files of a session, and saves the session. `path` is recorded in the audit log.
    ///
    /// # Errors
    /// Fails if the session does not exist, and with the errors of `change`.
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

    /// Serializes a session.
    ///
    /// # Errors
    /// Fails if the session does not exist.
    pub async fn export(&self, id: &SessionId) -> Result<Vec<u8>, ServiceError> {
        self.check_stored(NotInFleet::Export)?;
        let session = id.clone();
        self.work(Some(id), move |tenant| {
            let exported = tenant.inner.sessions.export(&session).map_err(ServiceError::from);
            tenant.record_act(&session, Act::new("export"), exported)
        })
        .await
    }

    /// The number of bytes that [`export`](Self::export) returns.
    ///
    /// # Errors
    /// Fails like [`export`](Self::export).
    pub async fn exported_bytes(&self, id: &SessionId) -> Result<u64, ServiceError> {
        self.check_stored(NotInFleet::Export)?;
        Ok(self.session(id).await?.bytes)
    }

    /// Restores a session from the bytes that [`export`](Self::export) returned.
    ///
    /// # Errors
    /// Fails if a session of this name exists, if the tenant's maximum number of sessions is reached, or if the bytes
    /// are not a session.
    pub async fn import(
        &self,
        id: SessionId,
        bytes: impl AsRef<[u8]> + Send + 'static,
    ) -> Result<SessionSummary, ServiceError> {
        self.check_stored(NotInFleet::Import)?;
        self.work(Some(&id.clone()), move |tenant| {
            let made = tenant.make(&id, |sessions, id| sessions.import(id, bytes.as_ref(), IfExists::Fail));
            tenant.record_act(&id, Act::new("import"), made)
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
                work(&tenant.inner.sessions.open(&target.id)?.activate()?)
            };
            match act {
                Some(act) => tenant.record_act(&target.id, act, done()),
                None => done(),
            }
        })
        .await
    }

    /// The session's current generation. Called on a blocking thread.
    fn generation(&self, id: &SessionId) -> Option<String> {
        self.record(id).ok().as_ref().map(generation)
    }

    /// Records an operation on a session. In a worker, reports it to the parent process instead.
    pub(super) fn record_act<T>(
        &self,
        id: &SessionId,
        act: Act,
        result: Result<T, ServiceError>,
    ) -> Result<T, ServiceError> {
        let acted = act.ended(result.as_ref().err());
        match &self.report {
            Some(report) => report.acted(acted),
            None => self.note_act(Some(id), &acted),
        }
        result
    }

    /// Records an operation on a session, performed by this process or by a worker.
    pub(crate) fn note_act(&self, session: Option<&SessionId>, acted: &Acted) {
        if let Some(audit) = &self.inner.service.0.audit {
            let asked =
                AuditSubject { door: self.door, tenant: &self.inner.name, session: session.map(SessionId::as_str) };
            audit.act(&asked, acted);
        }
    }
}

impl Tenant {
    /// Returns the stored record. Called on a blocking thread.
    pub(super) fn record(&self, id: &SessionId) -> Result<SessionRecord, ServiceError> {
        let record = self.inner.sessions.record(id)?;
        Ok(record.ok_or_else(|| SessionsError::NotFound { id: id.clone() })?)
    }

    /// Checks a session's generation and that its runtime is served. Called on a blocking thread that holds the
    /// session's turn.
    pub(super) fn check(&self, target: &Target) -> Result<(), ServiceError> {
        let record = self.check_generation(target)?;
        self.inner.service.runtime(Some(record.language), Some(&record.runtime)).map(drop)
    }

    /// Checks only the generation, for operations that need no runtime.
    fn check_generation(&self, Target { id, expected }: &Target) -> Result<SessionRecord, ServiceError> {
        let record = self.record(id)?;
        if let Some(expected) = expected {
            let has = generation(&record);
            if has != *expected {
                return Err(ServiceError::Generation { expected: expected.clone(), has });
            }
        }
        Ok(record)
    }
}
