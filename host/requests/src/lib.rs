//! Support for external requests, whether over HTTP or through a fleet.
//!
//! * [`callbacks`]: tools answered by a service, at allowed addresses, through signed requests.
//! * [`cancelled`]: cancellation for async code.

use std::sync::Arc;

use glovebox::CancelToken;
use tokio::sync::Notify;

pub mod callbacks;

/// Waits until the token is cancelled.
pub async fn cancelled(token: &CancelToken) {
    let notify = Arc::new(Notify::new());
    let on_cancel = Arc::clone(&notify);
    let _hook = token.on_cancel(move || on_cancel.notify_one());
    notify.notified().await;
}
