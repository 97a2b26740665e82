//! Live sessions in this process: their operations, shared by the executors `InMemory` and `InProcess`, and their
//! memory, shared by all tenants.

use std::{
    fs::File,
    io,
    sync::{Arc, Weak},
};

use glovebox::{CheckpointId, Engine, FilesError, IfExists, Limits, Session, SessionFiles};
use glovebox_sessions::{SessionId, Sessions};
use parking_lot::Mutex;
use tracing::Span;

use super::{
    BoxFuture, FileAnswer, FileOperation, InProcess, Room, SessionAnswer, SessionCall, SessionOperation, SessionReply,
};
use crate::{ChangeResult, Service, ServiceError, SessionTarget};

/// Sessions that can be loaded into memory.
pub(super) trait LiveSessions: Send + Sync + 'static {
    /// Performs a session operation. Must be called on a blocking thread.
    fn perform(&self, call: SessionCall) -> Result<SessionReply, ServiceError>;

    /// Performs a session operation on a blocking thread.
    fn perform_blocking(self: &Arc<Self>, call: SessionCall) -> BoxFuture<'_, Result<SessionReply, ServiceError>> {
        let (sessions, span) = (Arc::clone(self), Span::current());
        let work = move || span.in_scope(|| sessions.perform(call));
        Box::pin(async { Service::blocking(work).await? })
    }

    /// Loads a session and passes it to `read`.
    fn read<T>(
        &self,
        id: &SessionId,
        read: impl FnOnce(&Session) -> Result<T, ServiceError>,
    ) -> Result<T, ServiceError>;

    /// Like [`read`](Self::read), but `read` must not run code in the session. The session keeps its generation.
    fn inspect<T>(
        &self,
        id: &SessionId,
        read: impl FnOnce(&Session) -> Result<T, ServiceError>,
    ) -> Result<T, ServiceError> {
        self.read(id, read)
    }

    /// Changes a session outside an execution. Fails if its generation is not the expected one.
    fn change<T>(
        &self,
        target: &SessionTarget,
        change: impl FnOnce(&Session) -> Result<T, ServiceError>,
    ) -> Result<ChangeResult<T>, ServiceError>;

    /// Performs an operation on a live session. The executors perform all other operations themselves.
    fn perform_live(
        &self,
        operation: SessionOperation,
        bytes: &[u8],
        room: &mut Room,
    ) -> Result<SessionReply, ServiceError> {
        Ok(match operation {
            SessionOperation::Checkpoint { target } => {
                SessionAnswer::Checkpoint(self.change(&target, |session| Ok(session.checkpoint()?))?).into()
            }
            SessionOperation::Checkpoints { id } => {
                SessionAnswer::Checkpoints(self.inspect(&id, |session| Ok(session.checkpoints()?))?).into()
            }
            SessionOperation::Undo { target, to } => {
                SessionAnswer::Checkpoint(self.change(&target, |session| undo(session, to))?).into()
            }
            SessionOperation::GetVariable { id, name } => {
                SessionAnswer::Variable(self.read(&id, |session| Ok(session.get_variable(&name)?))?).into()
            }
            SessionOperation::SetVariable { target, name, json } => {
                let set = |session: &Session| Ok(session.set_variable_text(&name, &json)?);
                SessionAnswer::Set(self.change(&target, set)?).into()
            }
            SessionOperation::Variables { id } => {
                SessionAnswer::Variables(self.inspect(&id, |session| Ok(session.variables()))?).into()
            }
            SessionOperation::Files { id, operation } => {
                let (answer, bytes) = self.inspect(&id, |session| read_files(&session.files(), operation, room))?;
                SessionReply { bytes, ..SessionAnswer::Files(answer).into() }
            }
            SessionOperation::ChangeFiles { target, operation: FileOperation::TakeFrom { session } } => {
                let archive = self.read(&session, |session| Ok(archive(&session.files())?))?;
                let replace = |session: &Session| Ok(replace_files(&session.files(), archive)?);
                let changed = self.change(&target, replace)?;
                self.change(&(&session).into(), |session| Ok(delete_files(&session.files())?))?;
                SessionAnswer::ChangedFiles(changed).into()
            }
            SessionOperation::ChangeFiles { target, operation } => {
                let change = |session: &Session| Ok(change_files(&session.files(), operation, bytes)?);
                SessionAnswer::ChangedFiles(self.change(&target, change)?).into()
            }
            _ => return Err(ServiceError::Unsupported("the operation is unsupported on this server")),
        })
    }
}

/// Rolls a session back to a checkpoint. Default: the last checkpoint that differs from the session's current state.
fn undo(session: &Session, to: Option<CheckpointId>) -> Result<CheckpointId, ServiceError> {
    match to {
        Some(checkpoint) => Ok(session.undo_to(checkpoint).map(|()| checkpoint)?),
        None => Ok(session.undo()?),
    }
}

