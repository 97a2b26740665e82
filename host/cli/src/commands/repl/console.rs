//! The read-eval-print loop.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs::File,
    io::{self, Write},
    path::Path,
    sync::Arc,
};

use anyhow::Context as _;
use glovebox::{
    Execution, HibernateOptions, Outcome, Policy, Request, ResumeOptions, Sandbox, Session, SessionKey, escaped,
};

use super::{
    directive::{self, Directive},
    displays, last_value,
    lines::{Input, Lines},
    parser::Parser,
    session::{self, Printer, ReplSession},
    tokens::Dialect,
};
use crate::{
    commands::session::file_table,
    file, interrupt,
    output::{Passthrough, explain, show_value},
    source::bounded_with_hint,
    terminal::{self, BAD, BROKEN_PIPE_EXIT_CODE, HEAD, HintedError, OrHint as _, format_count, note, out},
};

/// Maximum length in bytes of a file for `:load`. The session's own limits apply to the contents.
const MAX_LOAD_BYTES: u64 = 1 << 30;

/// The REPL: its input, and its sessions by name.
pub(super) struct Console {
    pub(super) sandbox: Sandbox,
    pub(super) parser: Parser,
    pub(super) lines: Lines,
    pub(super) sessions: BTreeMap<String, ReplSession>,
    pub(super) current: String,
    /// The key that seals sessions saved to files.
    pub(super) key: Option<SessionKey>,
    /// `true` if control characters in the output are passed to the terminal unescaped.
    pub(super) is_raw: bool,
}

/// The action after an input.
enum NextAction {
    Input,
    Leave { exit_code: i32 },
}

impl Console {
    /// Reads, runs and prints until the end of the input. Returns the process's exit code.
    pub(super) fn run(mut self) -> anyhow::Result<i32> {
        if self.lines.is_terminal() {
            out(&self.greeting())?;
        }
        self.bind_last_value()?;
        let exit_code = loop {
            let (prompt, session) = (self.prompt(), self.session().ok());
            let next = match self.lines.next(&prompt, session)? {
                Input::End => break 0,
                Input::Cleared => {
                    self.confirm_interruption();
                    continue;
                }
                Input::Text(text) if text.trim().is_empty() => continue,
                Input::Text(text) if directive::is_one(&text) => self.direct(&text),
                Input::Text(text) => self.execute(&text),
            };
            match next {
                Ok(NextAction::Input) => {}
                Ok(NextAction::Leave { exit_code }) => break exit_code,
                Err(error) if terminal::is_broken_pipe(&error) => return Err(error),
                // Report the error and continue, so that the session's data is not lost.
                Err(error) => terminal::report(&error),
            }
        };
        for session in self.sessions.values() {
            session.finish()?;
        }
        Ok(exit_code)
    }

    fn dialect(&self) -> Dialect {
        self.parser.dialect()
    }

    fn greeting(&self) -> String {
        let (title, glovebox) = (self.dialect().title(), env!("CARGO_PKG_VERSION"));
        // Show no version for TypeScript, because its types are only stripped.
        let version = self.sandbox.version().filter(|_| self.dialect() != Dialect::TypeScript);
        let version = version.map_or_else(String::new, |version| format!(" {version}"));
        format!("{title}{version} in glovebox {glovebox}; `:help` lists the commands, Ctrl-D quits\n")
    }

    /// Returns the prompt, with the session's name if there are several.
    fn prompt(&self) -> String {
        let name = if self.sessions.len() > 1 { self.current.as_str() } else { "" };
        format!("{name}{}", self.dialect().prompt())
    }

    /// Prints a line that confirms Ctrl-C.
    fn confirm_interruption(&self) {
        let _ = writeln!(anstream::stderr(), "{BAD}{}{BAD:#}", self.dialect().interruption());
    }

    fn active(&self) -> anyhow::Result<&ReplSession> {
        self.sessions.get(&self.current).context("the current session no longer exists; open one with `:reset`")
    }

