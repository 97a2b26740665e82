//! The names and types of a session's global variables, for type checkers.

use std::{collections::BTreeSet, io};

use serde::{Deserialize, Serialize};

use super::{
    Session,
    hibernate::{HibernateOptions, ResumeOptions},
};
use crate::{Language, Request, tools::is_python_keyword};

/// The script that describes the variables, as JSON of a list of [`SessionVariable`].
const QUERY: &str = include_str!("variables.py");

/// The fuel limit of the query. The query needs about 50 million units, and 300 million more for 2,000 functions or for
/// 200 classes with ten methods each.
const FUEL: u64 = 1_000_000_000;

/// The timeout of the query, which takes about 30 ms.
const TIMEOUT_MS: u64 = 5_000;

/// Maximum memory of a session that is copied for a query, in bytes. Copying more would take longer than the type
/// check.
const MAX_COPIED_BYTES: u64 = 128 << 20;

/// Maximum number of variables. A session with more variables is not described.
const MAX_VARIABLES: usize = 2_000;

/// Maximum size of the variables as JSON text, in bytes. A script's value, which contains the query's answer, has the
/// same limit.
const MAX_JSON_BYTES: usize = 1 << 20;

/// Maximum number of parameters in a function signature.
const MAX_PARAMETERS: usize = 100;

/// Maximum number of methods and attributes in the description of a class. The query omits those of larger classes.
const MAX_MEMBERS: usize = 300;

/// Maximum length of a name in bytes: 200 characters.
const MAX_NAME_BYTES: usize = 800;

/// A global variable of a Python session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionVariable {
    /// The name: an identifier, and not a keyword.
    pub name: String,
    /// The description of the value.
    pub kind: VariableKind,
}

/// The description of a variable's value. All names are identifiers. Names of modules and classes can have several
/// parts, separated by dots. The session's scripts determine the names, so the names can be wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum VariableKind {
    /// A module.
    Module {
        /// The module's name, such as `xml.etree.ElementTree`.
        name: String,
    },
    /// A class, a function or a special form of a module.
    Imported {
        /// The name of the module, such as `collections`.
        module: String,
        /// The name within the module, such as `Counter`.
        name: String,
    },
    /// A function that a script of the session defines.
    Function(FunctionSignature),
    /// A class that a script of the session defines, in the variable with the class's name.
    Class(ClassDescription),
    /// An instance of a class with the kind [`Class`](Self::Class).
    Object {
        /// The name of the class and its variable.
        class: String,
    },
    /// A value of any other class.
    Instance {
        /// The name of the class's module, such as `builtins`.
        module: String,
        /// The qualified name of the class, such as `list`.
        class: String,
    },
    /// A value without a description.
    Other,
}

/// The parameters of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionSignature {
    /// The parameters that can be passed by position.
    pub positional: Vec<String>,
    /// The number of parameters at the start of `positional` that cannot be passed by name.
    pub positional_only_count: usize,
    /// The number of parameters at the end of `positional` that have a default.
    pub default_count: usize,
    /// The parameters that are passed only by name.
    pub keyword_only: Vec<KeywordParameter>,
    /// The parameter that collects further positional arguments.
    pub rest: Option<String>,
    /// The parameter that collects further keyword arguments.
    pub keywords: Option<String>,
    /// `true` if calls must be awaited.
    pub is_async: bool,
}

/// The members of a class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassDescription {
    /// The names of its base classes with the kind [`VariableKind::Class`], in order.
    pub bases: Vec<String>,
    /// The methods that the class itself defines. The first parameter is the instance.
    pub methods: Vec<MethodDescription>,
    /// Names of the other attributes of the class and its instances, except inherited ones. They include all attributes
    /// that the methods assign, and can include names that are not attributes.
    pub attributes: Vec<String>,
    /// `true` if the class and its instances can have further attributes, for example those of other base classes.
    pub is_open: bool,
    /// `true` if the class is a dataclass.
    pub is_dataclass: bool,
}

/// A method of a class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MethodDescription {
    /// The name of the method.
    pub name: String,
    /// The parameters, including the instance.
    pub signature: FunctionSignature,
}

/// A parameter that is passed only by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeywordParameter {
    /// The name that callers use.
    pub name: String,
    /// `true` if the parameter has no default.
    pub is_required: bool,
}

