//! Reports executions: their output while they run, and their results.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use glovebox::{AdvanceError, CancelToken, ExecuteError, Execution, Request};
use glovebox_sessions::SessionsError;

use crate::{
    commands::resume::RepeatedOptions,
    displays::{self, DisplayFiles},
    output::{Passthrough, advise, end_open_line, explain, show_value},
    suspending::{SUSPENDED_EXIT_CODE, SuspendedScript, waiting_json, write_waiting},
    terminal::out_json,
};

/// Options for the output and the reports of scripts.
#[derive(Args, Debug)]
pub(crate) struct ReportArgs {
    /// Print a report of each script as JSON instead of its output
    #[arg(long)]
    pub(crate) json: bool,

    /// Pass control characters in a script's output to the terminal. By default, they are escaped on a terminal; pipes
    /// and files receive all bytes unchanged
    #[arg(long)]
    raw_output: bool,

    /// Directory for displays of scripts, such as plots and tables: 1.png, 1.txt, 2.html and so on
    #[arg(long, value_name = "DIR")]
    displays: Option<PathBuf>,
}

impl ReportArgs {
    /// Creates the directory for displays, if the flags specify one.
    pub(crate) fn display_files(&self) -> anyhow::Result<Option<DisplayFiles>> {
        self.displays.as_deref().map(DisplayFiles::new).transpose()
    }
}

/// A reporter of one command's executions.
#[derive(Debug)]
pub(crate) struct Reporter<'a> {
    args: &'a ReportArgs,
    displays: Option<DisplayFiles>,
    cancel: CancelToken,
}

impl<'a> Reporter<'a> {
    /// Creates a reporter. If the reader closes the output, the reporter cancels `cancel`.
    pub(crate) fn new(args: &'a ReportArgs, displays: Option<DisplayFiles>, cancel: &CancelToken) -> Self {
        Self { args, displays, cancel: cancel.clone() }
    }

    /// Forwards the output of a request, unless the report is JSON. Pass the returned forwarder to `finish` or
    /// `suspend`.
    pub(crate) fn forward<'r>(&self, request: Request<'r>) -> (Request<'r>, Passthrough) {
        let passed = Passthrough::new(&self.cancel, self.args.raw_output);
        if self.args.json {
            return (request, passed);
        }
        let listener = passed.clone();
        (request.on_output(move |stream, bytes| listener.write(stream, bytes)), passed)
    }

    /// Reports a finished execution, with its value if `with_value` is set. Returns the exit code. Fails if the report
    /// could not be written completely.
    pub(crate) fn finish(&self, passed: &Passthrough, execution: &Execution, with_value: bool) -> anyhow::Result<i32> {
        complete(passed)?;
        if let Some(files) = &self.displays {
            files.write(execution)?;
        }
        if self.args.json {
            out_json(execution)?;
        } else {
            if let Some(value) = execution.value.as_ref().filter(|_| with_value) {
                show_value(&value.repr)?;
            }
            displays::print_notes(execution, self.displays.is_some());
            explain(execution);
            advise(execution);
        }
        Ok(execution.outcome.exit_code())
    }

    /// Reports an execution that is stored in a file and waits for a person. Returns the exit code.
    pub(crate) fn suspend(
        &self,
        passed: &Passthrough,
        script: &SuspendedScript,
        options: &RepeatedOptions,
    ) -> anyhow::Result<i32> {
        complete(passed)?;
        if self.args.json {
            waiting_json(&script.suspended, &script.path, options, Some(script))?;
        } else {
            end_open_line(&script.stdout, &script.stderr);
            write_waiting(&script.suspended, &script.path, options);
        }
        Ok(SUSPENDED_EXIT_CODE)
    }

    /// Prints the report of the execution that `error` contains, if any: the script has run, but its changes were not
    /// saved. Prints nothing without `--json`.
    pub(crate) fn fail(&self, error: &anyhow::Error) -> anyhow::Result<()> {
        match execution_of(error) {
            Some(execution) if self.args.json => out_json(execution),
            _ => Ok(()),
        }
    }
}

/// Completes the forwarded output. Fails if it could not be written, for example because its reader has closed it.
fn complete(passed: &Passthrough) -> anyhow::Result<()> {
    match passed.finish() {
        None => Ok(()),
        Some(error) => Err(error).context("cannot write the script's output"),
    }
}

/// Returns the execution in an error that occurred after the script had run.
fn execution_of(error: &anyhow::Error) -> Option<&Execution> {
    error.chain().find_map(|cause| {
        if let Some(SessionsError::Unsaved { execution, .. }) = cause.downcast_ref() {
            return Some(&**execution);
        }
        let failed = match cause.downcast_ref() {
            Some(AdvanceError::Execute(failed)) => Some(&**failed),
            _ => cause.downcast_ref(),
        };
        match failed {
            Some(ExecuteError::Commit { execution, .. }) => Some(&**execution),
            _ => None,
        }
    })
}
