//! Flags for the code to run, its interpreter, the `context` variable, and tools that are host programs.

use std::{
    fs::File,
    path::{Path, PathBuf},
    str::FromStr,
};

use clap::Args;
use glovebox::{JsonText, Language, Policy, Tool};

use crate::{
    program::Program,
    source::bounded,
    terminal::{HintedError, OrHint as _},
};

/// The code: files, standard input, or text on the command line.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct CodeArgs {
    /// Scripts to run, one after another; `-` reads one from standard input
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// Code to run; Python unless --language is given
    #[arg(short = 'e', long = "eval", value_name = "CODE", allow_hyphen_values = true)]
    pub(crate) eval: Option<String>,
}

/// The code and its language.
#[derive(Args, Debug)]
pub(crate) struct SourceArgs {
    #[command(flatten)]
    pub(crate) code: CodeArgs,

    /// Language: python, javascript or typescript [default: by the file's extension: .py .pyw, .js .mjs .cjs, .ts .mts
    /// .cts]
    #[arg(short, long, value_name = "LANGUAGE")]
    pub(crate) language: Option<LanguageArg>,
}

/// A language on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LanguageArg {
    Python,
    JavaScript,
    /// JavaScript after type stripping.
    TypeScript,
}

impl LanguageArg {
    /// Returns the interpreter's language.
    pub(crate) fn language(self) -> Language {
        match self {
            Self::Python => Language::Python,
            Self::JavaScript | Self::TypeScript => Language::JavaScript,
        }
    }
}

impl FromStr for LanguageArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "typescript" | "ts" => Ok(Self::TypeScript),
            _ => match text.parse() {
                Ok(Language::Python) => Ok(Self::Python),
                Ok(Language::JavaScript) => Ok(Self::JavaScript),
                Err(_) => Err("write `python`, `javascript` or `typescript`, or `py`, `js` or `ts`".into()),
            },
        }
    }
}

/// Choice of the interpreter.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RuntimeArgs {
    /// Interpreter by name (see `glovebox runtimes list`) [default: the language's]
    #[arg(long, value_name = "NAME")]
    pub(crate) runtime: Option<String>,

    /// Path of an interpreter's WebAssembly binary, instead of --runtime
    #[arg(long, value_name = "FILE", conflicts_with = "runtime")]
    pub(crate) runtime_path: Option<PathBuf>,
}

impl RuntimeArgs {
    /// Returns `true` if a flag selects the interpreter.
    pub(crate) fn is_given(&self) -> bool {
        self.runtime.is_some() || self.runtime_path.is_some()
    }

    /// Returns these flags, or flags for the interpreter `name` if no flag selects one.
    pub(crate) fn or(&self, name: &str) -> Self {
        if self.is_given() { self.clone() } else { Self { runtime: Some(name.to_owned()), runtime_path: None } }
    }
}

/// A value for scripts.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ContextArgs {
    /// Value of the script's global variable `context`: JSON, or a file that contains JSON [default: no such variable]
    #[arg(long, value_name = "FILE|JSON", allow_hyphen_values = true)]
    context: Option<String>,
}

impl ContextArgs {
    /// Returns the value of `--context`, if given. Its size has the same limit as standard input.
    pub(crate) fn value(&self, policy: &Policy) -> anyhow::Result<Option<JsonText>> {
        let Some(text) = &self.context else { return Ok(None) };
        let not_json = match JsonText::new(text.as_str()) {
            Ok(value) => return Ok(Some(value)),
            Err(error) => error,
        };
        let hint = "use JSON, such as `--context '{\"a\": 1}'`, or the path of a JSON file";
        if !Path::new(text).is_file() {
            let shown: String = text.chars().take(100).collect();
            return Err(HintedError::new(format!("`{shown}` is neither JSON nor a file"), hint)
                .caused_by(not_json)
                .into());
        }
        let what = format!("context file `{text}`");
        let file = File::open(text).or_hint(|| format!("cannot read {what}"), "check that it is readable")?;
        let bytes = bounded(&what, file, policy.limits.stdin_bytes, "--stdin-bytes")?;
        let not_json = || format!("{what} is not JSON");
        let text = String::from_utf8(bytes).or_hint(not_json, hint)?;
        Ok(Some(JsonText::new(text).or_hint(not_json, hint)?))
    }
}

/// The command of a tool whose calls a person answers while the execution is suspended.
pub(crate) const ASK: &str = "@ask";

/// Tools that scripts may call.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Tools")]
pub(crate) struct ProgramArgs {
    /// Host program that scripts call as `tools.NAME(…)`; repeatable
    ///
    /// The program receives the arguments as a JSON object on standard input, and prints the result as JSON. In a policy
    /// file, `[tools.NAME]` limits the number of calls (`max_calls`) and their arguments (`schema`), and requires an
    /// approval for each call (`approve = "always"`).
    ///
    /// `NAME=@ask` declares a tool whose calls a person answers later. Only `glovebox run` and `glovebox resume`
    /// can run scripts with such a tool.
    #[arg(long = "tool", value_name = "NAME=COMMAND")]
    tools: Vec<NamedTool>,
}

