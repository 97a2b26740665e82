//! Reads the code to run.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use glovebox::{Language, Request, SANDBOX_NAME, SourceKind, escaped};

use crate::{
    args::{LanguageArg, RuntimeArgs, SourceArgs},
    terminal::{HintedError, OrHint as _},
};

/// The file name for standard input.
pub(crate) const STDIN: &str = "-";

/// A script and its source text.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The path as typed, or a placeholder for code that is not from a file. Messages escape the label.
    pub(crate) label: String,
    /// The file name for tracebacks, without directories, so that the guest does not see host paths.
    name: Option<String>,
    text: String,
    kind: SourceKind,
    /// The language that `--language` or the file's extension determines. Otherwise, the runtime from `--runtime`
    /// determines the language, and code that is not from a file is Python.
    pub(crate) language: Option<Language>,
    /// `true` if the source is a file. If so, its name should have a known extension.
    is_file: bool,
}

impl Source {
    /// Reads all code on the command line, before any of it runs. Fails if nothing determines the language of a file.
    pub(crate) fn read_all(args: &SourceArgs, runtime: &RuntimeArgs, max_bytes: u64) -> anyhow::Result<Vec<Self>> {
        let mut sources = Self::read_each(args, max_bytes)?;
        for source in &mut sources {
            source.language = args.language.map(LanguageArg::language).or(source.language);
            if args.language == Some(LanguageArg::TypeScript) {
                source.mark_typescript();
            }
            if source.language.is_none() && source.is_file && runtime.runtime.is_none() {
                return Err(HintedError::new(
                    format!("cannot determine the language of `{}` from its extension", escaped(&source.label)),
                    "use `--language` with `python`, `javascript` or `typescript`",
                )
                .into());
            }
        }
        Ok(sources)
    }

    /// Creates a script that is not from a file.
    fn new(label: &str, name: Option<String>, text: String) -> Self {
        Self { label: label.into(), name, text, kind: SourceKind::Detect, language: None, is_file: false }
    }

    fn read_each(args: &SourceArgs, max_bytes: u64) -> anyhow::Result<Vec<Self>> {
        if let Some(text) = &args.code.eval {
            return Ok(vec![Self::new(SANDBOX_NAME, None, text.clone())]);
        }
        let mut seen_stdin = false;
        args.code
            .files
            .iter()
            .map(|path| {
                if path.as_os_str() != STDIN {
                    return Self::read(path, max_bytes);
                }
                if std::mem::replace(&mut seen_stdin, true) {
                    return Err(HintedError::new("`-` is used twice", "standard input can be read only once").into());
                }
                let text = text("standard input", io::stdin().lock(), max_bytes)?;
                Ok(Self::new("<stdin>", Some("<stdin>".into()), text))
            })
            .collect()
    }

    /// Gives the script a TypeScript file name, because the engine detects TypeScript by the extension.
    fn mark_typescript(&mut self) {
        let name = self.name.get_or_insert_with(|| SANDBOX_NAME.into());
        let has_extension =
            Path::new(name).extension().and_then(|extension| extension.to_str()).is_some_and(is_typescript);
        if !has_extension {
            name.push_str(".ts");
        }
    }

    fn read(path: &Path, max_bytes: u64) -> anyhow::Result<Self> {
        let shown = escaped(path);
        let file = File::open(path).and_then(|file| {
            if file.metadata()?.is_dir() { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(file) }
        });
        let file = file.or_hint(
            || format!("cannot read script `{shown}`"),
            "check the path; code itself goes after -e, as in `glovebox run -e 'print(1)'`",
        )?;
        let text = text(&format!("script `{shown}`"), file, max_bytes)?;
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let kind = match extension.to_ascii_lowercase().as_str() {
            "mjs" | "mts" => SourceKind::Module,
            "cjs" | "cts" => SourceKind::Script,
            _ => SourceKind::Detect,
        };
        let name = path.file_name().map(|name| escaped(name).to_string());
        Ok(Self {
            label: path.display().to_string(),
            name,
            text,
            kind,
            language: Language::from_extension(extension),
            is_file: true,
        })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns a request to run the script.
    pub(crate) fn request(&self) -> Request<'_> {
        let request = Request::new(&self.text).kind(self.kind);
        match &self.name {
            Some(name) => request.name(name),
            None => request,
        }
    }
}

