//! Tests type checks of scripts that import added packages.

use std::{
    fs,
    io::Write as _,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use serde_json::json;
use tempfile::TempDir;

use super::{call, fetch};
use crate::{prepared, support::text};

/// Writes the files in the JSON object on standard input to a wheel.
const WRITE_WHEEL: &str = "\
import json, sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w') as wheel:
    for name, content in json.load(sys.stdin).items():
        wheel.writestr(name, content)";

/// A package that declares its types. It contains an error, which is not reported.
const TYPED: &str = "\
import os, missing_package
from loose import Row
def area(width: int, height: int = 1) -> int:
    return width * height
def row() -> Row:
    return Row()
class Shape:
    name: str = ''
    def grow(self, by: float) -> 'Shape':
        return self
undefined_name";

/// A package that does not declare its types, and that does more than its source shows.
const LOOSE: &str = "\
class Row:
    def __init__(self):
        self.count = None
for name in ('first', 'last'):
    setattr(Row, name, property(lambda row: 1))
globals()['load'] = lambda *paths: Row()
def convert(value=None):
    return value";

/// The added packages of one test.
struct Packages(TempDir);

impl Packages {
    fn new() -> Self {
        fetch();
        Self(tempfile::tempdir().unwrap())
    }

    /// Writes a wheel with one package. A name such as `x_stubs` stands for the types of `x`. Returns the wheel's path.
    fn wheel(&self, name: &str, files: &[(&str, &str)]) -> String {
        let path = self.0.path().join(format!("{name}-1.0-py3-none-any.whl")).to_str().unwrap().to_owned();
        let metadata = (format!("{name}-1.0.dist-info/METADATA"), json!(format!("Name: {name}\nVersion: 1.0\n\n")));
        let package =
            name.strip_suffix("_stubs").map_or_else(|| name.to_owned(), |described| format!("{described}-stubs"));
        let files = files.iter().map(|(file, content)| (format!("{package}/{file}"), json!(content)));
        let files: serde_json::Map<_, _> = files.chain([metadata]).collect();
        let mut python =
            Command::new("python3").args(["-c", WRITE_WHEEL, &path]).stdin(Stdio::piped()).spawn().unwrap();
        python.stdin.take().unwrap().write_all(json!(files).to_string().as_bytes()).unwrap();
        assert!(python.wait().unwrap().success());
        path
    }

    fn add(&self, name: &str, files: &[(&str, &str)]) {
        self.succeed(&["packages", "add", &self.wheel(name, files)]);
    }

    fn run(&self, args: &[&str]) -> Output {
        prepared(args).env("XDG_STATE_HOME", self.0.path()).output().unwrap()
    }

    fn succeed(&self, args: &[&str]) {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    }

    /// Writes a script. Returns its path.
    fn script(&self, name: &str, source: &str) -> String {
        let path = self.0.path().join(name);
        fs::write(&path, source).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Checks a script. Returns the exit code and standard error.
    fn check(&self, args: &[&str], script: &str) -> (Option<i32>, String) {
        let script = self.script("script.py", script);
        let output = self.run(&[&["validate", "--types", script.as_str()][..], args].concat());
        (output.status.code(), text(&output.stderr))
    }

    fn directory(&self) -> PathBuf {
        self.0.path().join("glovebox/packages")
    }
}

#[test]
#[ignore = "downloads the type checker; `.ci/full` runs it"]
fn added_packages_have_the_types_that_they_declare() {
    let packages = Packages::new();
    packages.add("shapes", &[("__init__.py", TYPED), ("py.typed", "")]);
    packages.add("loose", &[("__init__.py", LOOSE)]);
    let other = packages.script("other.py", "1");
    for (script, rule) in [
        ("import shapes\nshapes.area('a')", Some("invalid-argument-type")),
        ("import shapes\nshapes.area()", Some("missing-argument")),
        ("import shapes\nshapes.volume(1)", Some("missing-attribute")),
        ("from shapes import Shape\nShape().grow(1).size", Some("missing-attribute")),
        ("import shapes\nfrom shapes import volume", Some("missing-module-member")),
        ("from shapes import Shape, area\nprint(area(2).bit_length(), Shape().grow(0.5).name.upper())", None),
        // Values from packages without declared types.
        ("import shapes\nshapes.row().first.anything", None),
        ("import loose\nprint(loose.load('a', 'b').first + loose.Row().last, loose.convert(1, 2, x=3))", None),
        ("from loose import anything\nanything.first", None),
        ("import loose, shapes\nloose.Row().count += shapes.area(1)", None),
    ] {
        // For two scripts, the checker stays running.
        for args in [&[][..], &[&*other][..]] {
            let (code, stderr) = packages.check(args, script);
            match rule {
                None => assert_eq!((code, stderr.as_str()), (Some(0), ""), "{script}"),
                Some(rule) => {
                    assert_eq!(code, Some(1), "{script}: {stderr}");
                    assert!(stderr.contains(&format!("[{rule}]")), "{script}: {stderr}");
                    assert!(stderr.contains("script.py:2:") && stderr.lines().count() == 1, "{script}: {stderr}");
                }
            }
        }
    }
    let arguments = json!({
        "language": "python", "code": "print(1)\nimport shapes\nshapes.area()", "check_types": true,
    });
    let answer = call(packages.0.path(), "run_code", &arguments);
    assert_eq!(answer["type_errors"][0]["line"], 3, "{answer}");

    // Packages that are removed are unknown.
    packages.succeed(&["packages", "remove", "shapes"]);
    let (code, stderr) = packages.check(&[], "import shapes\nshapes.area()");
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
}

#[test]
#[ignore = "downloads the type checker; `.ci/full` runs it"]
fn packages_of_an_image_have_types_only_in_the_image() {
    let packages = Packages::new();
    packages.add("shapes", &[("__init__.py", "def old() -> int: ..."), ("py.typed", "")]);
    let wheel = packages.wheel("shapes", &[("__init__.py", TYPED), ("py.typed", "")]);
    packages.succeed(&["image", "build", "shaped", "--from", "python", "--wheel", &wheel]);
    for (runtime, script, code) in [
        ("shaped", "import shapes\nshapes.area(1)", 0),
        ("shaped", "import shapes\nshapes.area()", 1),
        ("shaped", "import shapes\nshapes.old()", 1),
        ("python", "import shapes\nshapes.area(1)", 1),
        ("python", "import shapes\nshapes.old()", 0),
    ] {
        let (found, stderr) = packages.check(&["--runtime", runtime], script);
        assert_eq!(found, Some(code), "{runtime} {script}: {stderr}");
    }
}

#[test]
#[ignore = "downloads the type checker; `.ci/full` runs it"]
fn stubs_describe_included_packages() {
    let stubs = [
        ("__init__.pyi", "class ndarray:\n    size: int\ndef arange(stop: int) -> ndarray: ...\n"),
        ("linalg.pyi", "def norm(x: object) -> float: ...\n"),
    ];
    let scripts = [
        ("import numpy\nnumpy.arange(3).sise", Some("missing-attribute")),
        ("import numpy\nnumpy.arange('3')", Some("invalid-argument-type")),
        ("import numpy.linalg\nnumpy.linalg.norm()", Some("missing-argument")),
        ("import numpy\nprint(numpy.arange(3).size + 1)", None),
        ("import pandas\npandas.anything", None),
    ];
    let packages = Packages::new();
    let wheel = packages.wheel("numpy_stubs", &stubs);
    packages.succeed(&["image", "build", "typed", "--from", "python", "--wheel", &wheel]);
    let check_all = |runtime: &str, has_types: bool| {
        for (script, rule) in scripts {
            let (code, stderr) = packages.check(&["--runtime", runtime], script);
            match rule.filter(|_| has_types) {
                None => assert_eq!((code, stderr.as_str()), (Some(0), ""), "{runtime} {script}"),
                Some(rule) => assert!(code == Some(1) && stderr.contains(&format!("[{rule}]")), "{script}: {stderr}"),
            }
        }
    };
    check_all("typed", true);
    check_all("python", false);
    packages.succeed(&["packages", "add", &wheel]);
    check_all("python", true);
    // The stubs do not replace the package.
    let output = packages.run(&["run", "-e", "import numpy; print(numpy.arange(3))"]);
    assert_eq!((text(&output.stdout).as_str(), text(&output.stderr).as_str()), ("[0 1 2]\n", ""));
    let listed = packages.run(&["packages", "list", "--json"]);
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let added = listed.as_array().unwrap().iter().find(|package| package["bundled"] == false).unwrap();
    assert_eq!((&added["imports"], &added["stubs"]), (&json!([]), &json!(["numpy-stubs"])));
}

#[test]
#[ignore = "downloads the type checker; `.ci/full` runs it"]
fn hostile_packages_do_not_affect_other_scripts() {
    let packages = Packages::new();
    let typed = |source: &str| [("__init__.py".to_owned(), source.to_owned()), ("py.typed".to_owned(), String::new())];
    for (name, source) in [
        ("shapes", TYPED.to_owned()),
        ("large", format!("x: int = 1\n{}", "# A comment.\n".repeat(100_000))),
        ("crashing", format!("x = {}1", "1 + ".repeat(200_000))),
        ("own", "from own import *\nimport own\nx: int = own.x".to_owned()),
    ] {
        let files = typed(&source);
        let files: Vec<_> = files.iter().map(|(file, content)| (file.as_str(), content.as_str())).collect();
        packages.add(name, &files);
    }
    let other = packages.script("other.py", "1");
    for (script, code, part) in [
        ("import shapes\nshapes.area()", 1, "[missing-argument]"),
        // A package with a long file has no types.
        ("import large\nlarge.x.anything", 0, ""),
        // Only scripts that import this package cannot be checked.
        (
            "import crashing\ncrashing.x.anything",
            125,
            "the type checker, limited to 1073741824 bytes of memory, failed",
        ),
        ("import own\nown.x.anything", 1, "[missing-attribute]"),
    ] {
        for args in [&[][..], &[&*other][..]] {
            let (found, stderr) = packages.check(args, script);
            assert!(found == Some(code) && stderr.contains(part), "{script}: {found:?} {stderr}");
        }
    }
    // Without the added packages, which cannot be read, scripts run and are checked.
    fs::write(packages.directory().join("bad-1.0-py3-none-any.whl"), "PK").unwrap();
    let (code, stderr) = packages.check(&[], "import shapes\nshapes.area()");
    assert_eq!(code, Some(0), "{stderr}");
    let (code, stderr) = packages.check(&[], "import shapes\n''.push()");
    assert!(code == Some(1) && stderr.contains("[missing-attribute]"), "{stderr}");
}

#[test]
#[ignore = "downloads the type checker; `.ci/full` runs it"]
fn standard_library_has_the_interpreters_version() {
    let packages = Packages::new();
    for (runtime, name, code) in
        [("python", "fmax", 0), ("python-3.12", "fmax", 1), ("python-3.12", "fmod", 0), ("python", "fmox", 1)]
    {
        let (found, stderr) = packages.check(&["--runtime", runtime], &format!("from math import {name}"));
        assert_eq!(found, Some(code), "{runtime} {name}: {stderr}");
    }
}
