//! Displays of scripts, as files.

use std::{
    cell::Cell,
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use glovebox::{Execution, escaped};

use crate::{
    file,
    terminal::{HintedError, format_count, note},
};

/// File extensions by media type. [`ending`] returns the extensions of other types.
const ENDINGS: [(&str, &str); 13] = [
    ("application/javascript", "js"),
    ("application/json", "json"),
    ("application/pdf", "pdf"),
    ("image/gif", "gif"),
    ("image/jpeg", "jpg"),
    ("image/png", "png"),
    ("image/svg+xml", "svg"),
    ("image/webp", "webp"),
    ("text/csv", "csv"),
    ("text/html", "html"),
    ("text/latex", "tex"),
    ("text/markdown", "md"),
    ("text/plain", "txt"),
];

/// A directory for displays: `1.png` and `1.txt` are two forms of the first display.
#[derive(Debug)]
pub(crate) struct DisplayFiles {
    directory: PathBuf,
    count: Cell<usize>,
}

impl DisplayFiles {
    /// Creates the directory if it is missing. Rejects a directory that contains files, which could be mistaken for
    /// displays.
    pub(crate) fn new(directory: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(directory)
            .with_context(|| format!("cannot create the directory `{}`", escaped(directory)))?;
        let mut there = fs::read_dir(directory).with_context(|| format!("cannot read `{}`", escaped(directory)))?;
        if there.next().is_some() {
            let message = format!("--displays: the directory `{}` is not empty", escaped(directory));
            return Err(HintedError::new(message, "choose a new or empty directory").into());
        }
        Ok(Self { directory: directory.to_owned(), count: Cell::new(0) })
    }

    pub(crate) fn write(&self, execution: &Execution) -> anyhow::Result<()> {
        for display in &execution.displays {
            self.count.set(self.count.get() + 1);
            let mut endings = Vec::new();
            for form in &display.forms {
                let ending = ending(&form.media_type);
                let again = endings.iter().filter(|each| **each == ending).count();
                endings.push(ending);
                let more = if again == 0 { String::new() } else { format!("-{again}") };
                let path = self.directory.join(format!("{}{more}.{ending}", self.count.get()));
                file::replace_shared(&path, &form.data)?;
            }
        }
        Ok(())
    }
}

fn ending(media_type: &str) -> &'static str {
    match ENDINGS.iter().find(|(of, _)| *of == media_type) {
        Some((_, ending)) => ending,
        None if media_type.ends_with("+json") => "json",
        None if media_type.ends_with("+xml") => "xml",
        None if media_type.starts_with("text/") => "txt",
        None => "bin",
    }
}

/// Prints notes about displays that were not written to files, and about dropped displays.
pub(crate) fn print_notes(execution: &Execution, is_written: bool) {
    if !is_written && !execution.displays.is_empty() {
        note(&format!(
            "{}; use --displays DIR to write them to files",
            format_count(execution.displays.len() as u64, "display")
        ));
    }
    mention_dropped(execution);
}

/// Prints a note about dropped displays.
pub(crate) fn mention_dropped(execution: &Execution) {
    if execution.displays_dropped > 0 {
        let dropped = format_count(execution.displays_dropped, "display");
        note(&format!("{dropped} dropped because of --display-bytes or the maximum of 1,000 displays"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_extensions_come_from_a_fixed_list() {
        for (media_type, expected) in [
            ("image/png", "png"),
            ("text/x-python", "txt"),
            ("application/vnd.vega.v5+json", "json"),
            ("application/mathml+xml", "xml"),
            ("application/octet-stream", "bin"),
            ("x/sh", "bin"),
        ] {
            assert_eq!(ending(media_type), expected, "{media_type}");
        }
    }
}
