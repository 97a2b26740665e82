//! Resolves store URLs, and provides the HTTP client for the `object_store` library. The client uses HTTP/1.1 with
//! rustls, like the clients for scripts and servers.

use std::{
    collections::HashMap,
    error::Error,
    fmt, io,
    path::PathBuf,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use async_trait::async_trait;
use glovebox_runtimes::{guard::GuardedDirectory, trusted_dir::TrustedDir};
use glovebox_sessions::StoreError;
use http_body_util::BodyExt as _;
use object_store::{
    BackoffConfig, ClientConfigKey, ClientOptions, ObjectStore, ObjectStoreScheme, RetryConfig,
    aws::AmazonS3Builder,
    azure::MicrosoftAzureBuilder,
    client::{
        HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
    },
    gcp::GoogleCloudStorageBuilder,
    local::LocalFileSystem,
    memory::InMemory,
    path::Path,
};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use url::Url;

use crate::bucket;

/// Maximum number of retries after a transient failure, with exponential backoff and jitter.
const RETRIES: usize = 6;
/// The backoff before the first retry.
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
/// The maximum backoff.
const MAX_BACKOFF: Duration = Duration::from_secs(2);
/// Maximum time from the first attempt to the start of a retry.
const RETRY_TIMEOUT: Duration = Duration::from_secs(15);

/// The age at which the file of an unfinished write is removed. No write takes this long.
const STAGED: Duration = Duration::from_secs(60 * 60);

/// A resolved store URL.
pub(crate) struct StoreLocation {
    pub(crate) store: Arc<dyn ObjectStore>,
    /// The prefix of every object name.
    pub(crate) prefix: Path,
    /// The URL without trailing slashes.
    pub(crate) url: String,
    /// The directory, if the store is on this machine.
    pub(crate) local: Option<PathBuf>,
    /// A handle that prevents guests from mounting the directory.
    _dir: Option<TrustedDir>,
}

/// Implemented by hand, because a derived implementation would print credentials and the contents of stores in memory.
impl fmt::Debug for StoreLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreLocation").field("url", &self.url).finish_non_exhaustive()
    }
}

impl StoreLocation {
    /// Resolves a URL. Does not connect to the store.
    pub(crate) fn of(text: &str, runtime: &Handle) -> Result<Self, StoreError> {
        let wrong = |reason: &str| StoreError::Url { url: shown(text), reason: reason.to_owned() };
        let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
        if url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("it has a query or a fragment"));
        }
        // The URL appears in messages, so it must not contain a password.
        if url.password().is_some() {
            return Err(wrong("it has a password"));
        }
        if url.scheme() == "memory" {
            return Self::in_memory(&url);
        }
        let (scheme, prefix) = ObjectStoreScheme::parse(&url)
            .map_err(|_| wrong(&format!("no supported store matches the scheme `{}` and this name", url.scheme())))?;
        if scheme == ObjectStoreScheme::Local {
            return Self::in_directory(&url);
        }
        let store = remote(&scheme, url.as_str(), runtime).ok_or_else(|| wrong("it is not an object store"))?;
        let store = store.map_err(|source| failed(&shown(text), "be set up", source))?;
        Ok(Self { store, prefix, url: display_url(&url), local: None, _dir: None })
    }

    /// Opens a directory, and creates it like a [`DirectoryStore`](glovebox_sessions::DirectoryStore) if it is missing.
    fn in_directory(url: &Url) -> Result<Self, StoreError> {
        let path: PathBuf = url
            .to_file_path()
            .map_err(|()| StoreError::Url { url: url.to_string(), reason: "it has no absolute local path".into() })?;
        let dir = TrustedDir::open(&path, GuardedDirectory::Sessions)?;
        bucket::remove_staged(&path, STAGED);
        let store =
            LocalFileSystem::new_with_prefix(&path).map_err(|source| failed(url.as_str(), "be opened", source))?;
        let store = Arc::new(store.with_fsync(true).with_automatic_cleanup(true));
        Ok(Self { store, prefix: Path::default(), url: display_url(url), local: Some(path), _dir: Some(dir) })
    }

    /// Opens a store in this process's memory. Stores with the same name share their memory until the last of these
    /// stores is dropped.
    fn in_memory(url: &Url) -> Result<Self, StoreError> {
        static NAMED: OnceLock<Mutex<HashMap<String, Weak<InMemory>>>> = OnceLock::new();
        let prefix = Path::from_url_path(url.path())
            .map_err(|error| StoreError::Url { url: url.to_string(), reason: error.to_string() })?;
        let name = url.host_str().unwrap_or_default().to_owned();
        let mut memories = NAMED.get_or_init(Mutex::default).lock();
        memories.retain(|_, memory| memory.strong_count() > 0);
        let found = memories.get(&name).and_then(Weak::upgrade);
        let store = found.unwrap_or_else(|| {
            let made = Arc::new(InMemory::new());
            memories.insert(name, Arc::downgrade(&made));
            made
        });
        Ok(Self { store, prefix, url: display_url(url), local: None, _dir: None })
    }
}

