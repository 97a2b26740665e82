//! Tests custom images.

use std::{fs, path::Path, time::Duration};

use glovebox::{
    BuildError, Engine, HibernateOptions, ImageBuilder, Outcome, Packages, Policy, Request, ResumeOptions,
    RuntimeError, Sandbox,
};
use glovebox_tests::{PORTABLE_PYTHON, engine_config, tested_runtimes};
use tempfile::TempDir;

fn engine_of(images: &Path) -> Engine {
    engine_with(images, Packages::default())
}

fn engine_with(images: &Path, packages: Packages) -> Engine {
    let mut config = engine_config();
    config.pool = None;
    config.custom_images = Some(images.to_owned());
    config.packages = packages;
    Engine::new(config).unwrap()
}

/// An engine whose images are removed from the shared cache on drop.
struct Images(Engine, TempDir);

impl Images {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        Self(engine_of(&dir.path().join("images")), dir)
    }

    fn sandbox(&self, name: &str) -> Sandbox {
        Sandbox::builder(&self.0).runtime(name).build().unwrap()
    }

    /// Runs a script in a new execution and returns its output.
    fn run(&self, name: &str, source: &str) -> String {
        let execution = self.sandbox(name).execute(source).unwrap();
        assert_eq!(execution.outcome, Outcome::Completed, "{}", execution.stderr.text());
        execution.stdout.text()
    }
}

impl Drop for Images {
    fn drop(&mut self) {
        for (name, _) in self.0.images().unwrap_or_default() {
            let _ = self.0.remove_image(&name);
        }
    }
}

/// Returns a policy that persists globals in this directory.
fn persisting(directory: &Path) -> Policy {
    let mut policy = Policy::default();
    policy.workspace = Some(directory.to_owned());
    policy.auto_persist_globals = true;
    policy
}

/// Returns the concatenated contents of the files in a directory.
fn texts(directory: &Path) -> String {
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files.map(|path| fs::read_to_string(path).unwrap()).collect()
}

const PYTHON: &str = "\
import csv, random
table = list(csv.reader(open('data/sales.csv')))
def total(): return sum(int(row[1]) for row in table[1:])
x, f, A = 'mine', [1], 3  # names that the driver's samples use, too
rolled = random.random()
print('read', len(table))
";

const SALES: &[u8] = b"what,count\nx,1\ny,2\n";

fn sales(name: &str) -> ImageBuilder {
    ImageBuilder::new(name, PORTABLE_PYTHON).file("data/sales.csv", SALES).preload("decimal").setup(PYTHON)
}

#[test]
fn python_setup_state_is_in_every_execution() {
    let images = Images::new();
    let built = sales("test-sales").build(&images.0).unwrap();
    assert_eq!(built.image.setup_output.as_deref(), Some("read 3\n"));
    assert!(built.image.prepared && built.image.files[0].path == "data/sales.csv");

    assert_eq!(images.run("test-sales", "print(total(), x, f, A, __name__)"), "3 mine [1] 3 __main__\n");
    // A script's changes do not affect later executions, even though the setup leaves a file open.
    images.run("test-sales", "table.clear(); f.append(2); x = 1");
    let gone = "import os; print(total(), x, f, os.listdir(), __import__('sys').modules['decimal'].__name__)";
    assert_eq!(images.run("test-sales", gone), "3 mine [1] [] decimal\n");
    // Random numbers differ between executions, even though the numbers drawn by the setup are fixed.
    let rolls = || images.run("test-sales", "print(random.random())");
    assert_ne!(rolls(), rolls());
    let one = images.run("test-sales", "print(rolled)");
    assert_eq!(one, images.run("test-sales", "print(rolled)"));

    // A session continues on its image, even after hibernation.
    let sandbox = images.sandbox("test-sales");
    let session = sandbox.session().unwrap();
    session.execute("table.append(['z', '4']); y = total()").unwrap();
    let child = session.fork().unwrap();
    let bytes = session.hibernate(&HibernateOptions::default()).unwrap();
    assert_eq!(child.execute("print(total(), y)").unwrap().stdout.text(), "7 7\n");
    let other = engine_of(&images.1.path().join("images"));
    let sandbox = Sandbox::builder(&other).runtime("test-sales").build().unwrap();
    let resumed = sandbox.resume(&bytes, ResumeOptions::default()).unwrap();
    assert_eq!(resumed.execute("print(total(), y)").unwrap().stdout.text(), "7 7\n");

    // State in the image is not persisted with the script's globals.
    let directory = TempDir::new().unwrap();
    let policy = persisting(directory.path());
    let sandbox = Sandbox::builder(&images.0).runtime("test-sales").policy(policy).build().unwrap();
    let execution = sandbox.execute("n = total(); x = 'changed'").unwrap();
    assert_eq!(execution.outcome, Outcome::Completed, "{}", execution.stderr.text());
    let text = texts(directory.path());
    assert!(text.contains("\"n\":3") && text.contains("changed") && !text.contains("table"), "{text}");
}