impl Session {
    /// Returns the global variables of a Python session in the order of their names, for a type checker. Returns `None`
    /// for a JavaScript session, for a session that has ended or stays busy, and for a session that has more than 2,000
    /// variables or occupies more than 128 MiB. Also returns `None` if a limit on sessions prevents a copy.
    ///
    /// Waits its turn like an execution. Guest code describes the variables in a copy of the session without tools,
    /// network or commits, so the session does not change.
    ///
    /// ```no_run
    /// # use glovebox::{Engine, EngineConfig, Sandbox, VariableKind};
    /// # let sandbox = Sandbox::builder(&Engine::new(EngineConfig::default())?).build()?;
    /// let session = sandbox.session()?;
    /// session.execute("import json\nrows = []")?;
    /// let variables = session.variables().unwrap();
    /// assert_eq!(variables[0].kind, VariableKind::Module { name: "json".to_owned() });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn variables(&self) -> Option<Vec<SessionVariable>> {
        let (sandbox, info) = (self.sandbox(), self.info());
        // The session's share of memory includes checkpoints, which are not copied.
        let file_bytes = self.files().snapshot().map_or(0, |files| files.held_bytes());
        let copied_bytes = info.held_bytes.min(info.memory_bytes.saturating_add(file_bytes));
        if sandbox.language() != Language::Python || copied_bytes > MAX_COPIED_BYTES {
            return None;
        }
        let state = self.hibernate(&HibernateOptions::default()).ok()?;
        let copy = sandbox.for_queries(FUEL, TIMEOUT_MS).resume(&state, ResumeOptions::default()).ok()?;
        let json = copy.run(Request::new(QUERY)).ok()?.value?.json?;
        parse(&json)
    }
}

/// Parses the query's untrusted answer.
fn parse(json: &str) -> Option<Vec<SessionVariable>> {
    SessionVariable::checked(serde_json::from_str(json).ok()?)
}

/// A writer that only counts bytes. Fails when the number of bytes exceeds `left`.
struct ByteLimit {
    left: usize,
}

