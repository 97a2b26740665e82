//! Tests that file names, and other text chosen by a guest or a file, cannot forge lines of output.

use std::{error::Error, fs, io, path::PathBuf};

use glovebox::{
    BuildError, ExecuteError, FileError, FilesError, PolicyError, RequestError, RuntimeError, ToolDefinitionError,
    mount::{Collision, GuardedDirectory, MountError, Relation},
};
use glovebox_component_runner::{InvokeError, LoadError, RunError};
use glovebox_runtimes::{
    CacheError, ManifestError, PackageError, PreparedError, RuntimeError as BinaryError, UserPackageError, WheelFault,
};
use glovebox_sessions::{SessionId, StoreError};
use glovebox_vfs::{Access, Vfs, VfsError, VfsLimits};

/// A file name with every kind of character that must be escaped.
const NAME: &str = "a\nerror: forged\r\t\u{1b}[2K\u{85}\u{9b}\u{202e}\u{2066}\u{200b}\u{2028}\u{2029}\u{feff}`b";
/// The escaped form of `NAME`.
const SHOWN: &str = r"a\nerror: forged\r\t\u{1b}[2K\u{85}\u{9b}\u{202e}\u{2066}\u{200b}\u{2028}\u{2029}\u{feff}";

fn name() -> String {
    NAME.to_owned()
}

fn path() -> PathBuf {
    NAME.into()
}

fn io_error() -> io::Error {
    io::ErrorKind::Other.into()
}

/// Asserts that the error shows the file name in its escaped form.
fn shown(error: &dyn Error) {
    let text = error.to_string();
    assert!(text.contains(SHOWN), "{text:?}");
    let hostile = |c: char| c.is_control() || NAME.contains(c) && !c.is_ascii();
    assert!(!text.contains(hostile), "{text:?}");
}

#[test]
fn mount_errors_escape_names() {
    let source = VfsError::Io;
    let errors = [
        MountError::Missing { path: path() },
        MountError::NotADirectory { path: path() },
        MountError::Guarded {
            path: path(),
            relation: Relation::Is,
            guarded: GuardedDirectory::Cache,
            ours: "x".into(),
        },
        MountError::Guarded {
            path: "x".into(),
            relation: Relation::Is,
            guarded: GuardedDirectory::Cache,
            ours: path(),
        },
        MountError::Denied { action: "read", path: path(), source: io_error() },
        MountError::ReadOnly { path: path() },
        MountError::Busy { path: path(), waited_ms: 1 },
        MountError::Conflict { path: name(), collision: Collision::Changed },
        MountError::ReservedName { path: name() },
        MountError::InvalidPath { path: name() },
        MountError::LinkLeaves { path: name(), target: "x".into() },
        MountError::LinkLeaves { path: "x".into(), target: name() },
        MountError::OtherFileSystem { path: name() },
        MountError::TooDeep { path: name(), limit: 1 },
        MountError::Unfinished { path: path(), staging: "x".into() },
        MountError::Unfinished { path: "x".into(), staging: name() },
        MountError::BadJournal { path: path(), staging: "x".into(), reason: "x" },
        MountError::BadJournal { path: "x".into(), staging: name(), reason: "x" },
        MountError::Torn { redo: name(), undo: "x".into(), staging: "x".into() },
        MountError::Torn { redo: "x".into(), undo: name(), staging: "x".into() },
        MountError::Torn { redo: "x".into(), undo: "x".into(), staging: name() },
        MountError::Contents { path: name(), source },
        MountError::UnknownStep { step: name() },
        MountError::Io { action: "read", path: name(), source: io_error() },
    ];
    errors.iter().for_each(|error| shown(error));
}

