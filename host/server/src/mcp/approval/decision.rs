//! Questions to the client's user about the approval of tool calls, and the answers.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use glovebox::{JsonText, ToolRequest};
use rmcp::{
    RoleServer,
    model::{
        ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
        InputRequest, InputRequests, InputResponses, ProtocolVersion, ServerRequest,
    },
    service::{Peer, PeerRequestOptions, RequestContext},
};
use serde_json::Value;

use crate::{ServiceError, text::quoted};

/// Maximum length of a call's arguments in a question, in bytes. A person can approve only what the question shows
/// completely, so calls with longer arguments are denied.
const MAX_SHOWN_BYTES: usize = 16 << 10;

/// Maximum number of questions at once. Further questions are asked after the client has answered these.
pub(super) const MAX_QUESTIONS: usize = 16;

/// Maximum length of a person's reason, in characters.
const MAX_REASON_CHARS: u32 = 500;

/// Maximum time to wait for answers from a client with an earlier protocol version.
pub(super) const ANSWER_TIME: Duration = Duration::from_secs(3_600);

/// The way to ask a client for approvals.
pub(super) enum Approver {
    /// Protocol version 2026-07-28 and later: the result of `run_code` contains the questions, and the client retries
    /// the request with the answers.
    Retries,
    /// Earlier versions: the server sends `elicitation/create`.
    Answers(Peer<RoleServer>),
    /// The client does not support elicitation with forms.
    Absent,
}

impl Approver {
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Self {
        let elicitation = context.client_capabilities().and_then(|capabilities| capabilities.elicitation);
        // A client that declares no mode supports forms.
        let has_forms = elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none());
        if !has_forms {
            return Self::Absent;
        }
        let retries = |version: &ProtocolVersion| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str();
        match context.protocol_version().as_ref().is_some_and(retries) {
            true => Self::Retries,
            false => Self::Answers(context.peer.clone()),
        }
    }

    /// Returns the decision about a call that needs no question, or `None` if a person must decide.
    pub(super) fn decide(&self, call: &ToolRequest) -> Option<Decision> {
        let name = glovebox::escaped(&call.name);
        let reason = match self {
            Self::Absent => format!(
                "`{name}` needs a person's approval, but this MCP client does not support elicitation; use a client \
                 that supports it"
            ),
            _ if call.arguments.len() > MAX_SHOWN_BYTES => format!(
                "`{name}` needs a person's approval, but the arguments are {} bytes; the maximum is \
                 {MAX_SHOWN_BYTES}; pass less, for example a path or an ID",
                call.arguments.len()
            ),
            _ => return None,
        };
        Some(Decision::Denied(reason))
    }
}

/// A person's decision about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Approved,
    /// The reason, which the script receives as the message of `ToolDenied`.
    Denied(String),
}

impl Decision {
    fn of(result: ElicitResult) -> Self {
        let content = result.content.unwrap_or_default();
        let default = match result.action {
            ElicitationAction::Accept if content.get("approve").and_then(Value::as_bool) == Some(true) => {
                return Self::Approved;
            }
            ElicitationAction::Accept | ElicitationAction::Decline => "a person denied the call",
            _ => "a person dismissed the question about the call",
        };
        let reason = content.get("reason").and_then(Value::as_str).unwrap_or_default().trim();
        let max_chars = usize::try_from(MAX_REASON_CHARS).unwrap_or(usize::MAX);
        let reason: String = reason.chars().take(max_chars).collect();
        Self::Denied(if reason.is_empty() { default.to_owned() } else { reason })
    }
}

/// Decisions about calls, keyed by the call's ID.
pub(super) type Decisions = BTreeMap<u64, Decision>;

/// Returns the key of a call in `inputRequests` and `inputResponses`.
fn key(call: u64) -> String {
    format!("call-{call}")
}

/// Parses the answers that a client returned. Ignores answers to other questions.
///
/// # Errors
/// Fails if an answer is not an elicitation result.
pub(super) fn decisions(responses: InputResponses) -> Result<Decisions, ServiceError> {
    let mut decisions = Decisions::new();
    for (name, response) in responses {
        let Some(call) = name.strip_prefix("call-").and_then(|call| call.parse::<u64>().ok()) else { continue };
        // Accept only the exact key, and not spellings such as `call-+1`.
        if key(call) != name {
            continue;
        }
        let result: ElicitResult = serde_json::from_value(response).map_err(|error| {
            ServiceError::Invalid(format!(
                "`inputResponses.{name}` is not the result of an elicitation: {}",
                glovebox::escaped_text(&quoted(error))
            ))
        })?;
        decisions.insert(call, Decision::of(result));
    }
    Ok(decisions)
}

/// Returns the questions about the first [`MAX_QUESTIONS`] calls.
pub(super) fn questions(calls: &[ToolRequest]) -> Result<InputRequests, ServiceError> {
    let questions = calls.iter().take(MAX_QUESTIONS).map(|call| {
        let request = InputRequest::Elicitation(ElicitRequest::new(question(call)?));
        Ok((key(call.id), request))
    });
    questions.collect()
}

/// Asks a client with an earlier protocol version about calls, one after another. Waits up to `time` for all answers.
pub(super) async fn request_decisions(
    peer: &Peer<RoleServer>,
    calls: &[ToolRequest],
    time: Duration,
) -> Result<Decisions, ServiceError> {
    let mut decisions = Decisions::new();
    let end = Instant::now() + time;
    for call in calls.iter().take(MAX_QUESTIONS) {
        let request = ServerRequest::ElicitRequest(ElicitRequest::new(question(call)?));
        let options = PeerRequestOptions::with_timeout(end.saturating_duration_since(Instant::now()));
        let answered = async { peer.send_request_with_option(request, options).await?.await_response().await };
        let decision = match answered.await {
            Ok(ClientResult::ElicitResult(result)) => Decision::of(result),
            Ok(_) => Decision::Denied("the client's answer is not the result of an elicitation".to_owned()),
            Err(error) => {
                let error = glovebox::escaped_text(&quoted(error)).to_string();
                Decision::Denied(format!("the client did not answer the question about the call: {error}"))
            }
        };
        decisions.insert(call.id, decision);
    }
    Ok(decisions)
}

