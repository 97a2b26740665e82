//! Functions of the binary, by name.

use std::collections::{BTreeMap, BTreeSet};

use wasmparser::Name;

use crate::rewrite::{RewriteError, sections::Sections};

/// Cython's check of a buffer's format. Each module has its own copy.
const CHECK_FORMAT: &str = "__Pyx_BufFmt_CheckString";

/// Indices of functions, for new code and for splices.
pub(super) struct Functions {
    pub(super) named: BTreeMap<String, u32>,
    pub(super) checks: BTreeSet<u32>,
}

impl Functions {
    pub(super) fn get(&self, name: &str) -> Result<u32, RewriteError> {
        self.named.get(name).copied().ok_or_else(|| RewriteError::NoFunction(name.to_owned()))
    }

    /// Finds the wanted functions in the `name` section.
    pub(super) fn find(sections: &Sections<'_>, wanted: &BTreeSet<&str>) -> Result<Self, RewriteError> {
        let mut functions = Self { named: BTreeMap::new(), checks: BTreeSet::new() };
        for part in sections.names().into_iter().flatten() {
            let Name::Function(map) = part? else { continue };
            for naming in map {
                let naming = naming?;
                // C++ names include the parameters.
                if naming.name.split_once('(').map_or(naming.name, |(name, _)| name) == CHECK_FORMAT {
                    functions.checks.insert(naming.index);
                } else if wanted.contains(naming.name)
                    && functions.named.insert(naming.name.to_owned(), naming.index).is_some()
                {
                    return Err(RewriteError::AmbiguousFunction(naming.name.to_owned()));
                }
            }
        }
        match wanted.iter().find(|name| !functions.named.contains_key(**name)) {
            Some(name) => Err(RewriteError::NoFunction((*name).to_owned())),
            None => Ok(functions),
        }
    }
}
