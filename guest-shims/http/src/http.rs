//! Requests, responses and problem documents (RFC 9457), independent of the host's interface.

use glovebox_core::hibernate::ResumeError;
use glovebox_guest::Error;
use glovebox_vfs::Untrusted;
use serde::Serialize;

/// A request, without its body.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    /// The HTTP method in upper case.
    pub(crate) method: String,
    /// The path without the query.
    pub(crate) path: String,
    /// The authority (server name and port) to which the request is addressed.
    pub(crate) authority: Option<String>,
    /// The header names in lower case, and their values.
    pub(crate) headers: Vec<(String, Vec<u8>)>,
}

impl Request {
    /// Returns the value of the header `name` if it occurs exactly once and is valid UTF-8.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(header, _)| header == name);
        let (_, value) = values.next()?;
        std::str::from_utf8(value).ok().filter(|_| values.next().is_none())
    }

    /// Returns `true` if the request has the header `name`.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(header, _)| header == name)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    /// The headers other than the content type.
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// Creates a response with a JSON body.
    pub(crate) fn json(status: u16, value: &impl Serialize) -> Result<Self, Problem> {
        let body = serde_json::to_vec(value).map_err(|error| Problem::internal(error.to_string()))?;
        Ok(Self { status, content_type: "application/json", headers: Vec::new(), body })
    }

    /// Creates a response with a text body.
    pub(crate) fn text(text: &str) -> Self {
        let content_type = "text/plain; charset=utf-8";
        Self { status: 200, content_type, headers: Vec::new(), body: text.as_bytes().to_vec() }
    }
}

impl From<Problem> for Answer {
    fn from(problem: Problem) -> Self {
        let headers = match problem.kind {
            "unauthorized" => vec![("www-authenticate", "Bearer")],
            _ => Vec::new(),
        };
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        Self { status: problem.status, content_type: "application/problem+json", headers, body }
    }
}

/// The error for a request that was not carried out. A script that fails is reported as an outcome instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Problem {
    /// The machine-readable kind of the problem, usually the name of the error in the contract.
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) status: u16,
    /// The HTTP reason phrase of the status.
    pub(crate) title: &'static str,
    /// The invalid value or the failure, and a solution.
    pub(crate) detail: String,
}

impl Problem {
    pub(crate) fn new(status: u16, kind: &'static str, detail: impl Into<Untrusted>) -> Self {
        Self { kind, status, title: title(status), detail: detail.into().to_string() }
    }

    /// Creates the problem for an invalid value in a request.
    pub(crate) fn invalid(detail: impl Into<Untrusted>) -> Self {
        Self::new(400, "invalid-argument", detail)
    }

    /// Creates the problem for a policy that is invalid or exceeds the grant.
    pub(crate) fn policy(detail: impl Into<Untrusted>) -> Self {
        Self::new(400, "invalid-policy", detail)
    }

    /// Creates the problem for a feature that this server does not support.
    pub(crate) fn unsupported(detail: impl Into<Untrusted>) -> Self {
        Self::new(422, "unsupported", detail)
    }

    /// Creates the problem for a value in a request that exceeds its maximum size.
    pub(crate) fn too_large(detail: impl Into<Untrusted>) -> Self {
        Self::new(413, "too-large", detail)
    }

    /// Creates the problem for an internal server error.
    pub(crate) fn internal(detail: impl Into<Untrusted>) -> Self {
        Self::new(500, "internal", detail)
    }

    /// Creates the problem for an invalid setting by the operator.
    pub(crate) fn misconfigured(detail: impl Into<Untrusted>) -> Self {
        Self::new(500, "misconfigured", detail)
    }
}

/// Returns the HTTP reason phrase of a status.
fn title(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        410 => "Gone",
        413 => "Payload Too Large",
        422 => "Unprocessable Entity",
        429 => "Too Many Requests",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (status, kind) = match &error {
            Error::InvalidArgument(_) => (400, "invalid-argument"),
            Error::InvalidPolicy(_) => (400, "invalid-policy"),
            Error::UnknownRuntime(_) => (404, "unknown-runtime"),
            Error::SourceTooLarge { .. } | Error::StdinTooLarge { .. } => (413, "too-large"),
            Error::TooManySessions(_) | Error::QuotaExceeded(_) => (429, "quota-exceeded"),
            Error::SessionEnded(_) => (410, "session-ended"),
            Error::SessionBusy(_) => (409, "session-busy"),
            Error::NoCheckpoint(_) => (409, "no-checkpoint"),
            Error::NotResumable(_) => (409, "not-resumable"),
            Error::Variable(_) => (422, "variable"),
            Error::File(_) => (422, "file"),
            Error::Unsupported(_) => (422, "unsupported"),
            Error::Unavailable(_) => (503, "unavailable"),
            // Later versions may add cases.
            _ => (500, "internal"),
        };
        // Remove the kind from the text, because the problem has a separate field for it.
        let text = error.to_string();
        let detail = text.strip_prefix(error.name()).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&text);
        Self::new(status, kind, detail)
    }
}

impl From<ResumeError> for Problem {
    fn from(error: ResumeError) -> Self {
        Self::new(409, "not-resumable", error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_map_to_problem_kinds_and_details() {
        let of = |error: Error| {
            let Problem { kind, status, detail, .. } = error.into();
            (status, kind, detail)
        };
        let text = || "`files`: no".to_owned();
        assert_eq!(of(Error::InvalidArgument(text())), (400, "invalid-argument", text()));
        assert_eq!(of(Error::TooManySessions(text())), (429, "quota-exceeded", text()));
        assert_eq!(of(Error::NotResumable(text())), (409, "not-resumable", text()));
        let (status, kind, detail) = of(Error::SourceTooLarge { bytes: 7, limit: 5 });
        assert_eq!((status, kind), (413, "too-large"));
        assert!(detail.contains('7') && detail.contains('5'), "{detail}");
    }
}
