//! Changing one table of a file of TOML, and nothing else in it.

use toml::{Table, Value};

use super::json::Unchanged;

/// The text with a server under `mcp_servers.NAME`. What is there under this name is replaced.
pub(super) fn with_server(text: &str, name: &str, command: &str, args: &[String]) -> Result<String, Unchanged> {
    let mut expected = parsed(text)?;
    let servers = expected.entry("mcp_servers").or_insert_with(|| Value::Table(Table::new()));
    let Value::Table(servers) = servers else {
        return Err(Unchanged::Form("its `mcp_servers` is not a table".into()));
    };
    let entry = [("command", Value::from(command)), ("args", Value::from(args.to_vec()))];
    servers.insert(
        name.to_owned(),
        Value::Table(entry.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()),
    );
    let header = format!("[mcp_servers.{name}]");
    let table = format!("{header}\ncommand = {}\nargs = {}\n", Value::from(command), Value::from(args.to_vec()));
    let edited = match text.lines().any(|line| is_header(line, &header)) {
        true => replaced(text, &header, &table),
        false if text.trim().is_empty() => table,
        false => format!("{}\n\n{table}", text.trim_end()),
    };
    // A table that is written otherwise, or a header within a text: nothing is changed then.
    if parsed(&edited).ok() != Some(expected) {
        return Err(Unchanged::Form(format!("its `mcp_servers.{name}` is written in a way that this cannot change")));
    }
    Ok(edited)
}

fn parsed(text: &str) -> Result<Table, Unchanged> {
    text.parse().map_err(|error: toml::de::Error| Unchanged::Syntax(error.to_string().trim_end().to_owned()))
}

/// Whether a line is this header, with or without a comment.
fn is_header(line: &str, header: &str) -> bool {
    let rest = line.trim_start().strip_prefix(header).map(str::trim_start);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
}

/// The text with another table in the place of the one with this header, and of the tables within it.
fn replaced(text: &str, header: &str, table: &str) -> String {
    let within = format!("{}.", header.trim_end_matches(']'));
    let (mut out, mut is_inside) = (String::new(), false);
    for line in text.split_inclusive('\n') {
        if is_header(line, header) {
            is_inside = true;
            out.push_str(table);
            continue;
        }
        if is_inside && line.trim_start().starts_with('[') && !line.trim_start().starts_with(&within) {
            is_inside = false;
            out.push('\n');
        }
        if !is_inside {
            out.push_str(line);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(text: &str) -> Result<String, Unchanged> {
        with_server(text, "glovebox", "/bin/glovebox", &["mcp".to_owned()])
    }

    const ADDED: &str = "[mcp_servers.glovebox]\ncommand = \"/bin/glovebox\"\nargs = [\"mcp\"]\n";

    #[test]
    fn other_tables_and_comments_stay() {
        assert_eq!(edited("").unwrap(), ADDED);
        let text = "# mine\nmodel = \"x\" # why\n\n[mcp_servers.a]\ncommand = \"b\"\n\n";
        assert_eq!(
            edited(text).unwrap(),
            format!("# mine\nmodel = \"x\" # why\n\n[mcp_servers.a]\ncommand = \"b\"\n\n{ADDED}")
        );
    }

    #[test]
    fn a_second_time_changes_nothing_and_another_entry_is_replaced() {
        let text = "a = 1\n\n[mcp_servers.glovebox] # old\ncommand = \"old\"\nenv = { A = \"b\" }\n\n[mcp_servers.glovebox.tools]\nx = 1\n\n[z]\n# z\ny = 2\n";
        let once = edited(text).unwrap();
        assert_eq!(once, format!("a = 1\n\n{ADDED}\n[z]\n# z\ny = 2\n"));
        assert_eq!(edited(&once).unwrap(), once);
    }

    #[test]
    fn what_cannot_be_changed_is_left_and_says_where() {
        let Err(Unchanged::Syntax(why)) = edited("a = 1\nb = = 2\n") else { panic!("it was changed") };
        assert!(why.contains("line 2"), "{why}");
        for text in [
            "mcp_servers = 1",
            "mcp_servers = { glovebox = { command = \"x\" } }",
            "[mcp_servers]\nglovebox = { command = \"x\" }\n",
            "text = '''\n[mcp_servers.glovebox]\n'''\n",
        ] {
            assert!(matches!(edited(text), Err(Unchanged::Form(_))), "{text}");
        }
    }
}
