//! Tests of the advice on each failure. The complete texts are in the goldens of `glovebox-tests`.

mod languages;

use super::{quoted, *};
use crate::{Limits, Resource, TrapKind};

pub(super) fn facts<'a>(language: Language, source: &'a str, outcome: &'a Outcome, limits: &'a Limits) -> Facts<'a> {
    let has_data_packages = false;
    Facts { language, source, outcome, limits, has_data_packages, fuel_consumed: 0, stdout_bytes: 0, stderr_bytes: 0 }
}

fn raised(type_name: &str, message: &str, line: Option<u32>) -> Outcome {
    let (type_name, message) = (type_name.to_owned(), message.to_owned());
    Outcome::Raised(RaisedOutcome { type_name, message, traceback: String::new(), line })
}

fn of(language: Language, source: &str, outcome: &Outcome) -> Vec<Advice> {
    guidance(&facts(language, source, outcome, &Limits::default())).advice
}

fn python(source: &str, type_name: &str, message: &str) -> Option<Advice> {
    of(Language::Python, source, &raised(type_name, message, Some(1))).pop()
}

fn corrected(source: &str, type_name: &str, message: &str) -> Option<String> {
    python(source, type_name, message).unwrap().correction.map(|correction| correction.text)
}

#[test]
fn no_guidance_without_a_known_problem() {
    for outcome in [
        Outcome::Completed,
        Outcome::Exited { code: 1 },
        Outcome::Cancelled,
        Outcome::Trapped { trap: TrapKind::Unreachable },
        raised("ValueError", "No module named 'jsno'", Some(1)),
        raised("ModuleNotFoundError", "No module", Some(1)),
        raised("", "", None),
    ] {
        for language in Language::ALL {
            assert_eq!(of(language, "x", &outcome), [], "{outcome:?}");
        }
    }
}

#[test]
fn fuel_guidance_follows_its_thresholds() {
    use FuelStatus::*;
    let limits = Limits { fuel: 1000, ..Limits::default() };
    for (used, status, suggested) in [
        (0, Efficient, None),
        (499, Efficient, None),
        (500, Moderate, None),
        (749, Moderate, None),
        (750, Warning, Some(1500)),
        (899, Warning, Some(1500)),
        (900, Critical, Some(1500)),
        (1000, Critical, Some(1500)),
    ] {
        let facts = Facts { fuel_consumed: used, ..facts(Language::Python, "", &Outcome::Completed, &limits) };
        let fuel = guidance(&facts).fuel;
        assert_eq!((fuel.status, fuel.suggested_limit), (status, suggested), "{used}");
        assert_eq!(fuel.utilization_percent, used / 10);
    }
    let outcome = Outcome::Exhausted { resource: Resource::Fuel, limit: 1000, used: 1000 };
    let source = "x = 1\nwhile  True :\n    x += 1\nwhile x: pass\nwhile 1: pass\n";
    let found = guidance(&facts(Language::Python, source, &outcome, &limits));
    assert_eq!((found.fuel.status, found.fuel.suggested_limit), (Exhausted, Some(2000)));
    assert_eq!(found.fuel.likely_causes.len(), 2, "{:?}", found.fuel.likely_causes);
    assert!(found.fuel.likely_causes.iter().any(|cause| cause.contains("line 2")));
}

#[test]
fn line_is_corrected_only_if_certain() {
    let module = |line: &str| corrected(line, "ModuleNotFoundError", "No module named 'jsno'");
    assert_eq!(module("import jsno").as_deref(), Some("import json"));
    assert_eq!(module("  from jsno import load  # x").as_deref(), Some("  from json import load  # x"));
    assert_eq!(module("import jsno, my_jsno").as_deref(), Some("import json, my_jsno"));
    assert_eq!(module("import jsno as jsno"), None);
    assert_eq!(module("load()"), None);

    let print = |line: &str| corrected(line, "SyntaxError", "Missing parentheses in call to 'print'. Did you mean …");
    assert_eq!(print("    print 'a' % b").as_deref(), Some("    print('a' % b)"));
    for line in
        ["print x,", "print >>f, x", "if x: print x", "print x; y", "print 'a", "print (x), y", "print x # y", "print "]
    {
        assert_eq!(print(line), None, "{line}");
    }

    let colon = |line: &str| corrected(line, "SyntaxError", "expected ':' (<sandbox>, line 1)");
    assert_eq!(colon("if x == 1").as_deref(), Some("if x == 1:"));
    assert_eq!(colon("  else  ").as_deref(), Some("  else:"));
    assert_eq!(colon("  else if x == 1:").as_deref(), Some("  elif x == 1:"));
    assert_eq!(colon("  else if x").as_deref(), Some("  elif x:"));
    for line in ["if x[1:2]", "if (x", "x", "if x # y", "if f('"] {
        assert_eq!(colon(line), None, "{line}");
    }
}

