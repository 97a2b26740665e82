//! What `glovebox bench` is asked.

use clap::Args;

const AFTER_HELP: &str = "\
Every case but one runs `print(1)` or `console.log(1)` under the default limits, fuel counted:
  fresh        a new sandbox per run, through the library
  component    the same, asked for by an application component and measured in it, of runtimes that components find
  live         one session, without checkpoints
  instantiate  making a sandbox, running nothing
  process      starting `glovebox run -e CODE`, beside `python3 -I -c CODE` and `node -e CODE`
  work         28,657 calls of a function in a fresh sandbox, timed by the script itself, here and there
  checkpoint   what it adds to such a run that the session is saved before it, to go back to;
               checkpoint_1m and the like: one that holds so much memory of its own
  fork         a second session of one that holds 1 MiB
  hibernate    the session as compressed bytes
  resume       a session from these bytes
  parallel_1   fresh runs on one thread
  parallel_n   fresh runs on as many threads as there are processors
  parallel_2n  the same on twice as many
  many_sessions
               one of 1,000 sessions (100 with --quick), now this one and now that

Ours and theirs take turns, so that whatever else the machine does hits both. Of the cases that
take well under a millisecond the first run of a turn is not counted: it pays for the caches that
the processes before it have used. A ratio above 1 says how many times faster we are; that of
parallel_n is executions a second against those of parallel_1, and those of checkpoint and
hibernate a run in a session against what comes on top of it. Of component it is said how
much it takes beyond fresh.

With --serve clients ask a server for a fresh run again and again, 1, 16 and 256 at once, each over one connection, and what a handler
that does nothing answers to the same is measured in turns with it.";

/// Measure on this machine, beside python3 and node
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct BenchArgs {
    /// Runtimes to measure [default: each language's default, and what else is prepared]
    #[arg(value_name = "RUNTIME")]
    pub(super) runtimes: Vec<String>,

    /// A few seconds instead of half a minute; the figures are rougher
    #[arg(long)]
    pub(super) quick: bool,

    /// Print the figures as JSON
    #[arg(long)]
    pub(super) json: bool,

    /// Measure a server over HTTP instead, beside a handler that does nothing: one that is started for it, or the one at
    /// this URL, with GLOVEBOX_TOKEN
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = true, default_missing_value = "", conflicts_with = "runtimes")]
    pub(super) serve: Option<String>,

    /// Start the server with so many workers
    #[arg(long, value_name = "N", requires = "serve")]
    pub(super) workers: Option<usize>,
}
