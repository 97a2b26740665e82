//! The steps of a case.

use std::collections::BTreeMap;

use glovebox::Language;
use serde::Deserialize;
use serde_json::Value;

use crate::{Expect, Request};

/// The default session of a step.
const FIRST_SESSION: &str = "main";

/// The action of a step.
#[derive(Clone, Debug)]
pub enum Action {
    /// Runs a script, or only parses it.
    Run {
        /// The source text.
        source: String,
        /// The request.
        request: Request,
    },
    /// Reads a variable.
    Get {
        /// Its name.
        name: String,
    },
    /// Sets variables.
    Set {
        /// By name.
        values: BTreeMap<String, Value>,
    },
    /// Makes a second session of this one.
    Fork {
        /// The name of the copy in later steps.
        to: String,
    },
    /// Takes a checkpoint.
    Checkpoint {
        /// The name of the checkpoint in later steps.
        label: String,
    },
    /// Rolls the session back.
    Undo {
        /// To this checkpoint, or to the last one that differs from the current state.
        to: Option<String>,
    },
    /// Turns the session into bytes and drops it.
    Hibernate {
        /// The name of the bytes in later steps.
        label: String,
    },
    /// Resumes the session from bytes.
    Resume {
        /// The name of the bytes.
        label: String,
    },
    /// Writes files from outside, replacing existing ones.
    Write {
        /// By path.
        files: BTreeMap<String, String>,
    },
    /// Deletes a file from outside.
    Delete {
        /// Its path.
        path: String,
    },
    /// Lists files from outside.
    List {
        /// The pattern.
        pattern: String,
    },
}

/// One step of a case in one language.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its name in reports: the script's name without the extension, or the step's number and action.
    pub name: String,
    /// Its session, in a case whose steps share sessions.
    pub session: String,
    /// What it does.
    pub action: Action,
    /// The expectations.
    pub expect: Expect,
    /// Those on runtimes that differ, by the runtime's name or its beginning.
    pub expect_on: BTreeMap<String, Expect>,
}

/// A step in the front matter of a case.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct StepFile {
    pub(crate) script: Option<String>,
    /// The source itself, if it is short.
    pub(crate) python: Option<String>,
    pub(crate) javascript: Option<String>,
    pub(crate) request: Request,
    pub(crate) expect: Option<toml::Table>,
    session: Option<String>,
    get: Option<String>,
    /// JSON text by name: TOML has no null.
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
    /// `true`: the last execution.
    Last(bool),
    To(String),
}

impl StepFile {
    /// A case's only step: `script.*`.
    pub(crate) fn single(request: Request, expect: toml::Table) -> Self {
        Self { script: Some("script".into()), request, expect: Some(expect), ..Self::default() }
    }

    /// Whether it runs something, and so must in every language of the case.
    pub(crate) fn runs(&self) -> bool {
        self.script.is_some() || self.python.is_some() || self.javascript.is_some()
    }

    /// The source in the front matter.
    pub(crate) fn inline(&self, language: Language) -> Option<&String> {
        match language {
            Language::Python => self.python.as_ref(),
            Language::JavaScript => self.javascript.as_ref(),
        }
    }

    /// Whether it needs a session.
    fn needs_session(&self) -> bool {
        !self.runs() || self.session.is_some()
    }

    /// The step in one language, with its source if it runs something.
    pub(crate) fn step(
        &self,
        number: usize,
        source: Option<String>,
        expect: Expect,
        in_session: bool,
    ) -> Result<Step, String> {
        if self.needs_session() && !in_session {
            return Err("only steps of a case with `in_session = true` have sessions".into());
        }
        let parsed = |(name, text): (&String, &String)| match serde_json::from_str(text) {
            Ok(value) => Ok((name.clone(), value)),
            Err(error) => Err(format!("`set.{name}` is no JSON text: {error}")),
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
                Some(Undo::Last(false)) => return Err("`undo = false` does nothing".into()),
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
            return Err("a step does exactly one thing".into());
        };
        Ok(Step {
            name: self.script.clone().unwrap_or_else(|| format!("{number}: {what}")),
            session: self.session.clone().unwrap_or_else(|| FIRST_SESSION.into()),
            action,
            expect,
            expect_on: BTreeMap::new(),
        })
    }
}

/// A tool that scripts of a case may call. It does one of a few simple things, so that every backend can implement it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseTool {
    /// Its description in `help`.
    #[serde(default)]
    pub description: String,
    /// Its schema as JSON text; any object if absent.
    pub schema: Option<String>,
    /// Answers this JSON text.
    pub reply: Option<String>,
    /// Fails with this message.
    pub error: Option<String>,
    /// Waits before it answers.
    #[serde(default)]
    pub delay_ms: u64,
}

impl CaseTool {
    /// Its answer: `reply`, or otherwise its arguments.
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