/// A tool that a flag defines.
#[derive(Clone, Debug)]
struct NamedTool {
    name: String,
    /// The program that answers the calls. `None` if a person answers them.
    program: Option<Program>,
}

impl FromStr for NamedTool {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let (name, command) = text.split_once('=').ok_or("write it as `NAME=COMMAND`, such as `add=python3 add.py`")?;
        let program = match command {
            ASK => None,
            _ => Some(Program::parse(command).ok_or("the command is empty or has an unterminated quote")?),
        };
        Ok(Self { name: name.to_owned(), program })
    }
}

impl ProgramArgs {
    /// Returns the names of the tools.
    #[cfg(feature = "full")]
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|tool| tool.name.as_str())
    }

    /// Returns the names of the tools whose calls a person answers.
    pub(crate) fn interactive_names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().filter(|tool| tool.program.is_none()).map(|tool| tool.name.as_str())
    }

    /// Returns `true` if the policy requires an approval for calls to one of the tools.
    pub(crate) fn need_approval(&self, policy: &Policy) -> bool {
        self.tools.iter().any(|tool| policy.needs_approval(&tool.name))
    }

    /// Returns the tools for sandboxes with this policy. Rejects tools whose calls a person answers.
    #[cfg(feature = "full")]
    pub(crate) fn tools(&self, policy: &Policy) -> Result<Vec<Tool>, HintedError> {
        match self.interactive_names().next() {
            Some(name) => Err(HintedError::new(
                format!("only `glovebox run` and `glovebox resume` support `--tool {}={ASK}`", glovebox::escaped(name)),
                "use a program: --tool NAME=COMMAND",
            )),
            None => self.all_tools(policy),
        }
    }

    /// Returns the tools for sandboxes with this policy, including tools whose calls a person answers. The caller of the
    /// execution receives these calls.
    pub(crate) fn all_tools(&self, policy: &Policy) -> Result<Vec<Tool>, HintedError> {
        let tools = self.tools.iter().map(|NamedTool { name, program }| match program {
            Some(program) => program.tool(name, policy.limits.tool_bytes),
            None => Ok(interactive_tool(name)),
        });
        tools.collect()
    }
}

/// Returns a tool whose calls a person answers. A resumed execution needs the same definition, because scripts can list
/// tools.
pub(crate) fn interactive_tool(name: &str) -> Tool {
    Tool::new(name, "Answered by a person.").stepped()
}

#[cfg(test)]
mod tests {
    use glovebox::{JsonText, Policy};

    use super::{ContextArgs, LanguageArg, NamedTool, ProgramArgs};

    #[test]
    fn languages_have_long_and_short_names() {
        for (text, language) in [
            ("python", LanguageArg::Python),
            ("js", LanguageArg::JavaScript),
            ("ts", LanguageArg::TypeScript),
            ("TypeScript", LanguageArg::TypeScript),
        ] {
            assert_eq!(text.parse(), Ok(language), "{text}");
        }
        assert!("tsx".parse::<LanguageArg>().unwrap_err().contains("`typescript`"));
    }

    #[test]
    fn context_is_inline_json_or_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        std::fs::write(path("c.json"), "{\"a\": [1]}\n").unwrap();
        std::fs::write(path("text"), "a").unwrap();
        let value = |text: &str| ContextArgs { context: Some(text.to_owned()) }.value(&Policy::default());
        let json = |text: &str| Some(JsonText::new(text).unwrap());
        assert_eq!(value("[1, \"x\"]").unwrap(), json("[1, \"x\"]"));
        assert_eq!(value("-1").unwrap(), json("-1"));
        assert_eq!(value(&path("c.json")).unwrap(), json("{\"a\": [1]}\n"));
        assert_eq!(ContextArgs::default().value(&Policy::default()).unwrap(), None);
        for (wrong, expected) in [("{a: 1}", "neither"), (&path("missing"), "neither"), (&path("text"), "is not JSON")]
        {
            let error = value(wrong).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn context_file_size_is_limited_like_standard_input() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.json");
        let mut policy = Policy::default();
        policy.limits.stdin_bytes = 10;
        for (length, fits) in [(9, true), (10, true), (11, false)] {
            std::fs::write(&path, format!("\"{}\"", "x".repeat(length - 2))).unwrap();
            let args = ContextArgs { context: Some(path.to_str().unwrap().to_owned()) };
            assert_eq!(args.value(&policy).is_ok(), fits, "{length}");
        }
    }

    #[test]
    fn tools_of_a_person_are_supported_only_by_commands_that_suspend() {
        let args = |tools: &[&str]| {
            let tools = tools.iter().map(|tool| tool.parse::<NamedTool>().unwrap());
            ProgramArgs { tools: tools.collect() }
        };
        let (policy, programs) = (Policy::default(), args(&["size=wc -c", "pay=@ask"]));
        assert_eq!(programs.interactive_names().collect::<Vec<_>>(), ["pay"]);
        assert_eq!(programs.all_tools(&policy).unwrap().len(), 2);
        // Only the exact command `@ask` means a person.
        assert_eq!(args(&["size=wc @ask"]).interactive_names().count(), 0);
        #[cfg(feature = "full")]
        assert!(programs.tools(&policy).unwrap_err().to_string().contains("`--tool pay=@ask`"));
    }
}
