//! `glovebox run`: runs scripts, each in a fresh sandbox or all in a stored session.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context;
use clap::Args;
use glovebox::{CancelToken, Commit, Execution, JsonText, Language, Policy, Request, Sandbox, Tool, escaped};
use glovebox_sessions::SessionId;

use crate::{
    args::{ContextArgs, GlobalArgs, PolicyArgs, ProgramArgs, RuntimeArgs, SourceArgs, StoreArgs},
    commands::resume::RepeatedOptions,
    engine::{Host, Image, Pooling},
    file, interrupt,
    report::{ReportArgs, Reporter},
    script_packages::add_required,
    session_dir::{self, ActiveSession, SessionDir, runtime_of},
    source::{STDIN, Source},
    stdin::Stdin,
    suspending::{self, NewSuspendedFile, SuspendableRun},
    terminal::{HintedError, note},
};

const AFTER_HELP: &str = "\
Examples:
  glovebox run hello.py hello.js
  glovebox run -e 'import sys; print(sys.argv)' --arg one --arg two
  glovebox run --language javascript -e 'console.log([1, 2].map(x => x * 2))'
  echo 'print(1)' | glovebox run -
  seq 9 | glovebox run -e 'print(sum(int(n) for n in __import__(\"sys\").stdin))'
  glovebox run --context '{\"city\": \"Oslo\"}' -e 'print(context[\"city\"])'
  glovebox run --tool add='python3 add.py' -e 'print(tools.add(a=1, b=2))'
  glovebox run --tool pay=@ask -e 'print(tools.pay(euros=20))'
  glovebox run --record run.recording -e 'import random; print(random.random())'
  glovebox run --workspace out --mount data:/data:ro report.py
  glovebox run --timeout-ms 500 --memory-bytes 64MiB untrusted.py
  glovebox run --seed 7 --json -e 'import random; print(random.random())'
  glovebox run --session trip -e 'cities = [\"Oslo\", \"Lima\"]'
  glovebox run --session trip -e 'len(cities)'

Without --json, glovebox passes on the script's output, byte for byte, and its exit code:
  0    completed                    124  out of time
  1    uncaught exception           137  out of fuel or memory
  N    exited with N                130  cancelled with Ctrl-C (twice: killed)
  134  the interpreter trapped      125  glovebox itself failed (2: wrong flags)
  75   waits for a person (--tool NAME=@ask)
With several files, all of them run, and the exit code is that of the first failure.

Without the word `run`, options of glovebox come before the file, and all words after it are the script's arguments, even \
words that begin with a hyphen: `glovebox --fuel 5_000_000 a.py x --y` passes x and --y to the script.

With --session the scripts run one after another in one interpreter that keeps its state: variables, functions, \
imports, open files. The session is created at first use and saved after each script, even one that raises; the value \
of a trailing expression of -e is shown. At a limit or on Ctrl-C, a script first receives an exception; if that ends it, \
its changes remain. If it continues, it is unwound, and the session is rolled back to its state before the script. \
`glovebox session` lists, copies and deletes sessions; `glovebox repl --session ID` resumes one.

With --tool NAME=COMMAND, the script may call tools.NAME(…). Each call runs COMMAND, a program and its arguments, without a \
shell, on this machine and with your permissions: the script chooses the arguments of a call, but not what is executed. The \
program reads a JSON object from its standard input and prints JSON. If it fails, the call raises a ToolError with the end of \
the program's standard error. The program and all its child processes are killed after --tool-timeout-ms, when the script is \
stopped, and when the program has answered.

With --tool NAME=@ask, a person answers the calls to tools.NAME(…), now or days later. When the script can continue only \
after such an answer, glovebox stores it in a file, lists the waiting calls and exits with 75. `glovebox resume` continues \
it with your answers. A program that has answered a call does not run again for it. Piped standard input is read before \
the script starts. The file contains the script, its input and everything it received; --key-file seals it. With --session, \
the file also contains the session's state before the script. The stored session remains in this state until the script has \
ended. If the session changes in the meantime, the script cannot continue. Not supported with --no-prepare or several \
scripts.