    fn session(&self) -> anyhow::Result<Session> {
        self.active()?.session()
    }

    fn active_mut(&mut self) -> anyhow::Result<&mut ReplSession> {
        self.sessions.get_mut(&self.current).context("the current session no longer exists; open one with `:reset`")
    }

    /// At a terminal, makes the current session bind `_` to the value of each input, as interactive interpreters do.
    fn bind_last_value(&mut self) -> anyhow::Result<()> {
        let dialect = self.dialect();
        if self.lines.is_terminal() { self.active_mut()?.bind_last_value(dialect) } else { Ok(()) }
    }

    /// Returns the source that binds `_` to the value of a JavaScript input, or `None` to run the input unchanged.
    fn wrap_last_value(&mut self, text: &str) -> anyhow::Result<Option<String>> {
        let dialect = self.dialect();
        let active = self.active_mut()?;
        if dialect == Dialect::Python || !active.binds_last_value {
            return Ok(None);
        }
        if last_value::declares_last_value(dialect, text) {
            active.binds_last_value = false;
            note("`_` is now your variable and no longer the last value");
            return Ok(None);
        }
        Ok(last_value::wrap_expression(&self.parser, text))
    }

    /// Runs an input and shows its value.
    fn execute(&mut self, text: &str) -> anyhow::Result<NextAction> {
        let dialect = self.dialect();
        let wrapped = self.wrap_last_value(text)?;
        let (active, session) = (self.active()?, self.session()?);
        session::remember(&session)?;
        let (printer, executed) = interrupt::run_cancellable(|token| {
            let printer = Printer {
                output: Passthrough::new(token, self.is_raw),
                cancel: token.clone(),
                is_terminal: self.lines.is_terminal(),
                is_raw: self.is_raw,
                unwraps: active.binds_last_value && dialect != Dialect::Python,
                has_ended_echo: Arc::default(),
            };
            let request = match &wrapped {
                Some(source) => Request::new(source).name(last_value::wrapped_name(dialect)),
                None => dialect.request(text),
            };
            let listener = printer.clone();
            let request = request.cancel(token).on_output(move |stream, bytes| listener.write(stream, bytes));
            (printer, active.run(request))
        });
        if let Some(error) = printer.finish() {
            if error.kind() == io::ErrorKind::BrokenPipe {
                return Ok(NextAction::Leave { exit_code: BROKEN_PIPE_EXIT_CODE });
            }
            return Err(error).context("cannot write the output");
        }
        let execution = executed.map_err(|error| match session.ended() {
            Some(_) => {
                let hint = "`:reset` starts a new session, `:load FILE` restores a saved one";
                HintedError::new("cannot run the input", hint).caused_by(error).into()
            }
            None => error.context("cannot run the input"),
        })?;
        self.show(&execution)?;
        Ok(match execution.outcome {
            Outcome::Exited { code } => NextAction::Leave { exit_code: code },
            // With piped input, no user can continue the session.
            Outcome::Cancelled if !self.lines.is_terminal() => NextAction::Leave { exit_code: interrupt::EXIT_CODE },
            _ if session.ended().is_some() => {
                note(active.after_its_end());
                NextAction::Input
            }
            _ => NextAction::Input,
        })
    }

    /// Prints an execution's value, its displays, and an explanation of its outcome.
    fn show(&self, execution: &Execution) -> io::Result<()> {
        let is_open = execution.stdout.bytes.last().is_some_and(|last| *last != b'\n');
        if is_open && self.lines.is_terminal() {
            io::stdout().write_all(b"\n")?;
        }
        if execution.outcome == Outcome::Cancelled && self.lines.is_terminal() {
            self.confirm_interruption();
        }
        if let Some(value) = &execution.value {
            show_value(&value.repr)?;
        }
        displays::show(execution)?;
        explain(execution);
        Ok(())
    }

