//! Tests that the Rust API uses the names of the contract.
//!
//! These tests cover inputs, enums and the fields of an execution. Other outputs are converted field by field and case
//! by case in `src/convert.rs`, where the compiler finds missing fields and cases on either side.

use std::collections::BTreeSet;

use glovebox::{
    Checkpoints, Clock, Entropy, Execution, FileKind, IfExists, Language, Limits, OnUnwind, Policy, Resource,
    SessionPolicy, SourceKind, Step, Stream, ToolAnswer, ToolErrorKind, TrapKind,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;
use wit_parser::TypeDefKind;

use crate::Contract;

#[test]
fn limits_are_the_same_in_wit_and_rust() {
    let mut limits = fields(&Limits::default());
    // The contract has no `journal-bytes`, because quotas bound the suspended executions of components.
    assert!(limits.remove("journal-bytes"));
    assert_eq!(Contract::read().names("limits"), limits);
}

#[test]
fn policies_match_in_wit_and_rust_except_host_keys() {
    let contract = Contract::read();
    let mut policy = fields(&Policy::default());
    // `workspace` is not serialized if it is `None`.
    assert!(!policy.contains("workspace"));
    // A component's quotas need metering. Only the host mounts and commits directories, configures network access, adds
    // packages and restricts tools.
    for of_the_host in ["commit", "metering", "mounts", "network", "packages", "tools"] {
        assert!(policy.remove(of_the_host), "{of_the_host}");
    }
    assert_eq!(contract.names("policy"), policy);
    assert_eq!(contract.names("session-policy"), fields(&SessionPolicy::default()));
}

#[test]
fn executions_match_in_wit_and_rust() {
    let execution: Execution = serde_json::from_value(json!({
        "outcome": { "kind": "completed" },
        "stdout": "",
        "stderr": "",
        "stdout_truncated": false,
        "stderr_truncated": false,
        "displays": [],
        "displays_dropped": 0,
        "fuel_consumed": 0,
        "memory_used_bytes": 0,
        "duration_ms": 0.0,
        "files_created": [],
        "files_modified": [],
        "files_deleted": [],
        "tool_calls": [],
        "guidance": {
            "fuel": { "used": 0, "limit": 1, "utilization_percent": 0, "status": "efficient", "likely_causes": [] },
            "advice": [],
        },
        "metadata": {
            "runtime": "python",
            "runtime_name": "python-3.15",
            "prepared": true,
            "metering": "fuel",
            "stdout_total_bytes": 0,
            "stderr_total_bytes": 0,
        },
    }))
    .unwrap();
    let mut names = fields(&execution);
    // The first four are derived from other fields. Executions of components have no host directory.
    for of_json in ["success", "exit-code", "stdout-truncated", "stderr-truncated", "workspace-path"] {
        assert!(names.remove(of_json), "{of_json}");
    }
    // The contract has durations in nanoseconds.
    assert!(names.remove("duration-ms") && names.insert("duration-ns".into()));
    assert_eq!(Contract::read().names("execution"), names);
}

#[test]
fn enums_are_the_same_in_wit_and_rust() {
    let contract = Contract::read();
    assert_eq!(contract.names("language"), cases::<Language>());
    assert_eq!(contract.names("clock"), cases::<Clock>());
    assert_eq!(contract.names("entropy"), cases::<Entropy>());
    assert_eq!(contract.names("checkpoints"), cases::<Checkpoints>());
    assert_eq!(contract.names("on-unwind"), cases::<OnUnwind>());
    assert_eq!(contract.names("resource-kind"), cases::<Resource>());
    assert_eq!(contract.names("trap-kind"), cases::<TrapKind>());
    // A runtime is the default of a language or a named runtime.
    let mut runtimes = cases::<Language>();
    runtimes.insert("named".into());
    assert_eq!(contract.names("runtime"), runtimes);
}

#[test]
fn unserialized_enums_are_the_same_in_wit_and_rust() {
    let contract = Contract::read();
    let kind = |kind| match kind {
        SourceKind::Detect => "detect",
        SourceKind::Script => "script",
        SourceKind::Module => "module",
    };
    let rust = [SourceKind::Detect, SourceKind::Script, SourceKind::Module].map(kind);
    assert_eq!(contract.names("source-kind"), listed(&rust));
    let kind = |kind| match kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symlink",
    };
    let rust = [FileKind::File, FileKind::Directory, FileKind::Symlink].map(kind);
    assert_eq!(contract.names("file-kind"), listed(&rust));
    let choice = |choice| match choice {
        IfExists::Fail => "fail",
        IfExists::Replace => "replace",
    };
    assert_eq!(contract.names("if-exists"), listed(&[IfExists::Fail, IfExists::Replace].map(choice)));
    let stream = |stream| match stream {
        Stream::Stdout => "stdout",
        Stream::Stderr => "stderr",
    };
    assert_eq!(contract.names("output-stream"), listed(&[Stream::Stdout, Stream::Stderr].map(stream)));
}

