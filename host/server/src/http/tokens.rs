//! Token authentication of tenants.

use std::fmt;

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header, request::Parts},
};
use glovebox::internal::Digest;
use subtle::ConstantTimeEq;

use super::{BodyBudget, Problem, Shared};
use crate::{Tenant, tenant::ReplyRooms};

/// SHA-256 of a token. The server stores only the hash. Tokens are long and random, so a slow hash is unnecessary.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TokenHash(Digest);

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash")
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl TokenHash {
    /// Generates a token with 256 random bits.
    ///
    /// # Errors
    /// Fails if the operating system provides no random numbers.
    pub fn new_token() -> Result<String, getrandom::Error> {
        let mut random = [0_u8; 32];
        getrandom::fill(&mut random)?;
        Ok(format!("gb_{}", Digest::of(&random)))
    }

    /// Hashes a token.
    pub fn of(token: &str) -> Self {
        Self(Digest::of(token.as_bytes()))
    }

    /// Parses 64 hexadecimal digits. Returns `None` for any other text.
    pub fn from_hex(text: &str) -> Option<Self> {
        text.parse().ok().map(Self)
    }
}

/// Tenants and the hashes of their tokens.
#[derive(Clone, Debug, Default)]
pub struct Tenants {
    by_token: Vec<(TokenHash, Tenant)>,
    /// The tenant for requests without a token or with an unknown token.
    open: Option<Tenant>,
}

impl Tenants {
    /// Creates a registry with a single tenant for all requests, which then need no token. Use it only for addresses
    /// that no other user can reach.
    pub fn open(tenant: Tenant) -> Self {
        Self { by_token: Vec::new(), open: Some(tenant) }
    }

    /// Adds a tenant with its token.
    pub fn add(&mut self, token: TokenHash, tenant: Tenant) {
        self.by_token.push((token, tenant));
    }

    /// Returns all tenants. A tenant with several tokens appears once per token.
    pub fn all(&self) -> impl Iterator<Item = &Tenant> {
        self.by_token.iter().map(|(_, tenant)| tenant).chain(&self.open)
    }

    /// Returns a request's tenant, identified by `Authorization: Bearer TOKEN` or `X-API-Key: TOKEN`.
    pub(crate) fn authenticate(&self, headers: &HeaderMap) -> Result<&Tenant, Problem> {
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let bearer = text(header::AUTHORIZATION).and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
        });
        let token = bearer.or_else(|| text(HeaderName::from_static("x-api-key")));
        self.find(token).ok_or_else(|| {
            let detail = match token {
                Some(_) => "unknown token; check the `authorization` or `x-api-key` header",
                None => "missing token; send it as `Authorization: Bearer TOKEN`",
            };
            Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
        })
    }

    /// Returns the tenant for a token. Compares the token's hash with all known hashes in constant time.
    fn find(&self, token: Option<&str>) -> Option<&Tenant> {
        let Some(token) = token else { return self.open.as_ref() };
        let hash = TokenHash::of(token);
        let mut found = self.open.as_ref();
        for (known, tenant) in &self.by_token {
            if bool::from(known.0.as_bytes().ct_eq(hash.0.as_bytes())) {
                found = Some(tenant);
            }
        }
        found
    }
}

/// The tenant of a request, extracted from its token in `Authorization: Bearer TOKEN` or `X-API-Key: TOKEN`.
pub(crate) struct Caller(pub(crate) Tenant);

impl FromRequestParts<Shared> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Problem> {
        let tenant = shared.tenants.authenticate(&parts.headers)?;
        let rooms = parts.extensions.get::<ReplyRooms>();
        let tenant = rooms.map_or_else(|| tenant.clone(), |rooms| tenant.replying(rooms));
        let bodies = parts.extensions.get::<BodyBudget>().unwrap_or(&shared.bodies);
        let tenant = tenant.charging(bodies.bytes());
        // `ReadBody` charges the body to this tenant's share of the memory budget.
        parts.extensions.insert(tenant.clone());
        Ok(Self(tenant))
    }
}

#[cfg(test)]
mod tests {
    use super::TokenHash;

    #[test]
    fn token_hash_round_trips_and_rejects_other_text() {
        let hash = TokenHash::of("secret");
        assert_eq!(TokenHash::from_hex(&hash.to_string()), Some(hash));
        assert_eq!(hash.to_string(), "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b");
        let short = "2bb8".to_owned();
        let long = format!("{hash}0");
        let foreign = hash.to_string().replace('2', "é");
        for text in ["", &short, &long, &foreign, &hash.to_string().replace('2', "g")] {
            assert_eq!(TokenHash::from_hex(text), None, "{text}");
        }
    }
}
