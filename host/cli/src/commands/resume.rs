//! `glovebox resume`: continues a script that waits for a person.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use clap::{ArgMatches, Args, Command, FromArgMatches, parser::ValueSource};
use glovebox::{
    CancelToken, JsonText, Limits, Outcome, RelayedCall, Step, Suspended, Tool, ToolAnswer, ToolError, ToolErrorKind,
    ToolRequest, escaped, escaped_text,
};
use glovebox_sessions::SessionId;

use crate::{
    args::{ASK, GlobalArgs, PolicyArgs, ProgramArgs, RuntimeArgs, StoreArgs, interactive_tool},
    engine::{Host, Pooling},
    interrupt,
    report::{ReportArgs, Reporter},
    session_dir::{self, SessionDir, runtime_of},
    suspending::{self, SUSPENDED_EXIT_CODE, SuspendableRun, SuspendedFile, waiting_json, write_waiting},
    terminal::{HintedError, note},
};

const AFTER_HELP: &str = "\
Examples:
  glovebox run --tool pay=@ask -e 'print(tools.pay(euros=20))'     # exits with 75 and writes script.suspended
  glovebox resume script.suspended                                 # lists the waiting calls
  glovebox resume script.suspended --answer 0='{\"receipt\": 17}'    # the script receives {'receipt': 17}
  glovebox resume script.suspended --deny 0='too expensive'        # the script receives the exception ToolDenied
  glovebox resume script.suspended --tool pay=./pay --approve 0    # runs ./pay, if the policy requires an approval for it

The script continues with the new answers. A program that has answered a call does not run again for it, and only new \
output is printed. If the script waits again, FILE is replaced and the exit code is 75. If the script ends, FILE is \
deleted and the exit code is that of `glovebox run`.

Use the options of the first command, such as --tool, --policy, --mount and limits: `glovebox run` prints the command to \
continue with. FILE contains the script, its input and all answers so far, but no permissions. If a file, a tool or a \
limit has changed and the script behaves differently than before, that is an error, and FILE is unchanged.

A script of `glovebox run --session ID` continues in its session, which is saved when the script has ended. If the session has \
changed since the script was suspended, that is an error, and neither FILE nor the session changes.

FILE is also unchanged if the command fails or is interrupted, or if its output cannot be written. If the script had \
continued by then, resuming FILE again repeats the tool calls that the script made after it continued.";

/// Continue a script that waits for a person's answers
///
/// Without --answer, --approve and --deny, lists the waiting calls and exits with 75. You can answer some of the calls
/// now and the others later, in any order.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ResumeArgs {
    // Must be the first field: the other fields remove their values from the parsed command line.
    #[command(flatten)]
    options: RepeatedOptions,

    /// File with the suspended execution, written by `glovebox run`
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Answer a waiting call with JSON, such as `0=true` or `0='"text"'`; repeatable
    #[arg(long = "answer", value_name = "CALL=JSON", value_parser = answer)]
    answers: Vec<ToolAnswer>,

    /// Approve a waiting call to a program of --tool: runs the program, and the script receives its result; repeatable
    #[arg(long = "approve", value_name = "CALL")]
    approvals: Vec<u64>,

    /// Refuse a waiting call: it raises `ToolDenied` in the script, with this reason; repeatable
    #[arg(long = "deny", value_name = "CALL=REASON", value_parser = denial)]
    denials: Vec<ToolAnswer>,

    #[command(flatten)]
    runtime: RuntimeArgs,

    #[command(flatten)]
    programs: ProgramArgs,

    #[command(flatten)]
    report: ReportArgs,

    /// Stored session in which the script was suspended; it is saved when the script has ended
    #[arg(long, value_name = "ID", help_heading = "Sessions")]
    session: Option<SessionId>,

    #[command(flatten)]
    store: StoreArgs,

    #[command(flatten)]
    policy: PolicyArgs,
}

/// Parses a person's answer to a call.
fn answer(text: &str) -> Result<ToolAnswer, String> {
    let (id, value) = parts(text).ok_or("write it as `CALL=JSON`, such as `0=true`")?;
    let value = JsonText::new(value)
        .map_err(|error| format!("{error}; write JSON, with quotes around text: `--answer '{id}=\"text\"'`"))?;
    Ok(ToolAnswer { id, answer: Ok(value.as_str().to_owned()) })
}

/// Parses a person's refusal of a call.
fn denial(text: &str) -> Result<ToolAnswer, &'static str> {
    match parts(text) {
        Some((id, reason)) if !reason.is_empty() => {
            Ok(ToolAnswer::error(id, ToolError::of(ToolErrorKind::Denied, reason)))
        }
        _ => Err("write it as `CALL=REASON`, such as `0='too expensive'`"),
    }
}