fn is_typescript(extension: &str) -> bool {
    ["ts", "mts", "cts"].iter().any(|known| extension.eq_ignore_ascii_case(known))
}

/// Reads UTF-8 text of at most `max_bytes` bytes.
fn text(what: &str, from: impl Read, max_bytes: u64) -> anyhow::Result<String> {
    let bytes = bounded(what, from, max_bytes, "--source-bytes")?;
    // A byte order mark from an editor is not part of the program.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes).to_vec();
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        HintedError::new(format!("{what} is not UTF-8: invalid byte at offset {at}"), "save it as UTF-8").into()
    })
}

/// Reads at most `max_bytes` bytes and fails if there are more, because a pipe might never end. `flag` raises the
/// limit.
pub(crate) fn bounded(what: &str, from: impl Read, max_bytes: u64, flag: &str) -> anyhow::Result<Vec<u8>> {
    bounded_with_hint(what, from, max_bytes, &format!("raise the limit with {flag} N"))
}

/// Like [`bounded`], but with another hint for input that is too long.
pub(crate) fn bounded_with_hint(what: &str, from: impl Read, max_bytes: u64, hint: &str) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(max_bytes.saturating_add(1))
        .read_to_end(&mut bytes)
        .or_hint(|| format!("cannot read {what}"), "check that it is readable")?;
    if u64::try_from(bytes.len()).is_ok_and(|len| len <= max_bytes) {
        return Ok(bytes);
    }
    Err(too_long(what, max_bytes, hint))
}

fn too_long(what: &str, max_bytes: u64, hint: &str) -> anyhow::Error {
    HintedError::new(format!("{what} is longer than {max_bytes} bytes"), hint).into()
}

/// Reads a file of at most `max_bytes` bytes, so that a device or a sparse file cannot exhaust memory. `what` names the
/// file in errors.
pub(crate) fn read_file(path: &Path, what: &str, max_bytes: u64, hint: &str) -> anyhow::Result<Vec<u8>> {
    let file = File::open(path).or_hint(|| format!("cannot read {what}"), hint)?;
    // Devices and files of `/proc` report a length of zero, so the limit also applies while reading.
    if file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() > max_bytes) {
        return Err(too_long(what, max_bytes, hint));
    }
    bounded_with_hint(what, file, max_bytes, hint)
}

/// Like [`read_file`], but for UTF-8 text.
pub(crate) fn read_text(path: &Path, what: &str, max_bytes: u64, hint: &str) -> anyhow::Result<String> {
    let bytes = read_file(path, what, max_bytes, hint)?;
    Ok(String::from_utf8(bytes).or_hint(|| format!("cannot read {what}"), hint)?)
}

#[cfg(test)]
mod tests {
    use super::{bounded, text};

    #[test]
    fn endless_input_is_rejected_above_the_limit() {
        assert_eq!(bounded("x", &b"abc"[..], 4, "--f").unwrap(), b"abc");
        assert_eq!(bounded("x", &b"abcd"[..], 4, "--f").unwrap(), b"abcd");
        assert!(bounded("x", &b"abcde"[..], 4, "--f").is_err());
        assert!(bounded("x", std::io::repeat(0), 4, "--f").is_err());
    }

    #[test]
    fn a_byte_order_mark_is_dropped_and_other_encodings_are_named() {
        assert_eq!(text("x", &b"\xef\xbb\xbfprint(1)"[..], 100).unwrap(), "print(1)");
        let error = text("script `x`", &b"print('\xe9')"[..], 100).unwrap_err();
        assert_eq!(error.to_string(), "script `x` is not UTF-8: invalid byte at offset 7");
    }
}
