//! The tool that serves scripts' requests.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use tokio::{runtime::Runtime, sync::Notify, time::timeout_at};

use super::{
    NetworkPolicy,
    client::Client,
    message::{Code, Fault, RequestMessage},
    secrets::Secrets,
};
use glovebox_core::{Entropy, PolicyError};

use crate::{ToolCall, ToolError, tools::ReservedTool};

/// Maximum number of threads for name lookups. A hanging lookup occupies one of them.
const MAX_LOOKUPS: usize = 32;

/// A request times out this long before the call's deadline, so that the script still receives the reason.
const MARGIN: Duration = Duration::from_millis(20);

/// Returns the tool that serves scripts' requests, and environment variables with placeholders for secrets. Reads the
/// secrets.
pub(crate) fn open(
    policy: &NetworkPolicy,
    entropy: Entropy,
) -> Result<(ReservedTool, BTreeMap<String, String>), PolicyError> {
    let secrets = Secrets::read(&policy.secrets, entropy)?;
    let environment = secrets.environment();
    let client = Client::new(policy, secrets)?;
    let tool = ReservedTool {
        answerer: Arc::new(move |call, arguments| fetch(&client, call, &arguments).map_err(ToolError::from)),
        max_bytes: policy.message_bytes(),
        max_calls: policy.request_count,
    };
    Ok((tool, environment))
}

/// Returns the runtime that polls sockets and looks up names, for all sandboxes of the process. The request itself runs
/// on its call's thread.
fn runtime() -> Result<&'static Runtime, Fault> {
    static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();
    let make = || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(MAX_LOOKUPS)
            .thread_name("glovebox network")
            .enable_all()
            .build();
        runtime.map_err(|error| format!("the host has no thread for the network: {error}"))
    };
    RUNTIME.get_or_init(make).as_ref().map_err(|message| Fault::new(Code::Broken, message.clone()))
}

/// Performs a request until its deadline, or until the call is cancelled.
pub(super) fn fetch(client: &Client, call: &ToolCall, arguments: &str) -> Result<String, Fault> {
    let asked = RequestMessage::read(arguments)?;
    let timeout = client.timeout(&asked);
    let own = Instant::now().checked_add(timeout).unwrap_or(call.deadline);
    let deadline = own.min(call.deadline.checked_sub(MARGIN).unwrap_or(call.deadline));
    let runtime = runtime()?;
    let stop = Arc::new(Notify::new());
    let _on_cancel = call.cancel.on_cancel({
        let stop = Arc::clone(&stop);
        move || stop.notify_one()
    });
    let answered = runtime.block_on(async {
        tokio::select! {
            biased;
            () = stop.notified() => Err(Fault::new(Code::Timeout, "the request was cancelled".to_owned())),
            answered = timeout_at(deadline.into(), client.fetch(asked, &call.account)) => answered.unwrap_or_else(|_| {
                let message = format!("there was no whole response within {} ms", timeout.as_millis());
                Err(Fault::new(Code::Timeout, message))
            }),
        }
    })?;
    serde_json::to_string(&answered)
        .map_err(|error| Fault::new(Code::Broken, format!("the response is no JSON: {error}")))
}
