//! Operations on a tenant's sessions, and the descriptions of sessions, which can be in a store or in a fleet.

use std::sync::Arc;

use glovebox::{
    CheckpointId, CheckpointInfo, FileEntry, FilePage, GuestValue, IfExists, JsonText, Language, ListLimits,
    SessionInfo, Timestamp,
};
use glovebox_sessions::{ListedPage, ListedSession, PageRequest, SessionId, SessionRecord};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tracing::Instrument as _;
use utoipa::ToSchema;

use super::{ChangeResult, SessionTarget, Tenant};
use crate::{
    ServiceError,
    audit::{AuditAction, AuditSubject},
    executor::{FileAnswer, FileOperation, Room, SessionCall, SessionOperation, SessionReply, join_files},
};

/// Maximum number of bytes to reserve for the exported state of a session that is only in memory. The length of the
/// state is unknown before the export. It is usually much smaller than the memory of the session.
const MAX_STATE_BYTES: u64 = 64 << 20;

impl Tenant {
    /// Opens a session. The default `id` has 128 random bits. Without `language` and `runtime`, the session uses the
    /// first served runtime. `policy` contains changes to the tenant's policy, which only sessions in memory
    /// ([`SessionLocation::Memory`](crate::SessionLocation::Memory)) support. `held`, such as memory charged for the
    /// context, is dropped when the operation has ended, even if the caller drops the future earlier.
    ///
    /// # Errors
    /// Fails if a session with this ID exists, or if the tenant has reached its maximum number of sessions. Also fails
    /// if the service does not serve the runtime, or if the guest rejects the context.
    pub async fn open(
        &self,
        id: Option<SessionId>,
        language: Option<Language>,
        runtime: Option<&str>,
        context: Option<JsonText>,
        policy: Map<String, Value>,
        held: impl Send + 'static,
    ) -> Result<SessionSummary, ServiceError> {
        let (id, runtime) = (id.unwrap_or_else(SessionId::random), runtime.map(str::to_owned));
        let max = self.inner.config.sessions;
        let operation = SessionOperation::Open { id, language, runtime, context, policy, max };
        let (reply, _) = self.perform_within(operation, held).await?;
        reply.session()
    }

    /// Forks a session into an independent copy.
    ///
    /// # Errors
    /// Fails if the session does not exist or has a different generation. Also fails if a session named `fork` exists,
    /// or if the tenant has reached its maximum number of sessions.
    pub async fn fork(
        &self,
        target: impl Into<SessionTarget>,
        fork: Option<SessionId>,
    ) -> Result<SessionSummary, ServiceError> {
        let target = target.into();
        let fork = fork.unwrap_or_else(|| self.inner.executor.name_of_fork(&target.id));
        self.perform(SessionOperation::Fork { target, fork, max: self.inner.config.sessions }).await?.session()
    }