/// Performs a read-only file operation.
fn read_files(
    files: &SessionFiles,
    operation: FileOperation,
    room: &mut Room,
) -> Result<(FileAnswer, Vec<u8>), ServiceError> {
    let answer = match operation {
        FileOperation::ListPage { pattern, after, limits } => {
            FileAnswer::Page(files.list_page(&pattern, after.as_deref(), limits)?)
        }
        FileOperation::ListBelow { dir, max_depth, limits } => {
            FileAnswer::Page(files.list_below(&dir, max_depth, limits)?)
        }
        FileOperation::Stat { path } => FileAnswer::Entry(files.stat(&path)?),
        FileOperation::Read { path, max_bytes } => {
            let snapshot = files.snapshot()?;
            let size_bytes = snapshot.size_bytes(&path)?;
            if size_bytes > max_bytes {
                return Ok((FileAnswer::TooLarge { size_bytes }, Vec::new()));
            }
            room.reserve(size_bytes)?;
            return Ok((FileAnswer::Content { size_bytes }, snapshot.read(&path)?));
        }
        FileOperation::ReadAt { path, offset, length } => {
            let snapshot = files.snapshot()?;
            let size_bytes = snapshot.size_bytes(&path)?;
            room.reserve(length.min(size_bytes.saturating_sub(offset)))?;
            return Ok((FileAnswer::Content { size_bytes }, snapshot.read_at(&path, offset, length)?));
        }
        _ => return Err(ServiceError::Invalid("a read operation must not change files".to_owned())),
    };
    Ok((answer, Vec::new()))
}

/// Performs a file operation that changes files. `bytes` contains the contents of the files to write.
fn change_files(files: &SessionFiles, operation: FileOperation, bytes: &[u8]) -> Result<FileAnswer, FilesError> {
    Ok(match operation {
        FileOperation::Write { files: written, if_exists } => {
            let mut rest = bytes;
            for (path, length) in written {
                let content = rest.split_off(..length.min(rest.len())).unwrap_or_default();
                files.write(&path, content, if_exists)?;
            }
            FileAnswer::Done
        }
        FileOperation::Delete { path, recursive: true } => files.delete_all(&path).map(|()| FileAnswer::Done)?,
        FileOperation::Delete { path, .. } => files.delete(&path).map(|()| FileAnswer::Done)?,
        FileOperation::Rename { from, to } => {
            files.rename(&from, &to, IfExists::Replace)?;
            FileAnswer::Entry(files.stat(&to)?)
        }
        FileOperation::MakeDir { path } => {
            files.make_dir(&path)?;
            FileAnswer::Entry(files.stat(&path)?)
        }
        // Read-only operations do nothing here.
        _ => FileAnswer::Done,
    })
}

/// Archives a session's files in a temporary file.
fn archive(files: &SessionFiles) -> Result<File, FilesError> {
    let failed = |source| FilesError::Io { action: "store the session's files temporarily", source };
    let mut archive = tempfile::tempfile().map_err(failed)?;
    files.export_tar(&mut archive)?;
    io::Seek::rewind(&mut archive).map_err(failed)?;
    Ok(archive)
}

/// Replaces all files with the files in an archive.
fn replace_files(files: &SessionFiles, archive: File) -> Result<FileAnswer, FilesError> {
    delete_files(files)?;
    files.import_tar(archive, IfExists::Replace)?;
    Ok(FileAnswer::Done)
}

fn delete_files(files: &SessionFiles) -> Result<(), FilesError> {
    files.list("*")?.iter().try_for_each(|entry| files.delete_all(&entry.path))
}

/// Evictions make room for at most `1 / SHARE` of the total memory, so that a session with high limits does not evict
/// all other sessions.
const SHARE: u64 = 2;
/// A resumed session holds its data up to twice: the stored state, and the data written since.
const COPIES: u64 = 2;

/// The tenants whose live sessions share this process's memory.
#[derive(Default)]
pub(crate) struct SessionMemory(Mutex<Vec<Weak<InProcess>>>);

impl SessionMemory {
    pub(crate) fn add(&self, tenant: &Arc<InProcess>) {
        let mut tenants = self.0.lock();
        tenants.retain(|tenant| tenant.strong_count() > 0);
        tenants.push(Arc::downgrade(tenant));
    }

    /// Evicts idle sessions of all tenants, the least recently used first. Stops when the session `id` of `own` has
    /// room within its `limits`, or when no other session is idle. Must be called on a blocking thread.
    pub(crate) fn make_room(&self, engine: &Engine, limits: &Limits, own: &Sessions, id: &SessionId) {
        let count = u64::from(!own.is_live(id));
        let bytes = limits.memory_bytes.saturating_mul(COPIES).min(limits.session_total_bytes / SHARE);
        let has_room = || {
            let usage = engine.session_usage();
            usage.count.saturating_add(count) <= u64::from(limits.session_count)
                && usage.bytes.saturating_add(bytes) <= limits.session_total_bytes
        };
        while !has_room() {
            let tenants = self.tenants();
            let except = |tenant: &InProcess| std::ptr::eq(tenant.sessions(), own).then_some(id);
            let oldest = tenants
                .iter()
                .filter_map(|tenant| Some((tenant.sessions().idle_since(except(tenant))?, tenant)))
                .min_by_key(|(since, _)| *since);
            let Some((_, tenant)) = oldest else { return };
            tenant.sessions().evict_idle(except(tenant));
        }
    }

    fn tenants(&self) -> Vec<Arc<InProcess>> {
        self.0.lock().iter().filter_map(Weak::upgrade).collect()
    }
}
