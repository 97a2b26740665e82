//! The tenant who asks.

use axum::{
    extract::FromRequestParts,
    http::{StatusCode, header, request::Parts},
};

use super::{Problem, Shared};
use crate::Tenant;

/// The tenant who asks, by the header `Authorization: Bearer TOKEN`, or `X-API-Key: TOKEN`.
pub(crate) struct Caller(pub(crate) Tenant);

impl FromRequestParts<Shared> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Problem> {
        let text = |name| parts.headers.get(name).and_then(|value: &axum::http::HeaderValue| value.to_str().ok());
        let bearer = text(header::AUTHORIZATION).and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
        });
        let token = bearer.or_else(|| text(header::HeaderName::from_static("x-api-key")));
        shared.tenants.find(token).cloned().map(Self).ok_or_else(|| {
            let detail = match token {
                Some(_) => "this token is not known here",
                None => "a token is needed: send `Authorization: Bearer TOKEN`",
            };
            Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
        })
    }
}