#[test]
fn correction_quotes_a_line_of_the_script() {
    for (line, source, is_there) in [
        (Some(0), "import jsno", false),
        (Some(1), "import jsno", true),
        (Some(2), "import jsno", false),
        (Some(u32::MAX), "import jsno", false),
        (None, "import jsno", false),
        (Some(1), "", false),
    ] {
        let outcome = raised("ModuleNotFoundError", "No module named 'jsno'", line);
        let advice = of(Language::Python, source, &outcome).pop().unwrap();
        assert_eq!(advice.correction.is_some(), is_there, "{line:?} {source}");
    }
    for (chars, is_there) in [(300, true), (301, false)] {
        let line = format!("import jsno{}", " ".repeat(chars - 11));
        assert_eq!(corrected(&line, "ModuleNotFoundError", "No module named 'jsno'").is_some(), is_there);
    }
}

#[test]
fn advice_names_installed_packages() {
    let advised = |message: &str, has_data_packages: bool| {
        let outcome = raised("ModuleNotFoundError", message, Some(1));
        let limits = Limits::default();
        let facts = Facts { has_data_packages, ..facts(Language::Python, "", &outcome, &limits) };
        guidance(&facts).advice.pop().unwrap().steps.join(" ")
    };
    for (module, instead) in
        [("polars", "`pandas`"), ("plotly.express", "`matplotlib`"), ("xgboost", "`sklearn`"), ("cv2", "`PIL`")]
    {
        let message = format!("No module named '{module}'");
        assert!(advised(&message, true).contains(instead), "{module}");
        assert!(!advised(&message, false).contains(instead), "{module}");
    }
    assert!(!advised("No module named 'numpy'", true).contains("runtimes add"));
    assert!(advised("No module named 'IPython'", false).contains("`display`"));
    assert!(substitutes(true).any(|module| module == "scipy.ndimage") && substitutes(false).all(|it| it != "pandas"));
}

#[test]
fn commands_of_notebooks_are_recognized() {
    let summary = |line: &str| python(line, "SyntaxError", "invalid syntax").unwrap().summary;
    for line in [
        "!pip install x",
        "%matplotlib inline",
        "%%time",
        "  !ls",
        "files = !ls",
        "x = %timeit 1",
        "print?",
        "?print",
        "pip install x",
    ] {
        assert!(summary(line).contains("notebook"), "{line}");
    }
    for line in ["x != = 1", "%= 2", "x = 'a' % %", "f(a = !b)", "x = 1 # why?", "x = '= !' !", "pip = install"] {
        assert!(!summary(line).contains("notebook"), "{line}");
    }
    let pip = python("!pip install x", "SyntaxError", "invalid syntax").unwrap();
    assert!(pip.steps.iter().any(|step| step.contains("glovebox packages add")));
    let steps = |line: &str| python(line, "SyntaxError", "invalid syntax").unwrap().steps.join(" ");
    for line in ["%time f()", "%%timeit", "x = %timeit 1"] {
        assert!(steps(line).contains("`time` module"), "{line}");
    }
    for line in ["%matplotlib inline", "x = !ls", "!time ls"] {
        assert!(!steps(line).contains("`time` module"), "{line}");
    }
}

