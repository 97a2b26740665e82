//! Type checks of snippets before they run (`type_check=True`).
//!
//! Like Monty, the worker checks each snippet against the client's stubs and the earlier snippets that were checked and
//! have succeeded. If a snippet imports modules that the checker does not find, the worker requests their stubs from the
//! client, once for each module, and checks the snippet again.

use std::{collections::BTreeSet, mem};

use anyhow::{Context as _, ensure};
use glovebox::CancelToken;

use super::{
    config::SessionConfig,
    error_format::ErrorFormat,
    frame::{FieldValue, Message, each_field, event},
    stubs::{self, MAX_MODULES, StubsAnswer, text},
};
use crate::{
    engine::Host,
    typecheck::{ModuleStub, TypeChecker, TypedSnippet},
};

/// Maximum size of the texts that a check reads, in bytes: the client's stubs, the earlier snippets and the snippet. The
/// stubs of modules have their own limit.
const MAX_CHECKED_BYTES: usize = 1 << 20;
/// Maximum length of the client's script name in bytes. The name occurs in the text about each error.
const MAX_NAME_BYTES: usize = 200;
/// The script name for clients whose own name cannot be shown.
const DEFAULT_NAME: &str = "main.py";

/// The type checks of a session.
#[derive(Debug)]
pub(super) struct SnippetChecks {
    checker: TypeChecker,
    script_name: String,
    stubs: String,
    format: ErrorFormat,
    is_colored: bool,
    /// The source of the earlier snippets.
    earlier: String,
    /// The source of the checked snippet that is running.
    pending: Option<String>,
    /// `true` if the client answers requests for the stubs of modules.
    has_modules: bool,
    /// The stubs of the client's modules.
    modules: Vec<ModuleStub>,
    /// The modules whose stubs the client has sent or does not have.
    answered: BTreeSet<String>,
    /// The modules whose stubs were requested last.
    requested: BTreeSet<String>,
    /// The request that runs a snippet, while the snippet waits for the stubs of modules.
    feed: Option<Vec<u8>>,
}

impl SnippetChecks {
    /// Returns the type checks of a session, or `None` if its configuration requests none. Downloads the type checker
    /// if it is missing.
    pub(super) fn of(host: &Host, config: &SessionConfig) -> anyhow::Result<Option<Self>> {
        if !config.checks_types {
            return Ok(None);
        }
        let mut stubs: &[u8] = &[];
        let (mut format, mut is_colored) = (0, false);
        each_field(&config.message, |field, value| match (field, value) {
            (4, FieldValue::Bytes(text)) => stubs = text,
            (7, FieldValue::Number(number)) => format = number,
            (8, FieldValue::Number(color)) => is_colored = color != 0,
            _ => {}
        })?;
        let checker = TypeChecker::open(host).context(
            "type checks are unavailable; run `glovebox validate --types -e 1` once with access to the package index, \
             or use `type_check=False`",
        )?;
        Ok(Some(Self {
            checker,
            script_name: shown_name(&config.script_name),
            stubs: text(stubs)?,
            format: ErrorFormat::of(format),
            is_colored,
            earlier: String::new(),
            pending: None,
            has_modules: config.version >= stubs::MIN_VERSION,
            modules: Vec::new(),
            answered: BTreeSet::new(),
            requested: BTreeSet::new(),
            feed: None,
        }))
    }

    /// Checks the snippet of a request. Returns the kind and body of the event for a snippet that has type errors or
    /// needs the stubs of modules. Returns `None` if the snippet can run, or if the client has requested no check of it.
    pub(super) fn check(&mut self, feed: &[u8], version: Option<&str>) -> anyhow::Result<Option<(u64, Vec<u8>)>> {
        self.pending = None;
        let mut source: &[u8] = &[];
        let mut is_skipped = false;
        each_field(feed, |field, value| match (field, value) {
            (1, FieldValue::Bytes(code)) => source = code,
            (4, FieldValue::Number(skip)) => is_skipped = skip != 0,
            _ => {}
        })?;
        // The worker's code in the guest reports source text that is not UTF-8.
        let Some(source) = std::str::from_utf8(source).ok().filter(|_| !is_skipped) else { return Ok(None) };
        let size = [self.stubs.as_str(), self.earlier.as_str(), source].map(str::len).iter().sum::<usize>();
        ensure!(
            size <= MAX_CHECKED_BYTES,
            "cannot check the snippet's types: the stubs and the session's snippets exceed {MAX_CHECKED_BYTES} bytes; \
             use `skip_type_check=True`"
        );
        let snippet = TypedSnippet {
            name: &self.script_name,
            source,
            version,
            stubs: &self.stubs,
            earlier: &self.earlier,
            modules: &self.modules,
        };
        let failed = "cannot check the snippet's types; use `skip_type_check=True`";
        // The client can kill the worker, so a check needs no token that cancels it.
        let cancel = CancelToken::new();
        let report = self.checker.find_snippet_errors(&snippet, &cancel).context(failed)?;
        let max_modules = if self.has_modules { MAX_MODULES.saturating_sub(self.answered.len()) } else { 0 };
        let missing = report.missing_modules.into_iter().filter(|module| !self.answered.contains(module));
        let requested: BTreeSet<String> = missing.take(max_modules).collect();
        if !requested.is_empty() {
            let request = stubs::request(requested.iter().map(String::as_str));
            (self.requested, self.feed) = (requested, Some(feed.to_owned()));
            return Ok(Some((event::OS_CALL, request)));
        }
        if report.errors.is_empty() {
            self.pending = Some(source.to_owned());
            return Ok(None);
        }
        let text = match self.format.written_by_checker(self.is_colored) {
            Some(format) => self.checker.describe_snippet_errors(&snippet, format, &cancel).context(failed)?,
            None => self.format.describe(&report.errors, &self.script_name, self.is_colored),
        };
        Ok(Some((event::TYPING_ERROR, Message::default().bytes(1, text.as_bytes()).finish())))
    }

