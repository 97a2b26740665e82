//! Parsing of request bodies.

use axum::extract::{FromRequest, Request};
use serde::de::DeserializeOwned;

use super::{
    Problem, Shared,
    budget::{Held, PIECE_BYTES, ReadBody},
};
use crate::{Service, Tenant, quoted::quoted};

impl FromRequest<Shared> for ReadBody {
    type Rejection = Problem;

    async fn from_request(request: Request, shared: &Shared) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let tenant = parts.extensions.get::<Tenant>().map(Tenant::name);
        shared.bodies.read(tenant, &parts.headers, body).await
    }
}

impl ReadBody {
    /// Returns the bytes, and the share of the budget to hold as long as the bytes exist.
    pub(crate) fn into_parts(self) -> (Vec<u8>, Held) {
        (self.bytes, self.held)
    }

    /// Runs `read`. A large body is parsed on a thread that may block, so that other requests need not wait.
    pub(crate) async fn aside<T: Send + 'static>(
        self,
        read: impl FnOnce(Self) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        if self.bytes.len() <= PIECE_BYTES { read(self) } else { Service::blocking(move || read(self)).await? }
    }

    /// Parses the body as JSON. Returns the value, and the share of the budget to hold as long as the value exists.
    pub(crate) fn json<T: DeserializeOwned>(mut self) -> Result<(T, Held), Problem> {
        if self.bytes.is_empty() {
            return Err(Problem::invalid("the request has no body; send a JSON object"));
        }
        let len = self.bytes.len();
        if len > PIECE_BYTES {
            // The value has copies of the strings in the body.
            self.grow(2 * len)?;
        }
        let value = serde_json::from_slice(&self.bytes);
        let value = value.map_err(|error| Problem::invalid(format!("the request's body: {}", quoted(error))))?;
        let Self { bytes, mut held, .. } = self;
        drop(bytes);
        held.shrink(len);
        Ok((value, held))
    }

    /// Like [`json`](Self::json), but returns the default if the body is empty.
    pub(crate) fn json_or_default<T: DeserializeOwned + Default>(self) -> Result<(T, Held), Problem> {
        if self.bytes.is_empty() { Ok((T::default(), self.held)) } else { self.json() }
    }
}

impl AsRef<[u8]> for ReadBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
