//! `glovebox validate`: runs the interpreters' own parsers, and a type checker on request, without executing anything.

use std::io::Write;
#[cfg(feature = "full")]
use std::{fs, path::PathBuf};

use anyhow::Context;
use clap::Args;
#[cfg(feature = "full")]
use glovebox::{CancelToken, Language, SessionVariable, Tool};
use glovebox::{Diagnostic, Policy, escaped, escaped_text};
#[cfg(feature = "full")]
use glovebox_server::TypedScript;
#[cfg(feature = "full")]
use glovebox_sessions::SessionId;
use serde::Serialize;

#[cfg(feature = "full")]
use super::tools::DefinedToolsArgs;
#[cfg(feature = "full")]
use crate::{
    args::StoreArgs,
    session_dir::{SessionDir, runtime_of},
    terminal::HintedError,
    typecheck::TypeChecker,
};
use crate::{
    args::{GlobalArgs, RuntimeArgs, SourceArgs},
    engine::{Host, Pooling},
    interrupt,
    source::Source,
    terminal::{BAD, HEAD, out_json},
};

const AFTER_HELP: &str = "\
Examples:
  glovebox validate script.py
  glovebox validate --json -e 'print(1'
  git diff --name-only | grep -E '\\.(py|js)$' | xargs glovebox validate
  glovebox validate --types --tools-from mcp.json script.py
  glovebox validate --types --session trip -e 'cities.push(\"Rome\")'

With --types, Python scripts without syntax errors are also checked against the schemas of the tools and the \
types of the standard library: unknown tools, missing and wrong arguments, missing attributes, forgotten \
`await`. Of the packages, only added packages with a file `py.typed` have types. Without a flag that names a tool, \
`tools` accepts everything. With --session, scripts can use the variables of a stored session, which does not \
change. The first check downloads the type checker.

Diagnostics go to standard error as FILE:LINE:COLUMN: MESSAGE. The exit code is 0 if all sources are valid, and \
1 if a parser or the type checker reported a problem. With --json, one line per source goes to standard output:
  {\"file\":…,\"valid\":…,\"diagnostics\":[{\"line\":…,\"column\":…,\"message\":…}]}";

/// Check scripts with their interpreter's parser, without executing them
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ValidateArgs {
    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    runtime: RuntimeArgs,

    /// Print the diagnostics as JSON on standard output
    #[arg(long)]
    json: bool,

    #[cfg(feature = "full")]
    #[command(flatten)]
    types: TypesArgs,
}

/// Options for type checks.
#[cfg(feature = "full")]
#[derive(Args, Debug)]
struct TypesArgs {
    /// Also check the types of Python scripts, including calls to the tools that the flags below define
    #[arg(long)]
    types: bool,

    #[command(flatten)]
    tools: DefinedToolsArgs,

    /// Stored session in which the scripts will run; their types are checked against its variables
    #[arg(long, value_name = "ID", help_heading = "Sessions")]
    session: Option<SessionId>,

    #[command(flatten)]
    store: StoreArgs,

    /// JSON file with descriptions of a session's variables, or `null` if they are unknown; used by the Python package
    #[arg(long, value_name = "FILE", hide = true, requires = "types", conflicts_with = "session")]
    variables: Option<PathBuf>,
}

/// The session in which checked scripts will run.
#[cfg(feature = "full")]
struct ScriptSession {
    runtime: RuntimeArgs,
    /// `None` if the variables are unknown.
    variables: Option<Vec<SessionVariable>>,
}

#[cfg(feature = "full")]
impl TypesArgs {
    /// Rejects flags that have no effect without `--types` or `--session`.
    fn check(&self) -> Result<(), HintedError> {
        if self.session.is_some() && !self.types {
            return Err(HintedError::new("`--session` has no effect without `--types`", "add --types"));
        }
        self.store.check(self.session.as_ref())
    }

    /// Reads the variables of the session. Waits while another process uses the session, unless `--no-wait` is set.
    fn script_session(
        &self,
        host: &Host,
        runtime: &RuntimeArgs,
        policy: &Policy,
        cancel: &CancelToken,
    ) -> anyhow::Result<Option<ScriptSession>> {
        let Some(id) = &self.session else { return Ok(None) };
        let session_dir = SessionDir::open(&self.store, cancel)?;
        let record = session_dir.existing(id)?;
        if record.language != Language::Python {
            return Err(HintedError::new(
                format!("`--types` checks only Python, and session `{id}` runs {}", record.language),
                "check the script without --types and --session",
            )
            .into());
        }
        let runtime = runtime_of(&record, runtime)?;
        let session = session_dir.activate(host.sandbox(&runtime, Some(record.language), policy)?, id)?;
        let variables = session.in_use()?.unchanged().variables();
        Ok(Some(ScriptSession { runtime, variables }))
    }

    /// Reads the variables of `--variables`, which are untrusted. Returns none without the flag, and `None` if they are
    /// unknown.
    fn described_variables(&self) -> anyhow::Result<Option<Vec<SessionVariable>>> {
        let Some(path) = &self.variables else { return Ok(Some(Vec::new())) };
        let failed = || format!("cannot read the variables in `{}`", escaped(path));
        let text = fs::read(path).with_context(failed)?;
        let variables: Option<Vec<SessionVariable>> = serde_json::from_slice(&text).with_context(failed)?;
        Ok(variables.and_then(SessionVariable::checked))
    }

    /// Returns the tools to check calls against, or `None` without `--types`.
    fn tools(&self, policy: &Policy) -> anyhow::Result<Option<Vec<Tool>>> {
        match self.types {
            true => Ok(Some(self.tools.tools(policy)?)),
            false if self.tools.is_empty() => Ok(None),
            false => Err(HintedError::new("tool flags have no effect without `--types`", "add --types").into()),
        }
    }
}

/// Fails if a source for a type check is not Python.
#[cfg(feature = "full")]
fn require_python(source: &Source, language: Option<Language>) -> Result<(), HintedError> {
    match language {
        Some(Language::JavaScript) => Err(HintedError::new(
            format!("`--types` checks only Python, and `{}` is JavaScript or TypeScript", escaped(&source.label)),
            "check it without --types",
        )),
        _ => Ok(()),
    }
}

/// Diagnostics of one source, as JSON.
#[derive(Debug, Serialize)]
struct ValidationJson<'a> {
    file: &'a str,
    valid: bool,
    diagnostics: &'a [Diagnostic],
}

