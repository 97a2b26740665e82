//! Commands of the REPL, such as `:fork` and `:undo`.

use std::fmt::Write as _;

use crate::terminal::HintedError;

/// A command: a line that begins with a colon. No valid code in either language begins with one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Directive {
    Help(Option<String>),
    Fork(String),
    Switch(Option<String>),
    Undo(u64),
    Save(String),
    Load(String),
    Files(Option<String>),
    Limits,
    Reset,
    Quit,
}

/// The description of a command.
struct Entry {
    name: &'static str,
    arguments: &'static str,
    summary: &'static str,
    details: &'static str,
}

const ENTRIES: [Entry; 10] = [
    Entry {
        name: "help",
        arguments: "[COMMAND]",
        summary: "explain the commands, or one of them",
        details: "A command's name can be abbreviated as long as it is unambiguous: `:q` is `:quit`.",
    },
    Entry {
        name: "fork",
        arguments: "NAME",
        summary: "copy this session to a new one",
        details: "Both have the same variables, functions, imports and files; later changes in one are invisible in\n\
                  the other. You stay in this session; `:switch NAME` switches to the new one.",
    },
    Entry {
        name: "switch",
        arguments: "[NAME]",
        summary: "switch to another session, or list them",
        details: "The session you leave is unchanged.",
    },
    Entry {
        name: "undo",
        arguments: "[N]",
        summary: "undo the last input, or the last N",
        details: "Variables and files return to their earlier state. Printed output and changes in host directories\n\
                  are not undone.",
    },
    Entry {
        name: "save",
        arguments: "FILE",
        summary: "write the session to a host file",
        details: "`:load FILE` restores it, here or on another machine with the same interpreter. The file\n\
                  contains all of its variables.",
    },
    Entry {
        name: "load",
        arguments: "FILE",
        summary: "replace this session with one from a host file",
        details: "The content of this session is lost unless you `:save` or `:fork` it first.",
    },
    Entry {
        name: "files",
        arguments: "[PATTERN]",
        summary: "list the files in /app, or those that match a pattern",
        details: "Patterns are globs; `**` matches any number of directories: `:files 'src/**'`, `:files *.csv`.",
    },
    Entry {
        name: "limits",
        arguments: "",
        summary: "show the limits of an input",
        details: "They apply to each input separately. Flags set them when the REPL starts: `glovebox repl --fuel N`.",
    },
    Entry {
        name: "reset",
        arguments: "",
        summary: "start again with a new, empty session",
        details: "Its variables and files are lost. Other sessions are unaffected.",
    },
    Entry { name: "quit", arguments: "", summary: "quit, as Ctrl-D does", details: "" },
];

/// Returns `true` if the line is a command.
pub(super) fn is_one(line: &str) -> bool {
    line.starts_with(':')
}

/// Returns the commands that begin with `typed`, in the form in which a user types them.
pub(super) fn completions(typed: &str) -> Vec<String> {
    let begun = typed.trim_start_matches(':');
    let fitting = ENTRIES.iter().filter(|entry| entry.name.starts_with(begun));
    fitting.map(|entry| format!(":{}{}", entry.name, if entry.arguments.is_empty() { "" } else { " " })).collect()
}

/// Returns the possibly incomplete host path in a command. `None` if the command takes no file.
pub(super) fn file_argument(typed: &str) -> Option<&str> {
    let (name, rest) = typed.trim_start_matches(':').trim_start().split_once(char::is_whitespace)?;
    let entry = find(name).ok()?;
    (entry.arguments == "FILE").then(|| rest.trim_start().trim_start_matches(['\'', '"']))
}

fn find(name: &str) -> Result<&'static Entry, HintedError> {
    let hint = "`:help` lists the commands";
    let mut fitting = ENTRIES.iter().filter(|entry| !name.is_empty() && entry.name.starts_with(name));
    match (fitting.next(), fitting.next()) {
        (Some(entry), None) => Ok(entry),
        (Some(first), Some(second)) if first.name != name => {
            Err(HintedError::new(format!("`:{name}` is ambiguous; use `:{}` or `:{}`", first.name, second.name), hint))
        }
        (Some(entry), Some(_)) => Ok(entry),
        (None, _) => Err(HintedError::new(format!("unknown command `:{name}`"), hint)),
    }
}

