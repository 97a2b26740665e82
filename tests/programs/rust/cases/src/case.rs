//! A case as it stands on a line of standard input.

use std::collections::BTreeMap;

use glovebox_guest::{Request, SourceKind};
use serde::Deserialize;

use crate::{hex::Hex, policy::CasePolicy};

/// One case on one runtime.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The runtime's name.
    pub runtime: String,
    /// What it may do.
    pub policy: CasePolicy,
    /// Whether its steps run one after the other in one session.
    pub in_session: bool,
    /// Whether a step in an interpreter of its own starts with the files that the step before it left.
    pub carry: bool,
    /// The files that the first step starts with, if they do not persist; without `carry`, all steps.
    pub files: BTreeMap<String, Hex>,
    /// Whether executions are stepped through, also those that could be one call.
    pub stepped: bool,
    /// JSON text of what its first session finds in `context`.
    pub context: Option<String>,
    /// The tools that its scripts may call, which this program answers.
    pub tools: BTreeMap<String, CaseTool>,
    /// What is done, in order.
    pub steps: Vec<Step>,
}

/// A tool that does one of a few simple things.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseTool {
    pub description: String,
    /// JSON text of its schema.
    pub schema: Option<String>,
    /// Answers this JSON text; its arguments where there is none.
    pub reply: Option<String>,
    /// Fails with this message.
    pub error: Option<String>,
    /// Waits before it answers.
    pub delay_ms: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// What the case calls the session that it is about.
    pub session: String,
    pub action: Action,
    /// The files whose contents the result has, where they are there.
    pub look: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Action {
    Run(Script),
    Validate(Script),
    Get {
        name: String,
    },
    /// JSON texts by name.
    Set {
        values: BTreeMap<String, String>,
    },
    Fork {
        to: String,
    },
    Checkpoint {
        label: String,
    },
    Undo {
        to: Option<String>,
    },
    Hibernate {
        label: String,
    },
    Resume {
        label: String,
    },
    Write {
        files: BTreeMap<String, String>,
    },
    Delete {
        path: String,
    },
    List {
        pattern: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    pub source: String,
    pub name: Option<String>,
    pub kind: Option<Kind>,
    pub stdin: Option<String>,
    /// JSON text.
    pub context: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Detect,
    Script,
    Module,
}

impl Script {
    pub fn request(&self) -> Request {
        let mut request = Request::new(&self.source);
        request.name.clone_from(&self.name);
        request.stdin = self.stdin.clone().map(String::into_bytes);
        request.context.clone_from(&self.context);
        request.kind = self.kind.map(|kind| match kind {
            Kind::Detect => SourceKind::Detect,
            Kind::Script => SourceKind::Script,
            Kind::Module => SourceKind::Module,
        });
        request
    }
}
