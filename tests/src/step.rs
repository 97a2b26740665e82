//! The steps of a case.

use std::collections::BTreeMap;

use glovebox::Language;
use serde::Deserialize;
use serde_json::Value;

use crate::Expect;

/// The name of the session that steps use by default.
const FIRST_SESSION: &str = "main";

/// The operation of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Runs the script.
    #[default]
    Execute,
    /// Only parses the script.
    Validate,
}

/// The execution request for a script, without its source.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Request {
    /// Execute or validate.
    pub operation: Operation,
    /// Standard input; empty if absent.
    pub stdin: Option<String>,
    /// The script's file name; the sandbox's default if absent.
    pub name: Option<String>,
    /// JavaScript: `detect`, `script` or `module`.
    pub kind: Option<String>,
    /// JSON text of the `context` variable, in a step with a fresh interpreter.
    pub context: Option<String>,
    /// The session ID that the execution must have.
    pub session_id: Option<String>,
}

/// An action of a step.
#[derive(Clone, Debug)]
pub enum Action {
    /// Runs a script, or only parses it.
    Run {
        /// The source text.
        source: String,
        /// The request, without the source.
        request: Request,
    },
    /// Reads a variable.
    Get {
        /// The name of the variable.
        name: String,
    },
    /// Sets variables.
    Set {
        /// The values, by variable name.
        values: BTreeMap<String, Value>,
    },
    /// Forks the session.
    Fork {
        /// The name of the fork in later steps.
        to: String,
    },
    /// Takes a checkpoint.
    Checkpoint {
        /// The name of the checkpoint in later steps.
        label: String,
    },
    /// Rolls the session back.
    Undo {
        /// The checkpoint to restore. Default: the last one that differs from the current state.
        to: Option<String>,
    },
    /// Serializes the session and drops it.
    Hibernate {
        /// The name of the serialized session in later steps.
        label: String,
    },
    /// Restores the session from its serialized form.
    Resume {
        /// The name of the serialized session.
        label: String,
    },
    /// Writes files through the host's interface. Replaces existing files.
    Write {
        /// The contents, by path.
        files: BTreeMap<String, String>,
    },
    /// Deletes a file through the host's interface.
    Delete {
        /// The path of the file.
        path: String,
    },
    /// Lists files through the host's interface.
    List {
        /// The glob pattern.
        pattern: String,
    },
}

/// A step of a case, in one language.
#[derive(Clone, Debug)]
pub struct Step {
    /// The name in reports: the script's name without its extension, or the step's number and action.
    pub name: String,
    /// The session's name, in a case with sessions.
    pub session: String,
    /// The action of the step.
    pub action: Action,
    /// `true` if the script makes concurrent tool calls. Its fuel then depends on when each reply arrives.
    pub concurrent: bool,
    /// The expectations for runtimes without an entry in `expect_on`.
    pub expect: Expect,
    /// The expectations for specific runtimes, by the runtime's name or a prefix of it.
    pub expect_on: BTreeMap<String, Expect>,
}

/// A step as written in a case's front matter.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct StepFile {
    pub(crate) script: Option<String>,
    /// The source of a short script, instead of a block.
    pub(crate) python: Option<String>,
    pub(crate) javascript: Option<String>,
    pub(crate) request: Request,
    pub(crate) expect: Option<toml::Table>,
    concurrent: bool,
    session: Option<String>,
    get: Option<String>,
    /// JSON text, by variable name, because TOML has no null.
    set: Option<BTreeMap<String, String>>,
    fork: Option<String>,
    checkpoint: Option<String>,
    undo: Option<Undo>,
    hibernate: Option<String>,
    resume: Option<String>,
    write: Option<BTreeMap<String, String>>,
    delete: Option<String>,
    list: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Undo {
    /// `true` undoes the last execution; `false` is an error.
    Last(bool),
    To(String),
}

impl StepFile {
    /// Creates the only step of a case without `[[step]]`; it runs `script.*`.
    pub(crate) fn single(request: Request, expect: toml::Table) -> Self {
        Self { script: Some("script".into()), request, expect: Some(expect), ..Self::default() }
    }