/// Splits a call's ID from the text after the first `=`.
fn parts(text: &str) -> Option<(u64, &str)> {
    let (call, rest) = text.split_once('=')?;
    Some((call.parse().ok()?, rest))
}

/// The options of this command line that `glovebox resume` also accepts, as words for a shell. They are repeated in the
/// printed command that resumes a suspended script.
#[derive(Clone, Debug, Default)]
pub(crate) struct RepeatedOptions {
    words: Vec<String>,
    /// The names of the tools that are programs.
    programs: Vec<String>,
}

impl RepeatedOptions {
    /// Options that are not repeated, because they apply to a single command only.
    const NEW_EACH_TIME: [&str; 3] = ["answers", "approvals", "denials"];

    pub(crate) fn words(&self) -> &[String] {
        &self.words
    }

    /// Returns `true` if the tool is a program. Calls to a program wait for a person only if they need an approval.
    pub(crate) fn has_program(&self, tool: &str) -> bool {
        self.programs.iter().any(|name| name == tool)
    }

    /// Adds an option with a value.
    pub(crate) fn push(&mut self, long: &str, value: &str) {
        self.words.push(if value.starts_with('-') {
            format!("--{long}={}", quoted(value))
        } else {
            format!("--{long} {}", quoted(value))
        });
    }
}

impl FromArgMatches for RepeatedOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut options = Self::default();
        let command = GlobalArgs::augment_args(ResumeArgs::augment_args(Command::new("resume")));
        for arg in command.get_arguments() {
            let (id, Some(long)) = (arg.get_id().as_str(), arg.get_long()) else { continue };
            let is_given = matches.try_contains_id(id).unwrap_or(false)
                && matches.value_source(id) == Some(ValueSource::CommandLine);
            if !is_given || Self::NEW_EACH_TIME.contains(&id) {
                continue;
            }
            if !arg.get_action().takes_values() {
                options.words.push(format!("--{long}"));
                continue;
            }
            for value in matches.try_get_raw(id).ok().flatten().into_iter().flatten() {
                let value = value.to_string_lossy();
                options.push(long, &value);
                if let ("tool", Some((name, command))) = (long, value.split_once('='))
                    && command != ASK
                {
                    options.programs.push(name.to_owned());
                }
            }
        }
        Ok(options)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Adds no options to the command.
