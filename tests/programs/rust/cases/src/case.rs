//! A case in the format of an input line.

use std::collections::BTreeMap;

use glovebox_guest::{Request, SourceKind};
use serde::Deserialize;

use crate::{hex::Hex, policy::CasePolicy};

/// A case to run on a runtime.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The name of the runtime.
    pub runtime: String,
    /// The policy that the scripts run with.
    pub policy: CasePolicy,
    /// `true` if all steps run in one session, in order.
    pub in_session: bool,
    /// `true` if each step in a new interpreter starts with the files that the previous step left.
    pub carry: bool,
    /// The initial files of the first step or, without `carry`, of all steps.
    pub files: BTreeMap<String, Hex>,
    /// `true` if all executions are stepped through, even if a single call would be enough.
    pub stepped: bool,
    /// The variable `context` in the first session, as JSON text.
    pub context: Option<String>,
    /// The tools that scripts can call, by name.
    pub tools: BTreeMap<String, CaseTool>,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// A tool that performs one of a few simple actions.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseTool {
    pub description: String,
    /// The JSON Schema of the arguments, as JSON text. Default: any object.
    pub schema: Option<String>,
    /// The JSON text to return. Default: the arguments.
    pub reply: Option<String>,
    /// The message to fail with. Default: the tool succeeds.
    pub error: Option<String>,
    /// The time to wait before answering, in milliseconds.
    pub delay_ms: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The name of the step's session in the case.
    pub session: String,
    pub action: Action,
    /// The files whose contents are included in the result, if they exist.
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
    /// The values as JSON text, by variable name.
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
    /// The variable `context`, as JSON text.
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
