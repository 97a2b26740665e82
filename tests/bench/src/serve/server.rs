//! The servers to measure: a `glovebox serve` process, and an empty handler.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::SocketAddr,
    path::Path,
    process::{Child as Process, Command, Stdio},
    thread,
};

use anyhow::Context as _;
use axum::{Router, body::Bytes, http::header, routing::post};
use sha2::{Digest as _, Sha256};
use tempfile::{NamedTempFile, TempDir};
use tokio::net::TcpListener;

use crate::args::Args;

/// The server's token. Only this machine can reach the server.
const TOKEN: &str = "measured by glovebox-bench";

/// A `glovebox serve` process, killed on drop.
pub(super) struct Child {
    process: Process,
    pub(super) address: SocketAddr,
    pub(super) token: &'static str,
    _store: TempDir,
    _config: NamedTempFile,
}

impl Child {
    pub(super) fn start(program: &Path, args: &Args) -> anyhow::Result<Self> {
        let store = TempDir::new().context("cannot create a directory for the server")?;
        let mut config = NamedTempFile::new().context("cannot write the server's configuration")?;
        // Allows more concurrent executions than the benchmark requests. Other settings have their defaults.
        write!(
            config,
            "[[tokens]]\nname = \"bench\"\nsha256 = \"{}\"\nexecutions_at_once = 1_024\n",
            Sha256::digest(TOKEN).iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        )
        .context("cannot write the server's configuration")?;
        let mut command = Command::new(program);
        if let Some(dir) = &args.cache_dir {
            command.arg("--cache-dir").arg(dir);
        }
        command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(config.path());
        command.arg("--store").arg(store.path()).env_remove("GLOVEBOX_TOKEN").stderr(Stdio::piped());
        match args.workers {
            Some(0) => drop(command.arg("--in-process")),
            Some(workers) => drop(command.args(["--workers", &workers.to_string()])),
            None => {}
        }
        let mut process = command.spawn().context("cannot start the server")?;
        let Some(stderr) = process.stderr.take() else { anyhow::bail!("the server has no standard error") };
        let mut lines = BufReader::new(stderr).lines();
        let address = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| line.split_once("listening on http://").and_then(|(_, address)| address.parse().ok()));
        // Drains the pipe. A full pipe would block the server.
        thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        let Some(address) = address else {
            let _ = process.kill();
            let _ = process.wait();
            anyhow::bail!("the server did not start; run `glovebox serve` to see the error");
        };
        Ok(Self { process, address, token: TOKEN, _store: store, _config: config })
    }

    /// Returns the memory of the server process and of each worker in bytes, if the system reports it.
    pub(super) fn resident_bytes(&self) -> Vec<u64> {
        let pid = self.process.id();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let mut all = vec![pid];
        all.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        // Linux lists each child under the thread that started it.
        if let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) {
            for task in tasks.flatten().filter(|task| task.file_name().to_str() != Some(&pid.to_string())) {
                let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
                all.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
            }
        }
        all.into_iter().filter_map(proportional_bytes).collect()
    }
}

/// Returns the proportional set size of a process in bytes, which includes a share of its shared memory.
fn proportional_bytes(pid: u32) -> Option<u64> {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()?.saturating_mul(1024))
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// An HTTP server that executes no scripts, but returns responses as large as an execution's.
pub(super) struct BaselineServer {
    pub(super) address: SocketAddr,
}

impl BaselineServer {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("cannot listen on a loopback port")?;
        let address = listener.local_addr().context("cannot get the loopback listener's address")?;
        let answer: Bytes = format!("{{\"stdout\":\"1\\n\",\"rest\":\"{}\"}}", "x".repeat(1_200)).into();
        let handler = move |_: Bytes| {
            let answer = answer.clone();
            async move { ([(header::CONTENT_TYPE, "application/json")], answer) }
        };
        let routes = Router::new().route("/v1/execute", post(handler));
        tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                let _ = stream.set_nodelay(true);
                let service = hyper_util::service::TowerToHyperService::new(routes.clone());
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(hyper_util::rt::TokioIo::new(stream), service),
                );
            }
        });
        Ok(Self { address })
    }
}
