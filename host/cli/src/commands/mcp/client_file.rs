//! Adds a server to the configuration file of an MCP client. All other entries keep their comments and layout.

use jsonc_parser::{
    ParseOptions,
    cst::{CstInputValue, CstNode, CstObject, CstRootNode},
};
use serde_json::Value;
use toml_edit::{DocumentMut, Item, Table, value};

/// The reason why a file cannot be edited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EditError {
    /// A syntax error, with its position.
    Syntax(String),
    /// A valid file to which the server cannot be added.
    Form(String),
}

/// Parser options for JSON with comments and trailing commas, as editors accept it.
const JSON: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Sets `container.name` to `entry` in a JSON file.
pub(super) fn add_to_json(text: &str, container: &str, name: &str, entry: &Value) -> Result<String, EditError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let root = CstRootNode::parse(text, &JSON).map_err(|error| EditError::Syntax(error.to_string()))?;
    let not_an_object = || EditError::Form("it is not an object".into());
    let top = root.object_value_or_create().ok_or_else(not_an_object)?;
    check_unique(&top, container)?;
    let servers = top.object_value_or_create(container);
    let servers = servers.ok_or_else(|| EditError::Form(format!("its `{container}` is not an object")))?;
    check_unique(&servers, name)?;
    match servers.get(name) {
        Some(property) if property.value().as_ref().and_then(CstNode::to_serde_value).as_ref() == Some(entry) => {
            return Ok(text.to_owned());
        }
        Some(property) => property.set_value(cst_input(entry)),
        None => drop(servers.append(name, cst_input(entry))),
    }
    let edited = root.to_string();
    Ok(if edited.ends_with('\n') { edited } else { edited + "\n" })
}

/// Rejects an object that contains the name twice, because different programs would use different values.
fn check_unique(object: &CstObject, name: &str) -> Result<(), EditError> {
    let has_name = |property: &jsonc_parser::cst::CstObjectProp| property.decoded_name().as_deref() == Some(name);
    if object.properties().iter().filter(|property| has_name(property)).count() > 1 {
        return Err(EditError::Form(format!("it contains `{name}` more than once")));
    }
    Ok(())
}

fn cst_input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(bool) => CstInputValue::Bool(*bool),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(cst_input).collect()),
        Value::Object(members) => {
            CstInputValue::Object(members.iter().map(|(name, value)| (name.clone(), cst_input(value))).collect())
        }
    }
}

