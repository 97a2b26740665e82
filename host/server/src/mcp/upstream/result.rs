//! Converts a tool's result to JSON text for a script.

use glovebox::{ToolError, ToolErrorKind};
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::Value;

/// Returns the structured content, or otherwise the texts as one string, joined by newlines. Other contents are
/// replaced by a label.
pub(super) fn json(result: CallToolResult, max_bytes: usize) -> Result<String, ToolError> {
    if result.is_error == Some(true) {
        let text = texts(&result.content);
        return Err(ToolError::new(if text.is_empty() {
            "the tool failed without a message".to_owned()
        } else {
            text
        }));
    }
    let value = result.structured_content.unwrap_or_else(|| Value::String(texts(&result.content)));
    let json = value.to_string();
    if json.len() > max_bytes {
        let text = format!("the result has {} bytes as JSON, more than the maximum of {max_bytes}", json.len());
        return Err(ToolError::of(ToolErrorKind::Limit, text));
    }
    Ok(json)
}

fn texts(content: &[ContentBlock]) -> String {
    content.iter().map(text).collect::<Vec<_>>().join("\n")
}

fn text(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Resource(resource) => resource.get_text(),
        ContentBlock::ResourceLink(resource) => format!("[resource {}]", resource.uri),
        ContentBlock::Image(image) => format!("[picture, {}]", image.mime_type),
        ContentBlock::Audio(audio) => format!("[sound, {}]", audio.mime_type),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn structure_is_taken_before_text_and_failures_are_errors() {
        let texts = vec![ContentBlock::text("a"), ContentBlock::image("AAAA", "image/png"), ContentBlock::text("b")];
        let plain = CallToolResult::success(texts.clone());
        assert_eq!(json(plain, 100).unwrap(), r#""a\n[picture, image/png]\nb""#);
        let mut structured = CallToolResult::success(texts.clone());
        structured.structured_content = Some(json!({ "x": [1] }));
        assert_eq!(json(structured, 100).unwrap(), r#"{"x":[1]}"#);
        assert_eq!(json(CallToolResult::error(texts), 100).unwrap_err().message(), "a\n[picture, image/png]\nb");
        assert!(json(CallToolResult::error(vec![]), 100).unwrap_err().message().contains("without a message"));
    }

    #[test]
    fn a_result_is_taken_at_the_limit_and_not_over_it() {
        let result = |size: usize| CallToolResult::success(vec![ContentBlock::text("x".repeat(size - 2))]);
        assert_eq!(json(result(100), 100).unwrap().len(), 100);
        assert_eq!(json(result(101), 100).unwrap_err().kind(), ToolErrorKind::Limit);
    }
}
