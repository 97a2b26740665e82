//! The texts about type errors that clients can request (`type_check_format`). The machine-readable formats have the
//! same members as [ruff's](https://docs.astral.sh/ruff/settings/#output-format): Monty contains ruff's library.

use serde_json::{Value, json};

use crate::typecheck::{SnippetError, SnippetFormat};

/// A format of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorFormat {
    Full,
    Concise,
    Azure,
    Json,
    JsonLines,
    Rdjson,
    Pylint,
    Gitlab,
    Github,
}

impl ErrorFormat {
    /// Returns the format with this number in the protocol, which defines `full` as the format of unknown numbers.
    pub(super) fn of(number: u64) -> Self {
        match number {
            2 => Self::Concise,
            3 => Self::Azure,
            4 => Self::Json,
            5 => Self::JsonLines,
            6 => Self::Rdjson,
            7 => Self::Pylint,
            8 => Self::Gitlab,
            9 => Self::Github,
            _ => Self::Full,
        }
    }

    /// Returns the checker's format, or `None` if the checker does not write this format.
    pub(super) fn written_by_checker(self, is_colored: bool) -> Option<SnippetFormat> {
        match self {
            Self::Full => Some(SnippetFormat::Full { is_colored }),
            Self::Gitlab => Some(SnippetFormat::Gitlab),
            Self::Github => Some(SnippetFormat::Github),
            Self::Concise | Self::Azure | Self::Json | Self::JsonLines | Self::Rdjson | Self::Pylint => None,
        }
    }

    /// Describes errors in this format, with colors only in `concise`. For the formats that the checker writes, returns
    /// the text in `concise`.
    pub(super) fn describe(self, errors: &[SnippetError], name: &str, is_colored: bool) -> String {
        match self {
            Self::Json => Value::Array(errors.iter().map(|error| object(error, name)).collect()).to_string(),
            Self::JsonLines => errors.iter().map(|error| format!("{}\n", object(error, name))).collect(),
            Self::Rdjson => rdjson(errors, name).to_string(),
            Self::Azure => {
                // These characters separate the properties of a command.
                let name = name.replace('%', "%AZP25").replace(';', "%3B").replace(']', "%5D");
                let lines = errors.iter().map(|SnippetError { line, column, rule, message }| {
                    format!(
                        "##vso[task.logissue type=error;sourcepath={name};linenumber={line};columnnumber={column};\
                         code={rule};]{message}\n"
                    )
                });
                lines.collect()
            }
            Self::Pylint => errors
                .iter()
                .map(|SnippetError { line, rule, message, .. }| format!("{name}:{line}: [{rule}] {message}\n"))
                .collect(),
            Self::Full | Self::Concise | Self::Gitlab | Self::Github if is_colored => {
                errors.iter().map(|error| colored(error, name)).collect()
            }
            Self::Full | Self::Concise | Self::Gitlab | Self::Github => errors
                .iter()
                .map(|SnippetError { line, column, rule, message }| {
                    format!("{name}:{line}:{column}: error[{rule}] {message}\n")
                })
                .collect(),
        }
    }
}

/// Describes an error in a line, with the checker's own colors.
fn colored(error: &SnippetError, name: &str) -> String {
    let SnippetError { line, column, rule, message } = error;
    let (end, bold, red, cyan) = ("\x1b[0m", "\x1b[1m", "\x1b[91m", "\x1b[36m");
    let colon = format!("{cyan}:{end}");
    format!("{bold}{name}{end}{colon}{line}{colon}{column}{colon} {bold}{red}error{end}[{bold}{rule}{end}] {message}\n")
}

/// Describes an error with the names that the checker uses in its own JSON.
fn object(error: &SnippetError, name: &str) -> Value {
    let SnippetError { line, column, rule, message } = error;
    json!({
        "name": rule, "code": rule, "severity": "error", "message": message, "filename": name,
        "location": { "row": line, "column": column },
    })
}

/// Describes errors in the [Reviewdog Diagnostic Format](https://github.com/reviewdog/reviewdog/tree/master/proto/rdf).
fn rdjson(errors: &[SnippetError], name: &str) -> Value {
    let diagnostics: Vec<Value> = errors
        .iter()
        .map(|SnippetError { line, column, rule, message }| {
            json!({
                "code": { "value": rule }, "severity": "ERROR", "message": message,
                "location": { "path": name, "range": { "start": { "line": line, "column": column } } },
            })
        })
        .collect();
    let source = json!({ "name": "ty", "url": "https://docs.astral.sh/ty" });
    json!({ "diagnostics": diagnostics, "severity": "ERROR", "source": source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_described_in_the_formats_of_the_protocol() {
        let error = SnippetError { line: 2, column: 5, rule: "rule".to_owned(), message: "`a` \"b\"".to_owned() };
        let json = r#"{"code":"rule","filename":"a.py","location":{"column":5,"row":2},"message":"`a` \"b\"","#;
        let json: Value = serde_json::from_str(&format!(r#"{json}"name":"rule","severity":"error"}}"#)).unwrap();
        let errors = std::slice::from_ref(&error);
        let describe = |number| ErrorFormat::of(number).describe(errors, "a.py", false);
        assert_eq!(describe(2), "a.py:2:5: error[rule] `a` \"b\"\n");
        let azure = "##vso[task.logissue type=error;sourcepath=a.py;linenumber=2;columnnumber=5;code=rule;]`a` \"b\"\n";
        assert_eq!(describe(3), azure);
        assert_eq!(describe(7), "a.py:2: [rule] `a` \"b\"\n");
        assert_eq!(serde_json::from_str::<Value>(&describe(4)).unwrap(), json!([json]));
        assert_eq!(serde_json::from_str::<Value>(describe(5).trim_end()).unwrap(), json);
        let report: Value = serde_json::from_str(&describe(6)).unwrap();
        assert_eq!(report.pointer("/diagnostics/0/location/range/start"), Some(&json!({ "line": 2, "column": 5 })));
        assert_eq!(report.pointer("/diagnostics/0/code/value"), Some(&json!("rule")));
        assert_eq!(report.pointer("/diagnostics/0/location/path"), Some(&json!("a.py")));
        for number in [0, 1, 10, u64::MAX] {
            assert_eq!(ErrorFormat::of(number), ErrorFormat::Full, "{number}");
        }
        let azure = ErrorFormat::Azure.describe(errors, "a;b].py", true);
        assert!(azure.starts_with("##vso[task.logissue type=error;sourcepath=a%3Bb%5D.py;linenumber=2;"), "{azure}");
    }

    #[test]
    fn only_formats_for_people_have_colors() {
        let error = SnippetError { line: 2, column: 5, rule: "rule".to_owned(), message: "`a`".to_owned() };
        let describe = |number| ErrorFormat::of(number).describe(std::slice::from_ref(&error), "a.py", true);
        let colored = "\x1b[1ma.py\x1b[0m\x1b[36m:\x1b[0m2\x1b[36m:\x1b[0m5\x1b[36m:\x1b[0m \
                       \x1b[1m\x1b[91merror\x1b[0m[\x1b[1mrule\x1b[0m] `a`\n";
        assert_eq!(describe(2), colored);
        for number in 3..=7 {
            assert!(!describe(number).contains('\x1b'), "{number}");
        }
        assert_eq!(ErrorFormat::Full.written_by_checker(true), Some(SnippetFormat::Full { is_colored: true }));
    }
}
