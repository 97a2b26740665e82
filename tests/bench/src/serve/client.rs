//! HTTP clients, each of which repeats one request over one connection.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use axum::body::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, StatusCode, Uri, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, task::JoinSet};

use crate::samples::Samples;

/// A server and the request to send to it.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) address: SocketAddr,
    pub(super) host: String,
    pub(super) token: Option<String>,
    pub(super) body: Bytes,
}

/// The results of all clients.
#[derive(Default)]
pub(super) struct LoadResult {
    /// The response times of the successful requests.
    pub(super) samples: Samples,
    /// The number of requests rejected with status 429 or 503.
    pub(super) refused: usize,
    pub(super) time: Duration,
}

/// Returns the address of a URL of the form `http://HOST[:PORT]`, and the value of the `Host` header for it.
pub(super) async fn resolve(url: &str) -> anyhow::Result<(SocketAddr, String)> {
    let uri: Uri = url.parse().with_context(|| format!("`{url}` is not a URL"))?;
    ensure!(uri.scheme_str() == Some("http"), "cannot measure `{url}`; use a URL of the form `http://HOST[:PORT]`");
    let authority = uri.authority().with_context(|| format!("`{url}` has no host"))?;
    let port = authority.port_u16().unwrap_or(80);
    let mut found = tokio::net::lookup_host((authority.host(), port)).await.context("cannot resolve the host")?;
    let address = found.next().context("the host has no address")?;
    Ok((address, authority.as_str().to_owned()))
}

/// Runs `connections` clients for `time`, after a warm-up that is not measured.
pub(super) async fn measure(
    target: &Target,
    connections: usize,
    warm_up: Duration,
    time: Duration,
) -> anyhow::Result<LoadResult> {
    let mut clients = JoinSet::new();
    let begin = Instant::now() + warm_up;
    for _ in 0..connections {
        clients.spawn(client(target.clone(), begin, begin + time));
    }
    let mut all = LoadResult::default();
    while let Some(one) = clients.join_next().await {
        let one = one.context("a client task panicked")??;
        all.samples.extend(one.samples);
        all.refused += one.refused;
    }
    all.time = begin.elapsed();
    Ok(all)
}

async fn client(target: Target, begin: Instant, end: Instant) -> anyhow::Result<LoadResult> {
    let stream = TcpStream::connect(target.address).await.context("cannot connect to the server")?;
    stream.set_nodelay(true).context("cannot disable Nagle's algorithm on the connection")?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.context("the server does not speak HTTP")?;
    let connection = tokio::spawn(connection);
    let mut measured = LoadResult::default();
    while Instant::now() < end {
        let mut request = Request::post("/v1/execute").header(header::HOST, &target.host);
        if let Some(token) = &target.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Full::new(target.body.clone())).context("cannot build the request")?;
        let sent_at = Instant::now();
        sender.ready().await.context("the server has closed the connection")?;
        let response = sender.send_request(request).await.context("the server did not respond")?;
        let status = response.status();
        let body = response.into_body().collect().await.context("the response ended early")?.to_bytes();
        let took = sent_at.elapsed();
        match status {
            StatusCode::OK => {
                ensure!(has_printed(&body), "the script did not print 1: {}", String::from_utf8_lossy(&body));
                if sent_at >= begin {
                    measured.samples.push(took);
                }
            }
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                measured.refused += usize::from(sent_at >= begin);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            StatusCode::UNAUTHORIZED => {
                bail!("the server rejected the token; set GLOVEBOX_TOKEN to one of its tokens")
            }
            other => bail!("the server answered {other}: {}", String::from_utf8_lossy(&body)),
        }
    }
    connection.abort();
    Ok(measured)
}

/// Returns `true` if the response is from a script that printed 1.
fn has_printed(body: &[u8]) -> bool {
    body.windows(STDOUT.len()).any(|window| window == STDOUT)
}

/// The substring of a response in which the output is `1`.
pub(super) const STDOUT: &[u8] = br#""stdout":"1\n""#;
