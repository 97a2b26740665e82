//! Changing one entry of a file of JSON, and nothing else in it: comments, order and layout stay.

use std::ops::Range;

use serde_json::Value;

/// Why a file is not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unchanged {
    /// It is not JSON: where and why.
    Syntax(String),
    /// It is JSON of another form.
    Form(String),
}

/// The text with `entry` under `container` and `name`. What is there under this name is replaced. Comments and commas before a closing
/// bracket are allowed, as editors do.
pub(super) fn with_entry(text: &str, container: &str, name: &str, entry: &Value) -> Result<String, Unchanged> {
    if text.trim().is_empty() {
        let made = serde_json::json!({ container: { name: entry } });
        return Ok(format!("{made:#}\n"));
    }
    // A mark of the byte order is no part of the text.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let plain = plain(text);
    let before = parsed(&plain)?;
    let Value::Object(mut expected) = before else { return Err(Unchanged::Form("it is not an object".into())) };
    let inside = expected.entry(container).or_insert_with(|| Value::Object(serde_json::Map::new()));
    let Value::Object(inside) = inside else {
        return Err(Unchanged::Form(format!("its `{container}` is not an object")));
    };
    if inside.insert(name.to_owned(), entry.clone()).as_ref() == Some(entry) {
        return Ok(text.to_owned());
    }
    let unit = indent(text);
    let root = plain.find('{').ok_or_else(|| Unchanged::Form("it is not an object".into()))?;
    let edited = match member(&plain, root, container) {
        None => {
            let inside = format!("{{\n{unit}{unit}{}\n{unit}}}", line(name, entry, &unit, 2));
            inserted(text, &plain, root, &format!("{unit}{}: {inside}", Value::from(container)), "")
        }
        Some(found) => match member(&plain, found.start, name) {
            Some(there) => replaced(text, there, &pretty(entry, &unit, 2)),
            None => inserted(text, &plain, found.start, &format!("{unit}{unit}{}", line(name, entry, &unit, 2)), &unit),
        },
    };
    // Two members of one name, or whatever else this does not know: nothing is changed then.
    if parsed(&self::plain(&edited)).ok() != Some(Value::Object(expected)) {
        return Err(Unchanged::Form("it has names twice".into()));
    }
    Ok(edited)
}

fn parsed(plain: &str) -> Result<Value, Unchanged> {
    serde_json::from_str(plain).map_err(|error| Unchanged::Syntax(error.to_string()))
}

/// The text with spaces for comments and for commas before closing brackets. Every byte stays where it is.
fn plain(text: &str) -> String {
    let mut out: Vec<u8> = text.bytes().collect();
    let mut blank = |range: Range<usize>| {
        for byte in out.get_mut(range).into_iter().flatten() {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    };
    let bytes = text.as_bytes();
    let (mut at, mut comma) = (0, None);
    while let Some(byte) = bytes.get(at) {
        let rest = bytes.get(at..).unwrap_or_default();
        let length = match byte {
            b'"' => string(rest),
            b'/' if rest.starts_with(b"//") => rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()),
            b'/' if rest.starts_with(b"/*") => rest
                .get(2..)
                .and_then(|rest| rest.windows(2).position(|pair| pair == b"*/"))
                .map_or(rest.len(), |end| end + 4),
            _ => 1,
        };
        match byte {
            b'/' if length > 1 => blank(at..at + length),
            b',' => comma = Some(at),
            b'}' | b']' => {
                if let Some(comma) = comma.take() {
                    blank(comma..comma + 1);
                }
            }
            byte if byte.is_ascii_whitespace() => {}
            _ => comma = None,
        }
        at += length;
    }
    // Only ASCII was put in the place of whole characters.
    String::from_utf8(out).unwrap_or_default()
}

/// How long the string is that this begins with.
fn string(bytes: &[u8]) -> usize {
    let (mut at, mut is_escaped) = (1, false);
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => break,
            _ => {}
        }
    }
    at
}

/// Where the value of a member is, of the object that begins at `open`, in valid JSON.
fn member(plain: &str, open: usize, name: &str) -> Option<Range<usize>> {
    let bytes = plain.as_bytes();
    let (mut at, mut depth) = (open, 0_usize);
    let (mut key, mut value): (Option<String>, Option<usize>) = (None, None);
    while let Some(byte) = bytes.get(at) {
        let length = if *byte == b'"' { string(bytes.get(at..)?) } else { 1 };
        match byte {
            b'"' if depth == 1 && value.is_none() => key = serde_json::from_str(plain.get(at..at + length)?).ok(),
            b':' if depth == 1 => value = Some(at + 1),
            b'{' | b'[' => depth += 1,
            b'}' | b']' | b',' => {
                if depth == 1
                    && let Some(begins) = value.take()
                    && key.as_deref() == Some(name)
                {
                    let text = plain.get(begins..at)?;
                    let begins = begins + (text.len() - text.trim_start().len());
                    return Some(begins..begins + text.trim().len());
                }
                if *byte != b',' {
                    depth = depth.checked_sub(1)?;
                    if depth == 0 {
                        return None;
                    }
                }
            }
            _ => {}
        }
        at += length;
    }
    None
}