    /// Returns a page of the tenant's sessions, sorted by name.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    pub async fn list_page(&self, page: PageRequest) -> Result<SessionPage, ServiceError> {
        let (after, limit) = (page.begins_after().cloned(), Some(page.limit()));
        self.perform(SessionOperation::List { after, limit }).await?.page()
    }

    /// Returns all sessions of the tenant, sorted by name. The tenant's quota limits their number.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    pub async fn list(&self) -> Result<SessionPage, ServiceError> {
        self.perform(SessionOperation::List { after: None, limit: None }).await?.page()
    }

    /// Returns a session's description.
    ///
    /// # Errors
    /// Fails if the session does not exist.
    pub async fn session(&self, id: &SessionId) -> Result<SessionSummary, ServiceError> {
        self.perform(SessionOperation::Describe { id: id.clone() }).await?.session()
    }

    /// Takes a checkpoint of a session, for [`undo`](Self::undo).
    ///
    /// # Errors
    /// Fails if the session does not exist or has a different generation, or if the store is full.
    pub async fn checkpoint(
        &self,
        target: impl Into<SessionTarget>,
    ) -> Result<ChangeResult<CheckpointId>, ServiceError> {
        self.perform(SessionOperation::Checkpoint { target: target.into() }).await?.checkpoint()
    }

    /// Restores a checkpoint of a session. Without `to`, restores the last checkpoint that differs from the current
    /// state or, in a fleet, the state before the last execution. Returns the restored checkpoint.
    ///
    /// # Errors
    /// Fails if the session does not exist or has a different generation, or if the checkpoint does not exist.
    pub async fn undo(
        &self,
        target: impl Into<SessionTarget>,
        to: Option<CheckpointId>,
    ) -> Result<ChangeResult<CheckpointId>, ServiceError> {
        self.perform(SessionOperation::Undo { target: target.into(), to }).await?.checkpoint()
    }

    /// Saves a session and evicts it from memory. Returns `false` if it was not in memory.
    ///
    /// # Errors
    /// Fails if the session does not exist, has a different generation, is in use, or cannot be saved.
    pub async fn hibernate(&self, target: impl Into<SessionTarget>) -> Result<ChangeResult<bool>, ServiceError> {
        self.perform(SessionOperation::Hibernate { target: target.into() }).await?.hibernated()
    }

    /// Closes and removes a session. Runs its exit handlers if it can be resumed.
    ///
    /// # Errors
    /// Fails if the session does not exist.
    pub async fn close(&self, target: impl Into<SessionTarget>) -> Result<(), ServiceError> {
        self.perform(SessionOperation::Close { target: target.into() }).await.map(drop)
    }

    /// Removes a session without running its exit handlers. Returns `false` if it did not exist.
    ///
    /// # Errors
    /// Fails if the session is in use.
    pub async fn remove(&self, id: &SessionId) -> Result<bool, ServiceError> {
        self.perform(SessionOperation::Remove { id: id.clone() }).await?.removed()
    }

    /// Returns a session's checkpoints, oldest first.
    ///
    /// # Errors
    /// Fails if the session does not exist.
    pub async fn checkpoints(&self, id: &SessionId) -> Result<Vec<CheckpointInfo>, ServiceError> {
        self.perform(SessionOperation::Checkpoints { id: id.clone() }).await?.checkpoints()
    }

    /// Returns the value of a global variable in a session, or `None` if the variable does not exist.
    ///
    /// # Errors
    /// Fails if the session does not exist, or if the value cannot be read.
    pub async fn get_variable(&self, id: &SessionId, name: String) -> Result<Option<GuestValue>, ServiceError> {
        self.perform(SessionOperation::GetVariable { id: id.clone(), name }).await?.variable()
    }

    /// Sets a global variable in a session and saves the session. Holds the memory charged for the value until the
    /// session is saved, even if the caller has dropped the future.
    ///
    /// # Errors
    /// Fails if the session does not exist or has a different generation, or if the guest rejects the value.
    pub(crate) async fn set_variable(
        &self,
        target: impl Into<SessionTarget>,
        name: String,
        json: JsonText,
        held: impl Send + 'static,
    ) -> Result<ChangeResult<()>, ServiceError> {
        let operation = SessionOperation::SetVariable { target: target.into(), name, json };
        self.perform_within(operation, held).await?.0.set()
    }

    /// Serializes a session for [`import`](Self::import). `held` is the memory reservation for the bytes. It remains
    /// until the operation has ended, even if the caller drops the future. Returns the bytes and the reservation.
    ///
    /// # Errors
    /// Fails if the session does not exist.
    pub(crate) async fn export<H: Send + 'static>(
        &self,
        id: &SessionId,
        held: H,
    ) -> Result<(Vec<u8>, H), ServiceError> {
        let (reply, held) = self.perform_within(SessionOperation::Export { id: id.clone() }, held).await?;
        Ok((reply.bytes, held))
    }

    /// Returns the number of bytes to reserve for [`export`](Self::export)'s result: the size of the stored state, or
    /// an estimate of at most `MAX_STATE_BYTES` if the session is only in memory.
    ///
    /// # Errors
    /// Fails for the same reasons as [`export`](Self::export).
    pub(crate) async fn exported_bytes(&self, id: &SessionId) -> Result<u64, ServiceError> {
        self.inner.executor.check_operation(&SessionOperation::Export { id: id.clone() })?;
        let SessionSummary { bytes, live, .. } = self.session(id).await?;
        let is_only_live = self.open_sessions().is_some();
        Ok(live.filter(|_| is_only_live).map_or(bytes, |live| live.held_bytes.min(MAX_STATE_BYTES)))
    }

    /// Restores a session from the bytes that [`export`](Self::export) returned, with these changes to the tenant's
    /// policy. Holds the memory charged for the bytes until the operation has ended, even if the caller has dropped the
    /// future.
    ///
    /// # Errors
    /// Fails if a session with this ID exists, or if the tenant has reached its maximum number of sessions. Also fails
    /// if the bytes are not an exported session.
    pub(crate) async fn import(
        &self,
        id: SessionId,
        bytes: Vec<u8>,
        policy: Map<String, Value>,
        held: impl Send + 'static,
    ) -> Result<SessionSummary, ServiceError> {
        let operation = SessionOperation::Import { id, policy, max: self.inner.config.sessions };
        let (reply, _) = self.perform_within(SessionCall { bytes, ..operation.into() }, held).await?;
        reply.session()
    }
}

