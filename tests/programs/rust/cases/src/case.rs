//! A case in the format of a line of standard input.

use std::collections::BTreeMap;

use glovebox_guest::{Request, SourceKind};
use serde::Deserialize;

use crate::{hex::Hex, policy::CasePolicy};

/// A case on a runtime.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The name of the runtime.
    pub runtime: String,
    /// The policy of the executions.
    pub policy: CasePolicy,
    /// True if the steps run in order in one session.
    pub in_session: bool,
    /// True if a step with an interpreter of its own starts with the files that the previous step left.
    pub carry: bool,
    /// The initial files of the first step; without `carry`, of all steps.
    pub files: BTreeMap<String, Hex>,
    /// True if all executions are stepped through, even if one call would do.
    pub stepped: bool,
    /// JSON text of the variable `context` in the first session.
    pub context: Option<String>,
    /// The tools of the scripts, which this program answers.
    pub tools: BTreeMap<String, CaseTool>,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// A tool that performs one of a few simple actions.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseTool {
    pub description: String,
    /// JSON text of the arguments' schema.
    pub schema: Option<String>,
    /// The JSON text to answer; without it, the tool answers its arguments.
    pub reply: Option<String>,
    /// The message to fail with.
    pub error: Option<String>,
    /// Milliseconds to wait before the answer.
    pub delay_ms: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The name of the step's session within the case.
    pub session: String,
    pub action: Action,
    /// The files whose contents are part of the result, if they exist.
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
    /// JSON text of the variable `context`.
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