#[test]
fn engine_errors_escape_names() {
    let errors: Vec<Box<dyn Error>> = vec![
        Box::new(FilesError::Workspace(FileError::Path { path: name(), reason: "x" })),
        Box::new(FilesError::Workspace(FileError::Pattern { pattern: name(), reason: "x".into() })),
        Box::new(FilesError::Workspace(FileError::Exists { path: name() })),
        Box::new(FilesError::HostLink { path: path() }),
        Box::new(FilesError::HostMissing { path: path() }),
        Box::new(FilesError::HostPath { path: path() }),
        Box::new(FilesError::Archive { entry: name(), reason: "x" }),
        Box::new(BuildError::File { path: name(), reason: "x".into() }),
        Box::new(BuildError::NotPersisting { name: name() }),
        Box::new(BuildError::Memory { name: name(), limit_bytes: 1, needed_bytes: 2 }),
        Box::new(RuntimeError::Load { name: name(), reason: "x".into() }),
        Box::new(RuntimeError::Boot { name: name(), reason: "x".into() }),
        Box::new(BinaryError::CorruptProgram { name: name(), path: path(), expected: 1, got: 2 }),
        Box::new(ExecuteError::Unrestorable { id: name(), reason: "x".into() }),
        Box::new(ExecuteError::from(RequestError::Name(name()))),
        Box::new(ExecuteError::SessionEnded { id: name(), reason: "x".into() }),
        Box::new(ExecuteError::SessionBusy { id: name() }),
        Box::new(ExecuteError::SessionId { id: name() }),
        Box::new(ExecuteError::NoCheckpoint { id: name(), wanted: None }),
        Box::new(ExecuteError::Variable { name: name(), reason: "x".into() }),
        Box::new(ExecuteError::ValueTooLarge { name: name(), bytes: 2, max: 1 }),
        Box::new(ExecuteError::NotPrepared { name: name() }),
        Box::new(PolicyError::Env { key: name(), reason: "x".into() }),
        Box::new(PolicyError::Mount { mount: name(), reason: "x".into() }),
        Box::new(PolicyError::Package { name: name(), reason: "x".into() }),
        Box::new(PolicyError::Tool { key: name(), reason: "x".into() }),
        Box::new(ToolDefinitionError::Name(name())),
        Box::new(ToolDefinitionError::Duplicate(name())),
        Box::new(ToolDefinitionError::NoHandler(name())),
        Box::new(SessionId::new(NAME).unwrap_err()),
        Box::new(StoreError::Damaged { id: SessionId::new("x").unwrap(), path: path(), reason: "x".into() }),
    ];
    errors.iter().for_each(|error| shown(&**error));
    let mut vfs = Vfs::new(VfsLimits::default());
    let root = vfs.add_root(Access::ReadWrite);
    shown(&vfs.read_file(root, NAME, 1).unwrap_err());
    // A guest's own message may quote names, so its backticks remain.
    let message = ExecuteError::Variable { name: "v".into(), reason: format!("no `x`{NAME}") }.to_string();
    assert!(message.contains("no `x`a\\nerror: forged\\r") && !message.contains(char::is_control), "{message}");
}

#[test]
fn cache_errors_escape_names() {
    let errors: Vec<Box<dyn Error>> = vec![
        Box::new(CacheError::Symlink { path: path() }),
        Box::new(CacheError::Owner { path: path(), owner: 1, user: 2 }),
        Box::new(CacheError::Writable { path: path(), mode: 0o777 }),
        Box::new(CacheError::NotADirectory { path: path() }),
        Box::new(CacheError::NotAFile { path: path() }),
        Box::new(CacheError::Cancelled { path: path() }),
        Box::new(CacheError::Io { action: "read", path: path(), source: io_error() }),
        Box::new(PreparedError::Corrupt { path: path(), expected: "x".into(), got: "y".into() }),
        Box::new(BinaryError::Missing { name: "x".into(), path: path() }),
        Box::new(BinaryError::NoFile { path: path() }),
        Box::new(BinaryError::NoSuchFile { path: path() }),
        Box::new(BinaryError::NotABinary { path: path(), problem: "x".into() }),
        Box::new(BinaryError::Read { path: path(), source: io_error() }),
        Box::new(BinaryError::Cancelled(name())),
        Box::new(UserPackageError::FileName(name())),
        Box::new(UserPackageError::Platform(name(), "x".into())),
        Box::new(UserPackageError::Platform("x".into(), name())),
        Box::new(UserPackageError::Wheel { file: name(), source: WheelFault::Twice("x".into()) }),
        Box::new(UserPackageError::Metadata { file: name(), problem: "x".into() }),
        Box::new(UserPackageError::Clash { name: "x".into(), module: name(), owner: "y".into() }),
        Box::new(WheelFault::Path(name())),
        Box::new(WheelFault::Twice(name())),
        Box::new(WheelFault::NotAFile(name())),
        Box::new(PackageError::Corrupt { name: "x".into(), path: path(), problem: "y".into() }),
        Box::new(ManifestError::UnknownRuntime { name: name(), known: "x".into() }),
    ];
    errors.iter().for_each(|error| shown(&**error));
}

