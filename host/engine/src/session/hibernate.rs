//! Sessions encoded as bytes, which can be stored and resumed in another process or on another machine.
//! [`glovebox_core::hibernate`] defines the format.

use std::io::{self, Read, Write};

use glovebox_core::{
    hibernate::{Caps, Codec, FrameReader, ImageView, SavedSession, WINDOW_LOG, decode, encode},
    session::{Checkpoint, RandomNumbers},
};
use zstd::stream::{read::Decoder, write::Encoder};

use crate::{
    ExecuteError, Request, Sandbox, Session, Suspended,
    exec::{platform::SessionScope, run::PreparedRequest},
};

pub use glovebox_core::hibernate::{HibernatedInfo, KeyError, SessionKey};

/// Setters of the key and the name that bytes are bound to.
macro_rules! seal_setters {
    () => {
        /// Sets [`key`](Self::key).
        #[must_use]
        pub fn key(mut self, key: SessionKey) -> Self {
            self.key = Some(key);
            self
        }

        /// Sets [`bound_to`](Self::bound_to).
        #[must_use]
        pub fn bound_to(mut self, name: impl Into<String>) -> Self {
            self.bound_to = Some(name.into());
            self
        }
    };
}

/// The reason why a session could not be hibernated. The session continues unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HibernateError {
    /// The session has ended, stays busy or cannot be saved.
    #[error(transparent)]
    Session(#[from] ExecuteError),
    /// The bytes could not be written.
    #[error("the session could not be hibernated")]
    Write(#[source] io::Error),
}

/// The reason why a session could not be restored from bytes.
pub type ResumeError = glovebox_core::hibernate::ResumeError<ExecuteError>;

/// Options for [`Session::hibernate`]. Start from `default()` and change individual fields.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct HibernateOptions {
    /// The key that authenticates the bytes: only holders of the key can create bytes that [`Sandbox::resume`] accepts
    /// with the key. Default: none. Without a key, the bytes contain a checksum, which detects damage but not forgery.
    pub key: Option<SessionKey>,
    /// The name to which the bytes are bound, such as the session's ID in a store. [`Sandbox::resume`] rejects the
    /// bytes under any other name. Has no effect without a key. Default: none.
    pub bound_to: Option<String>,
}

impl HibernateOptions {
    seal_setters!();
}

/// Options for [`Sandbox::resume`]. Start from `default()` and change individual fields.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ResumeOptions {
    /// The ID of the session, as in [`SessionOptions`](crate::SessionOptions). The ID is never read from the bytes.
    /// Default: a new ID.
    pub id: Option<String>,
    /// The key that authenticates the bytes. Default: none, so that bytes that were sealed with a key are rejected.
    pub key: Option<SessionKey>,
    /// The name to which the bytes must be bound. Has no effect without a key. Default: none.
    pub bound_to: Option<String>,
    pub(crate) scope: SessionScope,
}

impl ResumeOptions {
    super::scope_setters!();

    /// Sets [`id`](Self::id).
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    seal_setters!();
}

/// A hibernated session, with statistics for a session store.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HibernatedSession {
    /// The serialized session, for [`Sandbox::resume`].
    pub bytes: Vec<u8>,
    /// The number of executions so far.
    pub executions: u64,
    /// The number of files, directories and links that are charged against `limits.workspace_inodes`.
    pub files: u64,
}

