//! Hostile scripts, read from `hostile/*.toml`.

use std::{fs, path::Path};

use glovebox::Language;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    language: Option<Language>,
    row: Vec<RowFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RowFile {
    name: String,
    language: Option<Language>,
    source: Option<String>,
    #[serde(default)]
    setup: String,
    call: Option<String>,
    outcome: String,
    #[serde(default)]
    stdout: String,
}

/// A hostile script and its exact outcome.
#[derive(Clone, Debug)]
pub struct Row {
    /// The name, prefixed with its file's name: `peers/repeat`.
    pub name: String,
    /// The script's language.
    pub language: Language,
    /// The source text.
    pub source: String,
    /// The outcome, in the format of [`short`](crate::short).
    pub outcome: String,
    /// A substring of standard output.
    pub stdout: String,
}

/// Reads all rows.
pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for file in ["peers", "calls", "deep-python", "deep-javascript"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("hostile").join(file).with_extension("toml");
        let table: Table =
            toml::from_str(&fs::read_to_string(path).unwrap()).unwrap_or_else(|error| panic!("{file}: {error}"));
        for row in table.row {
            let language = row.language.or(table.language).expect("a row has a language");
            let source = match (row.source, row.call) {
                (Some(source), None) => source,
                (None, Some(call)) => caught(language, &row.setup, &call),
                _ => panic!("{file}: `{}` has either `source` or `call`", row.name),
            };
            let name = format!("{file}/{}", row.name);
            rows.push(Row { name, language, source, outcome: row.outcome, stdout: row.stdout });
        }
    }
    rows
}

/// Returns a script that prints the exception raised by `call`, and then shows that the script still runs.
fn caught(language: Language, setup: &str, call: &str) -> String {
    match language {
        Language::Python => format!(
            "{setup}\ntry:\n    {call}\n    print('through')\nexcept Exception as e:\n    print(type(e).__name__)\n\
             print('alive', sum(range(10)))"
        ),
        Language::JavaScript => format!(
            "{setup};\ntry {{ {call}; console.log('through') }} catch (e) {{ console.log(e.name) }}\n\
             console.log('alive', [1, 2, 3].map((x) => x * 2).join())"
        ),
    }
}

impl Row {
    /// Returns `true` if only the time limit stops the script.
    pub fn is_endless(&self) -> bool {
        self.outcome == "exhausted time"
    }

    /// Returns a script that prints `usable`, to check that the interpreter still works.
    pub fn usable(&self) -> &'static str {
        match self.language {
            Language::Python => "print('usable')",
            Language::JavaScript => "console.log('usable')",
        }
    }
}
