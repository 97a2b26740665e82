//! Defines and parses the command line.

use std::{ffi::OsString, path::Path};

use clap::{
    CommandFactory, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
};

use crate::args::GlobalArgs;
use crate::commands::{
    doctor, image, packages, policy, repl, replay, resume, run, runtimes, services, session, validate,
};
use crate::source::STDIN;

const USAGE: &str = "glovebox [OPTIONS] <COMMAND>\n       glovebox FILE [OPTIONS] [ARG]...";

const AFTER_HELP: &str = "\
Examples:
  glovebox hello.py one two                  run a file with arguments: short for `glovebox run hello.py --arg one --arg two`
  glovebox run hello.py hello.js             run files, each in a fresh sandbox
  glovebox run -e 'print(6 * 7)'             run code from the command line
  glovebox run --json -e 'print(1)'          run code, and print its result and resource usage as JSON
  glovebox run --fuel 5_000_000 loop.py      limit the fuel of a script
  glovebox run --workspace out report.py     write the files in /app to a host directory
  glovebox run --session trip -e 'x = 1'     run in a stored session
  glovebox resume pay.suspended              continue a script that waits for a person's answer
  glovebox replay run.recording              repeat a recorded script and compare the results
  glovebox run-component agent.wasm          run a component that uses the sandbox
  glovebox serve                             answer requests over HTTP
  glovebox repl                              evaluate code interactively
  glovebox mcp install claude-code           let a model run code over the Model Context Protocol
  glovebox daemon                            serve programs on this machine over a Unix socket
  glovebox fleet up                          serve sessions that outlive their machine
  glovebox session list                      list the stored sessions
  glovebox validate *.py *.js                check the syntax without running anything
  glovebox tools stubs -l python             declare tools with types, for editors and models
  glovebox doctor                            check that everything works on this machine

The first run of a language downloads and prepares its interpreter. Later runs need no network.";

/// Runs untrusted Python and JavaScript in WebAssembly, with enforced limits.
///
/// Each script runs in its own CPython or QuickJS with an empty file system. It has no network, host files or host
/// environment, unless a flag or a policy file grants them.
#[derive(Debug, Parser)]
#[command(name = "glovebox", version, override_usage = USAGE, after_help = AFTER_HELP, arg_required_else_help = true, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,

    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Parses the command line. `glovebox FILE ARG…` is short for `glovebox run FILE --arg ARG…`.
    pub(crate) fn read(args: Vec<OsString>) -> Self {
        Self::parsed(args).unwrap_or_else(|error| with_escaped_words(error).exit())
    }

    fn parsed(args: Vec<OsString>) -> Result<Self, clap::Error> {
        let error = match Self::try_parse_from(&args) {
            Err(error) if error.kind() == ErrorKind::InvalidSubcommand => error,
            parsed => return parsed,
        };
        let name = match error.get(ContextKind::InvalidSubcommand) {
            Some(ContextValue::String(name)) => name.clone(),
            _ => return Err(error),
        };
        if !looks_like_a_file(&name) {
            let is_mistyped = error.get(ContextKind::SuggestedSubcommand).is_some();
            let neither = || {
                let message = format!("`{}` is neither a subcommand nor a file", glovebox::escaped(&name));
                Self::command().error(ErrorKind::InvalidSubcommand, message)
            };
            return Err(if is_mistyped { error } else { neither() });
        }
        // If the name occurs more than once, the first occurrence that is not a flag's value is used.
        let places = args.iter().enumerate().skip(1).filter(|(_, arg)| arg.to_string_lossy() == name);
        let mut attempts = places.map(|(at, _)| {
            let (before, from) = args.split_at(at);
            Self::try_parse_from(before.iter().chain([&OsString::from("run")]).chain(from))
        });
        let fits = |parsed: &Result<Self, clap::Error>| {
            !parsed.as_ref().is_err_and(|error| error.kind() == ErrorKind::InvalidSubcommand)
        };
        let mut cli = attempts.find(fits).unwrap_or(Err(error))?;
        if let Command::Run(run) = &mut cli.command {
            run.take_arguments().map_err(|arg| {
                let message = format!("argument `{}` is not valid UTF-8", glovebox::escaped(&arg));
                Self::command().error(ErrorKind::InvalidUtf8, message)
            })?;
        }
        Ok(cli)
    }
}