impl Args for RepeatedOptions {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

/// Quotes a word for a shell, if needed.
pub(crate) fn quoted(word: &str) -> String {
    // Fails only for a NUL character, which no argument contains.
    shlex::try_quote(word).map(Cow::into_owned).unwrap_or_default()
}

pub(crate) fn run(global: &GlobalArgs, args: &ResumeArgs) -> anyhow::Result<i32> {
    let file = SuspendedFile::open(&args.file, session_dir::key(&args.store)?)?;
    let suspended = file.read()?;
    args.check_session(&suspended)?;
    let answers = args.tool_answers(&suspended)?;
    if answers.is_empty() && args.approvals.is_empty() {
        if args.report.json {
            waiting_json(&suspended, file.path(), &args.options, None)?;
        } else {
            write_waiting(&suspended, file.path(), &args.options);
        }
        return Ok(SUSPENDED_EXIT_CODE);
    }
    file.check_directory()?;
    let policy = args.policy.resolve()?;
    let mut tools = args.programs.all_tools(&policy)?;
    // A person answers the waiting calls, even without `--tool NAME=@ask`.
    for call in suspended.tool_requests() {
        if tools.iter().all(|tool| tool.name() != call.name) {
            tools.push(interactive_tool(&call.name));
        }
    }
    let approved = args.approved_calls(&suspended, &tools)?;
    let displays = args.report.display_files()?;
    // From here on, every blocking operation checks for Ctrl-C.
    let cancel = interrupt::install()?;
    let host = Host::open(global, Pooling::Single)?;
    let session = match &args.session {
        Some(id) => {
            let sessions = SessionDir::open(&args.store, &cancel)?;
            let record = sessions.existing(id)?;
            Some((id, sessions, record))
        }
        None => None,
    };
    let runtime = match &session {
        Some((.., record)) => runtime_of(record, &args.runtime)?,
        None => args.runtime.or(suspended.runtime_name()),
    };
    let sandbox = host.sandbox(&runtime, None, &policy)?.with_tools(&tools).context("cannot add the tools")?;
    let reporter = Reporter::new(&args.report, displays, &cancel);
    let (request, passed) = reporter.forward(suspended.request().approvals(true).cancel(&cancel));
    // `true` while the script has made tool calls that resuming the file again would repeat.
    let mut has_continued = false;
    let mut is_reported = false;
    let ran = interrupt::run_guest(|| -> anyhow::Result<i32> {
        let restored = match &session {
            Some((id, sessions, _)) => Some(sessions.restore(sandbox.clone(), id, &suspended)?),
            None => None,
        };
        let started = match &restored {
            Some(session) => session.start(request)?,
            None => sandbox.start(request)?,
        };
        // The script repeats its earlier steps, without calling tools, until it waits for the same calls.
        if let Step::Done(execution) = started.advance(Vec::new(), None)? {
            is_reported = true;
            return reporter.finish(&passed, &execution, false);
        }
        has_continued = true;
        let mut answers = answers;
        answers.extend(run_programs(&approved, suspended.session_id(), &policy.limits, &cancel));
        let execution = match suspending::advance(&started, answers, |suspended| file.replace(suspended))? {
            SuspendableRun::Ended(execution) => execution,
            SuspendableRun::Suspended(script) => {
                has_continued = false;
                is_reported = true;
                return reporter.suspend(&passed, &script, &args.options);
            }
        };
        // If the report cannot be written, neither the file nor the session changes, so that the result is not lost.
        is_reported = true;
        let code = reporter.finish(&passed, &execution, false)?;
        if matches!(execution.outcome, Outcome::Cancelled) {
            return Ok(code);
        }
        if let Some(session) = &restored {
            session.save_after(Ok(Arc::unwrap_or_clone(execution)))?;
        }
        // Delete the file before Ctrl-C can end the process: resuming it again would repeat the script's tool calls.
        file.delete();
        has_continued = false;
        Ok(code)
    });
    if has_continued {
        warn_of_repetition(&args.file);
    }
    ran.or_else(|error| {
        if !is_reported {
            reporter.fail(&error)?;
        }
        Err(error.context(format!("cannot resume `{}`", escaped(&args.file))))
    })
}

/// A call that a person has approved, and the tool that the call is for.
struct ApprovedCall {
    call: ToolRequest,
    tool: Tool,
}

impl ApprovedCall {
    /// Runs the tool's program.
    fn answer(&self, relayed: RelayedCall) -> ToolAnswer {
        let answer = self.tool.answer(relayed, self.call.arguments.clone()).and_then(|text| {
            let text = JsonText::new(text);
            text.map(String::from).map_err(|error| ToolError::new(format!("the tool's result is invalid: {error}")))
        });
        ToolAnswer { id: self.call.id, answer }
    }
}

/// Runs the programs of approved calls concurrently, and returns their answers.
fn run_programs(
    approved: &[ApprovedCall],
    session_id: Option<&str>,
    limits: &Limits,
    cancel: &CancelToken,
) -> Vec<ToolAnswer> {
    let deadline = Instant::now() + Duration::from_millis(limits.tool_timeout_ms);
    let relayed = |call: &ToolRequest| RelayedCall {
        index: usize::try_from(call.id).unwrap_or(usize::MAX),
        session_id: session_id.map(str::to_owned),
        cancel: cancel.clone(),
        deadline,
        memory_bytes: limits.memory_bytes,
        budget: None,
    };
    thread::scope(|scope| {
        let running: Vec<_> = approved
            .iter()
            .map(|approved| {
                let relayed = relayed(&approved.call);
                (approved.call.id, scope.spawn(move || approved.answer(relayed)))
            })
            .collect();
        let panicked = |id| ToolAnswer::error(id, ToolError::new("the tool panicked"));
        running.into_iter().map(|(id, answer)| answer.join().unwrap_or_else(|_| panicked(id))).collect()
    })
}

/// Warns that the file does not contain the calls that the script made after it continued.
fn warn_of_repetition(file: &Path) {
    note(&format!(
        "`{}` is unchanged; if you resume it again, the script repeats the tool calls that it made after it continued",
        escaped(file)
    ));
}

impl ResumeArgs {
    /// Fails unless `--session` names the session in which the script was suspended. The file alone must not select the
    /// session that is overwritten, because it can be forged.
    fn check_session(&self, suspended: &Suspended) -> Result<(), HintedError> {
        self.store.check(self.session.as_ref())?;
        let stored = suspended.session_id().filter(|_| suspended.is_in_session());
        match (stored, &self.session) {
            (None, None) => Ok(()),
            (Some(stored), Some(id)) if stored == id.as_str() => Ok(()),
            (None, Some(_)) => Err(HintedError::new("the script was not suspended in a session", "remove --session")),
            (Some(stored), _) => Err(HintedError::new(
                format!("the script was suspended in session `{}`", escaped_text(stored)),
                "name the session to overwrite when the script has ended: --session ID",
            )),
        }
    }

