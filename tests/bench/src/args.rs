//! The command line.

use std::{env, path::PathBuf};

use anyhow::{Context, ensure};
use clap::Parser;

const AFTER_HELP: &str = "\
Each case except `work`, `suspend_*`, `resume_*`, `calls` and `journal` runs `print(1)` or
`console.log(1)` with the default limits and fuel metering:
  fresh        a new sandbox for each run, through the library
  component    like fresh, but requested and timed by a component that imports `glovebox:sandbox`;
               component_awaited: in an asynchronous embedder, which executes on another thread;
               component_async: through the asynchronous functions of version 0.3.0
  live         one session, without checkpoints
  instantiate  creating a sandbox, running nothing
  process      starting `glovebox run -e CODE`, compared with `python3 -I -c CODE` and `node -e CODE`
  work         28,657 function calls in a fresh sandbox, timed by the script
  checkpoint   the additional time for an automatic checkpoint before a run in a session;
               checkpoint_1m and so on: in a session with that much data
  fork         forking a session that holds 1 MiB
  hibernate    saving a session as compressed bytes
  resume       restoring a session from these bytes
  suspend_1    suspending a script that waits for a tool call, after 1 answered call;
               suspend_10, suspend_100: after 10 and 100 answered calls
  resume_1     resuming this script until it waits again;
               resume_10, resume_100: after 10 and 100 answered calls
  calls        starting a script, and answering 100 of its tool calls
  journal      like calls, but the script can be suspended, so its inputs are recorded
  parallel_1   fresh runs on one thread
  parallel_n   fresh runs on as many threads as there are processors
  parallel_2n  fresh runs on twice as many
  many_sessions
               runs in 1,000 sessions (100 with --quick), in random order

Glovebox and the installed interpreter take turns, so that other load affects both. In cases that take
less than a millisecond, the first run of each turn is not counted, because it refills the caches.

A ratio is the time of the installed interpreter divided by Glovebox's time. The ratio of parallel_n
is its throughput divided by that of parallel_1. The ratios of checkpoint and hibernate are the time
of a run in a session, divided by the time of the operation. The ratio of journal is the time of
calls, divided by its time. For component, the report shows the difference from fresh; for
component_awaited and component_async, from component.

With --serve, 1, 16 and 256 clients request fresh runs, each over one connection. Requests to an empty
handler alternate with them.";

/// Measure Glovebox on this machine, and python3 and node for comparison
#[derive(Debug, Parser)]
#[command(name = "glovebox-bench", version, after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Runtimes to measure [default: the default runtime of each language, and prepared ones]
    #[arg(value_name = "RUNTIME")]
    pub(crate) runtimes: Vec<String>,

    /// Measure for a few seconds instead of half a minute; the figures are less precise
    #[arg(long)]
    pub(crate) quick: bool,

    /// Print the figures as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Measure a server over HTTP: a new one, or the one at URL with the token in GLOVEBOX_TOKEN
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = true, default_missing_value = "", conflicts_with = "runtimes")]
    pub(crate) serve: Option<String>,

    /// Start the server with N worker processes; 0 disables workers [default: one per processor]
    #[arg(long, value_name = "N", requires = "serve")]
    pub(crate) workers: Option<usize>,

    /// The `glovebox` program to start [default: the one next to this program]
    #[arg(long, value_name = "PATH")]
    glovebox: Option<PathBuf>,

    /// The cache directory, like `--cache-dir` of `glovebox`
    #[arg(long, value_name = "DIR", env = "GLOVEBOX_CACHE_DIR")]
    pub(crate) cache_dir: Option<PathBuf>,
}

impl Args {
    /// Returns the path of the `glovebox` program, by default the one next to this program.
    pub(crate) fn program(&self) -> anyhow::Result<PathBuf> {
        let path = match &self.glovebox {
            Some(path) => path.clone(),
            None => {
                let own = env::current_exe().context("cannot find this program's directory")?;
                own.with_file_name(format!("glovebox{}", env::consts::EXE_SUFFIX))
            }
        };
        let hint = "build `glovebox` with `cargo build --workspace`, or give its path with --glovebox";
        ensure!(path.is_file(), "`{}` does not exist or is not a file; {hint}", path.display());
        Ok(path)
    }
}
