//! Tells the engine of this node.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::NodeError;
use crate::{
    FleetUrl,
    client::{FleetError, Http},
};

/// How long the engine may take to ask the node what it is, and store that.
const WAIT: Duration = Duration::from_secs(60);
/// How often it is tried where the engine is not there yet, and how long is between.
const TRIES: u32 = 30;
const BETWEEN: Duration = Duration::from_secs(1);

/// What the engine says of an address that it knows as another.
const CONFLICT: u16 = 409;

#[derive(Serialize)]
struct Question<'a> {
    uri: &'a str,
    force: bool,
}

#[derive(Deserialize)]
struct Answer {
    id: String,
}

/// What the engine knows a kind of nodes by.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Registered {
    /// The engine's name for it.
    pub deployment: String,
}

/// Registers the address under which the engine finds nodes like this one. Where it knows that and finds the same there, nothing changes.
pub(super) async fn register(engine: &FleetUrl, advertised: &str) -> Result<Registered, NodeError> {
    let http = Http::new()?;
    let url = format!("{}/deployments", engine.admin());
    let question = Question { uri: advertised, force: false };
    let mut tries = 0;
    loop {
        tries += 1;
        match http.ask::<Answer>(&url, Some(&question), WAIT).await {
            Ok(Ok(Answer { id })) => return Ok(Registered { deployment: id }),
            Ok(Err((CONFLICT, _))) => return Err(NodeError::OtherVersion(advertised.to_owned())),
            // It does not find us: perhaps what stands between is not there yet.
            Ok(Err((status, text))) if tries >= TRIES => {
                return Err(NodeError::Refused(format!("status {status}: {text}")));
            }
            Err(error @ FleetError::Unreachable { .. }) if tries >= TRIES => return Err(error.into()),
            Ok(Err(_)) | Err(FleetError::Unreachable { .. }) => tokio::time::sleep(BETWEEN).await,
            Err(error) => return Err(error.into()),
        }
    }
}
