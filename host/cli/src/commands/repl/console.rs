//! The loop: reads, runs, shows.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{self, IsTerminal, Write},
};

use anyhow::Context as _;
use glovebox::{Execution, Language, Outcome, Request, Sandbox, Session, WentBack};

use super::{
    directive::{self, Directive},
    lines::{Input, Lines, prompt},
    undo,
};
use crate::{
    interrupt,
    output::{Passthrough, explain},
    terminal::{self, BROKEN_PIPE_EXIT_CODE, HEAD, Hinted, counted, note, out, printable},
};

/// The name of the session that a REPL begins with.
const FIRST: &str = "main";

/// Sessions, and which of them the next input is for.
pub(super) struct Console {
    sandbox: Sandbox,
    lines: Lines,
    sessions: BTreeMap<String, Session>,
    current: String,
}

/// Whether to go on.
enum Next {
    Input,
    Leave { exit_code: i32 },
}

impl Console {
    pub(super) fn open(sandbox: Sandbox, lines: Lines) -> anyhow::Result<Self> {
        let session = sandbox.session().context("cannot open a session")?;
        let sessions = BTreeMap::from([(FIRST.to_owned(), session)]);
        Ok(Self { sandbox, lines, sessions, current: FIRST.to_owned() })
    }

    /// Reads, runs and shows until there is no more to read, and gives the process's exit code.
    pub(super) fn run(mut self) -> anyhow::Result<i32> {
        if self.lines.is_terminal() {
            out(&self.greeting())?;
        }
        let exit_code = loop {
            let name = (self.sessions.len() > 1).then_some(self.current.as_str());
            let next = match self.lines.next(&prompt(self.sandbox.language(), name))? {
                Input::End => break 0,
                Input::Cleared => continue,
                Input::Text(text) if text.trim().is_empty() => continue,
                Input::Text(text) if directive::is_one(&text) => self.direct(&text),
                Input::Text(text) => self.execute(&text),
            };
            match next {
                Ok(Next::Input) => {}
                Ok(Next::Leave { exit_code }) => break exit_code,
                Err(error) if terminal::is_broken_pipe(&error) => return Err(error),
                // What is in the session is worth more than an exit code.
                Err(error) => terminal::report(&error),
            }
        };
        for session in self.sessions.values().filter(|session| session.ended().is_none()) {
            session.close().context("cannot close the session")?;
        }
        Ok(exit_code)
    }

    fn greeting(&self) -> String {
        let language = match self.sandbox.language() {
            Language::Python => "Python",
            Language::JavaScript => "JavaScript",
        };
        let version = self.sandbox.version().unwrap_or_default();
        format!("{language} {version} in glovebox {}; `:help` helps, Ctrl-D leaves\n", env!("CARGO_PKG_VERSION"))
    }

    fn session(&self) -> anyhow::Result<&Session> {
        self.sessions.get(&self.current).context("the current session is gone")
    }

    /// Runs an input and shows its value.
    fn execute(&self, text: &str) -> anyhow::Result<Next> {
        let session = self.session()?;
        undo::remember(session)?;
        let (passed, executed) = interrupt::stoppable(|token| {
            let passed = Passthrough::new(token);
            let listener = passed.clone();
            let request =
                Request::new(text).cancel(token).on_output(move |stream, bytes| listener.write(stream, bytes));
            (passed, session.run(request))
        });
        if let Some(error) = passed.failure() {
            if error.kind() == io::ErrorKind::BrokenPipe {
                return Ok(Next::Leave { exit_code: BROKEN_PIPE_EXIT_CODE });
            }
            return Err(error).context("cannot write the output");
        }
        let execution = executed.map_err(|error| match session.ended() {
            Some(_) => anyhow::Error::from(Hinted::new("cannot run this", "`:reset` begins again").because(error)),
            None => anyhow::Error::from(error).context("cannot run this"),
        })?;
        self.show(&execution)?;
        Ok(match execution.outcome {
            Outcome::Exited { code } => Next::Leave { exit_code: code },
            // Nobody is there to type something else.
            Outcome::Cancelled if !self.lines.is_terminal() => Next::Leave { exit_code: interrupt::EXIT_CODE },
            _ => Next::Input,
        })
    }

    /// Shows what an execution's own output does not.
    fn show(&self, execution: &Execution) -> io::Result<()> {
        let is_open = execution.stdout.bytes.last().is_some_and(|last| *last != b'\n');
        if is_open && self.lines.is_terminal() {
            io::stdout().write_all(b"\n")?;
        }
        if let Some(value) = &execution.value {
            show_value(&value.repr)?;
        }
        explain(execution);
        match execution.went_back {
            Some(WentBack { executions_lost: 0, .. }) => note("the session is as it was before this input"),
            Some(WentBack { executions_lost, .. }) => note(&format!(
                "the session is as it was before this input and the {} before it",
                counted(executions_lost, "input")
            )),
            None => {}
        }
        Ok(())
    }

    /// Does what a directive says.
    fn direct(&mut self, line: &str) -> anyhow::Result<Next> {
        match directive::parse(line)? {
            Directive::Help(name) => out(&directive::help(name.as_deref())?)?,
            Directive::Fork(name) => self.fork(name)?,
            Directive::Switch(Some(name)) => self.switch(name)?,
            Directive::Switch(None) => out(&self.listed())?,
            Directive::Undo(count) => note(&undo::undo(self.session()?, count)?),
            Directive::Limits => out(&limits(&self.sandbox))?,
            Directive::Reset => self.reset()?,
            Directive::Quit => return Ok(Next::Leave { exit_code: 0 }),
        }
        Ok(Next::Input)
    }

    fn fork(&mut self, name: String) -> anyhow::Result<()> {
        if self.sessions.contains_key(&name) {
            return Err(Hinted::new(
                format!("there is a session `{name}` already"),
                "choose another name; `:switch` lists them",
            )
            .into());
        }
        let fork = self.session()?.fork().context("cannot fork the session")?;
        note(&format!("`{name}` has all that `{}` has; `:switch {name}` goes there", self.current));
        self.sessions.insert(name, fork);
        Ok(())
    }

    fn switch(&mut self, name: String) -> anyhow::Result<()> {
        if !self.sessions.contains_key(&name) {
            return Err(Hinted::new(
                format!("there is no session `{name}`"),
                "`:switch` lists them; `:fork NAME` makes one",
            )
            .into());
        }
        self.current = name;
        Ok(())
    }

    /// The sessions, the current one marked.
    fn listed(&self) -> String {
        let mut text = String::new();
        for (name, session) in &self.sessions {
            let mark = if *name == self.current { "*" } else { " " };
            let executions = counted(session.info().executions, "input");
            let _ = writeln!(text, "{mark} {HEAD}{}{HEAD:#}, {executions}", printable(name));
        }
        text
    }

    fn reset(&mut self) -> anyhow::Result<()> {
        let session = self.sandbox.session().context("cannot open another session")?;
        self.sessions.insert(self.current.clone(), session);
        Ok(())
    }
}

/// Writes a value on a line of its own, as the interpreter does. The script chose it: a terminal is not driven by it.
fn show_value(repr: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if out.is_terminal() {
        writeln!(out, "{}", printable(repr))?;
    } else {
        writeln!(out, "{repr}")?;
    }
    out.flush()
}

/// The limits of one input, as a policy file has them.
fn limits(sandbox: &Sandbox) -> String {
    let policy = sandbox.policy().to_toml();
    let lines = policy.lines().skip_while(|line| *line != "[limits]").skip(1).take_while(|line| !line.is_empty());
    lines.fold(String::new(), |text, line| text + line + "\n")
}
