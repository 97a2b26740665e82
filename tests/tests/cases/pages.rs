//! Checks the pages in `docs/` against the repository: their code is taken from files that are compiled and run, their
//! links have targets, and the programs behave as the pages say.

#[path = "../../../host/component/examples/embed.rs"]
#[expect(dead_code, reason = "its `main` is the example's")]
mod embed;

use std::{
    fs,
    path::{Path, PathBuf},
};

use glovebox::Policy;
use glovebox_component_host::SandboxHost;
use glovebox_component_runner::{AppConfig, Applications};
use glovebox_tests::{Case, engine, program_path, program_trial, reference::anchor};
use libtest_mimic::{Failed, Trial};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the path, relative to the root, and the text of each page.
fn pages() -> Vec<(PathBuf, String)> {
    let names = |directory: &str| {
        let directory = PathBuf::from(directory);
        fs::read_dir(root().join(&directory)).unwrap().map(move |entry| directory.join(entry.unwrap().file_name()))
    };
    let is_page = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "md");
    let docs = names("docs").chain(names("docs/examples")).filter(is_page);
    let examples = names("docs/examples").filter(|path| path.extension().is_none()).map(|path| path.join("README.md"));
    let beside = [
        "README.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "CONTRIBUTING.md",
        "dist/README.md",
        "tests/README.md",
        "bindings/js/README.md",
        "bindings/python/README.md",
        "wit/README.md",
    ]
    .map(PathBuf::from);
    docs.chain(examples)
        .chain(beside)
        .map(|page| (page.clone(), fs::read_to_string(root().join(page)).unwrap()))
        .collect()
}

/// The languages of code blocks that must be part of a program.
const LANGUAGES: [&str; 6] = ["c", "javascript", "js", "python", "rust", "ts"];

/// Checks that a code block after `<!-- file: PATH -->` occurs line by line in that file. In `docs/`, every block in a
/// programming language must have such a comment, except Rust code that `glovebox`'s documentation tests compile and
/// run.
fn code_equals_the_files() -> Result<(), Failed> {
    let read = |path: &str| fs::read_to_string(root().join(path));
    let libraries = [read("host/engine/src/lib.rs")?, read("host/network/src/lib.rs")?].concat();
    let mut count = 0;
    for (page, text) in pages() {
        let is_tested = libraries.contains(&format!("include_str!(\"../../../{}\")", page.display()));
        let mut above = "";
        for line in text.lines() {
            let language = line.strip_prefix("```").unwrap_or_default();
            let is_run = language == "rust" && is_tested;
            let is_shown = above.starts_with("<!-- file: ");
            if LANGUAGES.contains(&language) && page.starts_with("docs") && !is_run && !is_shown {
                return Err(format!(
                    "{}: a code block in `{language}` has no `<!-- file: PATH -->` comment",
                    page.display()
                )
                .into());
            }
            above = line;
        }
        for rest in text.split("<!-- file: ").skip(1) {
            let (file, rest) = rest.split_once(" -->\n").ok_or("a `<!-- file: PATH -->` comment has no ` -->`")?;
            let block = rest.strip_prefix("```").and_then(|rest| rest.split_once('\n')?.1.split_once("\n```"));
            let (code, _) =
                block.ok_or_else(|| format!("{}: no code block follows the comment for `{file}`", page.display()))?;
            let held = fs::read_to_string(root().join(file)).map_err(|error| format!("{file}: {error}"))?;
            count += 1;
            // A line of dots replaces omitted code.
            for part in code.split("\n// …\n") {
                if !format!("\n{held}").contains(&format!("\n{part}\n")) {
                    return Err(format!("{} shows code that is not in {file}:\n{part}", page.display()).into());
                }
            }
        }
    }
    if count >= 10 {
        Ok(())
    } else {
        Err(format!("only {count} code blocks have a `<!-- file: PATH -->` comment").into())
    }
}

/// Checks that links within the repository point to existing files and headings.
fn links_have_targets() -> Result<(), Failed> {
    for (page, text) in pages() {
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.starts_with("http") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let lost = || Failed::from(format!("{} links to `{link}`, which does not exist", page.display()));
            if !root().join(&target).exists() {
                return Err(lost());
            }
            if !heading.is_empty() {
                let text = fs::read_to_string(root().join(&target)).map_err(|_| lost())?;
                let headings = text.lines().filter(|line| line.starts_with('#'));
                let mut anchors = headings.map(|line| anchor(line.trim_start_matches(['#', ' '])));
                anchors.find(|anchor| anchor == heading).ok_or_else(lost)?;
            }
        }
    }
    Ok(())
}

/// Runs the host in `docs/embed.md` with the component in the page.
fn the_embedding_host_runs_its_component() -> Result<(), Failed> {
    let calculator = program_path("calculator")?;
    let evaluate = |expression| embed::evaluate(&calculator, expression).map_err(|error| format!("{error:?}"));
    assert_eq!(evaluate("6 * 7")?, Ok("42".to_owned()));
    assert_eq!(evaluate("1 / 0")?, Err("ZeroDivisionError: division by zero".to_owned()));
    // The host grants a four-hundredth of the default fuel.
    let exhausted = evaluate("sum(1 for _ in range(10**9))")?.unwrap_err();
    assert!(exhausted.contains("limit: 1000000000,"), "{exhausted}");
    Ok(())
}

/// Tests the provider in `docs/implement.md` below, at and above its limit, and tests its error messages.
fn forwarding_provider_enforces_its_rule() -> Result<(), Failed> {
    let mut policy = Policy::default();
    policy.limits.timeout_ms = 120_000;
    let host = SandboxHost::builder(engine()).policy(policy).build()?;
    let forward = Applications::new(engine())?.load(program_path("forward")?)?;
    let call = |call: &str| -> Result<String, Failed> {
        let ended = forward.invoke(call, &host, &AppConfig::default())?;
        ended.value.ok_or_else(|| format!("{call}: {}", ended.outcome.describe()).into())
    };
    assert!(call("default-policy()")?.contains("timeout-ms: some(60000)"));
    let asking = |timeout_ms: u64| {
        call(&format!("execute(python, {{source: \"1\"}}, {{limits: some({{timeout-ms: some({timeout_ms})}})}})"))
    };
    for granted in [59_999, 60_000] {
        let value = asking(granted)?;
        assert!(value.starts_with("ok({outcome: completed"), "{value}");
    }
    let refused = asking(60_001)?;
    assert!(refused.starts_with("err(invalid-policy(") && refused.contains("the maximum is 60000"), "{refused}");
    Ok(())
}

pub(crate) fn trials(_: &[Case]) -> Vec<Trial> {
    let name = |name| format!("pages/{name}");
    vec![
        Trial::test(name("code_equals_the_files"), code_equals_the_files),
        Trial::test(name("links_have_targets"), links_have_targets),
        program_trial(name("the_embedding_host_runs_its_component"), "calculator", |_| {
            the_embedding_host_runs_its_component()
        }),
        program_trial(name("forwarding_provider_enforces_its_rule"), "forward", |_| {
            forwarding_provider_enforces_its_rule()
        }),
    ]
}
