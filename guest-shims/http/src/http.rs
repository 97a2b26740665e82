//! Requests and answers, independent of the host's interface.

use serde::Serialize;

use crate::problem::Problem;

/// Reads a request's body of at most this many bytes.
pub(crate) type ReadBody<'a> = dyn FnMut(usize) -> Result<Vec<u8>, Problem> + 'a;

/// A request, without its body.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    /// In upper case.
    pub(crate) method: String,
    /// Without the query.
    pub(crate) path: String,
    /// The server's name in the request.
    pub(crate) authority: Option<String>,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, Vec<u8>)>,
}

impl Request {
    /// Returns a header that occurs once, as text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(header, _)| header == name);
        let (_, value) = values.next()?;
        std::str::from_utf8(value).ok().filter(|_| values.next().is_none())
    }

    /// Returns whether a header occurs.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(header, _)| header == name)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    /// Additional headers.
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// Creates an answer with a JSON body.
    pub(crate) fn json(status: u16, value: &impl Serialize) -> Result<Self, Problem> {
        let body = serde_json::to_vec(value).map_err(|error| Problem::internal(error.to_string()))?;
        Ok(Self { status, content_type: "application/json", headers: Vec::new(), body })
    }

    /// Creates an answer with a text body.
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