With `approve = \"always\"` in the policy's table `tools.NAME`, a person approves each call of a program in the same way: \
`glovebox resume --approve CALL` runs the program, and --deny refuses the call. With several scripts, --no-prepare or --record, \
and in other commands, these calls raise ToolDenied.

With --record FILE, the script, its input and everything that it receives from outside are written to FILE: tool answers, \
times and random numbers. `glovebox replay FILE` runs the script again on any machine, without calling tools, and \
compares the results down to the unit of fuel. FILE is overwritten. If the script receives more than --journal-bytes, or if a \
time limit or Ctrl-C stops it, nothing is written and the exit code is 125. --fuel-reserve has no effect. Not supported with \
--session, --no-prepare, tools whose calls a person answers, or several scripts.

With --json, one line per script goes to standard output, an object with these keys: success, outcome, \
exit_code, interrupted, value, stdout, stderr, stdout_truncated, stderr_truncated, displays, displays_dropped, \
fuel_consumed, memory_used_bytes, duration_ms, files_created, files_modified, files_deleted, tool_calls, \
workspace_path, session_id, rolled_back_to, guidance, metadata. `guidance` explains a failure: `advice` lists entries \
with a kind, a summary, steps and, if there is one, a suggested correction; `fuel` breaks down the fuel usage. \
For a script that waits for a person, the outcome is `suspended`, and the keys are: success, outcome, exit_code, stdout, \
stderr, suspended_path, calls, command.";

/// Run scripts, each in a fresh sandbox, or in a stored session
///
/// A script has an empty /app as its working directory, and no network, host files or host environment, unless the
/// policy grants them. It reads this process's standard input if that is a pipe or file and does not contain the
/// script. Standard input is read only when the script reads it, so a script that does not read never waits.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct RunArgs {
    // Must be the first field: the other fields remove their values from the parsed command line.
    #[command(flatten)]
    pub(crate) options: RepeatedOptions,

    #[command(flatten)]
    pub(crate) source: SourceArgs,

    #[command(flatten)]
    runtime: RuntimeArgs,

    /// Boot the interpreter as a plain command each time, without its prepared image
    #[arg(long, conflicts_with_all = ["session", "context"])]
    no_prepare: bool,

    #[command(flatten)]
    context: ContextArgs,

    #[command(flatten)]
    programs: ProgramArgs,

    /// File for a script that waits for a person (`--tool NAME=@ask`, or `approve` in the policy); it must be empty or
    /// missing [default: the script's name with the extension `.suspended`, or `script.suspended`]
    #[arg(long, value_name = "FILE", help_heading = "Tools")]
    suspended: Option<PathBuf>,

    #[command(flatten)]
    report: ReportArgs,

    /// File for a recording of the script, which `glovebox replay` repeats; overwritten if it exists
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,

    /// Standard input of the script: a file, or `-` to read all of this process's input before the script starts
    /// [default: this process's input if it is a pipe or a file, read when the script reads]
    #[arg(long, value_name = "FILE")]
    stdin: Option<PathBuf>,

    /// Stored session to run in, created if needed [default: a fresh sandbox for each script]
    #[arg(long, value_name = "ID", help_heading = "Sessions")]
    session: Option<SessionId>,

    #[command(flatten)]
    store: StoreArgs,

    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
}