impl Session {
    /// Serializes the session, for [`Sandbox::resume`] in any process and on any machine with the same image. Waits its
    /// turn like an execution. The session continues, and its later changes are not in the bytes. Equal sessions
    /// produce equal bytes.
    ///
    /// The bytes contain the session's memory, files, open descriptors, virtual clock and random number generator
    /// state. A shared workspace is included as a copy. For host directories, only uncommitted changes are included.
    /// Checkpoints are not included.
    ///
    /// A Python session with few variables takes 20 to 40 KB, a JavaScript session less than 20 KB.
    ///
    /// ```no_run
    /// # use glovebox::{Engine, EngineConfig, HibernateOptions, ResumeOptions, Sandbox};
    /// # let sandbox = Sandbox::builder(&Engine::new(EngineConfig::default())?).build()?;
    /// let session = sandbox.session()?;
    /// session.execute("x = 6")?;
    /// let bytes = session.hibernate(&HibernateOptions::default())?;
    /// drop(session);
    /// let session = sandbox.resume(&bytes, ResumeOptions::default())?;
    /// assert_eq!(session.execute("x * 7")?.value.unwrap().repr, "42");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the session has ended, stays busy or cannot be saved.
    pub fn hibernate(&self, options: &HibernateOptions) -> Result<Vec<u8>, HibernateError> {
        let mut bytes = Vec::new();
        self.hibernate_to(options, &mut bytes)?;
        Ok(bytes)
    }

    /// Like [`hibernate`](Self::hibernate), but writes to `into`.
    ///
    /// # Errors
    /// Fails if the session has ended, stays busy or cannot be saved, or if writing fails.
    pub fn hibernate_to(&self, options: &HibernateOptions, into: &mut dyn Write) -> Result<(), HibernateError> {
        self.sandbox().write_checkpoint(self.save()?, options, into)
    }

    /// Like [`hibernate`](Self::hibernate), but also returns statistics for a session store.
    ///
    /// # Errors
    /// Fails like [`hibernate`](Self::hibernate).
    pub fn hibernate_for_store(&self, options: &HibernateOptions) -> Result<HibernatedSession, HibernateError> {
        let state = self.save()?;
        let (executions, files) = (state.executions, state.wasi.vfs().inodes_used());
        let mut bytes = Vec::new();
        self.sandbox().write_checkpoint(state, options, &mut bytes)?;
        Ok(HibernatedSession { bytes, executions, files })
    }
}

impl Sandbox {
    fn write_checkpoint(
        &self,
        state: Checkpoint,
        options: &HibernateOptions,
        into: &mut dyn Write,
    ) -> Result<(), HibernateError> {
        let saved = SavedSession::of(state);
        with_image(self, |image| {
            encode(&saved, image, &Zstandard, options.key.as_ref(), options.bound_to.as_deref().unwrap_or(""), into)
        })?
        .map_err(HibernateError::Write)
    }

    /// Serializes a saved state of one of this sandbox's sessions, without a key.
    pub(crate) fn hibernate_checkpoint(&self, state: Checkpoint, into: &mut dyn Write) -> Result<(), HibernateError> {
        self.write_checkpoint(state, &HibernateOptions::default(), into)
    }

    /// Restores a session from the bytes of [`Session::hibernate`]. The bytes may be untrusted: this sandbox determines
    /// limits, quotas, mounts and permissions. Bytes that exceed a limit or quota, or belong to another image, are
    /// rejected.
    ///
    /// The random number generators are reseeded, unless the policy or a script seeds them. Seeded generators continue
    /// as if the session had never been hibernated. The monotonic clock continues from its saved time.
    ///
    /// # Errors
    /// Fails if the bytes are damaged, forged or incompatible with this sandbox, or if the session cannot be created.
    pub fn resume(&self, bytes: &[u8], options: ResumeOptions) -> Result<Session, ResumeError> {
        self.resume_with(bytes, options, RandomNumbers::Same)
    }

