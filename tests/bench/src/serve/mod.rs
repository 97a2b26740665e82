//! `--serve`: measures executions over HTTP and compares them with an empty handler.

mod client;
mod server;
mod table;

use std::{path::Path, time::Duration};

use anyhow::Context as _;
use axum::body::Bytes;
use glovebox::Language;

use self::{
    client::{Target, measure},
    server::{BaselineServer, Child},
    table::{Line, ServeReport},
};
use crate::{args::Args, print, report::Machine};

/// Numbers of concurrent connections to measure.
const CONNECTIONS: [usize; 3] = [1, 16, 256];
/// The duration of each measurement, by default and with `--quick`.
const TIMES: (Duration, Duration) = (Duration::from_secs(3), Duration::from_millis(400));
/// The unmeasured time before each measurement, in which caches fill and threads start.
const WARM_UP: Duration = Duration::from_millis(200);

/// A server to measure, and its name in the report.
struct Case {
    name: &'static str,
    target: Target,
}

pub(super) fn run(args: &Args, program: &Path, url: &str) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start threads")?;
    let child = if url.is_empty() { Some(Child::start(program, args)?) } else { None };
    let (address, host, token) = match &child {
        Some(child) => (child.address, child.address.to_string(), Some(child.token.to_owned())),
        None => {
            let (address, host) = runtime.block_on(client::resolve(url))?;
            (address, host, std::env::var("GLOVEBOX_TOKEN").ok())
        }
    };
    let bare = runtime.block_on(BaselineServer::start())?;
    let mut cases = vec![Case {
        name: "bare handler",
        target: Target {
            address: bare.address,
            host: bare.address.to_string(),
            token: None,
            body: body(Language::Python),
        },
    }];
    for language in Language::ALL {
        let (host, token) = (host.clone(), token.clone());
        cases.push(Case { name: language.name(), target: Target { address, host, token, body: body(language) } });
    }
    let mut report = ServeReport::new(Machine::describe(), args.workers);
    let time = if args.quick { TIMES.1 } else { TIMES.0 };
    for connections in CONNECTIONS {
        for Case { name, target } in &cases {
            eprintln!("measuring {name}, {connections} connections");
            let measured = runtime
                .block_on(measure(target, connections, WARM_UP, time))
                .with_context(|| format!("cannot measure {name}"))?;
            report.add(Line::new(name, connections, &measured));
        }
    }
    runtime.shutdown_background();
    if let Some(child) = child {
        report.server_bytes = child.resident_bytes();
    }
    print(args.json, &report, ServeReport::rendered)
}

/// Returns a request body with a script that prints one line.
fn body(language: Language) -> Bytes {
    let source = match language {
        Language::Python => "print(1)",
        Language::JavaScript => "console.log(1)",
    };
    serde_json::json!({ "language": language.name(), "source": source }).to_string().into()
}