#[test]
fn application_errors_escape_names() {
    let (exports, x) = (Vec::new, || "x".to_owned());
    let errors: Vec<Box<dyn Error>> = vec![
        Box::new(LoadError::Read { path: path(), source: io_error() }),
        Box::new(LoadError::TooLarge { name: name(), max: 1 }),
        Box::new(LoadError::NotWasm { name: name() }),
        Box::new(LoadError::CoreModule { name: name() }),
        Box::new(LoadError::Excess { name: name(), reason: x() }),
        Box::new(LoadError::MissingImport { name: x(), import: name() }),
        Box::new(LoadError::Link { name: name(), reason: x() }),
        Box::new(LoadError::NoTools { name: name() }),
        Box::new(LoadError::ToolList { name: name(), reason: x() }),
        Box::new(RunError::NotACommand { name: name(), exports: exports() }),
        Box::new(RunError::Directory { host: path(), reason: x() }),
        Box::new(InvokeError::NoCall { call: name() }),
        Box::new(InvokeError::NoSuchFunction { name: x(), function: name(), exports: exports() }),
        Box::new(InvokeError::NoTextualForm { function: name() }),
        Box::new(InvokeError::Arguments { signature: name(), arguments: x(), reason: x() }),
    ];
    errors.iter().for_each(|error| shown(&**error));
}

/// Returns the product's Rust sources.
fn sources() -> Vec<(PathBuf, String)> {
    let top = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut left: Vec<PathBuf> = ["guest-shims", "host", "runtimes"].map(|dir| top.join(dir)).into();
    let mut found = Vec::new();
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() && !matches!(name, "tests" | "target" | "examples" | "benches") {
                left.push(path);
            } else if name.ends_with(".rs") && name != "tests.rs" {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    assert!(found.len() > 200);
    found
}

/// Splits a string after the attribute that it starts with.
fn attribute(text: &str) -> (&str, &str) {
    let (mut depth, mut quoted, mut skip) = (1, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if skip => skip = false,
            '\\' if quoted => skip = true,
            '"' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let rest = &text[at..];
            return (&text[..at], &rest[..rest.find("#[error(").unwrap_or(rest.len())]);
        }
    }
    panic!("unterminated attribute: {text}");
}

/// Returns the placeholders between backticks in a message.
fn quoted(message: &str) -> Vec<&str> {
    let inside = message.split('`').skip(1).step_by(2);
    inside
        .flat_map(|text| text.split('{').skip(1))
        .filter_map(|text| text.split(['}', ':']).next())
        .filter(|name| !name.is_empty())
        .collect()
}

#[test]
fn every_error_that_quotes_a_text_escapes_it() {
    let (mut checked, mut wrong) = (0, Vec::new());
    for (path, text) in sources() {
        for (at, _) in text.match_indices("#[error(") {
            let (attribute, rest) = attribute(&text[at + "#[error(".len()..]);
            let message = attribute.split('"').nth(1).unwrap_or_default();
            for name in quoted(message) {
                let is_text = |of: &str| ["String", "PathBuf"].iter().any(|text| of.starts_with(text));
                let has_text = match name.parse::<usize>() {
                    Ok(0) => rest.split_once('(').is_some_and(|(_, of)| is_text(of)),
                    Ok(_) => true,
                    Err(_) => rest.split_once(&format!(" {name}: ")).is_some_and(|(_, of)| is_text(of)),
                };
                checked += 1;
                if has_text && !attribute.contains(&format!("{name} = escaped")) {
                    wrong.push(format!("{}: `{name}` in {message:?}", path.display()));
                }
            }
            if attribute.contains(".display()") {
                wrong.push(format!("{}: a path in {message:?}", path.display()));
            }
        }
        for line in text.lines().filter(|line| line.contains(".display()")) {
            let is_shown = ["`{}`", "tracing::", " = %", "println!", "writeln!"].iter().any(|of| line.contains(of));
            if is_shown {
                wrong.push(format!("{}: {}", path.display(), line.trim()));
            }
        }
    }
    assert!(checked > 100, "{checked}");
    assert!(wrong.is_empty(), "use `glovebox_vfs::escaped`:\n{}", wrong.join("\n"));
}
