//! Checks that run before a request is handled: `Host` and `Origin` headers, and preconditions.

use std::net::{Ipv6Addr, SocketAddr};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};

use super::{HttpConfig, Problem, Shared};

/// Accepted names in `Host`, and origins of web pages that may send requests.
pub(crate) struct Names {
    /// Lower-case names without ports. `None` accepts every `Host`.
    hosts: Option<Vec<String>>,
    origins: Vec<String>,
}

impl Names {
    pub(crate) fn new(config: &HttpConfig, bound: SocketAddr) -> Self {
        let mut hosts: Vec<String> = vec!["localhost".into(), bound.ip().to_string(), "127.0.0.1".into(), "::1".into()];
        hosts.extend(config.hosts.iter().map(|host| host_alone(host).to_ascii_lowercase()));
        Self { hosts: Some(hosts), ..Self::of_socket(config) }
    }

    /// Returns the names for a Unix socket, which browsers cannot reach: any host, and only the configured origins.
    pub(crate) fn of_socket(config: &HttpConfig) -> Self {
        Self { hosts: None, origins: config.origins.iter().map(|origin| normalized(origin)).collect() }
    }

    /// Returns `true` if the names are for a Unix socket.
    pub(crate) fn is_socket(&self) -> bool {
        self.hosts.is_none()
    }

    /// Rejects requests whose `Host` is not a name of the server or whose `Origin` is not allowed. A web page that
    /// reaches the server through DNS rebinding sends its own name in `Host`.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let host = text(header::HOST).unwrap_or_default().to_ascii_lowercase();
        if let Some(hosts) = &self.hosts {
            let is_one = headers.get_all(header::HOST).iter().count() == 1;
            let is_same = uri.authority().is_none_or(|authority| authority.as_str().eq_ignore_ascii_case(&host));
            if !is_one || !is_same || !host_name(&host).is_some_and(|named| hosts.iter().any(|known| known == named)) {
                let detail = "unknown `Host`; add it to `[http] hosts` of `glovebox serve` or `--allow-host` of \
                              `glovebox mcp`";
                return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, "host", detail));
            }
        }
        let is_allowed = |origin: &HeaderValue| {
            let origin = normalized(origin.to_str().unwrap_or_default());
            let authority = origin.strip_prefix("http://").or(origin.strip_prefix("https://"));
            // The server's own origin is allowed only if `Host` was checked. An unchecked `Host` can contain any name.
            (self.hosts.is_some() && authority == Some(host.as_str())) || self.origins.contains(&origin)
        };
        if headers.get_all(header::ORIGIN).iter().all(is_allowed) {
            return Ok(());
        }
        let detail = if self.is_socket() {
            "requests from web pages are not allowed on the socket; remove the `Origin` header"
        } else {
            "this `Origin` is not allowed; add it to `[http] origins` of `glovebox serve` or `--allow-origin` of \
             `glovebox mcp`"
        };
        Err(Problem::new(StatusCode::FORBIDDEN, "origin", detail))
    }
}

/// Returns the name or address in a `Host` header, without its port. Rejects all other forms: other code could
/// interpret user information or a path as a different host.
fn host_name(host: &str) -> Option<&str> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            address.parse::<Ipv6Addr>().ok()?;
            (address, port)
        }
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = |port: &str| port.is_empty() || (!port.starts_with('+') && port.parse::<u16>().is_ok());
    (port.is_empty() || port.strip_prefix(':').is_some_and(is_port)).then_some(name)
}

/// Returns an origin in lower case, without the default port of its scheme.
fn normalized(origin: &str) -> String {
    let origin = origin.to_ascii_lowercase();
    let port = if origin.starts_with("https:") { ":443" } else { ":80" };
    origin.strip_suffix(port).map(str::to_owned).unwrap_or(origin)
}

/// Returns a configured host without its port and without the brackets of an IPv6 address.
fn host_alone(authority: &str) -> &str {
    if let Some((host, _)) = authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return host;
    }
    match authority.rsplit_once(':') {
        // Several colons without brackets are an IPv6 address without a port.
        Some((host, _)) if !host.contains(':') => host,
        _ => authority,
    }
}