    /// Restores the session in which an execution was suspended, in its state before the execution. To resume the
    /// execution, start [`Suspended::request`] in the returned session. [`Suspended::fork`] restores and resumes
    /// several copies.
    ///
    /// The random number generators continue as in the suspended session. Two sessions restored from the same execution
    /// therefore draw the same random numbers from the interpreter's generators. Random bytes of the operating system
    /// (`os.urandom`, `secrets`, `crypto`) differ.
    ///
    /// [`ResumeOptions::key`] and [`ResumeOptions::bound_to`] are not used: [`Suspended::from_bytes`] checks the bytes.
    ///
    /// ```no_run
    /// # use glovebox::{Engine, EngineConfig, Request, ResumeOptions, Sandbox, Suspended, Tool};
    /// # let engine = Engine::new(EngineConfig::default())?;
    /// # let sandbox = Sandbox::builder(&engine).tool(Tool::new("pay", "").stepped()).build()?;
    /// let session = sandbox.session()?;
    /// session.execute("total = 20")?;
    /// let started = session.start(Request::new("receipt = tools.pay(euros=total)").suspendable(true))?;
    /// started.advance(Vec::new(), None)?;
    /// let suspended = started.suspend()?;
    ///
    /// let session = sandbox.resume_suspended_session(&suspended, ResumeOptions::default())?;
    /// let resumed = session.start(suspended.request())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails like [`resume`](Self::resume), or if the execution was not suspended in a session.
    pub fn resume_suspended_session(
        &self,
        suspended: &Suspended,
        options: ResumeOptions,
    ) -> Result<Session, ResumeError> {
        let Some(bytes) = suspended.session() else {
            return Err(ExecuteError::OtherSession { in_session: false }.into());
        };
        let options = ResumeOptions { key: None, bound_to: None, ..options };
        self.resume_with(bytes, options, RandomNumbers::Repeated)
    }

    fn resume_with(
        &self,
        bytes: &[u8],
        options: ResumeOptions,
        numbers: RandomNumbers,
    ) -> Result<Session, ResumeError> {
        let inner = &self.0;
        let limits = &inner.policy.limits;
        let saved = with_image(self, |image| {
            let bound_to = options.bound_to.as_deref().unwrap_or("");
            decode(bytes, image, &Zstandard, &Caps::of(limits), options.key.as_ref(), bound_to)
        })?
        .map_err(glovebox_core::hibernate::ResumeError::widened)?;
        let request = PreparedRequest::new(self, Request::new(""))?;
        let files = inner.workspace.files()?;
        let wasi = self.wasi(&request, &files)?;
        let state = saved.state(wasi, inner.runtime.memory_limit(limits), inner.policy.entropy);
        let state = state.map_err(glovebox_core::hibernate::ResumeError::widened)?;
        Ok(Session::from_checkpoint(self, options.id, state, numbers, options.scope)?)
    }
}

/// Calls `work` with a view of the sandbox's image.
fn with_image<R>(sandbox: &Sandbox, work: impl FnOnce(&ImageView<'_>) -> R) -> Result<R, ExecuteError> {
    let runtime = &*sandbox.0.runtime;
    let image = runtime.prepared()?;
    let pristine = image.pristine()?;
    Ok(work(&ImageView {
        identity: &image.identity,
        runtime: &runtime.name,
        version: runtime.version.as_deref(),
        language: runtime.language,
        memory_bytes: pristine.memory_bytes(),
        page: &|number| pristine.page(number).copied(),
        globals: pristine.globals(),
    }))
}

/// The compression level. The differing pages are mostly zeros, which all levels compress equally well. At higher
/// levels, each kilobyte saved costs more than a millisecond.
const LEVEL: i32 = 1;

#[derive(Clone, Copy, Debug)]
struct Zstandard;

impl Codec for Zstandard {
    fn pack(&self, body: &mut dyn Read, into: &mut dyn Write) -> io::Result<()> {
        let mut encoder = Encoder::new(into, LEVEL)?;
        encoder.window_log(WINDOW_LOG)?;
        io::copy(body, &mut encoder)?;
        encoder.finish().map(drop)
    }

    fn unpack<'a>(&self, packed: &'a [u8]) -> io::Result<Box<dyn FrameReader<'a> + 'a>> {
        let mut decoder = Decoder::with_buffer(packed)?;
        decoder.window_log_max(WINDOW_LOG)?;
        Ok(Box::new(Frame(decoder.single_frame())))
    }
}

struct Frame<'a>(Decoder<'static, &'a [u8]>);

impl Read for Frame<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl<'a> FrameReader<'a> for Frame<'a> {
    fn rest(self: Box<Self>) -> &'a [u8] {
        self.0.finish()
    }
}
