//! The client of the library for object stores: the one that scripts and servers have, HTTP/1.1 with TLS of rustls.

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

use crate::tls;

/// How long a connection may be set up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// For how long a server may send nothing while it answers.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Makes the client when a store is opened.
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
            .tls_backend_preconfigured(tls::config().map_err(|error| failed(error.into()))?)
            .https_only(!allows_http)
            .http1_only()
            // A request is signed for one server.
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
        // In one piece where it is one: such a body has a length, which stores ask for.
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

/// An error, with what says whether asking again may help.
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
    // A signed URL may have secrets in it, and the store's own is in the error around this.
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
    // Closed between two requests, before an answer began.
    if error.is_request() { HttpErrorKind::Interrupted } else { HttpErrorKind::Unknown }
}