/// Middleware that rejects requests with an unknown `Host`, a foreign `Origin`, or a precondition that would have no
/// effect.
pub(crate) async fn guard(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    match shared.names.check(request.uri(), request.headers()).and_then(|()| check_precondition(&request)) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

/// Rejects `If-Match` on routes that would ignore it, because a conditional change must not become unconditional.
/// Routes that change an existing session, or resume an execution in a session, evaluate the header.
/// `PUT /v1/sessions/{id}` only creates sessions.
fn check_precondition(request: &Request) -> Result<(), Problem> {
    let (method, path) = (request.method(), request.uri().path());
    if method.is_safe() || !request.headers().contains_key(header::IF_MATCH) {
        return Ok(());
    }
    let below = path.strip_prefix("/v1/sessions/").map(|rest| rest.trim_end_matches('/'));
    let changes_session =
        below.is_some_and(|below| below.contains('/') || (!below.is_empty() && method == Method::DELETE));
    let resumes = path == "/v1/executions/resume" || (method == Method::POST && path.starts_with("/v1/suspended/"));
    if changes_session || resumes {
        return Ok(());
    }
    Err(Problem::invalid("`If-Match` is supported only for changes to a session; remove it here"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(config: HttpConfig, host: &str, origin: Option<&str>) -> Option<u16> {
        let names = Names::new(&config, SocketAddr::from(([127, 0, 0, 1], 8700)));
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        names.check(&Uri::from_static("/v1/info"), &headers).err().map(|problem| problem.status)
    }

    #[test]
    fn only_the_servers_hosts_and_origins_are_accepted() {
        let own = HttpConfig::default;
        for host in ["127.0.0.1:8700", "localhost:8700", "LOCALHOST", "[::1]:8700", "127.0.0.1"] {
            assert_eq!(check(own(), host, None), None, "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8700",
            "localhost.evil.example",
            "",
            "[::2]",
            "127.0.0.1.evil.example",
            "127.0.0.1:8700@evil.example",
            "localhost:@evil.example",
            "localhost@evil.example",
            "localhost:8700/evil.example",
            "localhost:8700:1",
            "localhost:870000",
            "localhost:65536",
            "localhost:+80",
            "[::1]@evil.example",
            "[::1]evil.example",
            "[localhost]",
            "[::1",
        ] {
            assert_eq!(check(own(), host, None), Some(421), "{host}");
        }
        assert_eq!(check(own(), "localhost:8700", Some("http://localhost:8700")), None);
        for origin in [
            "http://localhost:9999",
            "https://evil.example",
            "null",
            "",
            "http://localhost:8700.evil.example",
            "foo://localhost:8700",
        ] {
            assert_eq!(check(own(), "localhost:8700", Some(origin)), Some(403), "{origin}");
        }
        let names = Names::new(&own(), SocketAddr::from(([127, 0, 0, 1], 8700)));
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, "localhost:8700".parse().unwrap());
        for (uri, is_taken) in [("http://localhost:8700/", true), ("http://evil.example/", false)] {
            assert_eq!(names.check(&uri.parse().unwrap(), &headers).is_ok(), is_taken, "{uri}");
        }
        headers.append(header::ORIGIN, "http://localhost:8700".parse().unwrap());
        headers.append(header::ORIGIN, "https://evil.example".parse().unwrap());
        assert!(names.check(&Uri::from_static("/"), &headers).is_err(), "one of two origins is not allowed");
        let socket =
            Names::of_socket(&HttpConfig { origins: vec!["https://app.example.com".into()], ..HttpConfig::default() });
        let on_socket = |headers: &[(header::HeaderName, &str)]| {
            let pairs = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap()));
            socket
                .check(&Uri::from_static("/v1/info"), &HeaderMap::from_iter(pairs))
                .err()
                .map(|problem| problem.status)
        };
        assert_eq!(on_socket(&[]), None, "a socket has no name");
        assert_eq!(on_socket(&[(header::HOST, "evil.example")]), None);
        assert_eq!(on_socket(&[(header::HOST, "localhost"), (header::ORIGIN, "http://localhost")]), Some(403));
        assert_eq!(on_socket(&[(header::ORIGIN, "https://app.example.com")]), None);
        let named = || HttpConfig {
            hosts: vec!["Box.example.com".into()],
            origins: vec!["https://app.example.com:443".into()],
            ..HttpConfig::default()
        };
        assert_eq!(check(named(), "box.example.com", Some("https://app.example.com")), None);
        assert_eq!(check(named(), "box.example.com:443", None), None);
        assert_eq!(check(named(), "localhost", None), None, "configured names are added to the default ones");
        assert_eq!(check(named(), "evil.example", None), Some(421));
    }
}
