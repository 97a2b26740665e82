//! The session object under 256 names, and an object per image.
//!
//! The SDK's macro gives each type one fixed name. Here the names are values, so handlers are dispatched by hand.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use restate_sdk::{
    discovery::{Service as Description, ServiceName},
    endpoint::{ContextInternal, Endpoint, Error, HandlerOptions, ServiceOptions},
    service::{
        Discoverable, Service, ServiceDefinition,
        macro_support::{ServiceBoxFuture, service_definition},
    },
};

use super::{error::NodeError, images::ImageObject, machine::Machine, object::SessionObject};
use crate::name;

/// Retention of journals, and of answers to requests with a key.
const RETENTION: Duration = Duration::from_secs(3_600);
/// Inactivity timeout, longer than any execution, so that the engine never suspends one. At the end of its input the
/// SDK suspends a handler that listens for a signal, even while a step runs. Then only that signal would wake the
/// handler. The engine detects a lost node by its connection.
const SILENT: Duration = Duration::from_secs(24 * 3_600);
/// Timeout for a handler to end after the engine has asked for it.
const SPARE: Duration = Duration::from_secs(30);
/// Retry backoff: initial and maximum interval.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// Maximum number of attempts: an hour of retries, as long as a client waits. Then the caller gets an error and the
/// session is unchanged, because a failed step records nothing.
const MAX_ATTEMPTS: u64 = 1_800;

/// Builds the endpoint with all services of this node.
pub(super) fn endpoint(machine: &Arc<Machine>, identity_key: Option<&str>) -> Result<Endpoint, NodeError> {
    let mut builder = Endpoint::builder();
    if let Some(key) = identity_key {
        builder = builder.identity_key(key).map_err(|_| NodeError::IdentityKey)?;
    }
    for number in 0..=u8::MAX {
        let object = SessionObject(Arc::clone(machine));
        let shared = || HandlerOptions::new().journal_retention(Duration::ZERO);
        let options = options().handler("info", shared()).handler("cancel", shared());
        builder = builder.bind(named(object, &name::service(number))?.options(options));
    }
    // Runtimes may share an image.
    let images: BTreeSet<&str> = machine.images().collect();
    for image in images {
        let service = ImageObject(Arc::clone(machine));
        let options = options().ingress_private(true);
        builder = builder.bind(named(service, &name::image_service(image))?.options(options));
    }
    Ok(builder.build())
}

/// The services' timeouts, retention and retries.
fn options() -> ServiceOptions {
    ServiceOptions::new()
        .inactivity_timeout(SILENT)
        .abort_timeout(SPARE)
        .idempotency_retention(RETENTION)
        .journal_retention(RETENTION)
        .retry_policy_initial_interval(RETRY.0)
        .retry_policy_exponentiation_factor(2.0)
        .retry_policy_max_interval(RETRY.1)
        .retry_policy_max_attempts(MAX_ATTEMPTS)
        .retry_policy_kill_on_max_attempts()
}

/// Binds a service to a name other than its type's.
fn named<S>(service: S, name: &str) -> Result<ServiceDefinition, NodeError>
where
    S: Discoverable + Service<Future = ServiceBoxFuture> + Send + Sync + 'static,
{
    let named = ServiceName::try_from(name).map_err(|error| NodeError::Refused(error.to_string()))?;
    Ok(service_definition(service, Description { name: named, ..S::discover() }))
}

/// Runs a handler and returns its result.
macro_rules! answer {
    ($ctx:ident, $object:ident.$handler:ident($input:ident)) => {
        answer!(@ $ctx, $input, metadata, $object.$handler((&$ctx, metadata).into(), $input))
    };
    ($ctx:ident, $object:ident.$handler:ident()) => {
        answer!(@ $ctx, (), metadata, $object.$handler((&$ctx, metadata).into()))
    };
    (@ $ctx:ident, $input:pat, $metadata:ident, $answered:expr) => {{
        let ($input, $metadata) = $ctx.input().await;
        let result = $answered.await;
        $ctx.handle_handler_result(result);
        $ctx.end();
        Ok(())
    }};
}

impl Service for SessionObject {
    type Future = ServiceBoxFuture;

    fn handle(&self, ctx: ContextInternal) -> ServiceBoxFuture {
        let object = self.clone();
        Box::pin(async move {
            match ctx.handler_name() {
                "open" => answer!(ctx, object.open(input)),
                "execute" => answer!(ctx, object.execute(input)),
                "undo" => answer!(ctx, object.undo(input)),
                "close" => answer!(ctx, object.close(input)),
                "info" => answer!(ctx, object.info()),
                "cancel" => answer!(ctx, object.cancel(input)),
                other => Err(Error::unknown_handler(ctx.service_name(), other)),
            }
        })
    }
}

impl Service for ImageObject {
    type Future = ServiceBoxFuture;

    fn handle(&self, ctx: ContextInternal) -> ServiceBoxFuture {
        let service = self.clone();
        Box::pin(async move {
            match ctx.handler_name() {
                "execute" => answer!(ctx, service.execute(input)),
                other => Err(Error::unknown_handler(ctx.service_name(), other)),
            }
        })
    }
}