#[test]
fn image_is_determined_by_its_inputs() {
    let images = Images::new();
    let sha256 = |builder: ImageBuilder| builder.build(&images.0).unwrap().prepared.image_sha256;
    let javascript = |name: &str, code: &str| ImageBuilder::new(name, "javascript").file("f", "1").setup(code);
    let one = sha256(javascript("test-one", "const made = [new Date(), Math.random()]"));
    assert_eq!(one, sha256(javascript("test-two", "const made = [new Date(), Math.random()]")));
    assert_ne!(one, sha256(javascript("test-three", "const made = [new Date(), Math.random(), 1]")));
    // Builds the image again instead of using the cached one.
    images.0.remove_image("test-one").unwrap();
    let again = sha256(javascript("test-one", "const made = [new Date(), Math.random()]").memory_bytes(200 << 20));
    assert_eq!(one, again);
}

#[test]
fn javascript_setup_state_is_in_every_execution() {
    let images = Images::new();
    let module =
        "import { twice } from './lib/twice.mjs'; globalThis.twice = twice; globalThis.os = await import('os');";
    let builder = ImageBuilder::new("test-module", "javascript").setup(module);
    builder.file("lib/twice.mjs", "export const twice = (n) => 2 * n;").preload("util").build(&images.0).unwrap();
    assert_eq!(images.run("test-module", "console.log(twice(4), typeof os.EOL)"), "8 string\n");

    let script = "const list = [1]; let count = 5; var old = 6; class Shape {} function area(n) { return n * count; }";
    ImageBuilder::new("test-script", "javascript").setup(script).build(&images.0).unwrap();
    let all = "list.push(2); console.log(list, count, old, new Shape(), area(2))";
    for _ in 0..2 {
        assert_eq!(images.run("test-script", all), "[ 1, 2 ] 5 6 Shape {} 10\n");
    }
    let anew = "let count = 7; const list = 8; class Shape { a = 1 } console.log(count, list, new Shape(), area(1))";
    assert_eq!(images.run("test-script", anew), "7 8 Shape { a: 1 } 7\n");
    let session = images.sandbox("test-script").session().unwrap();
    session.execute("count += 1; let fresh = count").unwrap();
    assert_eq!(session.execute("let count = 1; console.log(area(fresh))").unwrap().stdout.text(), "6\n");
    let drawn = || images.run("test-script", "console.log(Math.random())");
    assert_ne!(drawn(), drawn());

    let directory = TempDir::new().unwrap();
    let policy = persisting(directory.path());
    let sandbox = Sandbox::builder(&images.0).runtime("test-script").policy(policy).build().unwrap();
    let execution = sandbox.execute("let mine = count; count = 9").unwrap();
    assert_eq!(execution.outcome, Outcome::Completed, "{}", execution.stderr.text());
    let text = texts(directory.path());
    assert!(text.contains("\"mine\":5") && text.contains("\"count\":9") && !text.contains("list"), "{text}");
}

