//! Requests to a daemon.

use std::{
    io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Write as _},
    os::unix::net::UnixStream,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use glovebox::escaped;
use serde_json::Value;

use crate::terminal::{Hinted, note, out};

/// Timeout of a daemon's answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Timeout of stopping a daemon, whose scripts have ten seconds to end.
const STOPPING: Duration = Duration::from_secs(30);
/// Maximum length of an answer in bytes.
const MAX_ANSWER_BYTES: u64 = 1 << 20;

/// Sends a request to the daemon. Returns `None` if no daemon listens.
fn ask(socket: &Path, method: &str) -> anyhow::Result<Option<Value>> {
    let stream = match UnixStream::connect(socket) {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => return Ok(None),
        Err(error) => {
            let text = format!("cannot connect to `{}`", escaped(socket));
            return Err(Hinted::new(text, "name the socket of your own daemon with --socket").because(error).into());
        }
    };
    let answer = exchange(stream, method).with_context(|| format!("`{}` does not answer", escaped(socket)))?;
    if let Some(error) = answer.get("error").filter(|error| !error.is_null()) {
        let message = error.get("message").and_then(Value::as_str).unwrap_or("it gave no reason");
        anyhow::bail!("the daemon refused: {}", glovebox::escaped_text(message));
    }
    Ok(Some(answer.get("result").cloned().unwrap_or_default()))
}

fn exchange(mut stream: UnixStream, method: &str) -> io::Result<Value> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    writeln!(stream, "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\"}}")?;
    let mut line = String::new();
    BufReader::new(stream.take(MAX_ANSWER_BYTES)).read_line(&mut line)?;
    serde_json::from_str(&line).map_err(io::Error::other)
}

pub(super) fn status(socket: &Path) -> anyhow::Result<i32> {
    let Some(pong) = ask(socket, "ping")? else {
        note(&format!("no daemon listens at `{}`; `glovebox daemon` starts one", escaped(socket)));
        return Ok(1);
    };
    let number = |name: &str| pong.get(name).and_then(Value::as_u64).unwrap_or_default();
    let version = pong.get("version").and_then(Value::as_str).unwrap_or_default();
    let up = humantime::format_duration(Duration::from_secs(number("uptime_ms") / 1_000));
    out(&format!(
        "glovebox {} listens at {} (process {}, for {up})\n{} sessions, {} connections, {} interpreters ready\n",
        glovebox::escaped_text(version),
        escaped(socket),
        number("pid"),
        number("sessions"),
        // Without the connection of this request.
        number("connections").saturating_sub(1),
        number("ready"),
    ))?;
    Ok(0)
}

pub(super) fn stop(socket: &Path) -> anyhow::Result<i32> {
    if ask(socket, "shutdown")?.is_none() {
        note(&format!("no daemon listens at `{}`", escaped(socket)));
        return Ok(1);
    }
    let begun = Instant::now();
    while UnixStream::connect(socket).is_ok() {
        if begun.elapsed() > STOPPING {
            anyhow::bail!("the daemon at `{}` was asked to stop but is still running", escaped(socket));
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(0)
}
