//! Helpers that several test files share.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use glovebox_runtimes::{
    ArtefactKey, CacheDir, Digest, Fetcher, ImageRecord, KeyParts, Manifest, NewArtefact, Runtimes,
};
use wasmparser::{ExternalKind, GlobalType, KnownCustom, MemoryType, Parser, Payload, TypeRef};

/// Returns the contents of the pinned file in the test manifest. The contents are compressible and longer than one
/// chunk.
pub(crate) fn pinned() -> Vec<u8> {
    let mut bytes = b"\0asm\x01\0\0\0".to_vec();
    bytes.extend((0..200_000u32).flat_map(|n| (n / 7).to_le_bytes()));
    bytes
}

/// Returns a manifest with one runtime, `fake`, whose pin matches `pinned` and which has two packages as sources.
pub(crate) fn manifest(pinned: &[u8]) -> Manifest {
    let text = format!(
        r#"
        [[runtime]]
        name = "fake"
        language = "python"
        version = "1.0"
        sha256 = "{}"
        size_bytes = {}
        licence = "MIT"
        homepage = "https://example.org"
        origin = "a test"
        recipe = "r"
        sources = [
            {{ kind = "pypi", package = "first", version = "1", file = "a/fake.wasm" }},
            {{ kind = "pypi", package = "second", version = "2", file = "b/fake.wasm" }},
        ]
        [recipe.r]
        driver = "cpython"
        "#,
        Digest::of(pinned),
        pinned.len()
    );
    Manifest::parse(&text).unwrap()
}

/// A directory for one test: the cache, a fake pip, and the wheels that it serves.
pub(crate) struct World {
    pub(crate) dir: tempfile::TempDir,
}

impl World {
    /// Creates a world with a fake pip. Its `download` command runs `script` in the destination directory, with the
    /// requirement in `$wanted` and the world's directory in `$world`.
    pub(crate) fn new(script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let text = format!(
            "#!/bin/sh\nworld='{}'\n[ \"$1\" = --version ] && exit 0\nfor wanted; do :; done\n{script}\n",
            dir.path().display()
        );
        fs::write(dir.path().join("pip"), text).unwrap();
        Self { dir }
    }

    /// Creates a world whose fake pip serves the wheels added with [`Self::wheel`].
    pub(crate) fn with_wheels() -> Self {
        Self::new(
            "echo \"$wanted\" >> $world/asked; cp \"$world/${wanted%%==*}.whl\" . || { echo \"ERROR: No matching distribution for $wanted\"; exit 1; }",
        )
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn wheel(&self, package: &str, file: &str, content: &[u8]) {
        self.wheel_of(package, &[(file, content)]);
    }

    pub(crate) fn wheel_of(&self, package: &str, files: &[(&str, &[u8])]) {
        let out = fs::File::create(self.path(&format!("{package}.whl"))).unwrap();
        let mut zip = zip::ZipWriter::new(out);
        let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
        zip.start_file("other.txt", options).unwrap();
        for (file, content) in files {
            zip.start_file(*file, options).unwrap();
            std::io::Write::write_all(&mut zip, content).unwrap();
        }
        zip.finish().unwrap();
    }

    pub(crate) fn fetcher(&self) -> Fetcher {
        Fetcher::with_commands(vec![vec!["/bin/sh".into(), self.path("pip").into()]])
    }

    pub(crate) fn cache(&self) -> CacheDir {
        CacheDir::open_sealed(self.path("cache"), self.path("seals")).unwrap()
    }

    pub(crate) fn runtimes(&self) -> Runtimes {
        Runtimes::new(manifest(&pinned()), self.cache()).with_fetcher(self.fetcher())
    }

    /// Returns the file names in a directory of the cache.
    pub(crate) fn files(&self, subdir: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path("cache").join(subdir)) else {
            return Vec::new();
        };
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

pub(crate) fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

pub(crate) fn parts() -> KeyParts {
    KeyParts {
        label: "fake-1.0".to_owned(),
        runtime: Digest::of(b"binary"),
        recipe: Digest::of(b"recipe"),
        wasmtime: "48.0.0".to_owned(),
        settings: "fuel".to_owned(),
        target: "machine".to_owned(),
    }
}

pub(crate) fn key() -> ArtefactKey {
    ArtefactKey::new(parts())
}

/// Returns an artefact whose record matches its code.
pub(crate) fn artefact(aot: Vec<u8>) -> NewArtefact {
    let record = ImageRecord {
        prepared: true,
        restorable: true,
        memory_bytes: 65_536,
        anchors: BTreeMap::from([("driver".to_owned(), 1024)]),
        ..ImageRecord::of_code(Digest::of(&aot))
    };
    NewArtefact { aot, record }
}

/// Returns a command that runs one test of this test program in a child process.
pub(crate) fn child(test: &str, world: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(CHILD, world).stdout(Stdio::null());
    command
}

/// The environment variable through which a child process receives the directory of its parent's test.
pub(crate) const CHILD: &str = "GLOVEBOX_TEST_CHILD";

#[derive(Debug, PartialEq)]
pub(crate) struct Import {
    pub(crate) module: String,
    pub(crate) name: String,
    pub(crate) kind: ExternalKind,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Export {
    pub(crate) name: String,
    pub(crate) kind: ExternalKind,
    pub(crate) index: u32,
}

/// A module's imports, exports and other properties.
#[derive(Default)]
pub(crate) struct ModuleInfo {
    pub(crate) imports: Vec<Import>,
    pub(crate) exports: Vec<Export>,
    /// The first memory that the module defines.
    pub(crate) memory: Option<MemoryType>,
    /// All globals. Imported globals are first.
    pub(crate) globals: Vec<GlobalType>,
    pub(crate) has_names: bool,
    pub(crate) has_start: bool,
}

pub(crate) fn inspect(module: &[u8]) -> ModuleInfo {
    let mut info = ModuleInfo::default();
    for payload in Parser::new(0).parse_all(module) {
        match payload.unwrap() {
            Payload::ImportSection(imports) => {
                for import in imports.into_imports() {
                    let import = import.unwrap();
                    let kind = match import.ty {
                        TypeRef::Func(_) | TypeRef::FuncExact(_) => ExternalKind::Func,
                        TypeRef::Table(_) => ExternalKind::Table,
                        TypeRef::Memory(_) => ExternalKind::Memory,
                        TypeRef::Global(global) => {
                            info.globals.push(global);
                            ExternalKind::Global
                        }
                        TypeRef::Tag(_) => ExternalKind::Tag,
                    };
                    info.imports.push(Import { module: import.module.to_owned(), name: import.name.to_owned(), kind });
                }
            }
            Payload::ExportSection(exports) => info.exports.extend(exports.into_iter().map(|export| {
                let export = export.unwrap();
                Export { name: export.name.to_owned(), kind: export.kind, index: export.index }
            })),
            Payload::MemorySection(memories) => info.memory = memories.into_iter().next().map(Result::unwrap),
            Payload::GlobalSection(globals) => {
                info.globals.extend(globals.into_iter().map(|global| global.unwrap().ty));
            }
            Payload::CustomSection(custom) => info.has_names |= matches!(custom.as_known(), KnownCustom::Name(_)),
            Payload::StartSection { .. } => info.has_start = true,
            _ => {}
        }
    }
    info
}
