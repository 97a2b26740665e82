//! The format of case files: TOML front matter, followed by a fenced block for each script and workspace file.

use std::{collections::BTreeMap, mem, path::Path};

use glovebox::Policy;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    Request,
    step::{CaseTool, StepFile},
};

/// The line before and after the TOML.
const DELIMITER: &str = "+++";

/// The word after a block's file name that removes the content's final newline.
const NO_NEWLINE: &str = "no-newline";

/// A parsed case file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CaseFile<'a> {
    /// TOML text. It starts with the newline of the first delimiter line, so that line numbers in TOML errors match the
    /// file.
    pub(crate) front_matter: &'a str,
    /// The blocks, by file name.
    pub(crate) blocks: BTreeMap<&'a str, Block<'a>>,
}

/// The content of one fenced block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block<'a> {
    /// The line of the opening fence, counted from 1.
    pub(crate) line: usize,
    pub(crate) content: &'a str,
}

/// An error in a case file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CaseError {
    line: Option<usize>,
    message: String,
}

impl CaseError {
    pub(crate) fn at(line: usize, message: impl Into<String>) -> Self {
        Self { line: Some(line), message: message.into() }
    }

    /// Formats the message with the file and, if known, the line.
    pub(crate) fn in_file(&self, path: &Path) -> String {
        match self.line {
            Some(line) => format!("{}:{line}: {}", path.display(), self.message),
            None => format!("{}: {}", path.display(), self.message),
        }
    }
}

impl From<String> for CaseError {
    fn from(message: String) -> Self {
        Self { line: None, message }
    }
}

impl From<&str> for CaseError {
    fn from(message: &str) -> Self {
        message.to_owned().into()
    }
}

/// The TOML of a case.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FrontMatter {
    #[serde(default)]
    #[expect(dead_code, reason = "a description for people; read so that it is a known key")]
    about: Option<String>,
    #[serde(default)]
    pub(crate) in_session: bool,
    #[serde(default)]
    pub(crate) carry: bool,
    /// JSON text, because TOML has no null.
    context: Option<String>,
    #[serde(default)]
    pub(crate) tools: BTreeMap<String, CaseTool>,
    #[serde(default)]
    pub(crate) golden: bool,
    #[serde(default)]
    pub(crate) smoke: bool,
    #[serde(default)]
    pub(crate) packages: bool,
    pub(crate) runtime: Option<String>,
    #[serde(default)]
    policy: toml::Table,
    #[serde(default)]
    request: Request,
    expect: Option<toml::Table>,
    #[serde(default)]
    step: Vec<StepFile>,
}

impl FrontMatter {
    /// Takes the steps: the `[[step]]` tables, or the single step of a case with `[expect]`.
    pub(crate) fn take_steps(&mut self) -> Result<Vec<StepFile>, String> {
        match (self.expect.take(), mem::take(&mut self.step)) {
            (Some(expect), steps) if steps.is_empty() => {
                Ok(vec![StepFile::single(mem::take(&mut self.request), expect)])
            }
            (None, steps) if !steps.is_empty() => Ok(steps),
            _ => Err("expected either `[expect]` or `[[step]]` tables".into()),
        }
    }

    pub(crate) fn policy(&self) -> Result<Policy, String> {
        if let Some(key) = ["workspace", "mounts", "network"].iter().find(|key| self.policy.contains_key(**key)) {
            return Err(format!("`policy.{key}` is not supported in a case: write a test in Rust"));
        }
        let text = toml::to_string(&self.policy).map_err(|error| error.to_string())?;
        Policy::from_toml(&text).map_err(|error| error.to_string())
    }

    pub(crate) fn context(&self) -> Result<Option<Value>, String> {
        match &self.context {
            Some(_) if !self.in_session => Err("`context` needs `in_session = true`".into()),
            Some(text) => serde_json::from_str(text).map_err(|error| format!("`context` is not JSON: {error}")),
            None => Ok(None),
        }
    }
}

/// A block's opening fence.
struct Fence<'a> {
    backticks: usize,
    name: &'a str,
    has_newline: bool,
}

