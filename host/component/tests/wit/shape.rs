//! Tests that every item in the package is documented and versioned and names its errors, and that worlds match their
//! names.

use std::{collections::BTreeMap, fs, path::Path};

use wit_parser::{Docs, Function, Stability, Type, TypeDef, TypeDefKind, WorldItem, WorldKey};

use crate::{
    Contract, directory,
    words::{Names, listed, names_of},
};

impl Contract {
    fn functions(&self) -> impl Iterator<Item = (String, &Function)> {
        self.interfaces().flat_map(|(interface, definition)| {
            definition.functions.iter().map(move |(name, function)| (format!("{interface}/{name}"), function))
        })
    }

    /// Returns the documentation and stability of every item, with a readable name.
    fn items(&self) -> Vec<(String, &Docs, &Stability)> {
        let worlds = self.worlds().map(|(name, of)| (format!("world {name}"), &of.docs, &of.stability));
        let interfaces = self.interfaces().map(|(name, of)| (format!("interface {name}"), &of.docs, &of.stability));
        let types = self.types().map(|(name, of)| (name.to_owned(), &of.docs, &of.stability));
        let functions = self.functions().map(|(name, of)| (name, &of.docs, &of.stability));
        worlds.chain(interfaces).chain(types).chain(functions).collect()
    }

    /// Returns all documentation with readable names.
    fn docs(&self) -> Vec<(String, &Docs)> {
        let items = self.items().into_iter().map(|(name, docs, _)| (name, docs));
        let parts = self.types().flat_map(|(name, definition)| {
            parts(definition).into_iter().map(move |(part, docs)| (format!("{name}.{part}"), docs))
        });
        items.chain(parts).collect()
    }

    /// Returns `true` if a function can fail with a `sandbox-error`.
    fn can_fail(&self, function: &Function) -> bool {
        let Some(Type::Id(result)) = function.result else { return false };
        let TypeDefKind::Result(result) = &self.resolve.types[result].kind else { return false };
        let Some(Type::Id(error)) = result.err else { return false };
        self.resolve.types[error].name.as_deref() == Some("sandbox-error")
    }
}

/// Returns the fields or cases of a type with their documentation.
fn parts(definition: &TypeDef) -> Vec<(&str, &Docs)> {
    match &definition.kind {
        TypeDefKind::Record(of) => of.fields.iter().map(|field| (field.name.as_str(), &field.docs)).collect(),
        TypeDefKind::Variant(of) => of.cases.iter().map(|case| (case.name.as_str(), &case.docs)).collect(),
        TypeDefKind::Enum(of) => of.cases.iter().map(|case| (case.name.as_str(), &case.docs)).collect(),
        TypeDefKind::Flags(of) => of.flags.iter().map(|flag| (flag.name.as_str(), &flag.docs)).collect(),
        _ => Vec::new(),
    }
}

/// Returns the texts between single backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn every_wit_item_is_documented() {
    let (contract, draft) = (Contract::read(), Contract::draft());
    let docs = contract.docs();
    for (name, docs) in docs.iter().chain(&draft.docs()) {
        assert!(docs.contents.as_deref().is_some_and(|text| !text.trim().is_empty()), "`{name}` has no documentation");
    }
    let seen = [
        "world client",
        "interface sandbox",
        "session",
        "sandbox/execute",
        "sandbox/[method]session.execute",
        "limits.fuel",
        "outcome.raised",
        "trap-kind.other",
        "features.tools",
    ];
    for name in seen {
        assert!(docs.iter().any(|(other, _)| other == name), "`{name}` is not checked");
    }
}

#[test]
fn every_item_has_a_since_annotation() {
    for contract in [Contract::read(), Contract::draft()] {
        let package = &contract.resolve.packages[contract.package].name;
        for (name, _, stability) in contract.items() {
            let Stability::Stable { since, deprecated: None } = stability else { panic!("`{name}`: {stability:?}") };
            assert!(Some(since) <= package.version.as_ref(), "`{name}` is from {since}, later than its package");
        }
    }
}

#[test]
fn every_result_documents_its_errors() {
    let (contract, draft) = (Contract::read(), Contract::draft());
    let errors = contract.names("sandbox-error");
    let mut count = 0;
    let functions = [&contract, &draft].into_iter().flat_map(|of| of.functions().map(move |function| (of, function)));
    for (contract, (name, function)) in functions {
        let docs = function.docs.contents.as_deref().unwrap_or_default();
        let listed = docs.split_once("Errors:").map(|(_, listed)| listed);
        assert_eq!(
            listed.is_some(),
            contract.can_fail(function),
            "`{name}` must document its errors if, and only if, it can fail"
        );
        if let Some(listed) = listed {
            count += 1;
            let refers = listed.contains("like `") || listed.contains("those of `");
            assert!(refers || quoted(listed).any(|word| errors.contains(word)), "`{name}`: {listed}");
        }
    }
    assert!(count > 20, "{count}");
}