impl RunArgs {
    /// Adds the words after the file of `glovebox FILE ARG…` as arguments of the script. Fails if a word is not UTF-8.
    pub(crate) fn add_arguments<'a>(&mut self, words: &'a [OsString]) -> Result<(), &'a OsStr> {
        for word in words {
            let word = word.to_str().ok_or(word.as_os_str())?;
            self.options.push("arg", word);
            self.policy.add_argument(word.to_owned());
        }
        Ok(())
    }

    /// Returns the file for a suspended execution, if the script has a tool whose calls a person answers or approves.
    fn suspended_file(&self, scripts: &[Source], policy: &Policy) -> anyhow::Result<Option<NewSuspendedFile>> {
        let is_suspendable = !self.no_prepare && self.record.is_none() && scripts.len() == 1;
        match self.programs.interactive_names().next() {
            Some(name) => self.check_interactive(name, scripts)?,
            // Other executions deny calls that need an approval.
            None if is_suspendable && self.programs.need_approval(policy) => {}
            None if self.suspended.is_some() => {
                let message = "--suspended requires a tool whose calls a person answers";
                return Err(HintedError::new(message, "add --tool NAME=@ask").into());
            }
            None => return Ok(None),
        }
        let path = match (&self.suspended, self.source.code.files.first()) {
            (Some(path), _) => path.clone(),
            (None, Some(file)) if file.as_os_str() != STDIN => {
                let mut name = file.file_stem().unwrap_or_default().to_owned();
                name.push(".suspended");
                name.into()
            }
            _ => "script.suspended".into(),
        };
        Ok(Some(NewSuspendedFile::new(path, session_dir::key(&self.store)?)?))
    }

    /// Rejects options that are not supported with the tool `name`, whose calls a person answers.
    fn check_interactive(&self, name: &str, scripts: &[Source]) -> Result<(), HintedError> {
        let unsupported = |with: &str, hint: &str| {
            Err(HintedError::new(format!("`--tool {}=@ask` is not supported with {with}", escaped(name)), hint))
        };
        if self.no_prepare {
            return unsupported("--no-prepare", "remove --no-prepare");
        }
        if scripts.len() > 1 {
            return unsupported("several scripts", "run the scripts one at a time");
        }
        Ok(())
    }

    /// Rejects options that are not supported with `--record`.
    fn check_record(&self, scripts: &[Source]) -> Result<(), HintedError> {
        if self.record.is_none() {
            return Ok(());
        }
        let unsupported =
            |with: &str, hint: &str| Err(HintedError::new(format!("`--record` is not supported with {with}"), hint));
        if self.session.is_some() {
            return unsupported("--session", "remove --session: only a fresh sandbox can be recorded");
        }
        if self.no_prepare {
            return unsupported("--no-prepare", "remove --no-prepare");
        }
        if self.programs.interactive_names().next().is_some() {
            return unsupported("tools whose calls a person answers", "use a program: --tool NAME=COMMAND");
        }
        if scripts.len() > 1 {
            return unsupported("several scripts", "run the scripts one at a time");
        }
        Ok(())
    }
}

pub(crate) fn run(global: &GlobalArgs, args: &RunArgs) -> anyhow::Result<i32> {
    args.store.check(args.session.as_ref())?;
    let policy = args.policy.resolve()?;
    let scripts = Source::read_all(&args.source, &args.runtime, policy.limits.source_bytes)?;
    args.check_record(&scripts)?;
    let suspended_file = args.suspended_file(&scripts, &policy)?;
    let mut stdin = Stdin::new(args.stdin.as_deref(), &args.source, policy.limits.stdin_bytes)?;
    let displays = args.report.display_files()?;
    let context = args.context.value(&policy)?;
    let tools = args.programs.all_tools(&policy)?;
    warn_if_not_persisted(args, &policy);
    let python = scripts.iter().filter(|script| script.language != Some(Language::JavaScript));
    for script in python {
        add_required(&script.label, script.text(), &policy)?;
    }
    if suspended_file.is_some() {
        stdin = stdin.read();
    }
    // From here on, every blocking operation checks for Ctrl-C.
    let cancel = interrupt::install()?;
    let reporter = Reporter::new(&args.report, displays, &cancel);
    let job = Job { host: Host::open(global, Pooling::Single)?, args, policy, stdin, reporter, context, tools, cancel };
    match (&args.session, suspended_file, scripts.as_slice()) {
        (Some(id), file, scripts) => job.run_in_session(scripts, id, file.as_ref()),
        (None, Some(file), [script]) => job.run_suspendable(script, &file),
        (None, None, [script]) if let Some(file) = &args.record => job.run_recorded(script, file),
        _ => job.run_fresh(&scripts),
    }
}

/// Data shared by all scripts.
struct Job<'a> {
    args: &'a RunArgs,
    host: Host,
    policy: Policy,
    stdin: Stdin,
    reporter: Reporter<'a>,
    context: Option<JsonText>,
    tools: Vec<Tool>,
    cancel: CancelToken,
}

