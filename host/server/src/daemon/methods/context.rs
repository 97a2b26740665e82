//! Context of a request.

use glovebox::CancelToken;

use crate::daemon::{outbox::Outbox, rpc::RpcId};

/// State of a request that its method needs in addition to the parameters.
pub(in crate::daemon) struct Context {
    /// Id that `output` notifications carry. `None` if the request is itself a notification.
    pub(in crate::daemon) id: Option<RpcId>,
    pub(in crate::daemon) cancel: CancelToken,
    pub(in crate::daemon) outbox: Outbox,
}