#[test]
fn ambiguous_errors_get_advice_for_their_cause() {
    let memory = |message: &str| python("x", "MemoryError", message).unwrap().kind;
    assert_eq!(memory(""), AdviceKind::Memory);
    assert_eq!(memory("Parser stack overflowed - Python source too complex to parse"), AdviceKind::Syntax);
    for (message, kind) in [
        ("maximum recursion depth exceeded", AdviceKind::CallDepth),
        ("maximum recursion depth exceeded during compilation", AdviceKind::Syntax),
        ("Stack overflow (used 504 kB) during compilation", AdviceKind::Syntax),
    ] {
        let found = of(Language::Python, "x", &raised("RecursionError", message, Some(1)));
        assert_eq!(found.iter().map(|advice| advice.kind).collect::<Vec<_>>(), [kind], "{message}");
    }

    let unsupported = |traceback: &str| {
        let (type_name, message) = ("OSError".to_owned(), "[Errno 58] Not supported".to_owned());
        let outcome =
            Outcome::Raised(RaisedOutcome { type_name, message, traceback: traceback.to_owned(), line: None });
        of(Language::Python, "", &outcome).pop().map(|advice| advice.kind)
    };
    assert_eq!(unsupported("    socket.socket()"), Some(AdviceKind::Network));
    assert_eq!(unsupported("    os.dup(1)"), None);

    let steps = |kind: &str, message: &str| python("x", kind, message).unwrap().steps.join(" ");
    let missing = steps("FileNotFoundError", "[Errno 44] No such file or directory: 'reports/2024/x.csv'");
    assert!(missing.contains("`reports/2024`") && missing.contains("os.makedirs"), "{missing}");
    let missing = steps("OSError", "Cannot save file into a non-existent directory: 'reports'");
    assert!(missing.contains("`reports`") && missing.contains("os.makedirs"), "{missing}");
    assert!(!steps("FileNotFoundError", "[Errno 44] No such file or directory: 'x.csv'").contains("makedirs"));
    let missing = "`Import pyarrow` failed. pyarrow is required for parquet support. Use pip or conda to install it.";
    assert!(steps("ImportError", missing).contains("Leave out `engine`"));
}

#[test]
fn missing_package_advice_names_the_runtime_with_it() {
    let names_it = |module: &str| {
        let advice = python("", "ModuleNotFoundError", &format!("No module named '{module}'")).unwrap();
        advice.steps.iter().any(|step| step.contains("`glovebox runtimes add python-3.15-data`"))
    };
    for module in ["numpy", "pandas", "matplotlib", "sklearn", "yaml", "joblib", "sympy", "packaging"] {
        assert!(names_it(module), "{module}");
    }
    // The package exists but the module does not, or no runtime has the package.
    for module in ["numpy.missing", "scipy.missing.more", "polars", "jsno", "requests"] {
        assert!(!names_it(module), "{module}");
    }
}

#[test]
fn missing_modules_get_advice_for_their_purpose() {
    let steps = |module: &str| {
        let advice = python("", "ModuleNotFoundError", &format!("No module named '{module}'")).unwrap();
        format!("{} {}", advice.summary, advice.steps.join(" "))
    };
    for (module, text) in [
        ("mmap", "`open`"),
        ("imp", "`importlib`"),
        ("distutils", "`sysconfig`"),
        ("_ssl", "`requests`"),
        ("joblib", "`concurrent.futures`"),
        ("multiprocessing.connection", "cannot start processes"),
        ("_posixshmem", "cannot start processes"),
    ] {
        assert!(steps(module).contains(text), "{module}: {}", steps(module));
    }
}

#[test]
fn event_loop_and_time_zone_errors_get_advice() {
    let summary = |kind: &str, message: &str| python("x", kind, message).map(|advice| advice.summary);
    let running = "asyncio.run() cannot be called from a running event loop";
    assert!(summary("RuntimeError", running).unwrap().contains("event loop"));
    assert!(summary("NameError", "name 'get_ipython' is not defined").unwrap().contains("notebooks"));
    let message = "'No time zone found with key Europe/Oslo'";
    let unknown = summary("ZoneInfoNotFoundError", message).unwrap();
    assert!(unknown.contains("no time zone data") && unknown.contains("does not exist"), "{unknown}");
    let outcome = raised("ZoneInfoNotFoundError", message, None);
    let limits = Limits::default();
    let with_data = Facts { has_data_packages: true, ..facts(Language::Python, "", &outcome, &limits) };
    assert_eq!(guidance(&with_data).advice, []);
    for (message, text) in [
        ("'await' outside function", "class body"),
        ("'async with' outside async function", "not `async`"),
        ("asynchronous comprehension outside of an asynchronous function", "not `async`"),
    ] {
        assert!(summary("SyntaxError", message).unwrap().contains(text), "{message}");
    }
}

#[test]
fn untrusted_text_is_quoted_briefly_on_one_line() {
    let name = format!("a`b\n\u{1b}[31m{}", "é".repeat(10_000));
    let advice = python("", "ModuleNotFoundError", &format!("No module named '{name}'")).unwrap();
    assert!(advice.summary.chars().count() < 150, "{}", advice.summary);
    assert!(!advice.summary.contains(['\n', '\u{1b}']));
    assert_eq!(advice.summary.matches('`').count(), 2);
    for (chars, rest) in [(100, ""), (101, "…")] {
        assert!(quoted(&"x".repeat(chars)).ends_with(&format!("x{rest}`")), "{chars}");
    }
}

