//! Checks files in the repository: ignored files, citations, the runtimes page, and `vendor_js`.

use std::{fs, path::Path};

use glovebox::Language;
use glovebox_tests::{cases_dir, is_variant_of, load_all_cases, lost_citations};

#[test]
fn cases_cite_only_existing_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let lost = |path: &Path| {
        let text = fs::read_to_string(path).unwrap();
        // Text between backticks in scripts is not a citation.
        let front_matter = text.split("\n+++\n").next().unwrap();
        lost_citations(front_matter, &root)
    };
    let paths = fs::read_dir(cases_dir()).unwrap().map(|entry| entry.unwrap().path());
    let cases = paths.filter(|path| !path.ends_with("README.md"));
    assert_eq!(cases.flat_map(|path| lost(&path)).collect::<Vec<_>>(), [""; 0]);
}

/// A misspelt name would exclude the case, or its expectations, from every run.
#[test]
fn cases_name_only_runtimes_of_the_manifest() {
    let manifest = glovebox_runtimes::Manifest::builtin().unwrap();
    let runtimes: Vec<&str> = manifest.runtimes().iter().map(|entry| entry.name.as_str()).collect();
    for case in load_all_cases(&cases_dir()).unwrap() {
        let runs = runtimes.iter().any(|runtime| case.on_runtime(runtime).is_some());
        assert!(runs, "`{}` needs the runtime {:?}, which does not exist", case.name, case.runtime);
        for name in case.steps.iter().flat_map(|step| step.expect_on.keys()) {
            let is_known = runtimes.iter().any(|runtime| is_variant_of(runtime, name));
            assert!(is_known, "`{}` has an expectation for the runtime `{name}`, which does not exist", case.name);
        }
    }
}

#[test]
fn no_binary_of_a_runtime_can_be_committed() {
    let ignored = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.gitignore")).unwrap();
    for pattern in ["*.wasm", "*.cwasm"] {
        assert!(ignored.lines().any(|line| line == pattern), "`.gitignore` does not contain `{pattern}`");
    }
}

#[test]
fn runtimes_page_lists_all_runtime_details() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/runtimes.md")).unwrap();
    let manifest = glovebox_runtimes::Manifest::builtin().unwrap();
    let (images, runtimes): (Vec<_>, Vec<_>) = manifest.runtimes().iter().partition(|entry| entry.image.is_some());
    for image in images {
        let named = format!("| `{}` | CPython {}", image.name, image.version);
        assert!(page.contains(&named), "the page does not contain `{named}`");
    }
    for entry in runtimes {
        let checksum = entry.sha256.to_string();
        let line = page.lines().find(|line| line.contains(&checksum));
        let line = line.unwrap_or_else(|| panic!("the page does not contain the checksum of `{}`", entry.name));
        let source = format!("]({})", entry.homepage);
        for text in [&entry.name, &entry.version, &entry.licence, &source] {
            assert!(line.contains(text.as_str()), "the page does not contain `{text}` for `{}`", entry.name);
        }
    }
}

#[test]
fn the_packages_of_javascript_are_pure_and_small() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vendor_js");
    let mut count = 0;
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        // `intl` is built from libraries, as its README explains.
        if ["README.md", "intl"].contains(&path.file_name().unwrap().to_str().unwrap()) {
            continue;
        }
        assert!(path.extension().unwrap() == "js", "{} is not JavaScript", path.display());
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.len() < 8 << 10, "{} is {} bytes long: too long to review", path.display(), text.len());
        for rest in text.split("require").skip(1).filter(|rest| rest.starts_with(['(', 'V'])) {
            let (call, _) = rest.split_once(')').unwrap();
            let requested = ["('fs'", "('path'", "Vendor('csv-simple'"];
            assert!(requested.contains(&call), "{} requires {call}", path.display());
        }
        count += 1;
    }
    assert_eq!(count, 4);
}

#[test]
fn boundary_tests_exist_in_both_languages() {
    /// Name prefixes of cases that test a sandbox's restrictions.
    const BOUNDARIES: [&str; 9] = [
        "deep-",
        "descriptors-",
        "file-outside",
        "interrupt-",
        "limit-",
        "nested-",
        "network-",
        "recursion-",
        "subprocess-",
    ];
    /// Python cases whose JavaScript counterparts have other names, each with its counterpart.
    const PYTHON_ONLY: [(&str, &str); 6] = [
        ("interrupt-python-asyncio", "javascript-interrupt-promises"),
        ("interrupt-python-fuel", "javascript-interrupt"),
        ("interrupt-python-handler", "javascript-interrupt"),
        ("interrupt-python-time", "javascript-interrupt-native"),
        ("network-python", "network-javascript"),
        ("subprocess-python", "subprocess-javascript"),
    ];
    let cases = load_all_cases(&cases_dir()).unwrap();
    let has = |name: &str, language| cases.iter().any(|case| case.name == name && case.language == language);
    for case in cases.iter().filter(|case| case.language == Language::Python) {
        if !BOUNDARIES.iter().any(|beginning| case.name.starts_with(beginning)) {
            continue;
        }
        let like = PYTHON_ONLY.iter().find(|(name, _)| *name == case.name).map_or(case.name.as_str(), |(_, like)| like);
        assert!(has(like, Language::JavaScript), "`{}` exists only for Python: add `{like}` for JavaScript", case.name);
    }
    for (name, _) in PYTHON_ONLY {
        assert!(has(name, Language::Python) && !has(name, Language::JavaScript), "`{name}` must exist only for Python");
    }
}
