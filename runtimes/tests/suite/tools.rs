//! Tests that tools are downloaded only once, verified against their pins, and extracted from their npm packages.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use flate2::{Compression, write::GzEncoder};
use glovebox_runtimes::{
    Digest, FetchOutcome, Fetcher, HostProgram, Manifest, NoProgress, ProgramSource, Progress, RuntimeError, Runtimes,
    ToolEntry,
};

use crate::support::World;

const FILE: &str = "package/tool.js";

fn module() -> Vec<u8> {
    let mut bytes = b"\0asm\x01\0\0\0".to_vec();
    bytes.extend((0..1_000u32).flat_map(u32::to_le_bytes));
    bytes
}

fn manifest(sources: &str) -> Manifest {
    let text = format!(
        r#"
        [[runtime]]
        name = "fake"
        language = "python"
        version = "1.0"
        sha256 = "{}"
        size_bytes = 8
        licence = "MIT"
        homepage = "https://example.org"
        origin = "a test"
        recipe = "r"
        sources = [{{ kind = "pypi", package = "first", version = "1", file = "a/fake.wasm" }}]
        [[tool]]
        name = "tool"
        version = "1.0"
        sha256 = "{}"
        size_bytes = {}
        licence = "MIT"
        homepage = "https://example.org"
        origin = "a test"
        sources = {sources}
        [recipe.r]
        driver = "cpython"
        "#,
        Digest::of(b"fake"),
        Digest::of(&module()),
        module().len()
    );
    Manifest::parse(&text).unwrap()
}

/// Returns a world whose fake npm serves the package that the test has written.
fn world() -> World {
    World::new(
        "echo \"$wanted\" >> $world/asked; cp \"$world/package.tgz\" . || { echo 'npm error code E404'; echo 'npm error 404 Not Found'; exit 1; }",
    )
}

fn runtimes(world: &World) -> Runtimes {
    let manifest = manifest(r#"[{ kind = "npm", package = "@a/tool", version = "1.2.3", file = "package/tool.js" }]"#);
    let npm = vec![vec!["/bin/sh".into(), world.path("pip").into()]];
    Runtimes::new(manifest, world.cache()).with_fetcher(Fetcher::default().with_npm_commands(npm))
}

fn tool(runtimes: &Runtimes) -> &ToolEntry {
    runtimes.manifest().tool("tool").unwrap()
}

fn script(module: &[u8]) -> String {
    format!("'use strict';\nconst bytes = Buffer.from('{}', 'base64');\n", BASE64_STANDARD.encode(module))
}

fn pack(world: &World, file: &str, content: &[u8]) {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, bytes) in [("package/package.json", &b"{}"[..]), (file, content)] {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, bytes).unwrap();
    }
    fs::write(world.path("package.tgz"), archive.into_inner().unwrap().finish().unwrap()).unwrap();
}

#[test]
fn tool_is_fetched_once_and_then_used_offline() {
    let world = world();
    pack(&world, FILE, script(&module()).as_bytes());
    let runtimes = runtimes(&world);
    let tool = tool(&runtimes);
    assert!(!runtimes.tool_present(tool).unwrap());
    assert!(matches!(runtimes.verify_tool(tool), Err(RuntimeError::NoFile { .. })));
    assert_eq!(runtimes.fetch_tool(tool, &NoProgress).unwrap(), FetchOutcome::Now);
    assert_eq!(runtimes.fetch_tool(tool, &NoProgress).unwrap(), FetchOutcome::AlreadyThere);
    assert_eq!(runtimes.load_or_fetch_tool(tool, &NoProgress).unwrap(), module());
    assert_eq!(fs::read_to_string(world.path("asked")).unwrap(), "@a/tool@1.2.3\n");
    assert_eq!(world.files("binaries").len(), 1, "the files of npm must be removed");
    runtimes.verify_tool(tool).unwrap();
    assert!(runtimes.remove_tool(tool).unwrap() && !runtimes.remove_tool(tool).unwrap());
}

#[test]
fn manually_placed_file_is_verified() {
    let world = world();
    let runtimes = runtimes(&world);
    let tool = tool(&runtimes);
    runtimes.tool_present(tool).unwrap();
    fs::write(runtimes.tool_path(tool), module()).unwrap();
    assert_eq!(runtimes.load_or_fetch_tool(tool, &NoProgress).unwrap(), module());
    let mut other = module();
    other[100] ^= 1;
    fs::write(runtimes.tool_path(tool), &other).unwrap();
    let error = runtimes.load_or_fetch_tool(tool, &NoProgress).unwrap_err().to_string();
    assert!(error.contains(&Digest::of(&module()).to_string()), "{error}");
    assert!(error.contains(&Digest::of(&other).to_string()), "{error}");
    fs::write(runtimes.tool_path(tool), &other[1..]).unwrap();
    let error = runtimes.fetch_tool(tool, &NoProgress).unwrap_err().to_string();
    assert!(error.contains("expected 4008 bytes, got 4007 bytes") && error.contains("runtimes remove tool"), "{error}");
}

