//! The other side's calls, until they are answered.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, PoisonError},
};

use glovebox::CancelToken;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::frame::{Header, MAX_PART_BYTES};

/// Maximum number of bytes in the other side's calls in progress. Further calls are read only after others have been
/// answered.
const MAX_CALL_BYTES: usize = 4 << 30;
/// The unit in which the bytes of calls are counted.
const UNIT_BYTES: usize = 1 << 10;
/// Maximum number of the other side's calls in progress.
const MAX_CALLS: usize = 16_384;

/// The other side's calls in progress.
#[derive(Clone, Default)]
pub(super) struct Calls(pub(super) Arc<CallsInProgress>);

pub(super) struct CallsInProgress {
    tokens: Mutex<HashMap<u64, CancelToken>>,
    /// The parent of all tokens.
    pub(super) all: CancelToken,
    room: Arc<Semaphore>,
}

impl Default for CallsInProgress {
    fn default() -> Self {
        let room = Arc::new(Semaphore::new(MAX_CALL_BYTES / UNIT_BYTES));
        Self { tokens: Mutex::default(), all: CancelToken::new(), room }
    }
}

impl Calls {
    /// Waits until `MAX_CALL_BYTES` leaves room for a call.
    pub(super) async fn room(&self, header: &Header) -> io::Result<OwnedSemaphorePermit> {
        // The sum of both parts fits into 32 bits.
        let bytes = header.json.min(MAX_PART_BYTES) + header.bytes.min(MAX_PART_BYTES);
        let units = bytes / u32::try_from(UNIT_BYTES).unwrap_or(u32::MAX) + 1;
        Arc::clone(&self.0.room).acquire_many_owned(units).await.map_err(io::Error::other)
    }

    pub(super) fn begin(&self, number: u64) -> io::Result<CancelToken> {
        let mut tokens = self.0.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if tokens.len() >= MAX_CALLS {
            return Err(io::Error::other(format!("more than {MAX_CALLS} calls are in progress")));
        }
        let token = self.0.all.child();
        tokens.insert(number, token.clone());
        Ok(token)
    }

    pub(super) fn cancel(&self, number: u64) {
        let token = self.0.tokens.lock().unwrap_or_else(PoisonError::into_inner).get(&number).cloned();
        if let Some(token) = token {
            token.cancel();
        }
    }

    pub(super) fn end(&self, number: u64) {
        self.0.tokens.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
    }
}
