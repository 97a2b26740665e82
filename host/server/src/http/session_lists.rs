//! Merging of the session lists of several workers, and session names in request bodies.

use std::collections::BTreeMap;

use axum::body::Bytes;
use glovebox_sessions::SessionId;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::ServiceError;

/// A session list, as a worker sends it.
#[derive(Deserialize, Serialize)]
struct List<'a> {
    #[serde(borrow)]
    sessions: Vec<&'a RawValue>,
    damaged: Vec<SessionId>,
    /// Value of `after` that requests the next page.
    next: Option<SessionId>,
}

#[derive(Deserialize)]
struct Named {
    id: SessionId,
}

/// Merges several lists of the same store. Each session is as its own worker sees it, for which `is_home` returns
/// `true`. The result ends where the shortest list ends: the lists were made one after the other, and sessions may have
/// changed meanwhile.
pub(super) fn merged(lists: &[Bytes], is_home: impl Fn(&SessionId, usize) -> bool) -> Result<Vec<u8>, ServiceError> {
    let wrong = |error: serde_json::Error| {
        tracing::error!(target: "glovebox", %error, "cannot parse a worker's list of sessions");
        ServiceError::WorkerDied
    };
    let mut sessions: BTreeMap<SessionId, &RawValue> = BTreeMap::new();
    let mut damaged = Vec::new();
    let mut next: Option<SessionId> = None;
    for (index, bytes) in lists.iter().enumerate() {
        let list: List<'_> = serde_json::from_slice(bytes).map_err(wrong)?;
        for session in list.sessions {
            let Named { id } = serde_json::from_str(session.get()).map_err(wrong)?;
            if is_home(&id, index) {
                sessions.insert(id, session);
            }
        }
        // All workers see the same damaged sessions.
        damaged = list.damaged;
        next = next.into_iter().chain(list.next).min();
    }
    if let Some(next) = &next {
        sessions.retain(|id, _| id <= next);
        damaged.retain(|id| id <= next);
    }
    serde_json::to_vec(&List { sessions: sessions.into_values().collect(), damaged, next }).map_err(wrong)
}

/// Adds a session name to a body that is empty or a JSON object. Returns `None` for any other body, which the worker
/// refuses.
pub(super) fn with_id(body: &[u8], id: &SessionId) -> Option<Vec<u8>> {
    let mut object: BTreeMap<String, &RawValue> = match body.is_empty() {
        true => BTreeMap::new(),
        false => serde_json::from_slice(body).ok()?,
    };
    let id = serde_json::value::to_raw_value(id.as_str()).ok()?;
    object.insert("id".into(), &id);
    serde_json::to_vec(&object).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_session_is_as_its_own_worker_sees_it() {
        let list = |live: &str| {
            format!(
                r#"{{"sessions": [{{"id": "b", "live": {live}}}, {{"id": "a", "live": {live}}}], "damaged": ["x"]}}"#
            )
            .into()
        };
        let merged = merged(&[list("0"), list("1")], |id, index| (id.as_str() == "a") == (index == 0)).unwrap();
        let text = String::from_utf8(merged).unwrap();
        assert_eq!(text, r#"{"sessions":[{"id": "a", "live": 0},{"id": "b", "live": 1}],"damaged":["x"],"next":null}"#);
    }

    #[test]
    fn a_list_ends_where_the_shortest_ends() {
        let list = |sessions: &str, next: &str| {
            let sessions: Vec<String> = sessions.split(' ').map(|id| format!(r#"{{"id":"{id}"}}"#)).collect();
            format!(r#"{{"sessions":[{}],"damaged":["b","z"]{next}}}"#, sessions.join(",")).into()
        };
        let all = |first: Bytes, second: Bytes| {
            let merged = merged(&[first, second], |id, index| (id.as_str() < "c") == (index == 0)).unwrap();
            String::from_utf8(merged).unwrap()
        };
        let next = |id: &str| format!(r#","next":"{id}""#);
        let until_c = r#"{"sessions":[{"id":"a"},{"id":"c"}],"damaged":["b"],"next":"c"}"#;
        assert_eq!(all(list("a c", &next("c")), list("a c", &next("c"))), until_c);
        assert_eq!(all(list("a c d", &next("d")), list("a c", &next("c"))), until_c);
        assert_eq!(all(list("a c", &next("c")), list("a c d", "")), until_c);
        assert_eq!(
            all(list("a c", ""), list("a c", "")),
            r#"{"sessions":[{"id":"a"},{"id":"c"}],"damaged":["b","z"],"next":null}"#
        );
    }

    #[test]
    fn a_name_is_put_into_an_object_and_into_nothing_else() {
        let id = SessionId::new("s").unwrap();
        let with = |body: &str| with_id(body.as_bytes(), &id).map(|body| String::from_utf8(body).unwrap());
        assert_eq!(with("").as_deref(), Some(r#"{"id":"s"}"#));
        assert_eq!(with(r#"{"context": [1e5]}"#).as_deref(), Some(r#"{"context":[1e5],"id":"s"}"#));
        assert_eq!((with("[]"), with("{")), (None, None));
    }
}