    /// Returns `true` if a snippet waits for the stubs of modules.
    pub(super) fn awaits_stubs(&self) -> bool {
        self.feed.is_some()
    }

    /// Removes and returns the request that runs the snippet that waits for stubs.
    pub(super) fn take_feed(&mut self) -> Option<Vec<u8>> {
        self.feed.take()
    }

    /// Adds the stubs in the client's answer to a request. Ignores modules that were not requested, and names that are
    /// not ASCII identifiers. Returns the exception if the client has answered with one.
    pub(super) fn receive_stubs(&mut self, answer: &[u8]) -> anyhow::Result<Option<Vec<u8>>> {
        let requested = mem::take(&mut self.requested);
        let received = match StubsAnswer::read(answer)? {
            StubsAnswer::Raised(exception) => return Ok(Some(exception)),
            StubsAnswer::Stubs(received) => received,
        };
        let is_requested = |module: &str| module.split('.').next().is_some_and(|name| requested.contains(name));
        let received = received.into_iter().filter(|(module, _)| is_requested(module.as_str()));
        self.add_stubs(received.collect())?;
        self.answered.extend(requested);
        Ok(None)
    }

    /// Adds stubs by the names of their modules, within the limits of a session.
    fn add_stubs(&mut self, received: Vec<(String, String)>) -> anyhow::Result<()> {
        let added: Vec<ModuleStub> =
            received.into_iter().filter_map(|(module, source)| ModuleStub::new(module, source)).collect();
        let sizes = self.modules.iter().chain(&added).map(|stub| stub.source().len());
        stubs::check_limits(sizes.clone().count(), sizes.sum())?;
        self.modules.extend(added);
        Ok(())
    }

    /// Adds the snippet that has succeeded to those that later snippets are checked against.
    pub(super) fn commit(&mut self) {
        if let Some(snippet) = self.pending.take() {
            self.earlier.push_str(&snippet);
            self.earlier.push('\n');
        }
    }

    /// Returns the state for a dump.
    pub(super) fn dump(&self, waits: bool) -> Vec<u8> {
        let mut state = Message::default().bytes(1, self.earlier.as_bytes());
        if let Some(pending) = self.pending.as_ref().filter(|_| waits) {
            state = state.bytes(2, pending.as_bytes());
        }
        for stub in &self.modules {
            let (module, source) = (stub.module().as_bytes(), stub.source().as_bytes());
            state = state.bytes(3, &Message::default().bytes(1, module).bytes(2, source).finish());
        }
        for module in &self.answered {
            state = state.bytes(4, module.as_bytes());
        }
        state.finish()
    }

    /// Restores the state of a dump, which may be forged.
    pub(super) fn load(&mut self, state: &[u8]) -> anyhow::Result<()> {
        let mut earlier: &[u8] = &[];
        let mut pending: Option<&[u8]> = None;
        each_field(state, |field, value| match (field, value) {
            (1, FieldValue::Bytes(snippets)) => earlier = snippets,
            (2, FieldValue::Bytes(snippet)) => pending = Some(snippet),
            _ => {}
        })?;
        self.earlier = text(earlier)?;
        self.pending = pending.map(text).transpose()?;
        let mut received = Vec::new();
        for stub in stubs::messages(state, 3, MAX_MODULES)? {
            let mut module: &[u8] = &[];
            let mut source: &[u8] = &[];
            each_field(stub, |field, value| match (field, value) {
                (1, FieldValue::Bytes(name)) => module = name,
                (2, FieldValue::Bytes(contents)) => source = contents,
                _ => {}
            })?;
            received.push((text(module)?, text(source)?));
        }
        self.add_stubs(received)?;
        for module in stubs::messages(state, 4, MAX_MODULES)? {
            self.answered.insert(text(module)?);
        }
        Ok(())
    }
}

/// Returns a name as text. Returns a default for a name that is long, empty or not printable.
fn shown_name(name: &[u8]) -> String {
    let name = std::str::from_utf8(name).unwrap_or_default();
    let is_shown = (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.contains(char::is_control);
    let shown = if is_shown { name } else { DEFAULT_NAME };
    shown.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_names_are_shown_if_they_are_short_and_printable() {
        let long = [b'x'; MAX_NAME_BYTES + 1];
        for (name, shown) in [
            (&b"agent.py"[..], "agent.py"),
            (b"", "main.py"),
            (b"a\nb", "main.py"),
            (b"\xff", "main.py"),
            (&long, "main.py"),
        ] {
            assert_eq!(shown_name(name), shown, "{name:?}");
        }
    }
}