impl Tenant {
    /// Returns a page of the files that match a pattern. Starts after the path `after`, if any.
    pub(crate) async fn list_files(
        &self,
        id: &SessionId,
        pattern: String,
        after: Option<String>,
        limits: ListLimits,
    ) -> Result<FilePage, ServiceError> {
        self.files(id, FileOperation::ListPage { pattern, after, limits }).await?.0.page()
    }

    pub(crate) async fn stat_file(&self, id: &SessionId, path: String) -> Result<FileEntry, ServiceError> {
        self.files(id, FileOperation::Stat { path }).await?.0.entry()
    }

    /// Performs a read-only file operation.
    pub(crate) async fn files(
        &self,
        id: &SessionId,
        operation: FileOperation,
    ) -> Result<(FileAnswer, Vec<u8>), ServiceError> {
        self.perform(SessionOperation::Files { id: id.clone(), operation }).await?.files()
    }

    /// Reads a file of at most `max_bytes`. Before the contents are loaded, calls `reserve` with the file size. Returns
    /// the contents and the reservation, or only the file size if it exceeds `max_bytes`.
    pub(crate) async fn read_file<R: Send + 'static>(
        &self,
        id: &SessionId,
        path: String,
        max_bytes: u64,
        reserve: impl FnOnce(u64) -> Result<R, ServiceError> + Send + 'static,
    ) -> Result<Result<(Vec<u8>, R), u64>, ServiceError> {
        let operation = FileOperation::Read { path, max_bytes };
        match self.read_reserved(id, operation, reserve).await? {
            (FileAnswer::TooLarge { size_bytes }, ..) => Ok(Err(size_bytes)),
            (_, bytes, Some(reserved)) => Ok(Ok((bytes, reserved))),
            (_, _, None) => Err(ServiceError::WorkerDied),
        }
    }

    /// Reads up to `length` bytes of a file at an offset. Before the bytes are loaded, calls `reserve` with their
    /// number. Returns the bytes, the file size and the reservation.
    pub(crate) async fn read_range<R: Send + 'static>(
        &self,
        id: &SessionId,
        path: String,
        offset: u64,
        length: u64,
        reserve: impl FnOnce(u64) -> Result<R, ServiceError> + Send + 'static,
    ) -> Result<(Vec<u8>, u64, R), ServiceError> {
        let operation = FileOperation::ReadAt { path, offset, length };
        match self.read_reserved(id, operation, reserve).await? {
            (FileAnswer::Content { size_bytes }, bytes, Some(reserved)) => Ok((bytes, size_bytes, reserved)),
            _ => Err(ServiceError::WorkerDied),
        }
    }

    async fn read_reserved<R: Send + 'static>(
        &self,
        id: &SessionId,
        operation: FileOperation,
        reserve: impl FnOnce(u64) -> Result<R, ServiceError> + Send + 'static,
    ) -> Result<(FileAnswer, Vec<u8>, Option<R>), ServiceError> {
        let reserved = Arc::new(Mutex::new(None));
        let there = Arc::clone(&reserved);
        let room = Room(Some(Box::new(move |bytes| {
            *there.lock() = Some(reserve(bytes)?);
            Ok(())
        })));
        let call = SessionCall { room, ..SessionOperation::Files { id: id.clone(), operation }.into() };
        let (reply, reserved) = self.perform_within(call, reserved).await?;
        let (answer, bytes) = reply.files()?;
        let reserved = reserved.lock().take();
        Ok((answer, bytes, reserved))
    }

    /// Writes files and saves the session. Holds the memory charged for the files until the session is saved, even if
    /// the caller has dropped the future.
    pub(crate) async fn write_files(
        &self,
        target: impl Into<SessionTarget>,
        files: Vec<(String, Vec<u8>)>,
        if_exists: IfExists,
        held: impl Send + 'static,
    ) -> Result<ChangeResult<FileAnswer>, ServiceError> {
        let (operation, bytes) = join_files(files, if_exists);
        let operation = SessionOperation::ChangeFiles { target: target.into(), operation };
        let (reply, _) = self.perform_within(SessionCall { bytes, ..operation.into() }, held).await?;
        reply.changed_files()
    }

    /// Performs a file operation that changes files, and saves the session.
    pub(crate) async fn change_files(
        &self,
        target: impl Into<SessionTarget>,
        operation: FileOperation,
    ) -> Result<ChangeResult<FileAnswer>, ServiceError> {
        self.perform(SessionOperation::ChangeFiles { target: target.into(), operation }).await?.changed_files()
    }

    /// Performs a session operation when the tenant, the session and the service admit it. Records it in the audit log
    /// if [`SessionOperation::action`] names an action. A started operation is completed and recorded even if the
    /// caller has dropped the future.
    async fn perform(&self, call: impl Into<SessionCall>) -> Result<SessionReply, ServiceError> {
        Ok(self.perform_within(call, ()).await?.0)
    }

    /// Like [`perform`](Self::perform), but holds the memory charged for the operation until it has ended. Returns the
    /// reply and the memory.
    async fn perform_within<H: Send + 'static>(
        &self,
        call: impl Into<SessionCall>,
        held: H,
    ) -> Result<(SessionReply, H), ServiceError> {
        let call = call.into();
        self.inner.executor.check_operation(&call.operation)?;
        if call.operation.may_run_code() {
            self.check_rate()?;
        }
        let admitted = self.admit_operation(&call.operation).await?;
        let tenant = self.clone();
        let work = async move {
            let _admitted = admitted;
            let action = call.operation.action();
            let result = tenant.inner.executor.session(call).await;
            if let Some((id, action)) = action {
                tenant.record_action(&id, action, result.as_ref().err());
            }
            result.map(|reply| (reply, held))
        };
        let spawned = tokio::spawn(work.in_current_span());
        let (mut reply, held) = spawned.await.map_err(|_| ServiceError::Panicked)??;
        self.keep(reply.rooms.drain(..));
        Ok((reply, held))
    }

    /// Records an operation on a session in the audit log.
    fn record_action(&self, id: &SessionId, action: AuditAction, error: Option<&ServiceError>) {
        if let Some(audit) = &self.inner.service.0.audit {
            let subject = AuditSubject { door: self.door, tenant: &self.inner.config.name, session: Some(id.as_str()) };
            audit.record(&subject, &action.finish(error));
        }
    }
}