#[test]
fn unpinned_module_is_never_stored() {
    let (mut other, longer) = (module(), [module(), vec![0]].concat());
    other[100] ^= 1;
    let glue = |bytes: usize| format!("{}{}", " ".repeat(bytes), script(&module()));
    // The maximum size of `FILE`: the module's base64 text plus one mebibyte.
    let max = (module().len() / 3 + 1) * 4 + (1 << 20);
    let over = max + 1 - script(&module()).len();
    for (file, content, expected) in [
        (FILE, script(&other), "wrong checksum"),
        (FILE, script(&longer), "wrong length: expected 4008 bytes, got more"),
        (FILE, "Buffer.from('AA=A', 'base64')".to_owned(), "contains no module"),
        (FILE, "module.exports = {}".to_owned(), "contains no module"),
        ("package/other.js", script(&module()), "has no file `package/tool.js`"),
        (FILE, glue(over), "too large for the pinned size"),
    ] {
        let world = world();
        pack(&world, file, content.as_bytes());
        let runtimes = runtimes(&world);
        let error = runtimes.fetch_tool(tool(&runtimes), &NoProgress).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
        assert_eq!(world.files("binaries"), [""; 0], "{expected}");
    }
    let world = world();
    pack(&world, FILE, glue(over - 1).as_bytes());
    let runtimes = runtimes(&world);
    assert_eq!(runtimes.fetch_tool(tool(&runtimes), &NoProgress).unwrap(), FetchOutcome::Now, "at");
}

#[test]
fn broken_or_missing_package_error_has_a_hint() {
    let world = world();
    let runtimes = runtimes(&world);
    let tool = tool(&runtimes);
    let error = runtimes.fetch_tool(tool, &NoProgress).unwrap_err().to_string();
    for part in [
        "`tool`",
        "`package/tool.js` in the npm package @a/tool 1.2.3",
        "npm error 404 Not Found",
        "check the network",
        &runtimes.tool_path(tool).display().to_string(),
        &tool.sha256.to_string(),
    ] {
        assert!(error.contains(part), "{part:?} is not in {error}");
    }
    let mut file = fs::File::create(world.path("package.tgz")).unwrap();
    file.write_all(b"rubbish").unwrap();
    let error = runtimes.fetch_tool(tool, &NoProgress).unwrap_err().to_string();
    assert!(error.contains("the package cannot be read"), "{error}");
    assert_eq!(world.files("binaries"), [""; 0]);
}

#[test]
fn missing_npm_error_says_what_to_install() {
    let world = world();
    let none = Fetcher::default().with_npm_commands(vec![vec!["/nonexistent/npm".into()]]);
    let runtimes = runtimes(&world).with_fetcher(none);
    let error = runtimes.fetch_tool(tool(&runtimes), &NoProgress).unwrap_err().to_string();
    assert!(error.contains("`/nonexistent/npm`") && error.contains("install Node.js's npm"), "{error}");
    assert!(!error.contains("--runtime-path"), "{error}");
}

/// A receiver that cancels after the fake npm has written its process ID, and counts the calls to `done`.
struct CancelWhenRunning<'a> {
    world: &'a World,
    done_count: AtomicUsize,
}

impl Progress for CancelWhenRunning<'_> {
    fn done(&self) {
        self.done_count.fetch_add(1, Relaxed);
    }

    fn cancelled(&self) -> bool {
        fs::read_to_string(self.world.path("pid")).is_ok_and(|text| text.ends_with('\n'))
    }
}

#[test]
fn a_cancelled_fetch_leaves_nothing() {
    let world = World::new("echo $$ > $world/pid; exec sleep 60");
    let runtimes = runtimes(&world);
    let progress = CancelWhenRunning { world: &world, done_count: AtomicUsize::new(0) };
    let error = runtimes.fetch_tool(tool(&runtimes), &progress).unwrap_err();
    assert!(matches!(error, RuntimeError::Cancelled(name) if name == "tool"));
    assert_eq!(progress.done_count.into_inner(), 1);
    assert_eq!(world.files("binaries"), [""; 0]);
}

#[test]
fn damaged_program_error_names_the_file_to_delete() {
    let world = World::new("");
    world.cache();
    let program = HostProgram {
        name: "engine",
        version: "1.0.0",
        source: ProgramSource::Npm { package: "@example/engine", file: "package/engine" },
        size_bytes: 8,
        sha256: "0000000000000000000000000000000000000000000000000000000000000000",
    };
    let file = world.path("cache/programs/engine-1.0.0-0000000000000000");
    fs::create_dir(file.parent().unwrap()).unwrap();
    fs::write(&file, "short").unwrap();
    fs::set_permissions(file.parent().unwrap(), fs::Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let message = program.fetch(&world.path("cache"), &NoProgress).unwrap_err().to_string();
    let file = file.display();
    assert_eq!(
        message,
        format!("`{file}` is damaged: expected 8 bytes, got 5; delete the file to download `engine` again")
    );
}
