//! Sessions to bytes and back.

use std::io::Write;

use glovebox_core::{
    hibernate::{Caps, ImageView, Saved, decode, encode},
    session::{Checkpoint, RandomNumbers},
};

use super::{HibernateError, ResumeError, SessionKey, zstandard::Zstandard};
use crate::{ExecuteError, Request, Sandbox, Session, run::PreparedRequest, session_scope::SessionScope};

/// How a session is written as bytes. Make one with `default()` and change what differs.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct HibernateOptions {
    /// Authenticates the bytes, so that only its holders can make ones that [`Sandbox::resume`] accepts with it. Default: a checksum,
    /// which detects damage but not forgery.
    pub key: Option<SessionKey>,
    /// With a key: binds the bytes to a name, such as the session's id in a store, so that those of one name are not
    /// taken for another's. Default: none.
    pub bound_to: Option<String>,
}

impl HibernateOptions {
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
}

/// How a session is made from bytes. Make one with `default()` and change what differs.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ResumeOptions {
    /// The session's id, as in [`SessionOptions`](crate::SessionOptions): it is never taken from the bytes. Default: a new one.
    pub id: Option<String>,
    /// The key that the bytes must be sealed with. Default: they must not be sealed with any.
    pub key: Option<SessionKey>,
    /// The name that they must be bound to. Default: none.
    pub bound_to: Option<String>,
    pub(crate) scope: SessionScope,
}

impl ResumeOptions {
    /// What holds for all that runs in it.
    pub(crate) fn scope(mut self, scope: &SessionScope) -> Self {
        self.scope = scope.clone();
        self
    }

    /// Sets [`id`](Self::id).
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

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
}

/// A session's state, with the fields of its record.
pub(crate) struct Hibernated {
    pub(crate) bytes: Vec<u8>,
    pub(crate) executions: u64,
    /// Files, directories and links.
    pub(crate) files: u64,
}

impl Session {
    /// The session as bytes, for [`Sandbox::resume`] in any process and on any machine that has the same image: its memory, its
    /// files (those of a workspace that it shares, as a copy; of host directories, what was changed and not committed), open
    /// descriptors and generators. Its checkpoints are not among it. It waits for its turn as an execution does; the session
    /// lives on, and what it does afterwards is not in the bytes. Equal sessions give equal bytes.
    ///
    /// A session with few variables takes about 100 KiB.
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
    pub fn hibernate(&self, options: &HibernateOptions) -> Result<Vec<u8>, HibernateError> {
        let mut bytes = Vec::new();
        self.hibernate_to(options, &mut bytes)?;
        Ok(bytes)
    }

    /// As [`hibernate`](Self::hibernate), into a file or elsewhere.
    pub fn hibernate_to(&self, options: &HibernateOptions, into: &mut dyn Write) -> Result<(), HibernateError> {
        self.write_state(self.save()?, options, into)
    }

    /// Like [`hibernate`](Self::hibernate), with the fields of its record.
    pub(crate) fn hibernate_for_store(&self, options: &HibernateOptions) -> Result<Hibernated, HibernateError> {
        let state = self.save()?;
        let (executions, files) = (state.executions, state.wasi.vfs().inodes_used());
        let mut bytes = Vec::new();
        self.write_state(state, options, &mut bytes)?;
        Ok(Hibernated { bytes, executions, files })
    }

    fn write_state(
        &self,
        state: Checkpoint,
        options: &HibernateOptions,
        into: &mut dyn Write,
    ) -> Result<(), HibernateError> {
        let saved = Saved::of(state);
        with_image(self.sandbox(), |image| {
            encode(&saved, image, &Zstandard, options.key.as_ref(), options.bound_to.as_deref().unwrap_or(""), into)
        })?
        .map_err(HibernateError::Write)
    }
}

impl Sandbox {
    /// Makes a session from what [`Session::hibernate`] gave. The bytes may be anybody's: limits, quotas, mounts and rights are
    /// this sandbox's, and bytes that do not fit them, or not its image, are refused.
    ///
    /// Random numbers are new ones, unless the policy's are seeded: then they continue as if the session had never been hibernated.
    /// The monotonic clock continues where it stood.
    pub fn resume(&self, bytes: &[u8], options: ResumeOptions) -> Result<Session, ResumeError> {
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
        Ok(Session::from_checkpoint(self, options.id, state, RandomNumbers::Same, options.scope)?)
    }
}

/// Shows a sandbox's image to `work`.
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
