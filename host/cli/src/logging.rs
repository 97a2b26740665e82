//! Log lines on standard error, disabled by default.

use std::{
    fmt::Debug,
    io::{self, Write as _},
    str::FromStr,
};

use anyhow::Context as _;
use glovebox::{EscapedJson, Timestamp};
use serde::Serialize as _;
use serde_json::{Map, Value};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    Layer,
    filter::Targets,
    fmt,
    layer::{Context, Identity, SubscriberExt},
    registry,
    registry::Registry,
};

use crate::args::{GlobalArgs, LogFormat};

/// Starts logging if `--log`, `GLOVEBOX_LOG`, `-v` or `--log-format json` requests it. Costs nothing otherwise.
pub(crate) fn start(global: &GlobalArgs) -> anyhow::Result<()> {
    start_with(global, None::<Identity>)
}

/// Like [`start`], but adds a layer for a server's traces.
pub(crate) fn start_with<L>(global: &GlobalArgs, traces: Option<L>) -> anyhow::Result<()>
where
    L: Layer<Registry> + Send + Sync,
{
    let filter = match (&global.log, global.verbose) {
        (Some(filter), _) if !filter.is_empty() => filter.as_str(),
        (_, 0) if global.log_format == LogFormat::Text => match &traces {
            Some(_) => "off",
            None => return Ok(()),
        },
        // Choosing a format implies logging.
        (_, 0 | 1) => "glovebox=info",
        (_, 2) => "glovebox=debug,glovebox_runtimes=debug,glovebox_wasi=debug",
        _ => "trace",
    };
    let targets = Targets::from_str(filter)
        .with_context(|| format!("`{filter}` is not a valid log filter; use for example `info` or `glovebox=debug`"))?;
    // Fails only if the process already has a subscriber, so users do not see this error.
    let started = match global.log_format {
        LogFormat::Text => {
            let colour = anstream::AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never;
            let lines = fmt::layer().with_writer(io::stderr).with_ansi(colour).with_filter(targets);
            tracing::subscriber::set_global_default(registry().with(traces).with(lines))
        }
        LogFormat::Json => {
            tracing::subscriber::set_global_default(registry().with(traces).with(JsonLines.with_filter(targets)))
        }
    };
    started.context("cannot start logging")
}

/// A layer that writes events to standard error, one JSON object per line.
struct JsonLines;

impl<S: Subscriber> Layer<S> for JsonLines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        // Each line is one write, so that lines of several threads do not mix. Errors on standard error are ignored.
        let _ = io::stderr().lock().write_all(&encoded(&line(event, Timestamp::now())));
    }
}

/// Encodes a log line with its line break. Escapes control characters for the terminal, which names from clients and
/// guests can contain.
fn encoded(line: &Value) -> Vec<u8> {
    let mut text = Vec::new();
    // Infallible: writing to a vector cannot fail, and all keys are strings.
    let _ = line.serialize(&mut serde_json::Serializer::with_formatter(&mut text, EscapedJson));
    text.push(b'\n');
    text
}

fn line(event: &Event<'_>, at: Timestamp) -> Value {
    let mut fields = Fields(Map::new());
    event.record(&mut fields);
    let mut line = Map::new();
    line.insert("timestamp".into(), at.to_string().into());
    line.insert("level".into(), event.metadata().level().as_str().into());
    line.insert("target".into(), event.metadata().target().into());
    // All fields except `message` are in a separate object, so no field can replace the entries of the line.
    if let Some(message) = fields.0.remove("message") {
        line.insert("message".into(), message);
    }
    line.insert("fields".into(), fields.0.into());
    line.into()
}

/// The collected fields of an event.
struct Fields(Map<String, Value>);

impl Fields {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.put(field, value.to_string());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_escaped() {
        let line = serde_json::json!({ "path": "a\u{7f}\u{85}\u{2028}\u{202e}\n" });
        let text = String::from_utf8(encoded(&line)).unwrap();
        assert_eq!(text, concat!(r#"{"path":"a\u007f\u0085\u2028\u202e\n"}"#, "\n"));
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), line);
    }
}