/// Returns the question about a call: its tool and its complete arguments, on one line, with hidden characters escaped.
fn question(call: &ToolRequest) -> Result<ElicitRequestParams, ServiceError> {
    let message = format!(
        "A script wants to call the tool `{}` with these arguments: {}",
        glovebox::escaped(&call.name),
        escaped_json(&call.arguments)
    );
    let schema = ElicitationSchema::builder()
        .required_bool_property("approve", |schema| schema.title("Approve the call"))
        .string_property("reason", |schema| {
            schema
                .title("Reason")
                .description("The script receives it if the call is denied")
                .max_length(MAX_REASON_CHARS)
        })
        .build();
    let requested_schema = schema.map_err(|error| ServiceError::Invalid(error.to_owned()))?;
    Ok(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema })
}

/// Escapes hidden characters in JSON text. The result is a single line.
fn escaped_json(text: &str) -> String {
    match JsonText::new(text) {
        Ok(json) => json.escaped(),
        // Only a faulty worker sends arguments that are not valid JSON.
        Err(_) => glovebox::escaped_text(text).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(arguments: &str) -> ToolRequest {
        serde_json::from_value(json!({ "id": 3, "name": "pay", "arguments": arguments })).unwrap()
    }

    fn decided(response: Value) -> Result<Option<Decision>, String> {
        let responses = InputResponses::from([("call-3".to_owned(), response)]);
        decisions(responses).map(|mut decisions| decisions.remove(&3)).map_err(|error| error.to_string())
    }

    #[test]
    fn only_an_explicit_approval_approves() {
        let denied = |reason: &str| Ok(Some(Decision::Denied(reason.to_owned())));
        let accept = |content: Value| decided(json!({ "action": "accept", "content": content }));
        assert_eq!(accept(json!({ "approve": true, "reason": "fine" })), Ok(Some(Decision::Approved)));
        for content in [json!({}), json!(null), json!(true), json!({ "approve": false }), json!({ "approve": "true" })]
        {
            assert_eq!(accept(content), denied("a person denied the call"));
        }
        assert_eq!(accept(json!({ "approve": false, "reason": " too expensive " })), denied("too expensive"));
        assert_eq!(decided(json!({ "action": "decline" })), denied("a person denied the call"));
        let dismissed = "a person dismissed the question about the call";
        assert_eq!(decided(json!({ "action": "cancel", "content": { "approve": true } })), denied(dismissed));
        for (length, shown) in [(499, 499), (500, 500), (501, 500)] {
            let reason = "é".repeat(length);
            assert_eq!(accept(json!({ "approve": false, "reason": reason })), denied(&"é".repeat(shown)));
        }
    }

    #[test]
    fn malformed_answers_are_errors_and_other_keys_are_ignored() {
        for response in [json!(null), json!(7), json!({}), json!({ "action": "approve" })] {
            let error = decided(response).unwrap_err();
            assert!(error.contains("`inputResponses.call-3` is not the result"), "{error}");
        }
        let approval = || json!({ "action": "accept", "content": { "approve": true } });
        for name in ["", "3", "call-", "call-+3", "call-03", "call-x", "call-99999999999999999999"] {
            assert_eq!(decisions(InputResponses::from([(name.to_owned(), approval())])).unwrap(), Decisions::new());
        }
    }

    #[test]
    fn question_shows_all_arguments_on_one_line() {
        let long = "x".repeat(10_000);
        let text = serde_json::to_string(&json!({ "to": format!("a\n\u{202e}b{long}") })).unwrap();
        let shown = serde_json::to_value(questions(&[call(&text)]).unwrap()).unwrap();
        let params = &shown["call-3"]["params"];
        let message = params["message"].as_str().unwrap();
        assert!(
            message.starts_with("A script wants to call the tool `pay` with these arguments: {\"to\""),
            "{message}"
        );
        assert!(message.contains(&long) && message.contains(r"\u202e") && !message.contains(['\n', '\u{202e}']));
        assert_eq!((&params["mode"], &params["requestedSchema"]["required"]), (&json!("form"), &json!(["approve"])));
        assert_eq!(shown["call-3"]["method"], "elicitation/create");
    }

    #[test]
    fn arguments_over_the_limit_are_denied() {
        for (length, is_denied) in [(MAX_SHOWN_BYTES - 1, false), (MAX_SHOWN_BYTES, false), (MAX_SHOWN_BYTES + 1, true)]
        {
            let arguments = format!("{{\"a\":\"{}\"}}", "x".repeat(length - 8));
            assert_eq!(arguments.len(), length);
            let decision = Approver::Retries.decide(&call(&arguments));
            assert_eq!(decision.is_some(), is_denied, "{length}");
        }
        let Some(Decision::Denied(reason)) = Approver::Absent.decide(&call("{}")) else { panic!("not denied") };
        assert!(reason.contains("does not support elicitation"), "{reason}");
    }

    #[test]
    fn number_of_questions_is_limited() {
        let numbered = |id| {
            let mut call = call("{}");
            call.id = id;
            call
        };
        let calls: Vec<ToolRequest> = (0..40).map(numbered).collect();
        assert_eq!(questions(&calls).unwrap().len(), MAX_QUESTIONS);
    }
}