impl<'a> CaseFile<'a> {
    /// Splits a case file into front matter and blocks.
    pub(crate) fn parse(text: &'a str) -> Result<Self, CaseError> {
        if let Some(at) = text.find(['\r', '\0']) {
            let line = text[..at].matches('\n').count() + 1;
            return Err(CaseError::at(
                line,
                "carriage returns and NUL characters are not supported: give the source as a TOML string in its step",
            ));
        }
        let mut start = 0;
        let mut lines = text.split_inclusive('\n').zip(1..).map(|(line, number)| {
            start += line.len();
            (number, start - line.len(), line.trim_end_matches('\n'))
        });

        if lines.next().is_none_or(|(_, _, line)| line != DELIMITER) {
            return Err(CaseError::at(1, format!("the first line must be `{DELIMITER}`")));
        }
        let Some((_, end, _)) = lines.find(|(_, _, line)| *line == DELIMITER) else {
            return Err(CaseError::at(1, format!("the front matter has no closing `{DELIMITER}`")));
        };
        let front_matter = &text[DELIMITER.len()..end];

        let mut blocks = BTreeMap::new();
        while let Some((number, opening, line)) = lines.find(|(_, _, line)| !line.trim().is_empty()) {
            let wrong = |message: String| CaseError::at(number, message);
            let fence = Fence::parse(line).map_err(wrong)?;
            let name = fence.name;
            let Some((_, closing, _)) = lines.find(|(_, _, line)| fence.is_closed_by(line)) else {
                return Err(wrong(format!("the block `{name}` has no closing fence")));
            };
            let content = &text[opening + line.len() + 1..closing];
            let content = if fence.has_newline {
                content
            } else {
                content.strip_suffix('\n').ok_or_else(|| wrong(format!("`{name}` is empty: remove `{NO_NEWLINE}`")))?
            };
            if let Some(Block { line, .. }) = blocks.insert(name, Block { line: number, content }) {
                return Err(wrong(format!("duplicate block `{name}`: the first is on line {line}")));
            }
        }
        Ok(Self { front_matter, blocks })
    }
}

