//! Progress notifications while a script is running.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rmcp::{
    RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
    service::Peer,
};

use crate::Watch;

/// The interval between notifications. People hardly notice faster updates, and this rate costs clients little.
const EVERY: Duration = Duration::from_millis(250);

/// Maximum length of the reported line in characters.
const MAX_LINE_CHARS: usize = 200;

/// The number of output bytes that are retained to find the last line.
const TAIL_BYTES: usize = 4 * MAX_LINE_CHARS;

/// The end of a script's output.
#[derive(Clone, Debug, Default)]
pub(super) struct LastLine(Arc<Mutex<Vec<u8>>>);

impl LastLine {
    /// Creates a `Watch` that records the end of the output.
    pub(super) fn watch(&self) -> Watch {
        let tail = Arc::clone(&self.0);
        Watch {
            on_output: Some(Box::new(move |_, bytes| {
                let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
                let new = bytes.get(bytes.len().saturating_sub(TAIL_BYTES)..).unwrap_or_default();
                tail.extend_from_slice(new);
                let beyond = tail.len().saturating_sub(TAIL_BYTES);
                tail.drain(..beyond);
            })),
            ..Watch::default()
        }
    }

    /// Returns the last non-empty line, cut to [`MAX_LINE_CHARS`], with control characters escaped.
    fn line(&self) -> Option<String> {
        let tail = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let text = String::from_utf8_lossy(&tail);
        let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
        let short: String = line.chars().take(MAX_LINE_CHARS).collect();
        Some(glovebox::escaped_text(&short).to_string())
    }
}

/// Notifies the client of the elapsed time and the last line of output, until the future is dropped. Never returns.
pub(super) async fn report(peer: Peer<RoleServer>, token: ProgressToken, most: Duration, last: LastLine) -> Infallible {
    let begun = Instant::now();
    let mut ticks = tokio::time::interval(EVERY);
    // Do not send a burst of missed notifications to a slow client.
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // The first tick completes immediately.
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let seconds = begun.elapsed().as_secs_f64();
        let mut progress =
            ProgressNotificationParam::new(token.clone(), seconds).with_total(most.as_secs_f64().max(seconds));
        let line = last.line().map(|line| format!(": {line}")).unwrap_or_default();
        progress = progress.with_message(format!("{seconds:.1} s{line}"));
        if peer.notify_progress(progress).await.is_err() {
            // The client has disconnected. Another task cancels the execution.
            return std::future::pending().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use glovebox::Stream;

    use super::*;

    #[test]
    fn last_line_is_escaped_and_truncated() {
        let last = LastLine::default();
        let mut on_output = last.watch().on_output.unwrap();
        assert_eq!(last.line(), None);
        on_output(Stream::Stdout, b"first\nsecond \x1b[2J\n\n");
        assert_eq!(last.line().as_deref(), Some("second \\u{1b}[2J"));
        on_output(Stream::Stderr, b"thi");
        on_output(Stream::Stdout, b"rd");
        assert_eq!(last.line().as_deref(), Some("third"));
        on_output(Stream::Stdout, &b"y".repeat(1 << 20));
        assert_eq!(last.line(), Some("y".repeat(MAX_LINE_CHARS)));
        assert!(last.0.lock().unwrap().len() <= TAIL_BYTES);
    }
}