#[test]
fn kinds_of_paths_are_distinguished() {
    let says =
        |path: &str| python("", "PermissionError", &format!("[Errno 76] no: '{path}'")).map(|advice| advice.summary);
    for path in [
        "/etc/passwd",
        "/application",
        "../x",
        "/",
        "/app/../etc/passwd",
        "a/../../etc",
        "/app/./..",
        "..",
        "/app/../../x",
    ] {
        assert!(says(path).unwrap().contains("outside"), "{path}");
    }
    for path in [r"C:\x", "C:/x", r"a\b"] {
        assert!(says(path).unwrap().contains("Windows"), "{path}");
    }
    let missing = |path: &str| {
        let message = format!("[Errno 44] No such file or directory: '{path}'");
        python("", "FileNotFoundError", &message).map(|advice| advice.summary)
    };
    for path in
        ["/app", "/app/x", "x", "x/..y", "./x", "/app/a/../x", "//app//x", "../app/x", "/../app/x", "a/..", "/app/..a"]
    {
        assert_eq!(says(path).unwrap(), format!("The sandbox denies access to `{path}`."));
        assert!(missing(path).unwrap().contains("in the workspace"), "{path}");
    }
    assert_eq!(says(""), None);
    assert_eq!(missing(""), None);
}

/// A path to which access is denied may exist, and a call with two paths may fail because of either path.
#[test]
fn path_advice_follows_the_error_and_both_paths() {
    const DENIED: &str = "The sandbox denies access to `a`.";
    const MISSING: &str = "There is no file `a` in the workspace.";
    for (code, text, path, summary) in [
        ("EACCES", "[Errno 2] Permission denied", "'a'", Some(DENIED)),
        ("EACCES", "[Errno 2] Permission denied", "'a' -> 'b'", Some(DENIED)),
        ("EACCES", "[Errno 76] Capabilities insufficient", "'a' -> 'n/b'", Some(DENIED)),
        ("EACCES", "[Errno 2] Permission denied", "'a' -> '../b'", Some("`../b` is outside the workspace")),
        ("EACCES", "[Errno 2] Permission denied", "'/etc/x' -> 'a'", Some("`/etc/x` is outside the workspace")),
        ("EPERM", "[Errno 63] Operation not permitted", "'a'", None),
        ("EPERM", "[Errno 63] Operation not permitted", "'a' -> 'b'", None),
        ("EPERM", "[Errno 63] Operation not permitted", "'/etc/x'", Some("`/etc/x` is outside the workspace")),
        ("ENOENT", "[Errno 44] No such file or directory", "'a' -> 'b'", Some(MISSING)),
        ("ENOENT", "[Errno 44] No such file or directory", "'a' -> ''", None),
        ("ENOENT", "[Errno 44] No such file or directory", "'' -> 'a'", None),
        ("ENOENT", "[Errno 44] No such file or directory", "'a' -> 'n/b'", Some("`a` or the directory of `n/b`")),
        ("ENOENT", "[Errno 44] No such file or directory", "'a' -> '/app/b'", Some(MISSING)),
    ] {
        let type_name = if code == "ENOENT" { "FileNotFoundError" } else { "PermissionError" };
        let by_python = python("", type_name, &format!("{text}: {path}"));
        let message = format!("{code}: text, rename {path}");
        let by_javascript = of(Language::JavaScript, "", &raised("Error", &message, None)).pop();
        for advice in [by_python, by_javascript] {
            assert_eq!(advice.is_some(), summary.is_some(), "{code} {path}: {advice:?}");
            assert!(advice.is_none_or(|advice| advice.summary.starts_with(summary.unwrap())), "{code} {path}");
        }
    }
}

