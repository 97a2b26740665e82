//! The request for stubs of modules that only the client has, and its answer.

use anyhow::{Context as _, bail, ensure};

use super::frame::{FieldValue, Message, each_field};

/// The first version of the protocol whose clients answer the request.
pub(super) const MIN_VERSION: u64 = 6;
/// Maximum number of modules and submodules with stubs in a session.
pub(super) const MAX_MODULES: usize = 256;
/// Maximum size of the stubs of a session, in bytes.
const MAX_STUB_BYTES: usize = 512 << 10;

/// The ID of the call in the protocol.
const CALL: u64 = 0xffff_ffff;
/// The field of an OS call with a request for stubs.
const IMPORT_STUBS: u64 = 32;
/// The kinds of values in an answer.
const NONE: u64 = 2;
const STR: u64 = 8;
const DICT: u64 = 14;

const INVALID: &str = "the stubs of modules must be a `dict` of module names, each with a `str` or `None`";

/// Returns the body of the OS call that requests the stubs of modules.
pub(super) fn request<'a>(modules: impl Iterator<Item = &'a str>) -> Vec<u8> {
    let names = modules.fold(Message::default(), |names, module| names.bytes(1, module.as_bytes()));
    Message::default().number(1, CALL).bytes(IMPORT_STUBS, &names.finish()).finish()
}

/// A client's answer to a request for stubs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StubsAnswer {
    /// The stubs by the names of their modules, without modules that have none.
    Stubs(Vec<(String, String)>),
    /// An exception of the client, which ends the snippet.
    Raised(Vec<u8>),
}

impl StubsAnswer {
    /// Reads the body of a `ResumeCall`.
    pub(super) fn read(body: &[u8]) -> anyhow::Result<Self> {
        let mut call = 0;
        let mut result: &[u8] = &[];
        let mut arena: &[u8] = &[];
        each_field(body, |field, value| match (field, value) {
            (1, FieldValue::Number(id)) => call = id,
            (2, FieldValue::Bytes(message)) => result = message,
            (3, FieldValue::Bytes(message)) => arena = message,
            _ => {}
        })?;
        ensure!(
            call == CALL,
            "the client has answered call {call}, but the snippet waits for the stubs of its modules"
        );
        match last_field(result)? {
            Some((1, FieldValue::Number(index))) => Ok(Self::Stubs(stubs(arena, index)?)),
            Some((2, FieldValue::Bytes(exception))) => Ok(Self::Raised(exception.to_vec())),
            // The client has no modules.
            Some((4 | 5, _)) => Ok(Self::Stubs(Vec::new())),
            _ => bail!(INVALID),
        }
    }
}

/// Reads a dictionary of stubs. Its values are nodes of the arena, and refer to other nodes by their index.
fn stubs(arena: &[u8], root: u64) -> anyhow::Result<Vec<(String, String)>> {
    // The dictionary, and a name and a text for each module.
    let nodes = messages(arena, 2, 1 + 2 * MAX_MODULES)?;
    let (DICT, FieldValue::Bytes(dict)) = node(&nodes, root)? else { bail!(INVALID) };
    let (mut found, mut size) = (Vec::new(), 0);
    for pair in messages(dict, 1, MAX_MODULES)? {
        let (mut key, mut value) = (0, 0);
        each_field(pair, |field, index| match (field, index) {
            (1, FieldValue::Number(index)) => key = index,
            (2, FieldValue::Number(index)) => value = index,
            _ => {}
        })?;
        let (STR, FieldValue::Bytes(module)) = node(&nodes, key)? else { bail!(INVALID) };
        match node(&nodes, value)? {
            (NONE, _) => {}
            (STR, FieldValue::Bytes(source)) => {
                // Pairs can share a text.
                size += source.len();
                check_limits(found.len(), size)?;
                found.push((text(module)?, text(source)?));
            }
            _ => bail!(INVALID),
        }
    }
    Ok(found)
}

/// Checks the number of stubs, and their size in bytes.
pub(super) fn check_limits(count: usize, bytes: usize) -> anyhow::Result<()> {
    ensure!(count <= MAX_MODULES, "more than {MAX_MODULES} modules have stubs; use `skip_type_check=True`");
    ensure!(
        bytes <= MAX_STUB_BYTES,
        "the stubs of the session's modules exceed {MAX_STUB_BYTES} bytes; use `skip_type_check=True`"
    );
    Ok(())
}