/// Escapes the words of the command line in an error, so that they cannot forge lines of output.
fn with_escaped_words(mut error: clap::Error) -> clap::Error {
    let escaped = |text: &String| glovebox::escaped(text).to_string();
    let words = error.context().filter_map(|(kind, value)| match value {
        ContextValue::String(text) => Some((kind, ContextValue::String(escaped(text)))),
        ContextValue::Strings(texts) => Some((kind, ContextValue::Strings(texts.iter().map(escaped).collect()))),
        _ => None,
    });
    for (kind, value) in words.collect::<Vec<_>>() {
        error.insert(kind, value);
    }
    error
}

/// Returns `true` if a word in the position of a subcommand names a file: the file exists, or the word is `-` or
/// contains a `/` or a `.`.
fn looks_like_a_file(name: &str) -> bool {
    name == STDIN || name.contains(['/', '.']) || Path::new(name).is_file()
}

/// Subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Box<run::RunArgs>),
    Resume(Box<resume::ResumeArgs>),
    Replay(Box<replay::ReplayArgs>),
    Repl(Box<repl::ReplArgs>),
    Session(session::SessionArgs),
    Validate(validate::ValidateArgs),
    Runtimes(runtimes::RuntimesArgs),
    Packages(packages::PackagesArgs),
    Image(image::ImageArgs),
    Policy(policy::PolicyCommandArgs),
    Doctor(doctor::DoctorArgs),
    #[command(flatten)]
    Service(services::ServiceCommand),
}

#[cfg(feature = "full")]
impl Command {
    /// Returns `true` if the command serves any number of clients.
    pub(crate) fn is_server(&self) -> bool {
        matches!(self, Self::Service(command) if command.is_server())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Command;

    fn read(words: &str) -> Result<Command, clap::Error> {
        let args = std::iter::once("glovebox").chain(words.split(' ')).map(Into::into).collect();
        super::Cli::parsed(args).map(|cli| cli.command)
    }

    #[test]
    fn file_as_first_argument_is_run() {
        for words in ["x.py", "./run", "dir/x", "-", "x.py --fuel 5", "-v x.py y.js", "--log x.py x.py", "Cargo.toml"] {
            assert!(matches!(read(words), Ok(Command::Run(_))), "{words}");
        }
        assert!(matches!(read("doctor"), Ok(Command::Doctor(_))));
    }

    #[test]
    fn arguments_after_a_file_belong_to_the_script() {
        for (words, files, args) in [
            ("a.py", 1, vec![]),
            ("a.py x y", 1, vec!["x", "y"]),
            ("a.py b.js --fuel 5 y", 1, vec!["b.js", "y"]),
            ("-v a.py x", 1, vec!["x"]),
            ("a.py --arg w x -- --fuel -x", 1, vec!["w", "x", "--fuel", "-x"]),
            ("- x", 1, vec!["x"]),
            ("run a.py b.js", 2, vec![]),
            ("run a.py --arg x", 1, vec!["x"]),
        ] {
            let Ok(Command::Run(run)) = read(words) else { panic!("{words}") };
            let (found, given) = run.files_and_arguments();
            assert_eq!(found, files, "{words}");
            assert_eq!(given, args, "{words}");
        }
    }

    #[cfg(feature = "full")]
    #[test]
    fn unknown_subcommand_is_named() {
        for (words, said) in [
            ("validat x.py", "a similar subcommand exists: 'validate'"),
            ("sesion list", "a similar subcommand exists: 'session'"),
            ("zzz", "`zzz` is neither a subcommand nor a file"),
            ("src", "`src` is neither a subcommand nor a file"),
        ] {
            let error = read(words).unwrap_err();
            assert!(error.to_string().contains(said) && error.exit_code() == 2, "{error}");
        }
        // An error after a file name is reported as an error of `run`.
        assert!(read("x.py --fule 5").unwrap_err().to_string().contains("--fuel"));
    }

    #[test]
    fn command_line_definition_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