pub(crate) fn run(global: &GlobalArgs, args: &ValidateArgs) -> anyhow::Result<i32> {
    let policy = Policy::default();
    let sources = Source::read_all(&args.source, &args.runtime, policy.limits.source_bytes)?;
    #[cfg(feature = "full")]
    args.types.check()?;
    #[cfg(feature = "full")]
    let tools = args.types.tools(&policy)?;
    #[cfg(feature = "full")]
    if tools.is_some() {
        for source in &sources {
            require_python(source, source.language)?;
        }
    }
    let cancel = interrupt::install()?;
    let host = Host::open(global, Pooling::Single)?;
    #[cfg(feature = "full")]
    let session = args.types.script_session(&host, &args.runtime, &policy, &cancel)?;
    #[cfg(feature = "full")]
    let described = args.types.described_variables()?;
    #[cfg(feature = "full")]
    let variables = match &session {
        Some(session) => session.variables.as_deref(),
        None => described.as_deref(),
    };
    #[cfg(feature = "full")]
    let checker = tools.is_some().then(|| TypeChecker::open(&host)).transpose()?;
    #[cfg(feature = "full")]
    let checker = if sources.len() > 1 { checker.map(TypeChecker::stay_running) } else { checker };
    // Without a flag that defines a tool, the tools are unknown.
    #[cfg(feature = "full")]
    let tools = tools.as_deref().filter(|tools| !tools.is_empty());
    #[cfg(feature = "full")]
    let runtime = session.as_ref().map_or(&args.runtime, |session| &session.runtime);
    #[cfg(not(feature = "full"))]
    let runtime = &args.runtime;
    let mut all_valid = true;
    for source in &sources {
        let sandbox = host.sandbox(runtime, source.language, &policy)?;
        let request = source.request().cancel(&cancel);
        let failed = || format!("cannot validate `{}`", escaped(&source.label));
        let diagnostics = interrupt::run_guest(|| sandbox.validate_request(request)).with_context(failed)?;
        #[cfg(feature = "full")]
        let diagnostics = match &checker {
            Some(checker) if diagnostics.is_empty() => {
                require_python(source, Some(sandbox.language()))?;
                let (source, version, runtime) = (source.text(), sandbox.version(), sandbox.runtime_name());
                let script = TypedScript { source, version, runtime, tools, variables, owner: "" };
                checker.find_errors(&script, &cancel).with_context(failed)?
            }
            _ => diagnostics,
        };
        all_valid &= diagnostics.is_empty();
        if args.json {
            out_json(&ValidationJson {
                file: &source.label,
                valid: diagnostics.is_empty(),
                diagnostics: &diagnostics,
            })?;
        } else {
            print(&source.label, &diagnostics);
        }
    }
    Ok(i32::from(!all_valid))
}

fn print(label: &str, diagnostics: &[Diagnostic]) {
    let mut err = anstream::stderr().lock();
    for Diagnostic { line, column, message } in diagnostics {
        // Parsers quote the source, which can contain control characters.
        let (label, message) = (escaped(label), escaped_text(message));
        let _ = writeln!(err, "{HEAD}{label}:{line}:{column}:{HEAD:#} {BAD}{message}{BAD:#}");
    }
}
