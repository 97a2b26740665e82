//! The `work` case: a script that times its own computation, in Glovebox and in the installed interpreter.

use std::time::Duration;

use anyhow::{Context, ensure};
use glovebox::{Language, Outcome, Sandbox};

/// Returns a script that makes 28,657 function calls and prints how many milliseconds they took.
pub(super) const fn source(language: Language) -> &'static str {
    match language {
        Language::Python => {
            "import time\n\
             def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\n\
             begun = time.perf_counter()\n\
             fib(21)\n\
             print((time.perf_counter() - begun) * 1000)"
        }
        Language::JavaScript => {
            "function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2) }\n\
             const begun = performance.now()\n\
             fib(21)\n\
             console.log(performance.now() - begun)"
        }
    }
}

/// Runs the script in a fresh interpreter, and returns the time that the script prints.
pub(super) fn run(sandbox: &Sandbox, source: &str) -> anyhow::Result<Duration> {
    let execution = sandbox.execute(source)?;
    ensure!(
        execution.outcome == Outcome::Completed,
        "the script for the processor ended otherwise: {}",
        execution.stderr.text()
    );
    took(&execution.stdout.text())
}

/// Parses the time that the script printed, in milliseconds.
pub(super) fn took(printed: &str) -> anyhow::Result<Duration> {
    let millis: f64 = printed.trim().parse().with_context(|| format!("`{}` is not a time", printed.trim()))?;
    Duration::try_from_secs_f64(millis / 1000.0).context("the time is out of range")
}

#[cfg(test)]
mod tests {
    use super::took;

    #[test]
    fn printed_times_are_parsed() {
        assert_eq!(took("1.5\n").unwrap().as_micros(), 1500);
        assert!(took("soon\n").unwrap_err().to_string().contains("`soon`"));
        took("-1\n").unwrap_err();
    }
}