/// Sets the `mcp_servers.name` table in a TOML file.
pub(super) fn add_to_toml(text: &str, name: &str, command: &str, args: &[String]) -> Result<String, EditError> {
    let parsed = text.parse::<DocumentMut>();
    let mut document = parsed.map_err(|error| EditError::Syntax(error.to_string().trim_end().to_owned()))?;
    let mut implicit = Table::new();
    implicit.set_implicit(true);
    let servers = document.entry("mcp_servers").or_insert(Item::Table(implicit));
    let servers = servers.as_table_like_mut();
    let servers = servers.ok_or_else(|| EditError::Form("its `mcp_servers` is not a table".into()))?;
    let mut server = Table::new();
    server.insert("command", value(command));
    server.insert("args", value(args.iter().collect::<toml_edit::Array>()));
    if let Some(before) = servers.get(name).and_then(Item::as_table) {
        *server.decor_mut() = before.decor().clone();
        server.set_position(before.position());
    }
    servers.insert(name, Item::Table(server));
    Ok(document.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry() -> Value {
        json!({ "command": "glovebox", "args": ["mcp"] })
    }

    fn edited_json(text: &str) -> Result<String, EditError> {
        add_to_json(text, "mcpServers", "glovebox", &entry())
    }

    fn edited_toml(text: &str) -> Result<String, EditError> {
        add_to_toml(text, "glovebox", "/bin/glovebox", &["mcp".to_owned()])
    }

    #[test]
    fn json_keeps_other_entries_comments_order_and_layout() {
        let text = "// mine\n{\n    \"z\": 1, /* why */\n    \"mcpServers\": {\n        \"a\": { \"command\": \"x\", }, // tail\n    },\n    \"b\": \"}\\\"{\",\n}\n";
        let edited = edited_json(text).unwrap();
        for line in text.lines() {
            assert!(edited.contains(line), "{line} is missing: {edited}");
        }
        assert!(edited.contains("\n        \"glovebox\": {\n            \"args\": ["), "{edited}");
    }

    #[test]
    fn json_is_edited_once_and_an_entry_is_replaced() {
        for text in [
            "",
            "{}",
            "{\n}\n",
            "{\"mcpServers\":{}}",
            "{\"mcpServers\": {\n  }}",
            "{\"a\": [1, {\"mcpServers\": 2}]}",
            "\u{feff}{}",
        ] {
            let once = edited_json(text).unwrap();
            let read = CstRootNode::parse(&once, &JSON).unwrap().to_serde_value().unwrap();
            assert_eq!(read["mcpServers"]["glovebox"], entry(), "{once}");
            assert_eq!(edited_json(&once).unwrap(), once, "{text}");
            let other = add_to_json(&once, "mcpServers", "glovebox", &json!({ "command": "other" })).unwrap();
            assert!(other.contains("other") && !other.contains("args"), "{other}");
            assert_eq!(edited_json(&other).unwrap(), once);
        }
    }

    #[test]
    fn json_that_cannot_be_edited_is_refused_with_the_position() {
        for (text, expected) in [
            ("[]", "it is not an object"),
            ("{\"mcpServers\": []}", "its `mcpServers` is not an object"),
            ("{\"mcpServers\": {}, \"mcpServers\": {}}", "it contains `mcpServers` more than once"),
            ("{\"mcpServers\": {\"glovebox\": 1, \"glovebox\": 2}}", "it contains `glovebox` more than once"),
        ] {
            assert_eq!(edited_json(text), Err(EditError::Form(expected.into())), "{text}");
        }
        for (text, line) in [
            ("{\n  \"a\": 1\n  \"b\": 2\n}", 2),
            ("{", 1),
            ("{\"a\": \"", 1),
            ("{} x", 1),
            ("/*", 1),
            ("nonsense", 1),
            ("{\"a\\", 1),
            ("{'a': 1}", 1),
        ] {
            let Err(EditError::Syntax(why)) = edited_json(text) else { panic!("{text} was edited") };
            assert!(why.contains(&format!("line {line}")), "{text}: {why}");
        }
    }

    const ADDED: &str = "[mcp_servers.glovebox]\ncommand = \"/bin/glovebox\"\nargs = [\"mcp\"]\n";

    #[test]
    fn toml_keeps_other_tables_and_comments() {
        assert_eq!(edited_toml("").unwrap(), ADDED);
        let text = "# mine\nmodel = \"x\" # why\n\n[mcp_servers.a]\ncommand = \"b\"\n";
        assert_eq!(edited_toml(text).unwrap(), format!("{text}\n{ADDED}"));
    }

    #[test]
    fn toml_is_edited_once_and_a_table_is_replaced() {
        let text = "a = 1\n\n[mcp_servers.glovebox] # old\ncommand = \"old\"\nenv = { A = \"b\" }\n\n[mcp_servers.glovebox.tools]\nx = 1\n\n[z]\n# z\ny = 2\n";
        let once = edited_toml(text).unwrap();
        let expected = ADDED.replacen("]\n", "] # old\n", 1);
        assert_eq!(once, format!("a = 1\n\n{expected}\n[z]\n# z\ny = 2\n"));
        assert_eq!(edited_toml(&once).unwrap(), once);
        for text in [
            "mcp_servers = { glovebox = { command = \"x\" } }",
            "[mcp_servers]\nglovebox = { command = \"x\" }\n",
            "text = '''\n[mcp_servers.glovebox]\n'''\n",
        ] {
            let read: DocumentMut = edited_toml(text).unwrap().parse().unwrap();
            assert_eq!(read["mcp_servers"]["glovebox"]["command"].as_str(), Some("/bin/glovebox"), "{text}");
        }
    }

    #[test]
    fn toml_that_cannot_be_edited_is_refused_with_the_position() {
        let Err(EditError::Syntax(why)) = edited_toml("a = 1\nb = = 2\n") else { panic!("it was edited") };
        assert!(why.contains("line 2"), "{why}");
        assert_eq!(edited_toml("mcp_servers = 1"), Err(EditError::Form("its `mcp_servers` is not a table".into())));
    }
}