    /// Returns `true` if the step has a script, and therefore needs one in every language of the case.
    pub(crate) fn runs(&self) -> bool {
        self.script.is_some() || self.python.is_some() || self.javascript.is_some()
    }

    /// Returns the script's source in the front matter.
    pub(crate) fn inline(&self, language: Language) -> Option<&String> {
        match language {
            Language::Python => self.python.as_ref(),
            Language::JavaScript => self.javascript.as_ref(),
        }
    }

    fn needs_session(&self) -> bool {
        !self.runs() || self.session.is_some()
    }

    /// Builds the step in one language. `source` is the source of the script, if the step has a script.
    pub(crate) fn step(
        &self,
        number: usize,
        source: Option<String>,
        expect: Expect,
        in_session: bool,
    ) -> Result<Step, String> {
        if self.needs_session() && !in_session {
            return Err("this step needs `in_session = true`".into());
        }
        let parsed = |(name, text): (&String, &String)| match serde_json::from_str(text) {
            Ok(value) => Ok((name.clone(), value)),
            Err(error) => Err(format!("`set.{name}` is not JSON: {error}")),
        };
        let actions = [
            source.map(|source| ("script", Action::Run { source, request: self.request.clone() })),
            self.get.clone().map(|name| ("get", Action::Get { name })),
            match &self.set {
                Some(set) => Some(("set", Action::Set { values: set.iter().map(parsed).collect::<Result<_, _>>()? })),
                None => None,
            },
            self.fork.clone().map(|to| ("fork", Action::Fork { to })),
            self.checkpoint.clone().map(|label| ("checkpoint", Action::Checkpoint { label })),
            match &self.undo {
                Some(Undo::Last(true)) => Some(("undo", Action::Undo { to: None })),
                Some(Undo::Last(false)) => return Err("`undo = false` has no effect: remove it".into()),
                Some(Undo::To(label)) => Some(("undo", Action::Undo { to: Some(label.clone()) })),
                None => None,
            },
            self.hibernate.clone().map(|label| ("hibernate", Action::Hibernate { label })),
            self.resume.clone().map(|label| ("resume", Action::Resume { label })),
            self.write.clone().map(|files| ("write", Action::Write { files })),
            self.delete.clone().map(|path| ("delete", Action::Delete { path })),
            self.list.clone().map(|pattern| ("list", Action::List { pattern })),
        ];
        let mut actions = actions.into_iter().flatten();
        let (Some((what, action)), None) = (actions.next(), actions.next()) else {
            return Err("expected exactly one action in a step".into());
        };
        if self.concurrent && !matches!(action, Action::Run { .. }) {
            return Err("`concurrent` has no effect on a step without a script: remove it".into());
        }
        Ok(Step {
            name: self.script.clone().unwrap_or_else(|| format!("{number}: {what}")),
            session: self.session.clone().unwrap_or_else(|| FIRST_SESSION.into()),
            action,
            concurrent: self.concurrent,
            expect,
            expect_on: BTreeMap::new(),
        })
    }
}

/// A tool that a case's scripts can call. Simple enough for every backend to implement.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseTool {
    /// The description that `help` shows.
    #[serde(default)]
    pub description: String,
    /// The JSON Schema of the arguments object, as JSON text. Default: any object.
    pub schema: Option<String>,
    /// The result, as JSON text. Default: the arguments.
    pub reply: Option<String>,
    /// The failure message. Default: the tool succeeds.
    pub error: Option<String>,
    /// The delay before the answer, in milliseconds.
    #[serde(default)]
    pub delay_ms: u64,
}

impl CaseTool {
    /// Returns `reply`, or by default the arguments. Fails if `error` is set.
    pub fn answer(&self, arguments: String) -> Result<String, String> {
        match (&self.error, &self.reply) {
            (Some(error), _) => Err(error.clone()),
            (None, Some(reply)) => match serde_json::from_str::<Value>(reply) {
                Ok(reply) => Ok(reply.to_string()),
                Err(error) => Err(error.to_string()),
            },
            (None, None) => Ok(arguments),
        }
    }
}