    /// Parses and runs a command.
    fn direct(&mut self, line: &str) -> anyhow::Result<NextAction> {
        match directive::parse(line)? {
            Directive::Help(name) => out(&directive::help(name.as_deref())?)?,
            Directive::Fork(name) => self.fork(name)?,
            Directive::Switch(Some(name)) => self.switch(name)?,
            Directive::Switch(None) => out(&self.format_sessions())?,
            Directive::Undo(count) => {
                let active = self.active()?;
                let undone = session::undo(&active.session()?, count, active.executions_at_start)?;
                active.save()?;
                note(&undone);
            }
            Directive::Save(path) => {
                let mut options = HibernateOptions::default();
                options.key.clone_from(&self.key);
                let state = self.session()?.hibernate(&options).context("cannot save the session")?;
                file::replace(Path::new(&path), &state)?;
            }
            Directive::Load(path) => {
                let session = self.load_session(&path)?;
                self.replace(session)?;
            }
            Directive::Files(pattern) => {
                let entries = self.session()?.files().list(pattern.as_deref().unwrap_or("**"))?;
                out(&file_table(&entries))?;
            }
            Directive::Limits => out(&limits(&self.sandbox)?)?,
            Directive::Reset => {
                let session = self.sandbox.session().context("cannot open another session")?;
                self.replace(session)?;
            }
            Directive::Quit => return Ok(NextAction::Leave { exit_code: 0 }),
        }
        Ok(NextAction::Input)
    }

    fn fork(&mut self, name: String) -> anyhow::Result<()> {
        if self.sessions.contains_key(&name) {
            return Err(HintedError::new(
                format!("session `{}` already exists", escaped(&name)),
                "choose another name; `:switch` lists them",
            )
            .into());
        }
        let fork = self.active()?.fork(&name)?;
        note(&format!("`{name}` is a copy of `{}`; use `:switch {name}` to switch to it", self.current));
        self.sessions.insert(name, fork);
        Ok(())
    }

    fn switch(&mut self, name: String) -> anyhow::Result<()> {
        if !self.sessions.contains_key(&name) {
            return Err(HintedError::new(
                format!("there is no session `{}`", escaped(&name)),
                "`:switch` lists them; `:fork NAME` creates one",
            )
            .into());
        }
        self.current = name;
        Ok(())
    }

    /// Returns a list of the sessions, with the current one marked.
    fn format_sessions(&self) -> String {
        let mut text = String::new();
        for (name, session) in &self.sessions {
            let mark = if *name == self.current { "*" } else { " " };
            let inputs = format_count(session.input_count(), "input");
            let _ = writeln!(text, "{mark} {HEAD}{}{HEAD:#}, {inputs}", escaped(name));
        }
        text
    }

    /// Loads a session from a file.
    fn load_session(&self, path: &str) -> anyhow::Result<Session> {
        let what = format!("session file `{}`", escaped(path));
        let file = File::open(path).or_hint(|| format!("cannot read {what}"), "`:save FILE` writes one")?;
        let hint = "import it with `glovebox session import FILE --max-bytes N`, and open it with --session ID";
        let state = bounded_with_hint(&what, file, MAX_LOAD_BYTES, hint)?;
        let mut options = ResumeOptions::default();
        options.key.clone_from(&self.key);
        self.sandbox.resume(&state, options).with_context(|| format!("cannot load {what}"))
    }

    fn replace(&mut self, other: Session) -> anyhow::Result<()> {
        self.active_mut()?.replace(other)?;
        self.bind_last_value()
    }
}

/// Returns the limits of one input, in the format of a policy file.
fn limits(sandbox: &Sandbox) -> anyhow::Result<String> {
    // Omit the policy's paths: a path that is not UTF-8 has no TOML form.
    let mut policy = Policy::default();
    policy.limits = sandbox.policy().limits.clone();
    let policy = policy.to_toml()?;
    let lines = policy.lines().skip_while(|line| *line != "[limits]").skip(1).take_while(|line| !line.is_empty());
    Ok(lines.fold(String::new(), |text, line| text + line + "\n"))
}