#[test]
fn tool_error_kinds_are_the_same_in_wit_and_rust() {
    let word = |kind| match kind {
        ToolErrorKind::Failed => "failed",
        ToolErrorKind::Limit => "limit",
        ToolErrorKind::Timeout => "timeout",
        ToolErrorKind::Unknown => "unknown",
        ToolErrorKind::InvalidArguments => "invalid-arguments",
        ToolErrorKind::Denied => "denied",
    };
    assert_eq!(Contract::read().names("tool-error"), listed(&ToolErrorKind::ALL.map(word)));
}

#[test]
fn steps_and_tool_answers_are_the_same_in_wit_and_rust() {
    let contract = Contract::read();
    // The compiler requires a new match arm here when a step is added.
    let word = |step: &Step| match step {
        Step::Done(_) => "done",
        Step::NeedsTools(_) => "needs-tools",
        Step::Running => "running",
    };
    let steps = [word(&Step::NeedsTools(Vec::new())), word(&Step::Running), "done"];
    assert_eq!(contract.names("step"), listed(&steps));
    let ToolAnswer { id, answer } = ToolAnswer::value(7, &true.into());
    assert_eq!((id, answer), (7, Ok("true".to_owned())));
    assert_eq!(contract.names("tool-answer"), listed(&["id", "answer"]));
}

pub(crate) type Names = BTreeSet<String>;

impl Contract {
    /// Returns the names of a type's fields, cases or flags.
    pub(crate) fn names(&self, name: &str) -> Names {
        let (_, definition) =
            self.types().find(|(other, _)| *other == name).unwrap_or_else(|| panic!("wit/ does not define `{name}`"));
        names_of(&definition.kind)
    }
}

/// Returns the names of a type's fields, cases or flags. Empty for other types.
pub(crate) fn names_of(kind: &TypeDefKind) -> Names {
    match kind {
        TypeDefKind::Record(record) => record.fields.iter().map(|field| field.name.clone()).collect(),
        TypeDefKind::Variant(variant) => variant.cases.iter().map(|case| case.name.clone()).collect(),
        TypeDefKind::Enum(cases) => cases.cases.iter().map(|case| case.name.clone()).collect(),
        TypeDefKind::Flags(flags) => flags.flags.iter().map(|flag| flag.name.clone()).collect(),
        _ => Names::new(),
    }
}

pub(crate) fn listed(names: &[&str]) -> Names {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Returns the field names of a serialized Rust value, with hyphens as in WIT.
pub(crate) fn fields(value: &impl Serialize) -> Names {
    let json = serde_json::to_value(value).unwrap();
    json.as_object().expect("the value has no fields").keys().map(|name| name.replace('_', "-")).collect()
}

/// Returns all cases of a Rust enum, from serde's error message for an unknown case.
pub(crate) fn cases<T: DeserializeOwned>() -> Names {
    let error = serde_json::from_str::<T>("\"no such case\"").err().expect("an enum has this case").to_string();
    let (_, list) = error.split_once("expected ").unwrap_or_else(|| panic!("{error}"));
    let names: Names = list.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    assert!(names.len() > 1, "{error}");
    names
}
