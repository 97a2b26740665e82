//! Which modules of a crate import which: that they form layers, and no cycle.
//!
//! A module imports another where a path of it, in a `use` or in its code, leads to an item that the other one defines: through whatever
//! facades there are on the way, which import nothing by passing on. What is only there for tests does not count.

mod graph;
mod read;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    slice,
};

use read::{Module, Read};

pub use graph::Cycle;

/// So long is a way through facades at most; who imports in a circle passes nothing on.
const MAX_FACADES: usize = 16;

/// The modules of a crate, by their paths: `crate`, `crate::session::line`.
pub struct Modules(BTreeMap<String, Module>);

impl Modules {
    /// Reads a crate, from its `lib.rs` or `main.rs` on.
    ///
    /// # Panics
    /// When a file is not there or is no Rust.
    #[must_use]
    pub fn read(root: &Path) -> Self {
        let mut modules = BTreeMap::new();
        Read { modules: &mut modules }.file("crate", root);
        Self(modules)
    }

    /// One cycle of each group of modules that import each other, the shortest.
    #[must_use]
    pub fn cycles(&self) -> Vec<Cycle> {
        graph::cycles(&self.edges())
    }

    /// Which modules each one imports.
    #[must_use]
    pub fn edges(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let edges = self.0.iter().map(|(name, module)| {
            let imports = module.imports.iter().filter(|import| !import.is_passed_on || import.is_used_in(module));
            let to = imports.filter_map(|import| self.defining(name, &import.path, MAX_FACADES));
            // What is imported with everything else of a module is known by the names that are used.
            let has_globs = module.imports.iter().any(|import| import.alias.is_none() && !import.is_passed_on);
            let names = module.names.iter().filter(|_| has_globs);
            let through_globs = names.filter_map(|used| self.found(name, slice::from_ref(used), MAX_FACADES));
            (name.as_str(), to.chain(through_globs).filter(|to| *to != name).collect())
        });
        edges.collect()
    }

    /// The module that defines what a path of `from` leads to; none for what is of another crate.
    fn defining(&self, from: &str, path: &[String], facades: usize) -> Option<&str> {
        let (first, mut rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => "crate",
            "self" => from,
            "super" => parent(from)?,
            _ => return self.found(from, path, facades),
        };
        while let Some((_, after)) = rest.split_first().filter(|(first, _)| *first == "super") {
            (at, rest) = (parent(at)?, after);
        }
        self.found(at, rest, facades).or_else(|| self.named(at))
    }

    /// The module that defines what a path leads to that begins in `at`.
    fn found(&self, at: &str, path: &[String], facades: usize) -> Option<&str> {
        let Some((name, rest)) = path.split_first() else { return self.named(at) };
        let module = self.0.get(at)?;
        let child = format!("{at}::{name}");
        if self.0.contains_key(&child) {
            return self.found(&child, rest, facades).or_else(|| self.named(&child));
        }
        if module.items.contains(name) {
            return self.named(at);
        }
        let facades = facades.checked_sub(1)?;
        let behind = |before: &[String], rest: &[String]| self.defining(at, &[before, rest].concat(), facades);
        let named = module.imports.iter().filter(|import| import.alias.as_ref() == Some(name));
        let globs = module.imports.iter().filter(|import| import.alias.is_none());
        let defines = |to: &&str| self.0.get(*to).is_some_and(|to| to.items.contains(name));
        named
            .filter_map(|import| behind(&import.path, rest))
            .chain(globs.filter_map(|glob| behind(&glob.path, path).filter(defines)))
            .next()
    }

    fn named(&self, name: &str) -> Option<&str> {
        self.0.get_key_value(name).map(|(name, _)| name.as_str())
    }
}

fn parent(of: &str) -> Option<&str> {
    of.rsplit_once("::").map(|(parent, _)| parent)
}
