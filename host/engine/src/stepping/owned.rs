//! A request that does not borrow.

use std::{
    borrow::Cow,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::{
    CancelToken, Request, SourceKind,
    budget::Budget,
    request::{IfBusy, OnOutput, StdinSource},
};

/// What a [`Request`] says, for a thread to keep.
pub(super) struct Owned {
    source: String,
    name: String,
    kind: SourceKind,
    stdin: Vec<u8>,
    stdin_source: Mutex<Option<StdinSource>>,
    context: Option<String>,
    session_id: Option<String>,
    cancel: CancelToken,
    cancel_after: Option<Duration>,
    on_output: Option<OnOutput>,
    if_busy: IfBusy,
    budget: Budget,
}

impl Owned {
    /// Everything but its token, instead of which it has a child of it.
    pub(super) fn new(request: Request<'_>) -> Self {
        Self {
            source: request.source.to_owned(),
            name: request.name.to_owned(),
            kind: request.kind,
            stdin: request.stdin.to_vec(),
            stdin_source: Mutex::new(request.stdin_source),
            context: request.context.map(Cow::into_owned),
            session_id: request.session_id.map(str::to_owned),
            cancel: request.cancel.map_or_else(CancelToken::new, CancelToken::child),
            cancel_after: request.cancel_after,
            on_output: request.on_output,
            if_busy: request.if_busy,
            budget: request.budget,
        }
    }

    pub(super) fn cancel(&self) -> &CancelToken {
        &self.cancel
    }

    pub(super) fn take_listener(&mut self) -> Option<OnOutput> {
        self.on_output.take()
    }

    /// The request again, without its listener; the first time, with what reads its standard input.
    pub(super) fn request(&self) -> Request<'_> {
        Request {
            name: &self.name,
            kind: self.kind,
            stdin: &self.stdin,
            stdin_source: self.stdin_source.lock().unwrap_or_else(PoisonError::into_inner).take(),
            context: self.context.as_deref().map(Cow::Borrowed),
            session_id: self.session_id.as_deref(),
            cancel: Some(&self.cancel),
            cancel_after: self.cancel_after,
            if_busy: self.if_busy,
            budget: self.budget.clone(),
            ..Request::new(&self.source)
        }
    }
}