/// Parses a line that begins with a colon.
pub(super) fn parse(line: &str) -> Result<Directive, HintedError> {
    let line = line.trim_start_matches(':').trim();
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = unquoted(rest.trim());
    let entry = find(name)?;
    let usage = || format!("write `:{} {}`", entry.name, entry.arguments);
    let optional = || (!rest.is_empty()).then(|| rest.to_owned());
    let required = || match rest {
        "" => Err(HintedError::new(format!("`:{}` needs an argument", entry.name), usage())),
        rest => Ok(rest.to_owned()),
    };
    let none = |directive| match rest {
        "" => Ok(directive),
        _ => Err(HintedError::new(format!("`:{}` takes no argument", entry.name), usage())),
    };
    match entry.name {
        "help" => Ok(Directive::Help(optional())),
        "fork" => required().map(Directive::Fork),
        "switch" => Ok(Directive::Switch(optional())),
        "undo" if rest.is_empty() => Ok(Directive::Undo(1)),
        "undo" => match rest.parse() {
            Ok(count) if count > 0 => Ok(Directive::Undo(count)),
            _ => Err(HintedError::new(format!("`{rest}` is not a number of inputs"), usage())),
        },
        "save" => required().map(Directive::Save),
        "load" => required().map(Directive::Load),
        "files" => Ok(Directive::Files(optional())),
        "limits" => none(Directive::Limits),
        "reset" => none(Directive::Reset),
        _ => none(Directive::Quit),
    }
}

/// Removes a pair of quotes around the whole text, as a shell would.
fn unquoted(text: &str) -> &str {
    ['\'', '"'].into_iter().find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote)).unwrap_or(text)
}

/// Returns the output of `:help`.
pub(super) fn help(name: Option<&str>) -> Result<String, HintedError> {
    let typed = |entry: &Entry| format!(":{} {}", entry.name, entry.arguments).trim_end().to_owned();
    let mut text = String::new();
    match name {
        Some(name) => {
            let entry = find(name.trim_start_matches(':'))?;
            let _ = writeln!(text, "{}: {}", typed(entry), entry.summary);
            if !entry.details.is_empty() {
                let _ = writeln!(text, "{}", entry.details);
            }
        }
        None => {
            for entry in &ENTRIES {
                let _ = writeln!(text, "{:<17} {}", typed(entry), entry.summary);
            }
            text.push_str(
                "Anything else is code; `_` is the last value. Tab completes, Ctrl-R searches the history,\n",
            );
            text.push_str("Ctrl-C stops the running input or clears the line, and Ctrl-D quits.\n");
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::{Directive, ENTRIES, completions, file_argument, help, parse};

    #[test]
    fn directives_are_parsed_in_full_or_abbreviated() {
        for (line, directive) in [
            (":quit", Directive::Quit),
            (":q", Directive::Quit),
            (":undo", Directive::Undo(1)),
            (":u 12", Directive::Undo(12)),
            (":fork  b ", Directive::Fork("b".into())),
            (":switch", Directive::Switch(None)),
            (":save a b.glovebox", Directive::Save("a b.glovebox".into())),
            (":save 'a b.glovebox'", Directive::Save("a b.glovebox".into())),
            (":files \"src/**\"", Directive::Files(Some("src/**".into()))),
            (":help :undo", Directive::Help(Some(":undo".into()))),
            (": limits", Directive::Limits),
        ] {
            assert_eq!(parse(line).unwrap(), directive, "{line}");
        }
    }

    #[test]
    fn files_of_directives_are_recognised() {
        for (typed, path) in [
            (":load a/b", Some("a/b")),
            (":sa  'a b", Some("a b")),
            (":load ", Some("")),
            (":load", None),
            (":files a", None),
            (":s a", None),
        ] {
            assert_eq!(file_argument(typed), path, "{typed}");
        }
    }

    #[test]
    fn unknown_directive_is_named() {
        for (line, message) in [
            (":", "unknown command `:`"),
            (":frok b", "unknown command `:frok`"),
            (":s x", "`:s` is ambiguous; use `:switch` or `:save`"),
            (":fork", "`:fork` needs an argument"),
            (":quit now", "`:quit` takes no argument"),
            (":undo 0", "`0` is not a number of inputs"),
            (":undo all", "`all` is not a number of inputs"),
        ] {
            assert_eq!(parse(line).unwrap_err().to_string(), message, "{line}");
        }
    }

    #[test]
    fn every_directive_is_explained_and_completed() {
        let all = help(None).unwrap();
        for entry in &ENTRIES {
            assert!(all.contains(&format!(":{}", entry.name)), "{}", entry.name);
            assert!(help(Some(entry.name)).unwrap().starts_with(&format!(":{}", entry.name)));
            assert!(completions(":").iter().any(|completion| completion.trim_end() == format!(":{}", entry.name)));
        }
        assert_eq!(completions(":fo"), [":fork "]);
        assert!(help(Some("frok")).is_err());
    }
}