impl<'a> Fence<'a> {
    fn parse(line: &'a str) -> Result<Self, String> {
        let info = line.trim_start_matches('`');
        let backticks = line.len() - info.len();
        if backticks < 3 || info.contains('`') {
            return Err("only blank lines and fenced blocks may follow the front matter".into());
        }
        let (name, has_newline) = match info.split_whitespace().collect::<Vec<_>>()[..] {
            [_, name] => (name, true),
            [_, name, NO_NEWLINE] => (name, false),
            _ => return Err(format!("expected a language, a file name and optionally `{NO_NEWLINE}` after the fence")),
        };
        if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(format!("invalid file name `{name}`"));
        }
        Ok(Self { backticks, name, has_newline })
    }

    /// Returns `true` if a line is a closing fence according to CommonMark. A closing fence is indented by at most
    /// three spaces, at least as long as the opening fence, and followed only by spaces and tabs.
    fn is_closed_by(&self, line: &str) -> bool {
        let fence = line.trim_start_matches(' ');
        let rest = fence.trim_start_matches('`');
        line.len() - fence.len() <= 3
            && fence.len() - rest.len() >= self.backticks
            && rest.trim_matches([' ', '\t']).is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::CaseFile;

    /// Parses blocks after an empty front matter. Returns their names and contents.
    fn blocks(text: &str) -> Vec<(String, String)> {
        let text = format!("+++\n+++\n{text}");
        let file = CaseFile::parse(&text).unwrap();
        file.blocks.iter().map(|(name, block)| ((*name).to_owned(), block.content.to_owned())).collect()
    }

    /// Returns the error message for invalid blocks after an empty front matter. The blocks start on line 3.
    fn error(text: &str) -> String {
        CaseFile::parse(&format!("+++\n+++\n{text}")).unwrap_err().in_file(Path::new("x.md"))
    }

    /// Returns the blocks of a file whose only block is a Python script.
    fn script(content: &str) -> Vec<(String, String)> {
        vec![("script.py".to_owned(), content.to_owned())]
    }

    #[test]
    fn front_matter_and_blocks_are_split() {
        let text = "+++\na = 1\n\n[expect]\n+++\n\n```python a.py\n1\n2\n```\n\n\n```text files/b/c.txt\nx\n```\n";
        let file = CaseFile::parse(text).unwrap();
        assert_eq!(file.front_matter, "\na = 1\n\n[expect]\n");
        let blocks: Vec<_> = file.blocks.iter().map(|(name, block)| (*name, block.line, block.content)).collect();
        assert_eq!(blocks, [("a.py", 7, "1\n2\n"), ("files/b/c.txt", 13, "x\n")]);
        assert!(CaseFile::parse("+++\n+++").unwrap().blocks.is_empty());
    }

    #[test]
    fn front_matter_without_a_delimiter_is_rejected() {
        for text in ["", "a = 1\n", "\n+++\n+++\n", "+++ \n+++\n", "\u{feff}+++\n+++\n"] {
            let error = CaseFile::parse(text).unwrap_err().in_file(Path::new("x.md"));
            assert_eq!(error, "x.md:1: the first line must be `+++`");
        }
        let error = CaseFile::parse("+++\na = '''\n+++ b\n'''\n").unwrap_err().in_file(Path::new("x.md"));
        assert_eq!(error, "x.md:1: the front matter has no closing `+++`");
    }

    #[test]
    fn content_keeps_every_byte() {
        assert_eq!(blocks("```python script.py\n\n a\t \n\n```"), script("\n a\t \n\n"));
        assert_eq!(blocks("```python script.py\n+++\n# `x` ``y``\n~~~\n```\n"), script("+++\n# `x` ``y``\n~~~\n"));
        assert_eq!(blocks("```python script.py\n\u{feff}\u{2028}\u{85}\n```\n"), script("\u{feff}\u{2028}\u{85}\n"));
    }

    #[test]
    fn a_block_without_lines_is_an_empty_file() {
        assert_eq!(blocks("```python script.py\n```\n"), script(""));
        assert_eq!(blocks("```python script.py\n\n```\n"), script("\n"));
    }

    #[test]
    fn the_final_newline_can_be_removed() {
        assert_eq!(blocks("```python script.py no-newline\nx\n```\n"), script("x"));
        assert_eq!(blocks("```python script.py no-newline\nx\n\n```\n"), script("x\n"));
        assert_eq!(blocks("```python script.py no-newline\n\n```\n"), script(""));
        let empty = "x.md:3: `script.py` is empty: remove `no-newline`";
        assert_eq!(error("```python script.py no-newline\n```\n"), empty);
    }

    #[test]
    fn closing_fence_must_be_at_least_as_long() {
        let close = |fence: &str| format!("````python script.py\n```js\n```\n{fence}\n");
        assert_eq!(error(&close("```")), "x.md:3: the block `script.py` has no closing fence");
        for fence in ["````", "`````", "   ````", "```` \t"] {
            assert_eq!(blocks(&close(fence)), script("```js\n```\n"), "{fence}");
        }
        for fence in ["    ````", "\t````", "````x", "```` x", "~~~~", "x````"] {
            assert!(error(&close(fence)).ends_with("has no closing fence"), "{fence}");
        }
    }

    #[test]
    fn a_fence_has_at_least_three_backticks() {
        let outside = "x.md:3: only blank lines and fenced blocks may follow the front matter";
        assert_eq!(error("``python script.py\n``\n"), outside);
        assert_eq!(blocks("```python script.py\nx\n```\n"), script("x\n"));
        assert_eq!(blocks("````python script.py\nx\n````\n"), script("x\n"));
    }

    #[test]
    fn text_outside_fenced_blocks_is_rejected() {
        let outside = "only blank lines and fenced blocks may follow the front matter";
        assert_eq!(error("\nA sentence.\n"), format!("x.md:4: {outside}"));
        assert_eq!(error("```python script.py\n```\n# Heading\n"), format!("x.md:5: {outside}"));
        for line in [" ```python script.py", "~~~python script.py", "```python `script.py`", "+++"] {
            assert_eq!(error(&format!("{line}\n")), format!("x.md:3: {outside}"));
        }
    }

    #[test]
    fn fence_must_name_a_language_and_a_file() {
        for info in ["", "python", "python script.py x", "python script.py no-newline x"] {
            assert!(error(&format!("```{info}\n```\n")).contains("expected a language, a file name"), "{info}");
        }
        for name in ["/script.py", "files/", "files//a", "files/./a", "files/../a", ".."] {
            assert_eq!(error(&format!("```python {name}\n```\n")), format!("x.md:3: invalid file name `{name}`"));
        }
    }

    #[test]
    fn block_names_are_unique() {
        let twice = "```python script.py\n```\n\n```python script.py\n```\n";
        assert_eq!(error(twice), "x.md:6: duplicate block `script.py`: the first is on line 3");
    }

    #[test]
    fn carriage_returns_and_nul_are_refused() {
        for text in ["```python script.py\na\r\n```\n", "```python script.py\n\0\n```\n"] {
            assert!(error(text).starts_with("x.md:4: carriage returns and NUL characters are not supported"));
        }
    }
}
