//! The engine's admin API: registers nodes and looks up services.

use std::{collections::BTreeSet, time::Duration};

use serde::{Deserialize, Serialize, de::IgnoredAny};

use super::error::NodeError;
use crate::{
    FleetUrl,
    client::{FleetError, Http},
    name::IMAGE_PREFIX,
};

/// Timeout for the engine to discover the node and store the result.
const WAIT: Duration = Duration::from_secs(60);
/// Maximum number of attempts while the engine is not up, and the pause between them.
const TRIES: u32 = 30;
const BETWEEN: Duration = Duration::from_secs(1);

/// The statuses for an address that is registered differently, and for an unknown service.
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
    /// Returns `true` if the nodes known at the address have exactly these images. The engine does not rediscover known
    /// nodes.
    fn has(&self, images: &BTreeSet<String>) -> bool {
        let known = self.services.iter().map(|service| &service.name);
        known.filter(|name| name.starts_with(IMAGE_PREFIX)).collect::<BTreeSet<_>>() == images.iter().collect()
    }
}

/// The registration of nodes with the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Registered {
    /// The engine's deployment id.
    pub deployment: String,
}

/// A client of the engine's admin API.
#[derive(Clone, Debug)]
pub(super) struct Admin {
    http: Http,
    url: String,
}

impl Admin {
    pub(super) fn new(fleet: &FleetUrl) -> Result<Self, FleetError> {
        Ok(Self { http: Http::new()?, url: fleet.admin() })
    }

    /// Registers the address at which the engine finds nodes like this one. Does nothing if the same images are
    /// registered there already. Fails if other images are registered there, unless `replaces`.
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
                // The engine cannot reach the node: perhaps a balancer is not up yet.
                Ok(Err((status, text))) if tries >= TRIES => {
                    return Err(NodeError::Refused(format!("status {status}: {text}")));
                }
                Err(error @ FleetError::Unreachable { .. }) if tries >= TRIES => return Err(error.into()),
                Ok(Err(_)) | Err(FleetError::Unreachable { .. }) => tokio::time::sleep(BETWEEN).await,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns `true` if a service of this name is registered.
    pub(super) async fn has_service(&self, name: &str) -> Result<bool, FleetError> {
        let url = format!("{}/services/{name}", self.url);
        match self.http.ask::<IgnoredAny>(&url, None::<&()>, WAIT).await? {
            Ok(IgnoredAny) => Ok(true),
            Err((NOT_FOUND, _)) => Ok(false),
            Err((status, text)) => Err(FleetError::Answer(format!("status {status}: {text}"))),
        }
    }
}