impl Job<'_> {
    fn run_fresh(&self, scripts: &[Source]) -> anyhow::Result<i32> {
        let mut sandboxes: Vec<(RuntimeArgs, Option<Language>, Sandbox)> = Vec::new();
        self.run_each(scripts, |script| {
            let runtime = self.runtime_for(script)?;
            let made = sandboxes.iter().find(|(named, of, _)| (named, *of) == (&runtime, script.language));
            let sandbox = match made {
                Some((.., sandbox)) => sandbox.clone(),
                None => {
                    let image = if self.args.no_prepare { Image::Plain } else { Image::Prepared };
                    let sandbox = self.host.sandbox_of(&runtime, script.language, &self.policy, image)?;
                    let sandbox = self.with_tools(sandbox)?;
                    sandboxes.push((runtime, script.language, sandbox.clone()));
                    sandbox
                }
            };
            self.run_one(script, |request| Ok(sandbox.run(request)?))
        })
    }

    /// Runs a script that can be suspended, in a fresh sandbox. Writes `file` if the script waits for a person.
    fn run_suspendable(&self, script: &Source, file: &NewSuspendedFile) -> anyhow::Result<i32> {
        let runtime = self.runtime_for(script)?;
        let sandbox = self.with_tools(self.host.sandbox(&runtime, script.language, &self.policy)?)?;
        self.advance(script, false, |request| {
            let started = sandbox.start(request)?;
            suspending::advance(&started, Vec::new(), |suspended| file.create(suspended))
        })
    }

    /// Like [`run_suspendable`](Self::run_suspendable), but in a session, which is saved if the script ends.
    fn run_suspendable_in(
        &self,
        session: &ActiveSession,
        source: &Source,
        file: &NewSuspendedFile,
    ) -> anyhow::Result<i32> {
        let generation = session.generation()?;
        let in_use = session.in_use()?;
        let id = in_use.id().to_owned();
        self.advance(source, self.args.source.code.eval.is_some(), |request| {
            let started = in_use.start(request.session_id(&id).session_generation(generation))?;
            match suspending::advance(&started, Vec::new(), |suspended| file.create(suspended))? {
                SuspendableRun::Ended(execution) => {
                    let execution = in_use.save_after(Ok(Arc::unwrap_or_clone(execution)))?;
                    Ok(SuspendableRun::Ended(Arc::new(execution)))
                }
                suspended @ SuspendableRun::Suspended(_) => Ok(suspended),
            }
        })
    }

    /// Starts a suspendable execution by calling `run`, and reports it. Returns the exit code.
    fn advance(
        &self,
        source: &Source,
        with_value: bool,
        run: impl FnOnce(Request<'_>) -> anyhow::Result<SuspendableRun>,
    ) -> anyhow::Result<i32> {
        let (request, passed) = self.reporter.forward(self.request(source).suspendable(true).approvals(true));
        match interrupt::run_guest(|| run(request)) {
            Ok(SuspendableRun::Ended(execution)) => self.reporter.finish(&passed, &execution, with_value),
            Ok(SuspendableRun::Suspended(script)) => self.reporter.suspend(&passed, &script, &self.args.options),
            Err(error) => self.fail(error, source),
        }
    }

    /// Runs a script in a fresh sandbox and writes its recording to `file`.
    fn run_recorded(&self, script: &Source, file: &Path) -> anyhow::Result<i32> {
        let runtime = self.runtime_for(script)?;
        let sandbox = self.with_tools(self.host.sandbox(&runtime, script.language, &self.policy)?)?;
        let (request, passed) = self.reporter.forward(self.request(script).recorded(true));
        let execution = match interrupt::run_guest(|| sandbox.run(request)) {
            Ok(execution) => execution,
            Err(error) => return self.fail(error.into(), script),
        };
        let reported = self.reporter.finish(&passed, &execution, self.args.source.code.eval.is_some());
        let recording = execution.recording().context("the script has run, but was not recorded")?;
        file::replace(file, &recording.to_bytes()).context("the script has run, but its recording was not written")?;
        reported
    }

    /// Returns the runtime from the flags, or otherwise the runtime on which the script starts fastest.
    fn runtime_for(&self, script: &Source) -> anyhow::Result<RuntimeArgs> {
        if self.args.runtime.is_given() {
            return Ok(self.args.runtime.clone());
        }
        let language = script.language.unwrap_or(Language::Python);
        Ok(self.args.runtime.or(&self.host.engine.runtime_for(language, script.text())?))
    }

    /// Runs scripts in a stored session. Writes `file` if the only script waits for a person.
    fn run_in_session(
        &self,
        scripts: &[Source],
        id: &SessionId,
        file: Option<&NewSuspendedFile>,
    ) -> anyhow::Result<i32> {
        let session_dir = SessionDir::open(&self.args.store, &self.cancel)?;
        let record = session_dir.record(id)?;
        let mut language = record.as_ref().map(|record| record.language);
        for script in scripts {
            if let (Some(has), Some(wanted)) = (language, script.language)
                && has != wanted
            {
                return Err(HintedError::new(
                    format!("session `{id}` runs {has}, but `{}` is {wanted}", escaped(&script.label)),
                    "use another session: --session OTHER_ID",
                )
                .into());
            }
            language = language.or(script.language);
        }
        let runtime = match &record {
            Some(record) => runtime_of(record, &self.args.runtime)?,
            None => self.args.runtime.clone(),
        };
        let sandbox = self.with_tools(self.host.sandbox(&runtime, language, &self.policy)?)?;
        let session = session_dir.activate(sandbox, id)?;
        if let (Some(file), [script]) = (file, scripts) {
            return self.run_suspendable_in(&session, script, file);
        }
        self.run_each(scripts, |script| self.run_one(script, |request| Ok(session.run(request)?)))
    }

    fn with_tools(&self, sandbox: Sandbox) -> anyhow::Result<Sandbox> {
        sandbox.with_tools(&self.tools).context("cannot add the tools")
    }

    /// Runs the scripts and returns the first exit code that is not 0.
    fn run_each(&self, scripts: &[Source], mut run: impl FnMut(&Source) -> anyhow::Result<i32>) -> anyhow::Result<i32> {
        let mut exit_code = 0;
        for script in scripts {
            let code = run(script)?;
            if exit_code == 0 {
                exit_code = code;
            }
            if self.cancel.is_cancelled() {
                break;
            }
        }
        Ok(exit_code)
    }

    /// Runs one script and returns its exit code.
    fn run_one(
        &self,
        source: &Source,
        execute: impl FnOnce(Request<'_>) -> anyhow::Result<Execution>,
    ) -> anyhow::Result<i32> {
        let (request, passed) = self.reporter.forward(self.request(source));
        match interrupt::run_guest(|| execute(request)) {
            Ok(execution) => self.reporter.finish(&passed, &execution, self.args.source.code.eval.is_some()),
            Err(error) => self.fail(error, source),
        }
    }

    fn request<'r>(&'r self, source: &'r Source) -> Request<'r> {
        let request = self.stdin.give(source.request().cancel(&self.cancel));
        match &self.context {
            Some(context) => request.context_text(context.clone()),
            None => request,
        }
    }

    /// Reports that a script could not be run, or that its changes could not be saved.
    fn fail(&self, error: anyhow::Error, source: &Source) -> anyhow::Result<i32> {
        self.reporter.fail(&error)?;
        Err(error.context(format!("cannot run `{}`", escaped(&source.label))))
    }
}

/// Warns if persisted globals would be lost.
fn warn_if_not_persisted(args: &RunArgs, policy: &Policy) {
    if !policy.auto_persist_globals || args.session.is_some() {
        return;
    }
    if policy.workspace.is_none() {
        note(
            "--auto-persist-globals stores globals in the workspace, but the workspace is lost after this run; keep it with --workspace DIR",
        );
    } else if policy.commit == Commit::Never {
        note(
            "--auto-persist-globals stores globals in the workspace, but changes there are discarded (--commit never)",
        );
    }
}
