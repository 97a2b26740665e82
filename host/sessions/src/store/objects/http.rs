//! HTTP client of the object store library, like the one for scripts and servers: HTTP/1.1 with rustls.

use std::{error::Error, io, time::Duration};

use async_trait::async_trait;
use http_body_util::BodyExt as _;
use object_store::{
    ClientConfigKey, ClientOptions,
    client::{
        HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
    },
};
use tokio::runtime::Handle;

/// Timeout for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for each read of a response.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Creates the HTTP client when a store is opened.
#[derive(Debug)]
pub(super) struct Connector(pub(super) Handle);

#[derive(Debug)]
struct Client(reqwest::Client);

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let failed =
            |source: Box<dyn Error + Send + Sync>| object_store::Error::Generic { store: "HTTP client", source };
        let allows_http = options.get_config_value(&ClientConfigKey::AllowHttp).is_some_and(|value| value == "true");
        let _inside = self.0.enter();
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(glovebox::tls_config().map_err(|error| failed(error.into()))?)
            .https_only(!allows_http)
            .http1_only()
            // Requests are signed for one server, so do not follow redirects.
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
        let url = url::Url::parse(&url).map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        let mut request = reqwest::Request::new(parts.method, url);
        *request.headers_mut() = parts.headers;
        // Send the body in one piece if possible: such a body has a length, which stores require.
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

/// Converts an error. Its kind tells the library whether a retry may help.
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
    // Signed URLs may contain secrets, and the outer error names the store's URL.
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
    // The connection closed between requests, before a response began.
    if error.is_request() { HttpErrorKind::Interrupted } else { HttpErrorKind::Unknown }
}
