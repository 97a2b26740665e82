//! What a node asks the administration of the engine: to know it, and whether others are there.

use std::{collections::BTreeSet, time::Duration};

use serde::{Deserialize, Serialize, de::IgnoredAny};

use super::error::NodeError;
use crate::{
    FleetUrl,
    client::{FleetError, Http},
    name::IMAGE_PREFIX,
};

/// How long the engine may take to ask the node what it is, and store that.
const WAIT: Duration = Duration::from_secs(60);
/// How often it is tried where the engine is not there yet, and how long is between.
const TRIES: u32 = 30;
const BETWEEN: Duration = Duration::from_secs(1);

/// What the engine says of an address that it knows as another, and of what it does not know.
const CONFLICT: u16 = 409;
const NOT_FOUND: u16 = 404;

#[derive(Serialize)]
struct Question<'a> {
    uri: &'a str,
    force: bool,
}

#[derive(Deserialize)]
struct Answer {
    id: String,
    services: Vec<Service>,
}

#[derive(Deserialize)]
struct Service {
    name: String,
}

impl Answer {
    /// Whether the nodes that the engine knows at the address have these images. It does not ask whom it knows already.
    fn has(&self, images: &BTreeSet<String>) -> bool {
        let known = self.services.iter().map(|service| &service.name);
        known.filter(|name| name.starts_with(IMAGE_PREFIX)).collect::<BTreeSet<_>>() == images.iter().collect()
    }
}

/// What the engine knows a kind of nodes by.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Registered {
    /// The engine's name for it.
    pub deployment: String,
}

/// The administration of the fleet's engine.
#[derive(Clone, Debug)]
pub(super) struct Admin {
    http: Http,
    url: String,
}

impl Admin {
    pub(super) fn new(fleet: &FleetUrl) -> Result<Self, FleetError> {
        Ok(Self { http: Http::new()?, url: fleet.admin() })
    }

    /// Registers the address under which the engine finds nodes like this one. Where it knows that and finds the same there, nothing changes;
    /// where nodes of other images are known there, these are refused unless they replace what was there.
    pub(super) async fn register(
        &self,
        advertised: &str,
        images: &BTreeSet<String>,
        replaces: bool,
    ) -> Result<Registered, NodeError> {
        let url = format!("{}/deployments", self.url);
        let question = Question { uri: advertised, force: replaces };
        let mut tries = 0;
        loop {
            tries += 1;
            match self.http.ask::<Answer>(&url, Some(&question), WAIT).await {
                Ok(Ok(answer)) if answer.has(images) => return Ok(Registered { deployment: answer.id }),
                Ok(Ok(_)) | Ok(Err((CONFLICT, _))) => return Err(NodeError::OtherVersion(advertised.to_owned())),
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

    /// Whether the engine knows a service of this name.
    pub(super) async fn has_service(&self, name: &str) -> Result<bool, FleetError> {
        let url = format!("{}/services/{name}", self.url);
        match self.http.ask::<IgnoredAny>(&url, None::<&()>, WAIT).await? {
            Ok(IgnoredAny) => Ok(true),
            Err((NOT_FOUND, _)) => Ok(false),
            Err((status, text)) => Err(FleetError::Answer(format!("status {status}: {text}"))),
        }
    }
}
