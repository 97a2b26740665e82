//! The export section during a rewrite.

use std::collections::BTreeMap;

use wasm_encoder::{ExportKind, ExportSection};

use super::RewriteError;
use super::sections::{Sections, export_kind};

/// Exports of a module, in order.
pub(super) struct Exports {
    list: Vec<(String, ExportKind, u32)>,
    by_name: BTreeMap<String, (ExportKind, u32)>,
    /// A name of each exported global, by index.
    globals: BTreeMap<u32, String>,
}

impl Exports {
    pub(super) fn of(sections: &Sections<'_>) -> Result<Self, RewriteError> {
        let mut exports = Self { list: Vec::new(), by_name: BTreeMap::new(), globals: BTreeMap::new() };
        for export in sections.exports()? {
            exports.push(export.name, export_kind(export.kind), export.index);
        }
        Ok(exports)
    }

    fn push(&mut self, name: &str, kind: ExportKind, index: u32) {
        self.list.push((name.to_owned(), kind, index));
        self.by_name.insert(name.to_owned(), (kind, index));
        if kind == ExportKind::Global {
            self.globals.insert(index, name.to_owned());
        }
    }

    pub(super) fn has(&self, name: &str, kind: ExportKind) -> bool {
        self.by_name.get(name).is_some_and(|(of, _)| *of == kind)
    }

    /// Returns the index of an exported function.
    pub(super) fn function(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).and_then(|(kind, index)| (*kind == ExportKind::Func).then_some(*index))
    }

    /// Returns a name of an exported global.
    pub(super) fn global(&self, index: u32) -> Option<&String> {
        self.globals.get(&index)
    }

    pub(super) fn add(&mut self, name: &str, kind: ExportKind, index: u32) -> Result<(), RewriteError> {
        match self.by_name.get(name) {
            Some(there) if *there == (kind, index) => Ok(()),
            Some(_) => Err(RewriteError::ExportTaken(name.to_owned())),
            None => {
                self.push(name, kind, index);
                Ok(())
            }
        }
    }

    pub(super) fn section(&self) -> ExportSection {
        let mut section = ExportSection::new();
        for (name, kind, index) in &self.list {
            section.export(name, *kind, *index);
        }
        section
    }
}
