//! Defines and parses the command line.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

use clap::{
    Arg, CommandFactory, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
};

use crate::args::GlobalArgs;
use crate::commands::{
    doctor, image, monty_worker, packages, policy, replay, resume, run, runtimes, services, session, validate,
};
use crate::source::STDIN;

const USAGE: &str = "glovebox [OPTIONS] <COMMAND>\n       glovebox [OPTIONS] FILE [ARG]...";

const AFTER_HELP: &str = "\
Examples:
  glovebox hello.py one --two                run a file with arguments: short for `glovebox run hello.py --arg one --arg=--two`
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
#[command(name = "glovebox", bin_name = "glovebox", version, override_usage = USAGE, after_help = AFTER_HELP, arg_required_else_help = true, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,

    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Parses the command line. `glovebox [OPTIONS] FILE [ARG]…` is short for `glovebox run [OPTIONS] FILE` with each
    /// word after the file as an `--arg`.
    pub(crate) fn read(args: Vec<OsString>) -> Self {
        Self::parsed(&args).unwrap_or_else(|error| with_escaped_words(error).exit())
    }

    fn parsed(args: &[OsString]) -> Result<Self, clap::Error> {
        let error = match Self::try_parse_from(args) {
            Err(error) if matches!(error.kind(), ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument) => error,
            parsed => return parsed,
        };
        let command = Self::command();
        // Clap adds the subcommand `help` itself.
        let is_subcommand = |word: &OsString| word == "help" || command.find_subcommand(word).is_some();
        let as_run = |count: usize| {
            let run = [OsString::from("run")];
            let (program, words) = args.split_at(args.len().min(1));
            Self::try_parse_from(program.iter().chain(&run).chain(words.iter().take(count)))
        };
        let Some(at) = first_operand(&command, args) else {
            // An unknown option can be a mistyped option of `glovebox run`.
            let error_of_run = if args.iter().any(is_subcommand) { None } else { as_run(args.len()).err() };
            let mistyped = error_of_run.filter(|error| error.get(ContextKind::SuggestedArg).is_some());
            return Err(mistyped.unwrap_or(error));
        };
        let Some((name, arguments)) = args.get(at..).and_then(<[_]>::split_first) else { return Err(error) };
        if is_subcommand(name) {
            return Err(error);
        }
        if !looks_like_a_file(name) {
            let is_mistyped = error.get(ContextKind::SuggestedSubcommand).is_some();
            if error.kind() == ErrorKind::UnknownArgument || is_mistyped {
                return Err(error);
            }
            let message = format!("`{}` is neither a subcommand nor a file", glovebox::escaped(name));
            return Err(Self::command().error(ErrorKind::InvalidSubcommand, message));
        }
        let mut cli = as_run(at)?;
        if let Command::Run(run) = &mut cli.command {
            run.add_arguments(arguments).map_err(|argument| {
                let message = format!("argument `{}` is not valid UTF-8", glovebox::escaped(argument));
                Self::command().error(ErrorKind::InvalidUtf8, message)
            })?;
        }
        Ok(cli)
    }
}

/// Returns the index of the first word that is neither an option of `glovebox run` nor the value of one. Returns `None`
/// if an option before it is unknown, because the next word may be its value.
fn first_operand(command: &clap::Command, args: &[OsString]) -> Option<usize> {
    let options: Vec<&Arg> = command.get_arguments().chain(command.find_subcommand("run")?.get_arguments()).collect();
    let takes_value = |is_meant: &dyn Fn(&Arg) -> bool| {
        options.iter().find(|option| is_meant(option)).map(|option| option.get_action().takes_values())
    };
    let mut at = 1;
    loop {
        let word = args.get(at)?.to_string_lossy();
        at += 1;
        let takes_next = match (word.strip_prefix("--"), word.strip_prefix('-')) {
            (Some(""), _) => return Some(at),
            (Some(long), _) => !long.contains('=') && takes_value(&|option| option.get_long() == Some(long))?,
            (None, None | Some("")) => return Some(at - 1),
            (None, Some(shorts)) => {
                // In a group of short options, the letters after an option that takes a value are its value.
                let mut shorts = shorts.chars();
                loop {
                    let Some(short) = shorts.next() else { break false };
                    if takes_value(&|option| option.get_short() == Some(short))? {
                        break shorts.as_str().is_empty();
                    }
                }
            }
        };
        at += usize::from(takes_next);
    }
}

