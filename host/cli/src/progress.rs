//! Progress of downloads and preparation: a bar on a terminal, otherwise a line for each step that takes over a second.

use std::{
    io::{IsTerminal, stderr},
    sync::{
        Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::Duration,
};

use glovebox::{Progress, escaped_text};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{interrupt, terminal::note};

/// Minimum duration of a step that gets a line.
const WORTH_A_LINE: Duration = Duration::from_secs(1);
/// Interval of the spinner.
const TICK: Duration = Duration::from_millis(120);

/// Shows steps on standard error, and cancels on Ctrl-C. Costs nothing until the first step.
#[derive(Debug, Default)]
pub(crate) struct Steps(Mutex<Display>);

#[derive(Debug, Default)]
enum Display {
    #[default]
    Idle,
    Bar(ProgressBar),
    Lines(Sender<String>),
}

impl Steps {
    /// Removes the bar from the screen before the guest's output.
    pub(crate) fn clear(&self) {
        let mut display = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Display::Bar(bar) = &*display {
            bar.finish_and_clear();
        }
        *display = Display::Idle;
    }
}

impl Progress for Steps {
    fn done(&self) {
        self.clear();
    }

    fn message(&self, text: &str) {
        let text = escaped_text(text).to_string();
        let mut display = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*display, Display::Idle) {
            *display = if stderr().is_terminal() { Display::Bar(bar()) } else { Display::Lines(lines()) };
        }
        match &*display {
            Display::Idle => {}
            Display::Bar(bar) => {
                bar.set_length(0);
                bar.set_style(spinner_style());
                bar.set_message(text);
            }
            // The receiver lives as long as this value.
            Display::Lines(lines) => drop(lines.send(text)),
        }
    }

    fn bytes(&self, done_bytes: u64, total_bytes: u64) {
        let display = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Display::Bar(bar) = &*display
            && total_bytes > 0
        {
            if bar.length() != Some(total_bytes) {
                bar.set_length(total_bytes);
                bar.set_style(bytes_style());
            }
            bar.set_position(done_bytes.min(total_bytes));
        }
    }

    fn cancelled(&self) -> bool {
        interrupt::is_pressed()
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(spinner_style());
    bar.enable_steady_tick(TICK);
    bar
}

fn spinner_style() -> ProgressStyle {
    ProgressStyle::with_template("{spinner} {msg} {elapsed}").unwrap_or_else(|_| ProgressStyle::default_spinner())
}

fn bytes_style() -> ProgressStyle {
    ProgressStyle::with_template("{spinner} {msg} {bar:30} {binary_bytes}/{binary_total_bytes}")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Starts a thread that writes a step's line once the step has lasted long enough. Only the beginning of the next step
/// tells that a step has ended.
fn lines() -> Sender<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || write_lines(&receiver));
    sender
}

fn write_lines(receiver: &Receiver<String>) {
    let mut next = receiver.recv().ok();
    while let Some(text) = next {
        next = match receiver.recv_timeout(WORTH_A_LINE) {
            Ok(later) => Some(later),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                note(&text);
                receiver.recv().ok()
            }
        };
    }
}
