//! Outgoing requests of servers and fleets, and cancellation for async code.
//!
//! * [`callbacks`]: tools that an external service answers over signed HTTP requests.
//! * [`cancelled`]: waits for a [`CancelToken`].

use std::sync::Arc;

use glovebox::CancelToken;
use tokio::sync::Notify;

pub mod callbacks;
mod signer;

/// Waits until the token is cancelled.
pub async fn cancelled(token: &CancelToken) {
    let notify = Arc::new(Notify::new());
    let on_cancel = Arc::clone(&notify);
    let _hook = token.on_cancel(move || on_cancel.notify_one());
    notify.notified().await;
}