impl io::Write for ByteLimit {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.left = self.left.checked_sub(bytes.len()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SessionVariable {
    /// Checks variables from an untrusted process against the limits of [`Session::variables`]. Returns `None` if there
    /// are more than 2,000 variables, if the variables exceed 1 MiB as JSON, or if a name is not an identifier.
    /// Replaces an invalid description with [`VariableKind::Other`].
    #[must_use]
    pub fn checked(variables: Vec<Self>) -> Option<Vec<Self>> {
        // If the list omitted names, a type checker would report the omitted names as undefined.
        if variables.len() > MAX_VARIABLES || !variables.iter().all(|variable| is_name(&variable.name)) {
            return None;
        }
        serde_json::to_writer(ByteLimit { left: MAX_JSON_BYTES }, &variables).ok()?;
        let described = variables.into_iter().map(|Self { name, kind }| {
            let kind = if kind.is_valid() { kind } else { VariableKind::Other };
            Self { name, kind }
        });
        Some(described.collect())
    }
}

impl VariableKind {
    fn is_valid(&self) -> bool {
        match self {
            Self::Module { name } => is_path(name),
            Self::Imported { module, name } => is_path(module) && is_name(name),
            Self::Function(signature) => signature.is_valid(),
            Self::Class(class) => class.is_valid(),
            Self::Object { class } => is_name(class),
            Self::Instance { module, class } => is_path(module) && is_path(class),
            Self::Other => true,
        }
    }
}

impl ClassDescription {
    fn is_valid(&self) -> bool {
        let methods = self.methods.iter().map(|method| &method.name);
        let names: Vec<&String> = methods.chain(&self.attributes).collect();
        let different: BTreeSet<&String> = names.iter().copied().collect();
        names.len() <= MAX_MEMBERS
            && names.iter().all(|name| is_name(name))
            && different.len() == names.len()
            && self.bases.len() <= MAX_MEMBERS
            && self.bases.iter().all(|base| is_name(base))
            && self.methods.iter().all(|method| method.signature.is_valid())
    }
}

impl FunctionSignature {
    fn is_valid(&self) -> bool {
        let keyword_only = self.keyword_only.iter().map(|parameter| &parameter.name);
        let names: Vec<&String> =
            self.positional.iter().chain(&self.rest).chain(keyword_only).chain(&self.keywords).collect();
        let different: BTreeSet<&String> = names.iter().copied().collect();
        names.len() <= MAX_PARAMETERS
            && names.iter().all(|name| is_name(name))
            && different.len() == names.len()
            && self.positional_only_count <= self.positional.len()
            && self.default_count <= self.positional.len()
    }
}

/// Returns `true` for one or more names, separated by dots.
fn is_path(path: &str) -> bool {
    path.len() <= MAX_NAME_BYTES && path.split('.').all(is_name)
}

/// Returns `true` for an identifier that is not a keyword.
fn is_name(name: &str) -> bool {
    name.len() <= MAX_NAME_BYTES
        && name.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_alphanumeric() || c == '_')
        && !is_python_keyword(name)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parsed(kind: &Value) -> VariableKind {
        let variables = parse(&json!([{ "name": "x", "kind": kind }]).to_string()).unwrap();
        variables.into_iter().next().unwrap().kind
    }

    fn function(change: impl FnOnce(&mut Value)) -> Value {
        let mut function = json!({
            "positional": ["a", "self"], "positional_only_count": 1, "default_count": 1,
            "keyword_only": [{ "name": "c", "is_required": true }], "rest": "rest", "keywords": null, "is_async": true,
        });
        change(&mut function);
        json!({ "function": function })
    }

    fn class(change: impl FnOnce(&mut Value)) -> Value {
        let signature = serde_json::to_value(FunctionSignature::default()).unwrap();
        let mut class = json!({
            "bases": ["Base"], "methods": [{ "name": "m", "signature": signature }], "attributes": ["a"],
            "is_open": true, "is_dataclass": false,
        });
        change(&mut class);
        json!({ "class": class })
    }

    #[test]
    fn answers_are_parsed() {
        let signature = FunctionSignature {
            positional: vec!["a".to_owned(), "self".to_owned()],
            positional_only_count: 1,
            default_count: 1,
            keyword_only: vec![KeywordParameter { name: "c".to_owned(), is_required: true }],
            rest: Some("rest".to_owned()),
            keywords: None,
            is_async: true,
        };
        let (module, name) = ("xml.etree".to_owned(), "Path".to_owned());
        for (kind, expected) in [
            (json!({ "module": { "name": "xml.etree" } }), VariableKind::Module { name: module.clone() }),
            (
                json!({ "imported": { "module": "xml.etree", "name": "Path" } }),
                VariableKind::Imported { module: module.clone(), name: name.clone() },
            ),
            (function(|_| {}), VariableKind::Function(signature)),
            (
                json!({ "instance": { "module": "xml.etree", "class": "Path" } }),
                VariableKind::Instance { module, class: name },
            ),
            (
                class(|_| {}),
                VariableKind::Class(ClassDescription {
                    bases: vec!["Base".to_owned()],
                    methods: vec![MethodDescription { name: "m".to_owned(), signature: FunctionSignature::default() }],
                    attributes: vec!["a".to_owned()],
                    is_open: true,
                    is_dataclass: false,
                }),
            ),
            (json!({ "object": { "class": "Own" } }), VariableKind::Object { class: "Own".to_owned() }),
            (json!("other"), VariableKind::Other),
        ] {
            assert_eq!(parsed(&kind), expected);
        }
        assert_eq!(parse("[]"), Some(Vec::new()));
    }

    #[test]
    fn invalid_descriptions_are_dropped() {
        for kind in [
            json!({ "module": { "name": "a\nimport os" } }),
            json!({ "module": { "name": "a..b" } }),
            json!({ "module": { "name": "" } }),
            json!({ "imported": { "module": "a", "name": "b.c" } }),
            json!({ "imported": { "module": "a.class", "name": "b" } }),
            json!({ "instance": { "module": "a", "class": "f.<locals>.C" } }),
            json!({ "instance": { "module": "a", "class": "x".repeat(801) } }),
            function(|function| function["positional"] = json!(["a", "a"])),
            function(|function| function["positional"] = json!(["a", "1"])),
            function(|function| function["keywords"] = json!("c")),
            function(|function| function["positional_only_count"] = json!(3)),
            function(|function| function["default_count"] = json!(3)),
            function(|function| function["positional"] = (0..99).map(|at| format!("a{at}")).collect()),
            json!({ "object": { "class": "a.b" } }),
            class(|class| class["bases"] = json!(["a.b"])),
            class(|class| class["attributes"] = json!(["m"])),
            class(|class| class["attributes"] = json!(["a: int"])),
            class(|class| class["attributes"] = (0..300).map(|at| format!("a{at}")).collect()),
            class(|class| class["methods"][0]["name"] = json!("m(self): pass")),
            class(|class| class["methods"][0]["signature"]["rest"] = json!("1")),
        ] {
            assert_eq!(parsed(&kind), VariableKind::Other, "{kind}");
        }
        let longest = function(|function| function["positional"] = (0..98).map(|at| format!("a{at}")).collect());
        assert!(matches!(parsed(&longest), VariableKind::Function(_)));
    }

    #[test]
    fn lists_with_invalid_names_are_rejected() {
        let named = |names: &[&str]| {
            let list: Value = names.iter().map(|name| json!({ "name": name, "kind": "other" })).collect();
            parse(&list.to_string())
        };
        let long = "x".repeat(MAX_NAME_BYTES);
        for name in ["x", "_", "größe", "self", "match", &long] {
            assert_eq!(named(&[name]).map(|list| list.len()), Some(1), "{name}");
        }
        for name in ["", "1", "a b", "a.b", "a\n", "class", "None", &format!("{long}x")] {
            assert_eq!(named(&["x", name]), None, "{name}");
        }
        for (count, is_accepted) in [(MAX_VARIABLES, true), (MAX_VARIABLES + 1, false)] {
            assert_eq!(named(&vec!["x"; count]).is_some(), is_accepted, "{count}");
        }
        for (count, is_accepted) in [(1_200, true), (1_300, false)] {
            assert_eq!(named(&vec![&*long; count]).is_some(), is_accepted, "{count} long names");
        }
        for answer in ["", "null", "{}", "[1]", r#"[{"name":"x"}]"#, r#"[{"name":"x","kind":"unknown"}]"#] {
            assert_eq!(parse(answer), None, "{answer}");
        }
    }
}
