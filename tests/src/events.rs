//! Captures the engine's `tracing` events.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
};

use tracing::{
    Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

/// An event, with its fields as text.
#[derive(Clone, Debug)]
pub struct Event {
    /// The module that reported the event.
    pub target: String,
    /// The level: `ERROR`, `WARN`, `INFO`, …
    pub level: String,
    /// The fields, including `message`.
    pub fields: BTreeMap<String, String>,
}

impl Event {
    /// Returns the text of a field, or an empty string if it is absent.
    pub fn get(&self, field: &str) -> &str {
        self.fields.get(field).map_or("", String::as_str)
    }
}

/// The captured events, shared with the [`Recorder`] that captures them.
#[derive(Clone, Debug, Default)]
pub struct CapturedEvents(Arc<Mutex<Vec<Event>>>);

impl CapturedEvents {
    /// Returns the events captured since the last call.
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.0.lock().expect("the mutex is not poisoned"))
    }
}

/// A subscriber that records every event.
#[derive(Debug, Default)]
pub struct Recorder {
    captured: CapturedEvents,
}

impl Recorder {
    /// Installs a recorder as the subscriber of the whole process, because the engine may report events from its own
    /// threads.
    pub fn install() -> CapturedEvents {
        let recorder = Self::default();
        let captured = recorder.captured.clone();
        tracing::subscriber::set_global_default(recorder).expect("the first subscriber of this process");
        captured
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("glovebox")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields(BTreeMap::new());
        event.record(&mut fields);
        let metadata = event.metadata();
        self.captured.0.lock().expect("the mutex is not poisoned").push(Event {
            target: metadata.target().to_owned(),
            level: metadata.level().to_string(),
            fields: fields.0,
        });
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Fields(BTreeMap<String, String>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}
