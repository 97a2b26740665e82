//! Printing of a running input's output.

use std::{
    borrow::Cow,
    io::{self, Write as _},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anstyle::{AnsiColor, Style};
use glovebox::{CancelToken, Stream};

use super::last_value::unwrapped;
use crate::output::Passthrough;

const ERROR: Style = AnsiColor::Red.on_default();

/// Prints the output of one input. Clones print for the same input.
#[derive(Clone)]
pub(super) struct Printer {
    output: Passthrough,
    cancel: CancelToken,
    options: PrinterOptions,
    has_ended_echo: Arc<AtomicBool>,
}

/// Options for printing output.
#[derive(Clone, Copy, Debug)]
pub(super) struct PrinterOptions {
    /// The output goes to a terminal.
    pub(super) is_terminal: bool,
    /// Control characters reach the terminal.
    pub(super) is_raw: bool,
    /// Inputs may be wrapped: see [`unwrapped`].
    pub(super) unwraps: bool,
}

impl Printer {
    /// Creates a printer. `cancel` stops the input.
    pub(super) fn new(cancel: &CancelToken, options: PrinterOptions) -> Self {
        let output = Passthrough::new(cancel, options.is_raw);
        Self { output, cancel: cancel.clone(), options, has_ended_echo: Arc::default() }
    }

    pub(super) fn write(&self, stream: Stream, bytes: &[u8]) {
        self.end_echo();
        match stream {
            Stream::Stdout => self.output.write(stream, bytes),
            _ => self.write_error(stream, bytes),
        }
    }

    /// Flushes the output. Returns the error that prevented writing it.
    pub(super) fn finish(&self) -> Option<io::Error> {
        self.end_echo();
        self.output.finish()
    }

    /// Ends the line in which the terminal echoed `^C`.
    fn end_echo(&self) {
        let is_echoed = self.options.is_terminal && self.cancel.is_cancelled();
        if is_echoed && !self.has_ended_echo.swap(true, Ordering::Relaxed) {
            let _ = io::stderr().write_all(b"\n");
        }
    }

    fn write_error(&self, stream: Stream, bytes: &[u8]) {
        let bytes = if self.options.unwraps { Cow::Owned(unwrapped(bytes)) } else { Cow::Borrowed(bytes) };
        if self.options.is_terminal && !self.options.is_raw {
            // A script continues without standard error.
            let _ = write!(anstream::stderr(), "{ERROR}");
            self.output.write(stream, &bytes);
            let _ = write!(anstream::stderr(), "{ERROR:#}");
        } else {
            self.output.write(stream, &bytes);
        }
    }
}