/// Opens a network store, with credentials and endpoint from the environment. Returns `None` if the URL has the scheme
/// of another kind of store.
fn remote(
    scheme: &ObjectStoreScheme,
    url: &str,
    runtime: &Handle,
) -> Option<object_store::Result<Arc<dyn ObjectStore>>> {
    let backoff = BackoffConfig { init_backoff: FIRST_BACKOFF, max_backoff: MAX_BACKOFF, base: 2.0 };
    let retry = RetryConfig { backoff, max_retries: RETRIES, retry_timeout: RETRY_TIMEOUT };
    let connector = Connector(runtime.clone());
    let arc = |store| Arc::new(store) as Arc<dyn ObjectStore>;
    Some(match scheme {
        ObjectStoreScheme::AmazonS3 => {
            let builder = AmazonS3Builder::from_env().with_url(url).with_retry(retry);
            builder.with_http_connector(connector).build().map(arc)
        }
        ObjectStoreScheme::GoogleCloudStorage => {
            let builder = GoogleCloudStorageBuilder::from_env().with_url(url).with_retry(retry);
            builder.with_http_connector(connector).build().map(|store| Arc::new(store) as _)
        }
        ObjectStoreScheme::MicrosoftAzure => {
            let builder = MicrosoftAzureBuilder::from_env().with_url(url).with_retry(retry);
            builder.with_http_connector(connector).build().map(|store| Arc::new(store) as _)
        }
        _ => return None,
    })
}

fn failed(url: &str, action: &str, source: object_store::Error) -> StoreError {
    StoreError::Remote { url: url.to_owned(), action: action.to_owned(), source: source.into() }
}

/// Shortens a URL for messages. Removes the parts that may contain a password or signature.
pub(crate) fn shown(text: &str) -> String {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    match (text.split_once("://"), text.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://…@{rest}"),
        (None, Some((_, rest))) => format!("…@{rest}"),
        (_, None) => text.to_owned(),
    }
}

fn display_url(url: &Url) -> String {
    url.as_str().trim_end_matches('/').to_owned()
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout for each read of a response.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// A connector that creates the HTTP client when a store is opened.
#[derive(Debug)]
struct Connector(Handle);

#[derive(Debug)]
struct Client(reqwest::Client);

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let failed =
            |source: Box<dyn Error + Send + Sync>| object_store::Error::Generic { store: "HTTP client", source };
        let allows_http = options.get_config_value(&ClientConfigKey::AllowHttp).is_some_and(|value| value == "true");
        let _inside = self.0.enter();
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(glovebox_network::tls_config().map_err(|error| failed(error.into()))?)
            .https_only(!allows_http)
            .http1_only()
            // Do not follow redirects, because requests are signed for one server.
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .user_agent(concat!("glovebox/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| failed(error.into()))?;
        Ok(HttpClient::new(Client(client)))
    }
}

#[async_trait]
impl HttpService for Client {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let url = parts.uri.to_string();
        let url = Url::parse(&url).map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        let mut request = reqwest::Request::new(parts.method, url);
        *request.headers_mut() = parts.headers;
        // Send the body in one piece if possible, because stores require a content length.
        *request.body_mut() = Some(match body.as_bytes() {
            Some(bytes) => bytes.clone().into(),
            None => reqwest::Body::wrap(body),
        });
        let response: reqwest::Response = self.0.execute(request).await.map_err(http_error)?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = HttpResponseBody::new(reqwest::Body::from(response).map_err(http_error));
        let mut answer = HttpResponse::new(body);
        (*answer.status_mut(), *answer.headers_mut()) = (status, headers);
        Ok(answer)
    }
}

/// Converts an error. `object_store` uses the error's kind to decide whether to retry the request.
fn http_error(error: reqwest::Error) -> HttpError {
    let kind = if error.is_timeout() {
        HttpErrorKind::Timeout
    } else if error.is_connect() {
        HttpErrorKind::Connect
    } else if error.is_decode() {
        HttpErrorKind::Decode
    } else {
        was_cut_off(&error)
    };
    // Remove the URL: signed URLs may contain secrets, and the outer error already names the store's URL.
    HttpError::new(kind, error.without_url())
}

fn was_cut_off(error: &reqwest::Error) -> HttpErrorKind {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return match error.kind() {
                io::ErrorKind::TimedOut => HttpErrorKind::Timeout,
                io::ErrorKind::ConnectionAborted
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::UnexpectedEof => HttpErrorKind::Interrupted,
                _ => HttpErrorKind::Unknown,
            };
        }
        source = error.source();
    }
    // At this point, a request error means that the connection was closed before a response began, for example while
    // the connection was idle.
    if error.is_request() { HttpErrorKind::Interrupted } else { HttpErrorKind::Unknown }
}
