//! Checks the crate graph in `CONTRIBUTING.md`, which is generated from the manifests. `BLESS=1` writes the graph.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
    path::Path,
};

use glovebox_tests::hold_file;
use toml::{Table, Value};

const PAGE: &str = "CONTRIBUTING.md";
/// The directories that contain crates, from the top of the graph to the bottom.
const PARTS: [&str; 4] = ["bindings", "host", "runtimes", "guest-shims"];

struct Crate {
    directory: String,
    /// The workspace crates that this crate depends on; `true` for an optional dependency.
    uses: BTreeMap<String, bool>,
}

/// Returns the workspace's crates, without the tests, keyed by name.
fn crates(root: &Path) -> BTreeMap<String, Crate> {
    let table = |directory: &str| -> Table {
        fs::read_to_string(root.join(directory).join("Cargo.toml")).unwrap().parse().unwrap()
    };
    let members = table("")["workspace"]["members"].as_array().unwrap().clone();
    let directories = members.iter().filter_map(Value::as_str).filter(|directory| !directory.starts_with("tests"));
    let mut crates: BTreeMap<_, _> = directories
        .map(|directory| {
            let manifest = table(directory);
            let dependencies = manifest.get("dependencies").and_then(Value::as_table).cloned().unwrap_or_default();
            let is_optional = |value: &Value| value.get("optional").and_then(Value::as_bool) == Some(true);
            let uses = dependencies.iter().map(|(name, value)| (name.clone(), is_optional(value))).collect();
            let name = manifest["package"]["name"].as_str().unwrap().to_owned();
            (name, Crate { directory: directory.to_owned(), uses })
        })
        .collect();
    let names: BTreeSet<String> = crates.keys().cloned().collect();
    crates.values_mut().for_each(|each| each.uses.retain(|name, _| names.contains(name)));
    crates
}

/// Returns `true` if `from` depends on `to`, directly or indirectly.
fn reaches(crates: &BTreeMap<String, Crate>, from: &str, to: &str) -> bool {
    from == to || crates[from].uses.keys().any(|next| reaches(crates, next, to))
}

/// Returns the graph in Mermaid syntax. Omits dependencies that are implied by others.
fn graph(crates: &BTreeMap<String, Crate>) -> String {
    let mut graph = String::from("flowchart TD\n");
    for part in PARTS {
        let is_inside = |each: &Crate| each.directory.split('/').next() == Some(part);
        let names: Vec<&str> =
            crates.iter().filter(|(_, each)| is_inside(each)).map(|(name, _)| name.as_str()).collect();
        let _ = writeln!(graph, "  subgraph {part}\n    {}\n  end", names.join(" & "));
    }
    for (name, each) in crates {
        let is_implied = |used: &str| each.uses.keys().any(|other| other != used && reaches(crates, other, used));
        for (arrow, optional) in [("-->", false), ("-.->", true)] {
            let shown = each.uses.iter().filter(|(used, is_optional)| **is_optional == optional && !is_implied(used));
            let used: Vec<&str> = shown.map(|(used, _)| used.as_str()).collect();
            if !used.is_empty() {
                let _ = writeln!(graph, "  {name} {arrow} {}", used.join(" & "));
            }
        }
    }
    graph
}

#[test]
fn crate_graph_matches_the_manifests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = fs::read_to_string(root.join(PAGE)).unwrap();
    let (before, rest) = page.split_once("```mermaid\n").unwrap();
    let (_, after) = rest.split_once("```\n").unwrap();
    hold_file(PAGE, &format!("{before}```mermaid\n{}```\n{after}", graph(&crates(&root))));
}