#[test]
fn image_of_an_image_contains_both_setups() {
    let images = Images::new();
    let base = ImageBuilder::new("test-base", "javascript").file("a", "1").setup("var a = std.loadFile('a')");
    base.build(&images.0).unwrap();
    let more = |name: &str| ImageBuilder::new(name, "test-base").file("b", "2");
    let setup = "var b = a + std.loadFile('a') + std.loadFile('b')";
    more("test-more").file("a", "1").setup(setup).build(&images.0).unwrap();
    // The image is self-contained: it does not need its base.
    images.0.remove_image("test-base").unwrap();
    assert_eq!(images.run("test-more", "console.log(a, b)"), "1 112\n");
    assert_eq!(images.0.image("test-more").unwrap().setups.len(), 2);
    let error = more("test-other").build(&images.0).unwrap_err().to_string();
    assert!(error.contains("there is no runtime `test-base`") && error.contains("`test-more`"), "{error}");
    let other = ImageBuilder::new("test-other", "test-more").file("a", "another").build(&images.0);
    assert!(other.unwrap_err().to_string().contains("`test-more` has a different file at `a`"));
}

/// Returns the error message of a failed build.
fn refused(images: &Images, builder: ImageBuilder) -> String {
    match builder.build(&images.0) {
        Err(error @ (RuntimeError::Setup { .. } | RuntimeError::Image(_))) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn failed_setup_keeps_the_previous_image() {
    let images = Images::new();
    let named = |from: &str, code: &str| ImageBuilder::new("test-held", from).setup(code);
    named("javascript", "var a = 1").build(&images.0).unwrap();
    let short = Duration::from_millis(300);
    let javascript = |code: &str| named("javascript", code).replace(true);
    for (builder, says) in [
        (javascript("throw new TypeError('no')"), "TypeError: no"),
        (javascript("const = 1"), "SyntaxError"),
        (javascript("std.exit(0)"), "it exited with code 0"),
        (javascript("import './none.js'"), "none.js"),
        (javascript("").preload("none"), "none"),
        (javascript("for (;;);").timeout(short), "it did not end within 300 ms"),
        (javascript("await new Promise(() => 0)").timeout(Duration::from_secs(60)), "never settles"),
        (
            javascript("const all = []; for (;;) all.push(new Uint8Array(1 << 20))").memory_bytes(128 << 20),
            "the memory limit is 134217728 bytes",
        ),
        (javascript("globalThis.f = std.open('f', 'w')"), "the setup left files open (1)"),
        (javascript("").memory_bytes((128 << 20) - 1), "the memory limit is 134217727 bytes"),
        (javascript("").memory_bytes((4 << 30) + 1), "the memory limit is 4294967297 bytes"),
        (javascript("").timeout(Duration::ZERO), "the time limit is 0 ms; it must be between 1 and 3600000"),
        (javascript("").timeout(Duration::from_millis(3_600_001)), "the time limit is 3600001 ms"),
        (javascript("").file("../x", ""), "`../x` is not a valid file path"),
        (javascript("").wheel("x-1-py3-none-any.whl", "PK"), "wheels are for Python"),
        (named("javascript", ""), "image `test-held` already exists"),
        (ImageBuilder::new("python-3.15", "javascript"), "`python-3.15` is the name of a built-in runtime"),
        (ImageBuilder::new("quickjs", "javascript"), "is the name of a built-in runtime"),
        (ImageBuilder::new("../x", "javascript"), "is not a valid image name"),
    ] {
        let message = refused(&images, builder);
        assert!(message.contains(says), "{says}: {message}");
    }
    assert_eq!(images.run("test-held", "console.log(a)"), "1\n");
    assert_eq!(images.0.images().unwrap().len(), 1);
    javascript("var a = 2").build(&images.0).unwrap();
    assert_eq!(images.run("test-held", "console.log(a)"), "2\n");
    // Builds exactly at the limits succeed.
    javascript("").memory_bytes(128 << 20).timeout(Duration::from_secs(3600)).build(&images.0).unwrap();
}

/// The memory of an image is not limited by the default file system limits.
#[test]
fn large_setup_is_limited_only_by_its_memory() {
    let images = Images::new();
    let large = |array_mib: u64, memory_mib: u64| {
        let setup = format!(
            "globalThis.big = new Uint8Array({array_mib} << 20).fill(7, -9);
             globalThis.names = require('fs').readdirSync('.'); globalThis.text = std.loadFile('f')"
        );
        let builder = ImageBuilder::new("test-large", "javascript").file("f", "text").setup(setup);
        builder.memory_bytes(memory_mib << 20)
    };
    let message = refused(&images, large(130, 128));
    assert!(message.contains("the memory limit is 134217728 bytes"), "{message}");
    let built = large(120, 128).build(&images.0).unwrap();
    assert!(built.prepared.memory_bytes > 128_000_000, "{}", built.prepared.memory_bytes);
    let script = "console.log(big.length >> 20, big.at(-1), big[0], names.join(), text)";
    assert_eq!(images.run("test-large", script), "120 7 0 f text\n");

    // The archive contains no memory, so importing it builds the image again.
    let file = images.1.path().join("large.tar");
    images.0.export_image("test-large", &file).unwrap();
    assert!(fs::metadata(&file).unwrap().len() < 1 << 20);
    images.0.remove_image("test-large").unwrap();
    let imported = images.0.import_image(&file, None, false).unwrap();
    assert_eq!(imported.prepared.image_sha256, built.prepared.image_sha256);
    assert_eq!(images.run("test-large", script), "120 7 0 f text\n");
}

#[test]
fn custom_image_cannot_run_as_a_plain_command() {
    let images = Images::new();
    ImageBuilder::new("test-plain", "javascript").setup("var a = 1").build(&images.0).unwrap();
    let error = Sandbox::builder(&images.0).runtime("test-plain").prepared(false).build().unwrap_err();
    assert!(matches!(error, BuildError::Runtime(RuntimeError::Load { .. })), "{error}");
    assert!(error.to_string().contains("`--no-prepare`"), "{error}");
}

#[test]
fn python_setup_is_limited() {
    let images = Images::new();
    let python = |code: &str| ImageBuilder::new("test-limits", PORTABLE_PYTHON).setup(code);
    for (builder, says) in [
        (python("1 / 0"), "ZeroDivisionError"),
        (python("x = bytearray(1 << 28)").memory_bytes(200 << 20), "the memory limit is 209715200 bytes"),
        (python("while True: pass").timeout(Duration::from_millis(300)), "it did not end within 300 ms"),
        (python("f = open('left', 'w')"), "the setup left files open (1)"),
    ] {
        let message = refused(&images, builder);
        assert!(message.contains(says), "{says}: {message}");
    }
    assert!(images.0.images().unwrap().is_empty());
}

fn wheel(module: &str) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let files = [
        ("tool-1.dist-info/METADATA", "Name: tool\nVersion: 1\n"),
        ("tool/__init__.py", module),
        ("tool/late.py", "def found(): return __file__"),
    ];
    for (path, text) in files {
        zip.start_file(path, zip::write::SimpleFileOptions::default()).unwrap();
        std::io::Write::write_all(&mut zip, text.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

#[test]
fn image_wheels_are_importable_in_setup_and_scripts() {
    let images = Images::new();
    let build =
        |name: &str| ImageBuilder::new(name, PORTABLE_PYTHON).wheel("tool-1-py3-none-any.whl", wheel("n = [7]"));
    build("test-wheel").preload("tool").setup("from tool import n").build(&images.0).unwrap();
    let script = "import tool, tool.late, tabulate, sys; print(n is tool.n, tool.late.found(), tabulate.__name__)";
    assert_eq!(images.run("test-wheel", script), "True /app/site-packages/tool/late.py tabulate\n");

    let paths = |name: &str| {
        let files = images.0.image_packages(name).unwrap().into_iter();
        files.map(|(path, _)| path).filter(|path| path.ends_with(".py")).collect::<Vec<_>>()
    };
    assert_eq!(paths("test-wheel"), ["tool/__init__.py", "tool/late.py"]);
    for other in [PORTABLE_PYTHON, "test-missing", "../x"] {
        assert_eq!(paths(other), [""; 0], "{other}");
    }

    // Exporting and importing an image does not change it.
    let file = images.1.path().join("out.tar");
    images.0.export_image("test-wheel", &file).unwrap();
    images.0.export_image("test-wheel", &file).unwrap_err();
    let imported = images.0.import_image(&file, Some("test-copy"), false).unwrap();
    let both = [imported.prepared.image_sha256, images.0.image("test-wheel").unwrap().image_sha256.unwrap()];
    assert_eq!(both[0], both[1]);
    assert!(images.0.import_image(&file, None, false).unwrap_err().to_string().contains("already exists"));

    let bare = engine_with(&images.1.path().join("images"), Packages::None);
    let error = Sandbox::builder(&bare).runtime("test-wheel").build().unwrap_err().to_string();
    assert!(error.contains("it has packages, but this engine runs without packages"), "{error}");
    let clash = ImageBuilder::new("test-clash", PORTABLE_PYTHON).wheel("six-1-py3-none-any.whl", wheel(""));
    assert!(refused(&images, clash).contains("does not match its file name"));
}

#[test]
fn engine_without_an_image_directory_reports_it() {
    let engine = glovebox_tests::lone_engine(None);
    let error = ImageBuilder::new("test-none", "javascript").build(&engine).unwrap_err();
    assert!(matches!(error, RuntimeError::NoImages), "{error}");
    assert!(engine.images().unwrap().is_empty());
}

#[test]
fn a_damaged_image_is_listed_refused_and_removed() {
    let images = Images::new();
    let built = ImageBuilder::new("test-damaged", "javascript").setup("var a = 1").build(&images.0).unwrap();
    fs::write(&built.image.path, "no archive").unwrap();
    let listed = images.0.images().unwrap();
    assert!(listed[0].0 == "test-damaged" && listed[0].1.is_err());
    let error = Sandbox::builder(&images.0).runtime("test-damaged").build().unwrap_err().to_string();
    assert!(error.contains("test-damaged.tar` is not an image, or is damaged"), "{error}");
    images.0.remove_image("test-damaged").unwrap();
    assert!(images.0.remove_image("test-damaged").unwrap_err().to_string().contains("there is no custom image"));
}

/// numpy's generator is seeded when the image is built, so each execution must seed it again.
#[test]
fn numpy_random_numbers_differ_between_executions() {
    for runtime in tested_runtimes().iter().filter(|runtime| runtime.name == "python-3.15-data") {
        let sandbox = Sandbox::builder(glovebox_tests::engine()).runtime(&runtime.name).build().unwrap();
        let draw = || {
            let request = Request::new(
                "import numpy as np; print(np.random.rand(), np.random.normal(), np.random.randint(9**9))",
            );
            sandbox.run(request).unwrap().stdout.text()
        };
        let (one, two) = (draw(), draw());
        assert!(one.split(' ').zip(two.split(' ')).all(|(one, two)| one != two), "{one} {two}");
        let seeded = || sandbox.execute("import numpy as np; np.random.seed(1); print(np.random.rand())").unwrap();
        assert_eq!(seeded().stdout.text(), "0.417022004702574\n");
    }
}

#[test]
fn damaged_image_code_is_reported_and_rebuilt() {
    let images = Images::new();
    let built = ImageBuilder::new("harmed", "javascript").setup("globalThis.x = 1").build(&images.0).unwrap();
    images.0.verify("harmed").unwrap();
    let mut bytes = fs::read(&built.prepared.path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    // Replaces the file, because the file itself is read-only. Another program could do the same.
    fs::remove_file(&built.prepared.path).unwrap();
    fs::write(&built.prepared.path, bytes).unwrap();
    assert!(images.0.verify("harmed").is_err() || !images.0.image("harmed").unwrap().prepared);
    assert!(images.0.remove("harmed").unwrap() > 0);
    assert_eq!(images.run("harmed", "console.log(x)"), "1\n");
    images.0.verify("harmed").unwrap();
}