/// The description of a session.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = SessionAnswer)]
pub struct SessionSummary {
    /// The session's name, unique within the tenant.
    #[schema(value_type = String)]
    pub id: SessionId,
    /// The language of the session's scripts.
    #[schema(value_type = String)]
    pub language: Language,
    /// The name of the session's runtime.
    pub runtime: String,
    /// The interpreter's version, if known.
    pub version: Option<String>,
    /// The time when the session was opened, imported or forked (RFC 3339).
    #[schema(value_type = String)]
    pub created_at: Timestamp,
    /// The time when the session was last saved (RFC 3339).
    #[schema(value_type = String)]
    pub updated_at: Timestamp,
    /// The number of executions in the session so far.
    pub executions: u64,
    /// Identifies the current state of the session. Changes with every change to the session, and differs between
    /// sessions that used the same name. Over HTTP, `ETag` contains it, and `If-Match` can require it.
    pub generation: String,
    /// The number of files, directories and links in the workspace, if known.
    pub files: Option<u64>,
    /// The size of the stored state, in bytes. 0 if the session is only in memory.
    pub bytes: u64,
    /// The description of the live session, if it is in the server's or a worker's memory.
    #[schema(value_type = Option<Value>)]
    pub live: Option<SessionInfo>,
}

/// A page of a tenant's sessions.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = SessionsAnswer)]
pub struct SessionPage {
    /// The sessions, sorted by name.
    pub sessions: Vec<SessionSummary>,
    /// The names of damaged sessions. They can only be removed.
    #[schema(value_type = Vec<String>)]
    pub damaged: Vec<SessionId>,
    /// The name after which the next page starts, if there is one.
    #[schema(value_type = Option<String>)]
    pub next: Option<SessionId>,
}

impl From<SessionRecord> for SessionSummary {
    fn from(record: SessionRecord) -> Self {
        Self {
            generation: generation(record.created_at, record.generation),
            id: record.id,
            language: record.language,
            runtime: record.runtime,
            version: record.version,
            created_at: record.created_at,
            updated_at: record.updated_at,
            executions: record.executions,
            files: record.files,
            bytes: record.bytes,
            live: None,
        }
    }
}

impl From<ListedPage> for SessionPage {
    fn from(page: ListedPage) -> Self {
        Self { next: page.next, ..page.sessions.into() }
    }
}

impl From<Vec<ListedSession>> for SessionPage {
    fn from(list: Vec<ListedSession>) -> Self {
        let mut all = Self::default();
        for ListedSession { stored, live, .. } in list {
            match stored.record {
                Some(record) => all.sessions.push(SessionSummary { live, ..record.into() }),
                None => all.damaged.push(stored.id),
            }
        }
        all
    }
}

/// Returns the identifier of a session's current state. It changes with every change to the session, and differs
/// between sessions that used the same name.
pub(crate) fn generation(created_at: Timestamp, number: u64) -> String {
    format!("{}-{number}", created_at.unix_ms())
}
