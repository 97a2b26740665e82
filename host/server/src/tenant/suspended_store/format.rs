//! The stored form of a suspended execution: its bytes, and the parts of its request that are needed to resume it.
//!
//! | part | content |
//! |---|---|
//! | seal | 32 bytes: the seal over all other parts |
//! | length | 4 bytes: the length of the head, little-endian |
//! | head | JSON: the request, the paths and lengths of its files, the unanswered calls, the generation, `in_fleet` |
//! | files | the contents of the files |
//! | execution | the rest: the bytes of the suspended execution |
//!
//! The bytes of the execution have their own seal. The seal of the stored form also protects the tools, the policy and
//! the files against changes, and binds the bytes to their ID: an old copy under another ID is rejected.

use glovebox::ToolRequest;
use glovebox_core::hibernate::{SEAL_BYTES, Seal};
use glovebox_sessions::SessionId;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The size of the field with the head's length, in bytes.
const LENGTH_BYTES: usize = size_of::<u32>();

/// The parts of a request that are stored with its suspended execution.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SuspendedRequest {
    /// The definitions of the request's tools, as the client sent them.
    pub(crate) tools: Box<RawValue>,
    /// The requested policy, as the client sent it.
    pub(crate) policy: Option<Box<RawValue>>,
    pub(crate) return_files: Vec<String>,
    /// The session of the execution. `None` outside sessions.
    pub(crate) session: Option<SessionId>,
    pub(crate) ttl_ms: u64,
    /// The initial files of the workspace, as paths and contents.
    #[serde(skip)]
    pub(crate) files: Vec<(String, Vec<u8>)>,
}

impl SuspendedRequest {
    /// Returns an upper bound on the size of the request's stored form in bytes.
    pub(crate) fn max_bytes(&self) -> usize {
        /// The maximum size of the rest of the head, with an ID and a generation.
        const REST_BYTES: usize = 1_024;
        /// The maximum size of a list element without its text.
        const ELEMENT_BYTES: usize = 32;
        /// The maximum size of an escaped character in JSON, such as `\u0001`.
        const ESCAPED_BYTES: usize = 6;
        let texts = self.files.iter().map(|(path, _)| path).chain(&self.return_files);
        let texts = texts.map(|text| ESCAPED_BYTES * text.len() + ELEMENT_BYTES).sum::<usize>();
        let contents = self.files.iter().map(|(_, content)| content.len()).sum::<usize>();
        let policy = self.policy.as_ref().map_or(0, |policy| policy.get().len());
        REST_BYTES + texts + contents + policy + self.tools.get().len()
    }
}

/// A suspended execution as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct StoredExecution {
    pub(crate) request: SuspendedRequest,
    pub(crate) calls: Vec<ToolRequest>,
    /// The generation of the execution's session after the suspension. `None` outside sessions, or if it is unknown.
    pub(crate) generation: Option<String>,
    /// `true` if the execution's session is in a fleet.
    pub(crate) in_fleet: bool,
    /// The bytes of the suspended execution.
    pub(crate) suspended: Vec<u8>,
}

#[derive(Serialize)]
struct HeadRef<'a> {
    request: &'a SuspendedRequest,
    files: Vec<(&'a str, usize)>,
    calls: &'a [ToolRequest],
    generation: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    in_fleet: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    request: SuspendedRequest,
    files: Vec<(String, usize)>,
    calls: Vec<ToolRequest>,
    generation: Option<String>,
    #[serde(default)]
    in_fleet: bool,
}

impl StoredExecution {
    /// Returns the stored form, sealed with `seal`, which must be new.
    pub(super) fn encode(&self, mut seal: Seal) -> serde_json::Result<Vec<u8>> {
        let files = &self.request.files;
        let head = HeadRef {
            request: &self.request,
            files: files.iter().map(|(path, content)| (path.as_str(), content.len())).collect(),
            calls: &self.calls,
            generation: self.generation.as_deref(),
            in_fleet: self.in_fleet,
        };
        let mut bytes = vec![0; SEAL_BYTES + LENGTH_BYTES];
        serde_json::to_writer(&mut bytes, &head)?;
        // A head whose length exceeds `u32` would make the stored form invalid. A request is much shorter.
        let length = u32::try_from(bytes.len() - SEAL_BYTES - LENGTH_BYTES).unwrap_or(u32::MAX);
        let contents = files.iter().map(|(_, content)| content.as_slice());
        contents.chain([self.suspended.as_slice()]).for_each(|part| bytes.extend_from_slice(part));
        let (seal_bytes, body) = bytes.split_at_mut(SEAL_BYTES);
        body.split_at_mut(LENGTH_BYTES).0.copy_from_slice(&length.to_le_bytes());
        seal.update(body);
        seal_bytes.copy_from_slice(&seal.finish());
        Ok(bytes)
    }

