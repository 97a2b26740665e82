//! Cancellation for async code.

use std::sync::Arc;

use glovebox::CancelToken;
use tokio::sync::Notify;

/// Waits until the token is cancelled.
pub async fn cancelled(token: &CancelToken) {
    let told = Arc::new(Notify::new());
    let tell = Arc::clone(&told);
    let _hook = token.on_cancel(move || tell.notify_one());
    told.notified().await;
}
