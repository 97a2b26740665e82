//! The HTTP API on a new socket, with sessions in memory.

use std::{ops::Deref, os::unix::net::UnixStream, path::PathBuf, time::Duration};

use glovebox_server::{
    Service, ServiceConfig, SuspensionLimits, Tenant, TenantConfig,
    http::{self, HttpConfig, SocketListener},
};
use glovebox_tests::engine;
use serde_json::json;
use tempfile::TempDir;

use crate::server::support::{self, Client};
pub(super) use crate::server::support::{Answer, LINES, until};

/// A change to the tenant's configuration.
type TenantChange = Box<dyn FnOnce(&mut TenantConfig)>;

/// The configuration of a test's daemon.
#[derive(Default)]
pub(super) struct Setup {
    pub(super) http: HttpConfig,
    pub(super) service: ServiceConfig,
    pub(super) tenant: Option<TenantChange>,
}

/// Returns the default configuration with a changed tenant.
pub(super) fn tenant(change: impl FnOnce(&mut TenantConfig) + 'static) -> Setup {
    Setup { tenant: Some(Box::new(change)), ..Setup::default() }
}

/// Returns the default configuration with changed limits on clients.
pub(super) fn http(change: impl FnOnce(&mut HttpConfig)) -> Setup {
    let mut http = HttpConfig::default();
    change(&mut http);
    Setup { http, ..Setup::default() }
}

/// A running daemon, stopped on drop.
pub(super) struct TestDaemon {
    client: Client<UnixStream>,
    pub(super) socket: PathBuf,
    pub(super) service: Service,
    pub(super) tenant: Tenant,
    pub(super) dir: TempDir,
    runtime: Option<tokio::runtime::Runtime>,
    serving: Option<tokio::task::JoinHandle<()>>,
}

impl TestDaemon {
    pub(super) fn new() -> Self {
        Self::with(Setup::default())
    }

    pub(super) fn with(setup: Setup) -> Self {
        let Setup { http, service, tenant: change } = setup;
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("d.sock");
        let suspension = SuspensionLimits { time: Duration::from_secs(600), ..SuspensionLimits::default() };
        let service = Service::new(engine().clone(), ServiceConfig { suspension, ..service }).unwrap();
        let mut config = TenantConfig::in_memory("daemon");
        if let Some(change) = change {
            change(&mut config);
        }
        let tenant = Tenant::new(&service, config);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let serving = {
            let _entered = runtime.enter();
            let listener = SocketListener::bind(&socket).unwrap();
            let routes = http::socket_router(&service, tenant.clone(), &http);
            let service = service.clone();
            runtime.spawn(async move { http::serve_socket(listener, &service, routes, &http).await })
        };
        let path = socket.clone();
        let client = Client::new(vec![(ANY_HOST.0, ANY_HOST.1.to_owned())], move || {
            let stream = UnixStream::connect(&path).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            stream
        });
        Self { client, socket, service, tenant, dir, runtime: Some(runtime), serving: Some(serving) }
    }

    /// Opens a Python session.
    pub(super) fn open(&self, id: &str) {
        self.post("/v1/sessions", &json!({"id": id, "language": "python"})).ok();
    }

    /// Executes a script in a session and returns its standard output.
    pub(super) fn prints(&self, id: &str, source: &str) -> String {
        let result = self.post(&format!("/v1/sessions/{id}/execute"), &json!({ "source": source })).ok();
        assert_eq!(result["outcome"]["kind"], "completed", "{result}");
        result["stdout"].as_str().unwrap().to_owned()
    }

    /// Returns the number of running executions.
    pub(super) fn executing(&self) -> i64 {
        let text = self.service.metrics_text();
        let line = text.lines().find(|line| line.starts_with("glovebox_running ")).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// Starts to shut down, as the command does when it receives a signal.
    pub(super) fn stop(&self, wait: Duration) {
        let service = self.service.clone();
        self.runtime.as_ref().unwrap().spawn(async move { service.drain(wait).await });
    }

    /// Returns `true` if the daemon has stopped within 30 seconds.
    pub(super) fn has_stopped(&mut self) -> bool {
        let (Some(runtime), Some(serving)) = (&self.runtime, self.serving.take()) else { return true };
        runtime.block_on(async { tokio::time::timeout(Duration::from_secs(30), serving).await.is_ok() })
    }
}

impl Deref for TestDaemon {
    type Target = Client<UnixStream>;

    fn deref(&self) -> &Client<UnixStream> {
        &self.client
    }
}

impl Drop for TestDaemon {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.block_on(async {
                self.service.drain(Duration::from_secs(1)).await;
                if let Some(serving) = self.serving.take() {
                    let _ = tokio::time::timeout(Duration::from_secs(30), serving).await;
                }
            });
            runtime.shutdown_timeout(Duration::from_secs(1));
        }
    }
}

/// The `Host` of requests, which a daemon ignores.
const ANY_HOST: (&str, &str) = ("host", "any.example");

/// Returns a request without a token and with an arbitrary `Host`.
pub(super) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    support::request(method, path, &[&[ANY_HOST], headers].concat(), body)
}