    /// Reads the stored form. Returns `None` if its seal is invalid or it is damaged.
    pub(super) fn decode(bytes: &[u8], mut seal: Seal) -> Option<Self> {
        let (expected, body) = bytes.split_first_chunk::<SEAL_BYTES>()?;
        seal.update(body);
        if !seal.verify(expected) {
            return None;
        }
        let (length, rest) = body.split_first_chunk::<LENGTH_BYTES>()?;
        let (head, mut rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
        let Head { mut request, files, calls, generation, in_fleet } = serde_json::from_slice(head).ok()?;
        for (path, length) in files {
            let (content, after) = rest.split_at_checked(length)?;
            request.files.push((path, content.to_vec()));
            rest = after;
        }
        Some(Self { request, calls, generation, in_fleet, suspended: rest.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use glovebox::SessionKey;
    use serde_json::json;

    use super::*;

    fn stored(files: Vec<(String, Vec<u8>)>) -> StoredExecution {
        let raw = |value: serde_json::Value| RawValue::from_string(value.to_string()).unwrap();
        let request = SuspendedRequest {
            tools: raw(json!([{"name": "ask"}])),
            policy: Some(raw(json!({"limits": {"fuel": 1}}))),
            return_files: vec!["*.png".to_owned()],
            session: SessionId::new("s").ok(),
            ttl_ms: 1_000,
            files,
        };
        let call = json!({"id": 3, "name": "ask", "arguments": "{\"q\":1}"});
        let calls = vec![serde_json::from_value(call).unwrap()];
        let (generation, suspended) = (Some("1-2".to_owned()), b"execution".to_vec());
        StoredExecution { request, calls, generation, in_fleet: false, suspended }
    }

    fn key() -> SessionKey {
        SessionKey::new(&[7; 32]).unwrap()
    }

    #[test]
    fn stored_form_round_trips() {
        for files in [vec![], vec![("a\n".to_owned(), vec![0, 255]), ("b".to_owned(), vec![])]] {
            let before = StoredExecution { in_fleet: !files.is_empty(), ..stored(files) };
            let bytes = before.encode(Seal::new(Some(&key()), "x y")).unwrap();
            assert!(bytes.len() <= before.request.max_bytes() + before.suspended.len(), "{}", bytes.len());
            let after = StoredExecution::decode(&bytes, Seal::new(Some(&key()), "x y")).unwrap();
            assert_eq!(format!("{before:?}"), format!("{after:?}"));
        }
    }

    #[test]
    fn changed_cut_and_moved_bytes_are_rejected() {
        let bytes = stored(vec![("a".to_owned(), b"content".to_vec())]).encode(Seal::new(Some(&key()), "x y")).unwrap();
        let decode = |bytes: &[u8], name: &str| StoredExecution::decode(bytes, Seal::new(Some(&key()), name));
        assert!(decode(&bytes, "x y").is_some());
        assert!(decode(&bytes, "x z").is_none(), "another ID");
        assert!(StoredExecution::decode(&bytes, Seal::new(None, "x y")).is_none(), "another key");
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(decode(&changed, "x y").is_none(), "{at}");
            assert!(decode(&bytes[..at], "x y").is_none(), "{at}");
        }
    }

    #[test]
    fn lengths_beyond_the_end_are_rejected() {
        // Without a key, anyone can compute a valid seal.
        let sealed = |length: u32, head: &str| {
            let body = [length.to_le_bytes().as_slice(), head.as_bytes()].concat();
            let mut seal = Seal::new(None, "");
            seal.update(&body);
            [seal.finish().as_slice(), body.as_slice()].concat()
        };
        let head = |length: usize| {
            json!({
                "request": {"tools": [], "policy": null, "return_files": [], "session": null, "ttl_ms": 1},
                "files": [["a", length]], "calls": [], "generation": null,
            })
            .to_string()
        };
        let decode = |bytes: &[u8]| StoredExecution::decode(bytes, Seal::new(None, ""));
        let length = |head: &str| u32::try_from(head.len()).unwrap();
        assert!(decode(&sealed(length(&head(0)), &head(0))).is_some());
        assert!(decode(&sealed(length(&head(0)) + 1, &head(0))).is_none());
        assert!(decode(&sealed(u32::MAX, &head(0))).is_none());
        for beyond in [1, usize::MAX] {
            assert!(decode(&sealed(length(&head(beyond)), &head(beyond))).is_none(), "{beyond}");
        }
        assert!(decode(&[]).is_none() && decode(&[0; SEAL_BYTES]).is_none());
    }
}