fn replaced(text: &str, range: Range<usize>, by: &str) -> String {
    let mut out = text.to_owned();
    out.replace_range(range, by);
    out
}

/// The text with a new first member of the object that begins at `open`.
fn inserted(text: &str, plain: &str, open: usize, member: &str, closing: &str) -> String {
    let rest = plain.get(open + 1..).unwrap_or_default();
    let is_empty = rest.trim_start().starts_with('}');
    let after = match (is_empty, rest.starts_with('\n') || rest.starts_with("\r\n")) {
        (false, true) => ",".to_owned(),
        (false, false) => ",\n".to_owned(),
        (true, true) => String::new(),
        (true, false) => format!("\n{closing}"),
    };
    replaced(text, open + 1..open + 1, &format!("\n{member}{after}"))
}

fn line(name: &str, entry: &Value, unit: &str, depth: usize) -> String {
    format!("{}: {}", Value::from(name), pretty(entry, unit, depth))
}

/// A value over several lines, as deep as it stands.
fn pretty(value: &Value, unit: &str, depth: usize) -> String {
    let text = format!("{value:#}");
    let mut lines = text.lines().map(|line| {
        let inner = line.trim_start();
        format!("{}{inner}", unit.repeat((line.len() - inner.len()) / 2))
    });
    let first = lines.next().unwrap_or_default();
    lines.fold(first, |text, line| format!("{text}\n{}{line}", unit.repeat(depth)))
}

/// What the file's lines are indented by.
fn indent(text: &str) -> String {
    let line = text.lines().find(|line| line.starts_with([' ', '\t']) && line.trim_start().starts_with('"'));
    let found = line.map(|line| &line[..line.len() - line.trim_start().len()]);
    found.filter(|unit| unit.len() <= 8).unwrap_or("  ").to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry() -> Value {
        json!({ "command": "glovebox", "args": ["mcp"] })
    }

    fn edited(text: &str) -> String {
        with_entry(text, "mcpServers", "glovebox", &entry()).unwrap()
    }

    #[test]
    fn a_file_is_made_where_there_is_none() {
        assert_eq!(
            serde_json::from_str::<Value>(&edited("")).unwrap(),
            json!({ "mcpServers": { "glovebox": entry() } })
        );
    }

    #[test]
    fn other_entries_comments_order_and_layout_stay() {
        let text = "// mine\n{\n    \"z\": 1, /* why */\n    \"mcpServers\": {\n        \"a\": { \"command\": \"x\", }, // tail\n    },\n    \"b\": \"}\\\"{\",\n}\n";
        assert_eq!(
            edited(text),
            "// mine\n{\n    \"z\": 1, /* why */\n    \"mcpServers\": {\n        \"glovebox\": {\n            \"args\": [\n                \
             \"mcp\"\n            ],\n            \"command\": \"glovebox\"\n        },\n        \"a\": { \"command\": \"x\", }, // tail\n    \
             },\n    \"b\": \"}\\\"{\",\n}\n"
        );
    }

    #[test]
    fn a_second_time_changes_nothing_and_another_entry_takes_the_place() {
        for text in [
            "",
            "{}",
            "{\n}\n",
            "{\"mcpServers\":{}}",
            "{\"mcpServers\": {\n  }}",
            "{\"a\": [1, {\"mcpServers\": 2}]}",
            "\u{feff}{}",
        ] {
            let once = edited(text);
            assert_eq!(edited(&once), once, "{text}");
            let other = with_entry(&once, "mcpServers", "glovebox", &json!({ "command": "other" })).unwrap();
            assert!(other.contains("other") && !other.contains("args"), "{other}");
            assert_eq!(
                serde_json::from_str::<Value>(&plain(&edited(&other))).unwrap(),
                serde_json::from_str::<Value>(&plain(&once)).unwrap()
            );
        }
    }

    #[test]
    fn what_cannot_be_changed_is_left_and_says_where() {
        for (text, expected) in [
            ("{\n  \"a\": 1\n  \"b\": 2\n}", Unchanged::Syntax("expected `,` or `}` at line 3 column 3".into())),
            ("[]", Unchanged::Form("it is not an object".into())),
            ("{\"mcpServers\": []}", Unchanged::Form("its `mcpServers` is not an object".into())),
            ("{\"mcpServers\": {}, \"mcpServers\": {}}", Unchanged::Form("it has names twice".into())),
        ] {
            assert_eq!(with_entry(text, "mcpServers", "glovebox", &entry()), Err(expected), "{text}");
        }
        for text in ["{", "{\"a\": \"", "{} x", "/*", "nonsense", "{\"a\\"] {
            let error = with_entry(text, "mcpServers", "glovebox", &entry()).unwrap_err();
            assert!(matches!(&error, Unchanged::Syntax(why) if why.contains("line 1 column")), "{text}: {error:?}");
        }
    }
}