/// Escapes the words of the command line in an error, so that they cannot forge lines of output. Tips contain words
/// inside styled text, where they cannot be escaped. An error about a word that needs escaping therefore has no tips.
fn with_escaped_words(mut error: clap::Error) -> clap::Error {
    let escaped = |text: &String| glovebox::escaped(text).to_string();
    let words = error.context().filter_map(|(kind, value)| match value {
        ContextValue::String(text) => Some((kind, ContextValue::String(escaped(text)))),
        ContextValue::Strings(texts) => Some((kind, ContextValue::Strings(texts.iter().map(escaped).collect()))),
        _ => None,
    });
    for (kind, value) in words.collect::<Vec<_>>() {
        if error.insert(kind, value.clone()).is_some_and(|raw| raw != value) {
            error.remove(ContextKind::Suggested);
        }
    }
    error
}

/// Returns `true` if a word in the position of a subcommand is probably a file name: the file exists, the word contains
/// a `/` or a `.`, or the word is `-`.
fn looks_like_a_file(name: &OsStr) -> bool {
    name == STDIN || name.to_string_lossy().contains(['/', '.']) || Path::new(name).is_file()
}

/// Subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Box<run::RunArgs>),
    Resume(Box<resume::ResumeArgs>),
    Replay(Box<replay::ReplayArgs>),
    #[cfg(feature = "full")]
    Repl(Box<crate::commands::repl::ReplArgs>),
    Session(session::SessionArgs),
    Validate(validate::ValidateArgs),
    Runtimes(runtimes::RuntimesArgs),
    Packages(packages::PackagesArgs),
    Image(image::ImageArgs),
    Policy(policy::PolicyCommandArgs),
    Doctor(doctor::DoctorArgs),
    #[command(visible_alias = "subprocess")]
    MontyWorker(monty_worker::MontyWorkerArgs),
    #[command(flatten)]
    Service(services::ServiceCommand),
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::{CommandFactory, error::ErrorKind};

    use super::{Cli, Command, with_escaped_words};

    fn read(words: &str) -> Result<Command, clap::Error> {
        read_words(&words.split(' ').collect::<Vec<_>>())
    }

    fn read_words(words: &[&str]) -> Result<Command, clap::Error> {
        let args: Vec<OsString> = std::iter::once(&"glovebox").chain(words).map(Into::into).collect();
        Cli::parsed(&args).map(|cli| cli.command)
    }

    #[test]
    fn file_as_first_operand_is_run() {
        for words in [
            "x.py",
            "./run",
            "dir/x",
            "-",
            "--fuel 5 x.py",
            "-v x.py y.js",
            "--log x.py x.py",
            "-vl js -- -x.js",
            "-ljs --json --session run - run",
            "Cargo.toml",
        ] {
            assert!(matches!(read(words), Ok(Command::Run(_))), "{words}");
        }
        assert!(matches!(read("doctor"), Ok(Command::Doctor(_))));
    }

    #[test]
    fn words_after_a_file_are_arguments_of_the_script() {
        for (words, files, args) in [
            ("a.py", 1, vec![]),
            ("a.py x y", 1, vec!["x", "y"]),
            ("a.py b.js --fuel 5 y", 1, vec!["b.js", "--fuel", "5", "y"]),
            ("--fuel 5 a.py --fuel=6 --help", 1, vec!["--fuel=6", "--help"]),
            ("-v a.py x -v", 1, vec!["x", "-v"]),
            ("--arg w a.py x -- --fuel -x", 1, vec!["w", "x", "--", "--fuel", "-x"]),
            ("-- a.py --", 1, vec!["--"]),
            ("- x", 1, vec!["x"]),
            ("a.py run b.py", 1, vec!["run", "b.py"]),
            ("run a.py b.js", 2, vec![]),
            ("run a.py --arg x", 1, vec!["x"]),
            ("run a.py --fuel 5", 1, vec![]),
        ] {
            let Ok(Command::Run(run)) = read(words) else { panic!("{words}") };
            assert_eq!(run.source.code.files.len(), files, "{words}");
            assert_eq!(run.policy.args, args, "{words}");
        }
    }

    #[cfg(feature = "full")]
    #[test]
    fn unknown_subcommand_is_named() {
        for (words, expected) in [
            ("validat x.py", "a similar subcommand exists: 'validate'"),
            ("sesion list", "a similar subcommand exists: 'session'"),
            ("session x.py", "unrecognized subcommand 'x.py'"),
            ("help zzz", "unrecognized subcommand 'zzz'"),
            ("zzz", "`zzz` is neither a subcommand nor a file"),
            ("tests", "`tests` is neither a subcommand nor a file"),
        ] {
            let error = read(words).unwrap_err();
            assert!(error.to_string().contains(expected) && error.exit_code() == 2, "{error}");
        }
    }

    #[test]
    fn wrong_option_before_a_file_is_named() {
        for (words, expected) in [
            ("--fule 5 x.py", "a similar argument exists: '--fuel'"),
            ("--zzz x.py", "unexpected argument '--zzz' found"),
            ("--fuel x x.py", "invalid value 'x' for '--fuel <N>'"),
            ("-e 1 x.py", "cannot be used with"),
            ("--fuel 5", "unexpected argument '--fuel' found"),
        ] {
            let error = read(words).unwrap_err().to_string();
            assert!(error.contains(expected), "{words}: {error}");
        }
    }

    /// Every kind of usage error in which clap quotes a word of the command line, with `{}` for the word.
    const QUOTING: [(&[&str], ErrorKind); 13] = [
        (&["--{}"], ErrorKind::UnknownArgument),
        (&["run", "--{}"], ErrorKind::UnknownArgument),
        (&["run", "-{}"], ErrorKind::UnknownArgument),
        (&["run", "x.py", "--{}=1"], ErrorKind::UnknownArgument),
        (&["image", "list", "{}"], ErrorKind::UnknownArgument),
        (&["{}"], ErrorKind::InvalidSubcommand),
        (&["session", "{}"], ErrorKind::InvalidSubcommand),
        (&["session", "list{}"], ErrorKind::InvalidSubcommand),
        (&["help", "{}"], ErrorKind::InvalidSubcommand),
        (&["--color", "{}", "doctor"], ErrorKind::InvalidValue),
        (&["run", "--env", "{}", "x.py"], ErrorKind::ValueValidation),
        (&["--cache-age", "5{}", "doctor"], ErrorKind::ValueValidation),
        (&["run", "--no-prepare={}", "x.py"], ErrorKind::TooManyValues),
    ];

    #[test]
    fn usage_errors_escape_and_shorten_words() {
        for (words, kind) in QUOTING {
            for hostile in ["x\nerror: forged\u{1b}[2K\r\u{202e}".to_owned(), "x".repeat(5_000)] {
                let words: Vec<String> = words.iter().map(|word| word.replace("{}", &hostile)).collect();
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let error = with_escaped_words(read_words(&words).unwrap_err());
                assert_eq!(error.kind(), kind, "{words:?}: {error}");
                let text = error.render().ansi().to_string();
                let lines = text.lines().filter(|line| line.contains("error")).count();
                assert!(lines == 1 && !text.contains(['\r', '\u{202e}']) && !text.contains("\u{1b}[2K"), "{text:?}");
                assert!(text.len() < 1_500, "{} bytes: {text:?}", text.len());
            }
        }
        // Errors of all other kinds quote only names that the command defines. A tip quotes an ordinary word unchanged.
        let message = |words: &str| with_escaped_words(read(words).unwrap_err()).to_string();
        assert!(message("run --zzz").contains("use '-- --zzz'"));
        assert!(message("run --fuel").contains("a value is required for '--fuel <N>'"));
        assert!(message("run --fuel 1 --fuel 2 x.py").contains("cannot be used multiple times"));
        assert!(message("run --runtime a --runtime-path b x.py").contains("cannot be used with"));
        assert!(message("resume").contains("required arguments were not provided"));
        assert!(message("session").contains("Usage: glovebox session"));
    }

    #[test]
    fn program_name_is_not_quoted() {
        let args: Vec<OsString> = ["a\nerror: forged", "session"].map(OsString::from).into();
        let text = Cli::parsed(&args).unwrap_err().to_string();
        assert!(text.contains("Usage: glovebox session") && !text.contains("forged"), "{text}");
    }

    #[test]
    fn command_line_definition_is_consistent() {
        Cli::command().debug_assert();
    }
}
