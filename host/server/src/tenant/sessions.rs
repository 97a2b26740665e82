//! The sessions of a tenant.

use std::sync::PoisonError;

use glovebox::{
    ActiveSession, CheckpointId, CheckpointInfo, FilesError, GuestValue, IfExists, JsonText, Language, ListedSession,
    NewSession, SessionFiles, SessionGuard, SessionId, SessionRecord, Sessions, SessionsError,
};

use super::Tenant;
use crate::ServiceError;

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
    ) -> Result<SessionRecord, ServiceError> {
        let runtime = self.0.service.runtime(language, runtime)?;
        let mut new = NewSession::default().language(runtime.language).runtime(&runtime.name);
        new.context = context;
        let id = id.unwrap_or_else(SessionId::random);
        self.work(None, move |tenant| tenant.make(&id, |sessions, id| sessions.create(id, new))).await
    }

    /// A second session of one.
    ///
    /// # Errors
    /// As [`open`](Self::open), and when there is no such session.
    pub async fn fork(&self, id: &SessionId, fork: Option<SessionId>) -> Result<SessionRecord, ServiceError> {
        let (original, fork) = (id.clone(), fork.unwrap_or_else(SessionId::random));
        self.work(Some(id), move |tenant| tenant.make(&fork, |sessions, fork| sessions.fork(&original, fork))).await
    }

    /// Makes a session where one more may be. Called on a thread that may block.
    fn make(
        &self,
        id: &SessionId,
        make: impl FnOnce(&Sessions, SessionId) -> Result<SessionGuard, SessionsError>,
    ) -> Result<SessionRecord, ServiceError> {
        let _making = self.0.making.lock().unwrap_or_else(PoisonError::into_inner);
        let (sessions, most) = (&self.0.sessions, self.0.max_sessions);
        if sessions.store().list().map_err(SessionsError::from)?.len() >= most {
            return Err(ServiceError::TooMany { what: "sessions", most });
        }
        make(sessions, id.clone())?;
        self.record(id)
    }

    /// Every session, in the order of their names.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn list(&self) -> Result<Vec<ListedSession>, ServiceError> {
        self.work(None, |tenant| Ok(tenant.0.sessions.list()?)).await
    }

    /// A session's record.
    ///
    /// # Errors
    /// When there is no such session.
    pub async fn session(&self, id: &SessionId) -> Result<SessionRecord, ServiceError> {
        let id = id.clone();
        self.work(None, move |tenant| tenant.record(&id)).await
    }

    /// Saves the state of a session, to come back to it.
    ///
    /// # Errors
    /// When there is no such session, or no room.
    pub async fn checkpoint(&self, id: &SessionId) -> Result<CheckpointId, ServiceError> {
        self.change(id, |session| session.checkpoint()).await
    }

    /// Sets a session back: to a checkpoint, or to before its last execution.
    ///
    /// # Errors
    /// When there is no such session or state.
    pub async fn undo(&self, id: &SessionId, to: Option<CheckpointId>) -> Result<CheckpointId, ServiceError> {
        self.change(id, move |session| match to {
            Some(checkpoint) => session.undo_to(checkpoint).map(|()| checkpoint),
            None => session.undo(),
        })
        .await
    }

    /// Writes a session to the store and gives up its memory. Whether it was in memory.
    ///
    /// # Errors
    /// When there is no such session, or it cannot be written.
    pub async fn hibernate(&self, id: &SessionId) -> Result<bool, ServiceError> {
        let session = id.clone();
        self.work(Some(id), move |tenant| {
            tenant.record(&session)?;
            Ok(tenant.0.sessions.hibernate(&session)?)
        })
        .await
    }

    /// Ends a session and removes it. Exit handlers of one that can be resumed run.
    ///
    /// # Errors
    /// When there is no such session.
    pub async fn close(&self, id: &SessionId) -> Result<(), ServiceError> {
        self.check_rate()?;
        let session = id.clone();
        self.work(Some(id), move |tenant| match tenant.0.sessions.close(&session) {
            Ok(()) => Ok(()),
            Err(error @ (SessionsError::NotFound { .. } | SessionsError::InUse { .. })) => Err(error.into()),
            // One that cannot be resumed can still be removed.
            Err(_) => Ok(tenant.0.sessions.delete(&session).map(drop)?),
        })
        .await
    }

    /// The states that a session can be set back to, oldest first.
    ///
    /// # Errors
    /// When there is no such session.
    pub async fn checkpoints(&self, id: &SessionId) -> Result<Vec<CheckpointInfo>, ServiceError> {
        self.with_session(id, |session| Ok(session.checkpoints()?)).await
    }

    /// A global variable of a session.
    ///
    /// # Errors
    /// When there is no such session, or the value cannot be had.
    pub async fn get_variable(&self, id: &SessionId, name: String) -> Result<Option<GuestValue>, ServiceError> {
        self.check_rate()?;
        self.with_session(id, move |session| Ok(session.get_variable(&name)?)).await
    }

    /// Sets a global variable of a session, and saves it.
    ///
    /// # Errors
    /// When there is no such session, or the guest refuses the value.
    pub async fn set_variable(&self, id: &SessionId, name: String, json: JsonText) -> Result<(), ServiceError> {
        self.check_rate()?;
        self.change(id, move |session| session.set_variable_text(&name, &json)).await
    }

    /// Looks at the files of a session.
    ///
    /// # Errors
    /// When there is no such session, or what was asked was refused.
    pub async fn files<T: Send + 'static>(
        &self,
        id: &SessionId,
        ask: impl FnOnce(&SessionFiles) -> Result<T, FilesError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        self.with_session(id, move |session| Ok(ask(&session.files())?)).await
    }

    /// Changes the files of a session, and saves it.
    ///
    /// # Errors
    /// When there is no such session, or what was asked was refused.
    pub async fn change_files<T: Send + 'static>(
        &self,
        id: &SessionId,
        change: impl FnOnce(&SessionFiles) -> Result<T, FilesError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        self.change(id, move |session| change(&session.files())).await
    }

    /// A session as bytes.
    ///
    /// # Errors
    /// When there is no such session.
    pub async fn export(&self, id: &SessionId) -> Result<Vec<u8>, ServiceError> {
        let session = id.clone();
        self.work(Some(id), move |tenant| Ok(tenant.0.sessions.export(&session)?)).await
    }

    /// A session of bytes that [`export`](Self::export) gave.
    ///
    /// # Errors
    /// When there is one of this name, one more may not be, or the bytes are not a session's.
    pub async fn import(
        &self,
        id: SessionId,
        bytes: impl AsRef<[u8]> + Send + 'static,
    ) -> Result<SessionRecord, ServiceError> {
        self.work(Some(&id.clone()), move |tenant| {
            tenant.make(&id, |sessions, id| sessions.import(id, bytes.as_ref(), IfExists::Fail))
        })
        .await
    }

    /// Changes a session outside of any script, and saves it.
    async fn change<T: Send + 'static, E: 'static>(
        &self,
        id: &SessionId,
        change: impl FnOnce(&ActiveSession) -> Result<T, E> + Send + 'static,
    ) -> Result<T, ServiceError>
    where
        ServiceError: From<E>,
    {
        self.with_session(id, move |session| {
            let changed = change(session)?;
            session.save()?;
            Ok(changed)
        })
        .await
    }

    async fn with_session<T: Send + 'static>(
        &self,
        id: &SessionId,
        work: impl FnOnce(&ActiveSession) -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let session = id.clone();
        self.work(Some(id), move |tenant| {
            tenant.check(&session, None)?;
            work(&tenant.0.sessions.open(&session)?.activate()?)
        })
        .await
    }
}
