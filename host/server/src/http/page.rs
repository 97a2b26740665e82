//! The web page at `/`, an editor for users with a token. The page contains no secrets, so loading it needs no token.
//! The editor calls the same routes as other clients. The source is in `bindings/web`, and `bindings/web/build` builds
//! the files.

use std::sync::LazyLock;

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::get,
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use sha2::{Digest as _, Sha256};

use super::Shared;

/// Content security policy of the page. The page can load its own files, call this server, and show displays from
/// scripts. The document contains no inline style or script, and text never becomes HTML (trusted types). The editor
/// uses constructed style sheets. The document repeats the policy in a `meta` element, without `frame-ancestors`, which
/// is not supported there.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; \
    frame-src 'self'; form-action 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'; frame-ancestors 'none'";
/// Content security policy of the frame that shows HTML from a script. The frame can only render: its content inherits
/// the policy and cannot extend it.
const FRAME_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; form-action 'none'; \
    base-uri 'none'; frame-ancestors 'self'";

/// A file of the page, embedded in the binary.
struct Asset {
    path: &'static str,
    media_type: &'static str,
    policy: &'static str,
    bytes: &'static [u8],
}

impl Asset {
    const fn new(path: &'static str, media_type: &'static str, bytes: &'static [u8]) -> Self {
        Self { path, media_type, policy: POLICY, bytes }
    }
}

const ASSETS: [Asset; 7] = [
    Asset::new("/", "text/html; charset=utf-8", include_bytes!("../../assets/index.html")),
    Asset::new("/page/app.css", "text/css; charset=utf-8", include_bytes!("../../assets/page/app.css")),
    Asset::new("/page/app.js", "text/javascript; charset=utf-8", include_bytes!("../../assets/page/app.js")),
    Asset::new(
        "/page/codemirror.js",
        "text/javascript; charset=utf-8",
        include_bytes!("../../assets/page/codemirror.js"),
    ),
    Asset {
        policy: FRAME_POLICY,
        ..Asset::new("/page/frame.html", "text/html; charset=utf-8", include_bytes!("../../assets/page/frame.html"))
    },
    Asset::new("/page/icon.svg", "image/svg+xml", include_bytes!("../../assets/page/icon.svg")),
    Asset::new("/page/licences.txt", "text/plain; charset=utf-8", include_bytes!("../../assets/page/licences.txt")),
];

pub(super) fn routes() -> Router<Shared> {
    // Computed once for all servers in the process.
    static TAGS: LazyLock<[HeaderValue; ASSETS.len()]> = LazyLock::new(|| ASSETS.each_ref().map(tag));
    ASSETS.iter().enumerate().fold(Router::new(), |routes, (index, asset)| {
        let answer = move |headers: HeaderMap| async move {
            let tag = TAGS.get(index).cloned().unwrap_or_else(|| tag(asset));
            respond(asset, &tag, &headers)
        };
        routes.route(asset.path, get(answer))
    })
}

/// Returns the `ETag` of a file, which contains its hash. Browsers revalidate their copy on each use and download only
/// changed files.
fn tag(asset: &Asset) -> HeaderValue {
    let hash = format!("\"{}\"", BASE64_STANDARD.encode(Sha256::digest(asset.bytes)));
    HeaderValue::from_str(&hash).unwrap_or(HeaderValue::from_static("\"\""))
}

fn respond(asset: &Asset, tag: &HeaderValue, headers: &HeaderMap) -> Response {
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_known =
        tag.to_str().is_ok_and(|tag| known.split(',').any(|each| each.trim().trim_start_matches("W/") == tag));
    let (status, body) = match is_known {
        true => (StatusCode::NOT_MODIFIED, Body::empty()),
        false => (StatusCode::OK, Body::from(asset.bytes)),
    };
    let headers: [(HeaderName, HeaderValue); 8] = [
        (header::CONTENT_TYPE, HeaderValue::from_static(asset.media_type)),
        (header::ETAG, tag.clone()),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(asset.policy)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
        (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    ];
    (status, headers, body).into_response()
}
