//! Tests hostile images, image inputs and policies: memory, limits, damaged caches and hidden characters.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

use super::{
    caches::cache_with_binaries,
    glovebox,
    support::{prepare, text},
};

/// Runs a command, and writes its peak resident memory in KiB to standard error as the last line.
const MEASURE: &str = "import resource, subprocess, sys\n\
     code = subprocess.call(sys.argv[1:])\n\
     print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)\n\
     sys.exit(code)";

/// Maximum memory of a command in KiB, in addition to the memory that it needs for harmless input.
const MAX_GROWTH_KIB: u64 = 64 << 10;

struct MeasuredCommand {
    code: Option<i32>,
    stderr: String,
    peak_kib: u64,
}

/// The images and files of one test.
struct Images(TempDir);

impl Images {
    fn new() -> Self {
        prepare();
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// Writes a file and returns its path.
    fn file(&self, name: &str, contents: &str) -> String {
        fs::write(self.path(name), contents).unwrap();
        self.path(name)
    }

    /// Creates a sparse file of zeros, and returns its path.
    fn sparse(&self, name: &str, bytes: u64) -> String {
        fs::File::create(self.path(name)).unwrap().set_len(bytes).unwrap();
        self.path(name)
    }

    /// Returns the exit code, standard output and standard error of a command.
    fn run(&self, args: &[&str]) -> (Option<i32>, String, String) {
        let output = glovebox(args).env("XDG_STATE_HOME", self.0.path()).output().unwrap();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }

    fn measured(&self, args: &[&str]) -> MeasuredCommand {
        let mut command = Command::new("python3");
        command.args(["-c", MEASURE, env!("CARGO_BIN_EXE_glovebox")]).args(args);
        let output = command.env("XDG_STATE_HOME", self.0.path()).stdin(Stdio::null()).output().unwrap();
        let printed = text(&output.stderr);
        let (stderr, peak) = printed.trim_end().rsplit_once('\n').unwrap_or(("", printed.trim_end()));
        MeasuredCommand { code: output.status.code(), stderr: stderr.to_owned(), peak_kib: peak.parse().unwrap() }
    }
}

#[test]
fn files_over_a_limit_take_bounded_memory() {
    let images = Images::new();
    let (large, wheel) = (images.sparse("large", 3 << 30), images.sparse("large-1.0-py3-none-any.whl", 3 << 30));
    let build = ["image", "build", "--from", "python", "hostile"];
    let missing = images.path("missing");
    let base = images.measured(&[&build[..], &["--setup", &missing]].concat());
    assert_eq!(base.code, Some(125), "{}", base.stderr);
    let refused = |args: &[&str], says: &str| {
        let MeasuredCommand { code, stderr, peak_kib } = images.measured(args);
        assert!(code == Some(125) && stderr.contains(says) && stderr.len() < 4 << 10, "{args:?}: {code:?} {stderr}");
        let grown = peak_kib.saturating_sub(base.peak_kib);
        assert!(grown < MAX_GROWTH_KIB, "{args:?}: {grown} KiB");
    };
    for (flags, says) in [
        (&["--setup", &*large][..], "is longer than 1048576 bytes"),
        (&["--setup", "/dev/zero"][..], "is longer than 1048576 bytes"),
        (&["--wheel", &*wheel][..], "is longer than 33554432 bytes"),
        (&["--wheel", "/dev/zero"][..], "is longer than 33554432 bytes"),
        (&["--preload", "math", "--file", &*large][..], "is longer than 268435456 bytes"),
    ] {
        refused(&[&build[..], flags].concat(), says);
    }
    for file in [&*large, "/dev/zero"] {
        refused(&["image", "import", file], "is not an image, or is damaged");
    }
    // After parsing, the first policy would occupy 300 MB. The second policy has the maximum length, in a single line.
    let policies = [
        (images.file("long.toml", &format!("args = [{}]", "\"\",".repeat(1_300_000))), "is longer than 524288 bytes"),
        (images.file("line.toml", &"x".repeat(512 << 10)), "TOML parse error at line 1"),
    ];
    for (policy, says) in policies {
        refused(&["run", "--policy", &policy, "-e", "1"], says);
    }
}

#[test]
fn large_image_takes_bounded_memory() {
    const FILE_KIB: u64 = 48 << 10;
    let images = Images::new();
    let setup = images.file("setup.js", "globalThis.x = 1");
    let peaks = [("small", 1), ("large", FILE_KIB << 10)].map(|(name, bytes)| {
        let (file, exported) = (images.sparse(&format!("{name}.bin"), bytes), images.path(&format!("{name}.tar")));
        let imported = format!("{name}-imported");
        let measured = [
            &["image", "build", "--from", "javascript", "--setup", &*setup, "--file", &*file, name][..],
            &["image", "export", name, &*exported][..],
            &["image", "import", "--name", &*imported, &*exported][..],
        ]
        .map(|args| images.measured(args));
        for ran in &measured {
            assert_eq!(ran.code, Some(0), "{name}: {}", ran.stderr);
        }
        for name in [name, &*imported] {
            assert_eq!(images.run(&["image", "remove", name]).0, Some(0));
        }
        measured.map(|ran| ran.peak_kib)
    });
    let [small, large] = peaks;
    for ((small, large), step) in small.into_iter().zip(large).zip(["build", "export", "import"]) {
        let grown = large.saturating_sub(small);
        assert!(grown < FILE_KIB + MAX_GROWTH_KIB, "{step}: {grown} KiB");
    }
}

#[test]
fn hidden_characters_of_an_image_are_shown_escaped() {
    let images = Images::new();
    let setup = "globalThis.x = '\u{202e}\u{2028}\u{9b}' // \u{202e} \u{1b}[2J\n";
    let (setup, file) = (images.file("setup.js", setup), images.file("f\u{202e}q", "1"));
    let args = ["image", "build", "--from", "javascript", "--setup", &*setup, "--file", &*file, "hidden"];
    let (code, _, error) = images.run(&args);
    assert_eq!(code, Some(0), "{error}");
    let (_, shown, _) = images.run(&["image", "show", "hidden"]);
    let hidden = |text: &str| text.chars().any(|c| "\u{202e}\u{2028}\u{9b}\u{1b}".contains(c));
    assert!(!hidden(&shown), "{shown:?}");
    assert!(shown.contains(r"f\u{202e}q (1 B)"), "{shown}");
    assert!(shown.contains(r"globalThis.x = '\u{202e}\u{2028}\u{9b}' // \u{202e} \u{1b}[2J"), "{shown}");
    assert_eq!(images.run(&["image", "remove", "hidden"]).0, Some(0));
}

/// Returns the only file with compiled code in a directory of a cache.
fn code_in(directory: &Path) -> PathBuf {
    let paths = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "cwasm")).collect();
    assert_eq!(paths.len(), 1, "{paths:?}");
    paths.remove(0)
}