    /// Returns the calls that `--approve` names. Fails if the tool of a call has no program.
    fn approved_calls(&self, suspended: &Suspended, tools: &[Tool]) -> Result<Vec<ApprovedCall>, HintedError> {
        let calls = suspended.tool_requests().into_iter().filter(|call| self.approvals.contains(&call.id));
        let approved = calls.map(|call| {
            let has_program = |tool: &&Tool| tool.name() == call.name && !tool.definition().is_stepped();
            let tool = tools.iter().find(has_program).cloned();
            match tool {
                Some(tool) => Ok(ApprovedCall { call, tool }),
                None => Err(HintedError::new(
                    format!(
                        "call {} cannot be approved: no program answers calls to `{}`",
                        call.id,
                        escaped(&call.name)
                    ),
                    "name the program with --tool NAME=COMMAND, or use --answer CALL=JSON",
                )),
            }
        });
        approved.collect()
    }

    /// Returns the answers from `--answer` and `--deny`. Fails if one of these calls, or an approved call, is not
    /// waiting or is named twice.
    fn tool_answers(&self, suspended: &Suspended) -> Result<Vec<ToolAnswer>, HintedError> {
        let answers: Vec<ToolAnswer> = self.answers.iter().chain(&self.denials).cloned().collect();
        let waiting: Vec<u64> = suspended.tool_requests().iter().map(|call| call.id).collect();
        let ids: Vec<u64> = answers.iter().map(|answer| answer.id).chain(self.approvals.iter().copied()).collect();
        for (at, id) in ids.iter().enumerate() {
            if !waiting.contains(id) {
                let ids: Vec<String> = waiting.iter().map(u64::to_string).collect();
                return Err(HintedError::new(
                    format!("the script is not waiting for call {id}"),
                    format!("answer one of these calls: {}", ids.join(", ")),
                ));
            }
            if ids.iter().skip(at + 1).any(|other| other == id) {
                return Err(HintedError::new(
                    format!("call {id} has more than one answer"),
                    "give each call one --answer, --approve or --deny",
                ));
            }
        }
        Ok(answers)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command as Subcommand};

    fn options(words: &str) -> String {
        let words = std::iter::once("glovebox").chain(words.split(' '));
        match Cli::try_parse_from(words).unwrap().command {
            Subcommand::Run(args) => args.options.words().join(" "),
            Subcommand::Resume(args) => args.options.words().join(" "),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn shared_options_are_repeated() {
        for (given, repeated) in [
            ("run a.py", ""),
            (
                "run --tool a=@ask --tool b=cat --fuel 5 --json -l py a.py",
                "--fuel 5 --json --tool 'a=@ask' --tool 'b=cat'",
            ),
            ("--bundle a:b run --arg=-x --workspace w --stdin i -e 1", "--arg=-x --bundle a --bundle b --workspace w"),
            ("resume f --answer 0=1 --deny 1=no --runtime r --no-packages", "--no-packages --runtime r"),
        ] {
            let mut found: Vec<_> =
                options(given).split(" --").map(|word| word.trim_start_matches("--").to_owned()).collect();
            found.sort();
            let found: Vec<_> = found.iter().filter(|word| !word.is_empty()).map(|word| format!("--{word}")).collect();
            assert_eq!(found.join(" "), repeated, "{given}");
        }
    }

    #[test]
    fn option_values_are_quoted_for_a_shell() {
        let mut options = RepeatedOptions::default();
        options.push("env", "A=a b");
        options.push("arg", "--x");
        options.push("arg", "-y z");
        assert_eq!(options.words(), ["--env 'A=a b'", "--arg=--x", "--arg='-y z'"]);
    }

    #[test]
    fn answers_name_a_call() {
        assert_eq!(answer("3={\"a\": \"=\"}"), Ok(ToolAnswer { id: 3, answer: Ok("{\"a\": \"=\"}".to_owned()) }));
        for (wrong, expected) in
            [("true", "CALL=JSON"), ("x=1", "CALL=JSON"), ("-1=1", "CALL=JSON"), ("0=yes", "not JSON")]
        {
            assert!(answer(wrong).unwrap_err().contains(expected), "{wrong}");
        }
        assert_eq!(denial("0=a=b"), Ok(ToolAnswer::error(0, ToolError::of(ToolErrorKind::Denied, "a=b"))));
        assert!(denial("0=").is_err());
    }
}