#[test]
fn documentation_refers_to_existing_items() {
    let contract = Contract::read();
    let mut known: BTreeMap<String, Names> =
        contract.types().map(|(name, definition)| (name.to_owned(), names_of(&definition.kind))).collect();
    for (_, function) in contract.functions() {
        // Method names have the form `[method]session.execute`.
        if let Some((resource, method)) = function.name.rsplit_once(']').and_then(|(_, name)| name.split_once('.')) {
            known.entry(resource.to_owned()).or_default().insert(method.to_owned());
        }
    }
    for (interface, definition) in contract.interfaces() {
        let names = known.entry(interface.to_owned()).or_default();
        names.extend(definition.types.keys().chain(definition.functions.keys()).cloned());
    }
    // The documentation refers to this type by the name of a parameter.
    known.insert("options".into(), contract.names("session-options"));
    let is_word =
        |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    let mut count = 0;
    for (name, docs) in contract.docs() {
        for term in quoted(docs.contents.as_deref().unwrap_or_default()) {
            let Some((of, part)) = term.split_once('.').filter(|(of, part)| is_word(of) && is_word(part)) else {
                continue;
            };
            // These names belong to scripts, not to the contract.
            if matches!((of, part), ("tools", "name") | ("sys", "path")) {
                continue;
            }
            count += 1;
            let parts = known.get(of).unwrap_or_else(|| panic!("`{name}` names `{term}`; there is no `{of}`"));
            assert!(parts.contains(part), "`{name}` names `{term}`; `{of}` has no `{part}`");
        }
    }
    assert!(count > 20, "{count}");
}

#[test]
fn worlds_match_their_names() {
    let contract = Contract::read();
    let interfaces = |items: &mut dyn Iterator<Item = (&WorldKey, &WorldItem)>| -> Names {
        items
            .map(|(key, item)| {
                assert!(matches!(item, WorldItem::Interface { .. }), "{item:?}");
                let name = contract.resolve.name_world_key(key);
                let ours = name.strip_prefix("glovebox:sandbox/").and_then(|name| name.split_once('@'));
                ours.map_or(name.clone(), |(name, _)| name.to_owned())
            })
            .collect()
    };
    let worlds: BTreeMap<&str, (Names, Names)> = contract
        .worlds()
        .map(|(name, world)| (name, (interfaces(&mut world.imports.iter()), interfaces(&mut world.exports.iter()))))
        .collect();
    let expected = |imports: &[&str], exports: &[&str]| (listed(imports), listed(exports));
    assert_eq!(worlds["client"], expected(&["sandbox", "types"], &[]));
    assert_eq!(worlds["provider"], expected(&["tools", "types"], &["sandbox"]));
    assert_eq!(worlds["provider-closed"], expected(&[], &["sandbox", "types"]));
    assert_eq!(worlds["tool-provider"], expected(&["types"], &["tools"]));
    let (imports, exports) = &worlds["command"];
    assert_eq!(*exports, listed(&["wasi:cli/run@0.2.12"]));
    let ours: Names = imports.iter().filter(|name| !name.starts_with("wasi:")).cloned().collect();
    assert_eq!(ours, listed(&["sandbox", "types"]));
    assert!(imports.contains("wasi:cli/stdout@0.2.12"), "{imports:?}");
    assert_eq!(worlds.len(), 5, "{:?}", worlds.keys());
}

/// Returns the contents of the `.wit` files in a directory, keyed by file name.
fn files(directory: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let paths =
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|of| of == "wit"));
    paths
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect()
}

#[test]
fn frozen_copy_matches_the_current_version() {
    let version = Contract::read().version();
    let (now, frozen) = (files(&directory()), files(&directory().join("history").join(&version)));
    assert_eq!(now.keys().collect::<Vec<_>>(), frozen.keys().collect::<Vec<_>>());
    for (name, text) in &now {
        assert!(
            frozen[name] == *text,
            "wit/{name} is not what wit/history/{version} has: raise the version if {version} is released, else copy the \
             file there (wit/README.md)"
        );
    }
}

#[test]
fn frozen_versions_match_their_directories() {
    let directories = fs::read_dir(directory().join("history")).unwrap();
    for directory in directories.map(|entry| entry.unwrap().path()) {
        let version = directory.file_name().unwrap().to_str().unwrap();
        let line = format!("package glovebox:sandbox@{version};");
        for (name, text) in files(&directory) {
            assert_eq!(text.lines().next(), Some(line.as_str()), "wit/history/{version}/{name}");
        }
    }
}