#[test]
fn damaged_image_code_has_a_remedy_that_works() {
    let (images, cache) = (Images::new(), cache_with_binaries());
    let dir = cache.path().to_str().unwrap();
    let setup = images.file("setup.js", "globalThis.x = 1");
    let run = |args: &[&str]| images.run(&[args, &["--cache-dir", dir]].concat());
    let (code, _, error) = run(&["image", "build", "--from", "javascript", "--setup", &setup, "harmed"]);
    assert_eq!(code, Some(0), "{error}");
    let binary = PathBuf::from(run(&["runtimes", "path", "javascript"]).1.trim_end());
    let binary_bytes = fs::read(&binary).unwrap();
    let script = ["run", "--runtime", "harmed", "-e", "console.log(x)"];
    let diagnosed = || {
        let (code, report, error) = run(&["doctor", "--no-run", "--json"]);
        let report: Value = serde_json::from_str(&report).unwrap_or_else(|parsed| panic!("{parsed}: {report}{error}"));
        let checks = report["checks"].as_array().unwrap();
        (code, checks.iter().find(|check| check["check"] == "image harmed").unwrap().clone())
    };
    // The image's own code, and the code that it shares with its runtime.
    for kind in ["prepared", "code"] {
        assert_eq!(run(&script).1, "1\n", "{kind}");
        let path = code_in(&cache.path().join(kind));
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        // Replace the file as another program could, because the file itself is read-only.
        fs::remove_file(&path).unwrap();
        fs::write(&path, bytes).unwrap();
        assert_eq!(run(&script).0, Some(125), "{kind}");
        let (code, check) = diagnosed();
        assert_eq!((code, check["status"].as_str()), (Some(1), Some("wrong")), "{kind}: {check}");
        let remedy = check["remedy"].as_str().unwrap().split('`').nth(1).unwrap();
        let command: Vec<&str> = remedy.split(' ').skip(1).collect();
        let (code, _, error) = run(&command);
        assert_eq!(code, Some(0), "{remedy}: {error}");
        // The binary may have been removed. Without this file, it would be downloaded.
        fs::write(&binary, &binary_bytes).unwrap();
        assert_eq!(diagnosed().1["status"], "ok", "{kind}");
    }
    assert_eq!(run(&script).1, "1\n");
}
