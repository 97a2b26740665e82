//! What goes along with a request.

use glovebox::CancelToken;

use crate::daemon::{outbox::Outbox, rpc::RpcId};

/// What goes along with a request.
pub(in crate::daemon) struct Context {
    /// What it is called in notifications.
    pub(in crate::daemon) id: Option<RpcId>,
    pub(in crate::daemon) cancel: CancelToken,
    pub(in crate::daemon) outbox: Outbox,
}