/// Returns the messages in a repeated field. Fails if there are more than `max` messages.
pub(super) fn messages(message: &[u8], number: u64, max: usize) -> anyhow::Result<Vec<&[u8]>> {
    let mut found = Vec::new();
    each_field(message, |field, value| match value {
        FieldValue::Bytes(part) if field == number && found.len() <= max => found.push(part),
        _ => {}
    })?;
    ensure!(found.len() <= max, "more than {MAX_MODULES} modules have stubs; use `skip_type_check=True`");
    Ok(found)
}

/// Returns the kind of a node and its value.
fn node<'a>(nodes: &[&'a [u8]], index: u64) -> anyhow::Result<(u64, FieldValue<'a>)> {
    let index = usize::try_from(index).context(INVALID)?;
    let message = nodes.get(index).copied().context(INVALID)?;
    last_field(message)?.context(INVALID)
}

fn last_field(message: &[u8]) -> anyhow::Result<Option<(u64, FieldValue<'_>)>> {
    let mut last = None;
    each_field(message, |field, value| last = Some((field, value)))?;
    Ok(last)
}

/// Reads text about types.
pub(super) fn text(bytes: &[u8]) -> anyhow::Result<String> {
    Ok(std::str::from_utf8(bytes).context("a text about types is not UTF-8")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an answer with a dictionary that has these pairs of indexes.
    fn answer(pairs: &[(u64, u64)], texts: &[Option<&str>]) -> Vec<u8> {
        let dict = pairs.iter().fold(Message::default(), |dict, (key, value)| {
            dict.bytes(1, &Message::default().number(1, *key).number(2, *value).finish())
        });
        let node = Message::default().bytes(DICT, &dict.finish()).finish();
        let arena = texts.iter().fold(Message::default().bytes(2, &node), |arena, text| {
            let node = match text {
                Some(text) => Message::default().bytes(STR, text.as_bytes()),
                None => Message::default().bytes(NONE, &[]),
            };
            arena.bytes(2, &node.finish())
        });
        let result = Message::default().number(1, 0).finish();
        Message::default().number(1, CALL).bytes(2, &result).bytes(3, &arena.finish()).finish()
    }

    #[test]
    fn stubs_are_read() {
        let texts = [Some("tools"), Some("x: int"), Some("tools.sub"), None, Some("")];
        let read = StubsAnswer::read(&answer(&[(1, 2), (3, 4), (3, 5)], &texts)).unwrap();
        let stubs = [("tools", "x: int"), ("tools.sub", "")].map(|(name, text)| (name.to_owned(), text.to_owned()));
        assert_eq!(read, StubsAnswer::Stubs(stubs.into()));
        let with = |result: Message| Message::default().number(1, CALL).bytes(2, &result.finish()).finish();
        let none = with(Message::default().bytes(4, b"import_stubs"));
        assert_eq!(StubsAnswer::read(&none).unwrap(), StubsAnswer::Stubs(Vec::new()));
        let raised = with(Message::default().bytes(2, b"exception"));
        assert_eq!(StubsAnswer::read(&raised).unwrap(), StubsAnswer::Raised(b"exception".to_vec()));
    }

    #[test]
    fn invalid_answers_are_rejected() {
        let long = "x".repeat(MAX_STUB_BYTES / 2 + 1);
        let many = vec![(1, 1); MAX_MODULES + 1];
        for (answer, expected) in [
            (answer(&[(1, 9)], &[Some("a")]), "must be a `dict`"),
            (answer(&[(2, 1)], &[Some("a"), None]), "must be a `dict`"),
            (answer(&[(1, 0)], &[Some("a")]), "must be a `dict`"),
            (answer(&[(1, 2), (1, 2)], &[Some("a"), Some(long.as_str())]), "exceed 524288 bytes"),
            (answer(&many, &[Some("a")]), "more than 256 modules"),
            (Message::default().number(1, CALL).finish(), "must be a `dict`"),
            (Message::default().number(1, 3).finish(), "answered call 3"),
        ] {
            let error = StubsAnswer::read(&answer).unwrap_err().to_string();
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }
}
