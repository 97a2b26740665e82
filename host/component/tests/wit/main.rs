//! Tests that the WIT package is well-formed, complete and frozen, and that the Rust API uses the same names.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod shape;
mod words;

use std::path::{Path, PathBuf};

use wit_parser::{Interface, PackageId, Resolve, TypeDef, World};

/// Returns the path of `wit/`.
fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("wit")
}

/// The packages in `wit/` and the ID of the `glovebox:sandbox` package.
struct Contract {
    resolve: Resolve,
    package: PackageId,
}

impl Contract {
    fn read() -> Self {
        let mut resolve = Resolve::default();
        let (package, _) = resolve.push_dir(directory()).expect("wit/ resolves");
        Self { resolve, package }
    }

    /// Reads the draft of the next version, which uses the types of the current version.
    fn draft() -> Self {
        let Self { mut resolve, .. } = Self::read();
        let (package, _) = resolve.push_dir(directory().join("0.3")).expect("wit/0.3 resolves");
        Self { resolve, package }
    }

    fn version(&self) -> String {
        let name = &self.resolve.packages[self.package].name;
        name.version.as_ref().expect("the package has a version").to_string()
    }

    fn interfaces(&self) -> impl Iterator<Item = (&str, &Interface)> {
        let interfaces = &self.resolve.packages[self.package].interfaces;
        interfaces.iter().map(|(name, id)| (name.as_str(), &self.resolve.interfaces[*id]))
    }

    fn worlds(&self) -> impl Iterator<Item = (&str, &World)> {
        let worlds = &self.resolve.packages[self.package].worlds;
        worlds.iter().map(|(name, id)| (name.as_str(), &self.resolve.worlds[*id]))
    }

    /// Returns the types that the package defines, except aliases and types imported with `use`.
    fn types(&self) -> impl Iterator<Item = (&str, &TypeDef)> {
        self.interfaces().flat_map(|(_, interface)| {
            let types = interface.types.iter().map(|(name, id)| (name.as_str(), &self.resolve.types[*id]));
            types.filter(|(_, definition)| !matches!(definition.kind, wit_parser::TypeDefKind::Type(_)))
        })
    }
}