#[test]
fn paths_are_parsed_as_each_language_prints_them() {
    let script = |message: &str| of(Language::JavaScript, "", &raised("Error", message, None)).pop();
    for (message, path) in [
        ("ENOENT: no such file or directory, open 'a.txt'", Some("`a.txt`")),
        ("ENOENT: no such file or directory, open 'it's'", Some("`it's`")),
        ("ENOENT: no such file or directory, rename 'a' -> 'b'", Some("`a`")),
        ("EACCES: permission denied, open '/etc/x'", Some("`/etc/x`")),
        ("ENOENT: no such file or directory, open ''", None),
        ("ENOENT: no such file or directory, open", None),
        ("ENOENT", None),
        ("EEXIST: file already exists, mkdir 'a'", None),
        ("my ENOENT: no such file or directory, open 'a.txt'", None),
    ] {
        let advice = script(message);
        assert_eq!(advice.is_some(), path.is_some(), "{message}");
        assert!(advice.is_none_or(|advice| advice.kind == AdviceKind::Path && advice.summary.contains(path.unwrap())));
    }
    for (message, path) in [
        ("[Errno 44] No such file or directory: 'a.txt'", Some("`a.txt`")),
        ("[Errno 44] No such file or directory: \"it's\"", Some("`it's`")),
        ("[Errno 44] No such file or directory: 'a' -> 'b'", Some("`a`")),
        (r"[Errno 44] No such file or directory: 'C:\\x'", Some(r"`C:\\x`")),
        ("[Errno 44] No such file or directory: b'x'", None),
        ("[Errno 44] No such file or directory", None),
        ("data: 'x'", None),
    ] {
        let advice = python("", "FileNotFoundError", message);
        assert_eq!(advice.is_some(), path.is_some(), "{message}");
        assert!(advice.is_none_or(|advice| advice.summary.contains(path.unwrap())), "{message}");
    }
}

#[test]
fn distant_package_names_are_not_suggested() {
    let says = |name: &str| {
        let message = format!("Vendored package not found: '{name}'; available: …");
        of(Language::JavaScript, "", &raised("Error", &message, None)).pop().unwrap().steps
    };
    assert!(says("csv-smple")[0].contains("requireVendor('csv-simple')"));
    for far in ["nope", "x", "", "../x"] {
        assert!(says(far)[0].starts_with("The vendored packages are `csv-simple`, "), "{far}");
    }
    assert!(says("path")[0].contains("require('path')"));
    assert!(says("lodash")[0].contains("sandbox-utils"));
}

#[test]
fn names_of_known_packages_are_not_corrected() {
    let steps =
        |name: &str| python("", "ModuleNotFoundError", &format!("No module named '{name}'")).unwrap().steps.join(" ");
    for known in ["docker", "pydot", "lime", "structlog", "typer", "xarray", "qrcode"] {
        assert!(!steps(known).contains("Did you mean"), "{known}");
    }
    assert!(steps("typer").contains("`argparse`"));
    assert!(steps("colections").contains("Did you mean `collections`?"));
    let message = "Cannot find module 'qs'";
    let qs = of(Language::JavaScript, "", &raised("Error", message, None)).pop().unwrap().steps.join(" ");
    assert!(qs.contains("URLSearchParams") && !qs.contains("Did you mean"), "{qs}");
}

#[test]
fn blocked_request_advice_names_who_can_allow_it() {
    let off =
        "<urlopen error the network is off in this sandbox; the operator can allow addresses with `[network] allow`>";
    let advice = python("urlopen(x)", "URLError", off).unwrap();
    assert_eq!((advice.kind, advice.steps.len()), (AdviceKind::Network, 3));
    assert!(advice.steps[2].contains("--allow-net"));
    let outside = "fetch failed: requests to `https://evil.example` are not allowed at this path; `network.allow` contains `https://a.example`";
    let advice = of(Language::JavaScript, "x", &raised("TypeError", outside, Some(1))).pop().unwrap();
    assert_eq!(advice.summary, "The sandbox's policy does not allow this request to `https://evil.example`.");
    let inside = "`10.0.0.1` is not a public address, and `network.allow_private` does not include it";
    assert!(python("x", "NetworkRefused", inside).unwrap().steps[0].contains("--allow-private-net"));
    assert_eq!(python("x", "NetworkError", "requests to `nowhere"), None);
}

#[test]
fn nearest_name_is_within_the_distance_limit() {
    let names = ["json", "os", "random", "statistics"];
    for (name, found) in [
        ("jsno", Some("json")),
        ("JSON", Some("json")),
        ("json", None),
        ("rnadom", Some("random")),
        ("statistic", Some("statistics")),
        ("o", None),
        ("osx", Some("os")),
        ("numpy", None),
        ("", None),
    ] {
        assert_eq!(nearest(name, names), found, "{name}");
    }
    let long = "a".repeat(64);
    let near = format!("{long}b");
    assert_eq!(nearest(&long, [near.as_str()]), Some(near.as_str()));
    assert_eq!(nearest(&near, [long.as_str()]), None, "one letter too long to be compared");
}
