//! Splits an input into tokens, accurately enough for colours, indentation and completion. The language's parser
//! decides everything else.

use glovebox::{Language, Request};

/// The language of the inputs.
pub(super) use crate::args::LanguageArg as Dialect;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Keyword,
    Name,
    Number,
    /// A string, a template or a regular expression.
    Text,
    Comment,
    /// A single punctuation character.
    Sign,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) kind: TokenKind,
    pub(super) start: usize,
    pub(super) text: &'a str,
    /// `true` if the end is missing, as in a string without the closing quote.
    pub(super) is_open: bool,
}

impl Token<'_> {
    pub(super) fn end(&self) -> usize {
        self.start + self.text.len()
    }

    pub(super) fn is_sign(&self, sign: &str) -> bool {
        self.kind == TokenKind::Sign && self.text == sign
    }
}

/// The length of a token, and whether its end is missing.
#[derive(Clone, Copy, Debug)]
struct Extent {
    bytes: usize,
    is_open: bool,
}

impl Extent {
    fn closed(bytes: usize) -> Self {
        Self { bytes, is_open: false }
    }
}

/// Returns `true` if a name can begin with this character.
fn begins_name(c: char) -> bool {
    c.is_alphabetic() || matches!(c, '_' | '$')
}

/// Returns `true` for a name. A name contains no control or formatting character.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(begins_name) && text.chars().all(continues_name)
}

fn continues_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$')
}

pub(super) fn tokens(dialect: Dialect, source: &str) -> Vec<Token<'_>> {
    let mut found: Vec<Token<'_>> = Vec::new();
    let mut start = 0;
    while let Some(rest) = source.get(start..).filter(|rest| !rest.is_empty()) {
        let blank = rest.len() - rest.trim_start().len();
        if blank > 0 {
            start += blank;
            continue;
        }
        let before = found.iter().rev().find(|token| token.kind != TokenKind::Comment);
        let (kind, extent) = next_token(dialect, rest, before);
        let Some(text) = rest.get(..extent.bytes).filter(|text| !text.is_empty()) else { break };
        found.push(Token { kind, start, text, is_open: extent.is_open });
        start += extent.bytes;
    }
    found
}

/// Returns the token at the beginning of `rest`.
fn next_token(dialect: Dialect, rest: &str, before: Option<&Token<'_>>) -> (TokenKind, Extent) {
    if let Some(extent) = comment(dialect, rest) {
        return (TokenKind::Comment, extent);
    }
    if let Some(extent) = text(dialect, rest).or_else(|| pattern(dialect, rest, before)) {
        return (TokenKind::Text, extent);
    }
    if rest.starts_with(|c: char| c.is_ascii_digit()) {
        return (TokenKind::Number, number(rest));
    }
    if rest.starts_with(begins_name) {
        let bytes = length_of(rest, continues_name);
        let is_property = before.is_some_and(|token| token.is_sign("."));
        let is_keyword = !is_property && dialect.keywords().any(|keyword| rest.get(..bytes) == Some(keyword));
        return (if is_keyword { TokenKind::Keyword } else { TokenKind::Name }, Extent::closed(bytes));
    }
    (TokenKind::Sign, Extent::closed(rest.chars().next().map_or(0, char::len_utf8)))
}

/// Returns the length of the longest prefix of `rest` whose characters all satisfy `fits`.
fn length_of(rest: &str, fits: impl Fn(char) -> bool) -> usize {
    rest.find(|c| !fits(c)).unwrap_or(rest.len())
}

fn comment(dialect: Dialect, rest: &str) -> Option<Extent> {
    let line = Extent::closed(length_of(rest, |c| c != '\n'));
    if dialect == Dialect::Python {
        return rest.starts_with('#').then_some(line);
    }
    if rest.starts_with("//") {
        return Some(line);
    }
    let inside = rest.strip_prefix("/*")?;
    Some(match inside.find("*/") {
        Some(at) => Extent::closed(at + 4),
        None => Extent { bytes: rest.len(), is_open: true },
    })
}

fn text(dialect: Dialect, rest: &str) -> Option<Extent> {
    let (prefix, quotes): (usize, &[&str]) = match dialect {
        Dialect::Python => (length_of(rest, |c| "rRbBuUfFtT".contains(c)), &[r#"""""#, "'''", "\"", "'"]),
        Dialect::JavaScript | Dialect::TypeScript => (0, &["`", "\"", "'"]),
    };
    let quoted = rest.get(prefix..).filter(|_| prefix <= 2)?;
    let quote = *quotes.iter().find(|quote| quoted.starts_with(**quote))?;
    let has_lines = quote.len() == 3 || quote == "`";
    let begin = prefix + quote.len();
    let inside = rest.get(begin..)?;
    let mut chars = inside.char_indices();
    while let Some((at, c)) = chars.next() {
        if inside.get(at..).is_some_and(|left| left.starts_with(quote)) {
            return Some(Extent::closed(begin + at + quote.len()));
        }
        match c {
            '\\' => {
                chars.next();
            }
            '\n' if !has_lines => return Some(Extent { bytes: begin + at, is_open: true }),
            _ => {}
        }
    }
    Some(Extent { bytes: rest.len(), is_open: true })
}

/// Finds a regular expression: a slash that does not follow a value, up to the closing slash in the same line.
fn pattern(dialect: Dialect, rest: &str, before: Option<&Token<'_>>) -> Option<Extent> {
    if dialect == Dialect::Python || before.is_some_and(ends_value) {
        return None;
    }
    let inside = rest.strip_prefix('/')?;
    let mut is_class = false;
    let mut chars = inside.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => {
                chars.next();
            }
            '\n' => return None,
            '[' => is_class = true,
            ']' => is_class = false,
            '/' if !is_class => {
                let end = at + 2;
                let flags = rest.get(end..).map_or(0, |left| length_of(left, |c| c.is_ascii_alphabetic()));
                return Some(Extent::closed(end + flags));
            }
            _ => {}
        }
    }
    None
}

/// Returns `true` if a slash after this token is a division.
fn ends_value(token: &Token<'_>) -> bool {
    match token.kind {
        TokenKind::Name | TokenKind::Number | TokenKind::Text => true,
        TokenKind::Keyword => matches!(token.text, "this" | "super" | "null" | "true" | "false" | "undefined"),
        TokenKind::Sign => matches!(token.text, ")" | "]" | "}"),
        TokenKind::Comment => false,
    }
}

fn number(rest: &str) -> Extent {
    let has_exponent = !rest.starts_with("0x") && !rest.starts_with("0X");
    let mut before = '0';
    let end = rest.find(|c: char| {
        let is_sign = matches!(c, '+' | '-') && has_exponent && matches!(before, 'e' | 'E');
        before = c;
        !(is_sign || c.is_ascii_alphanumeric() || matches!(c, '_' | '.'))
    });
    Extent::closed(end.unwrap_or(rest.len()))
}

/// The name of TypeScript inputs. The engine detects TypeScript by the extension.
const TYPESCRIPT_NAME: &str = "<sandbox>.ts";

/// The keywords of each language, separated by spaces.
const PYTHON_KEYWORDS: &str = "\
    False None True and as assert async await break class continue def del elif else except finally for from \
    global if import in is lambda nonlocal not or pass raise return try while with yield";
const JAVASCRIPT_KEYWORDS: &str = "\
    async await break case catch class const continue debugger default delete do else enum export extends false \
    finally for function if import in instanceof let new null return static super switch this throw true try \
    typeof undefined var void while with yield of";

/// Additional keywords of TypeScript that are rarely used as names.
const TYPESCRIPT_KEYWORDS: &str =
    "abstract declare implements interface keyof namespace private protected public readonly";

impl Dialect {
    /// Returns the dialect of an interpreter's language: TypeScript if the command line requests it.
    pub(super) fn new(language: Language, wanted: Option<Self>) -> Self {
        match (language, wanted) {
            (Language::Python, _) => Self::Python,
            (Language::JavaScript, Some(Self::TypeScript)) => Self::TypeScript,
            (Language::JavaScript, _) => Self::JavaScript,
        }
    }

    /// Returns the language's name for the greeting.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Python => "Python",
            Self::JavaScript => "JavaScript",
            Self::TypeScript => "TypeScript",
        }
    }

    pub(super) fn history_file(self) -> &'static str {
        match self {
            Self::Python => "history.python",
            Self::JavaScript => "history.javascript",
            Self::TypeScript => "history.typescript",
        }
    }

    /// Returns the prompt of the language's own interpreter.
    pub(super) fn prompt(self) -> &'static str {
        match self {
            Self::Python => ">>> ",
            Self::JavaScript | Self::TypeScript => "> ",
        }
    }

    /// Returns the line that confirms Ctrl-C.
    pub(super) fn interruption(self) -> &'static str {
        match self {
            Self::Python => "KeyboardInterrupt",
            Self::JavaScript | Self::TypeScript => "Interrupted",
        }
    }

    /// Returns the request that runs an input.
    pub(super) fn request(self, source: &str) -> Request<'_> {
        let request = Request::new(source);
        match self {
            Self::Python | Self::JavaScript => request,
            Self::TypeScript => request.name(TYPESCRIPT_NAME),
        }
    }

    /// Returns the keywords for colours and completion. Some of them can also be used as names.
    pub(super) fn keywords(self) -> impl Iterator<Item = &'static str> {
        let (base, more) = match self {
            Self::Python => (PYTHON_KEYWORDS, ""),
            Self::JavaScript => (JAVASCRIPT_KEYWORDS, ""),
            Self::TypeScript => (JAVASCRIPT_KEYWORDS, TYPESCRIPT_KEYWORDS),
        };
        base.split_whitespace().chain(more.split_whitespace())
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Dialect::{self, JavaScript, Python},
        TokenKind::{Comment, Keyword, Name, Number, Sign, Text},
        is_name, tokens,
    };

    /// Returns tokens as pairs of kind and text.
    fn pairs(dialect: Dialect, source: &str) -> Vec<(super::TokenKind, &str)> {
        tokens(dialect, source).iter().map(|token| (token.kind, token.text)).collect()
    }

    #[test]
    fn python_is_split_into_tokens() {
        assert_eq!(
            pairs(Python, "if x1 >= 1.5e-3: # ok"),
            [
                (Keyword, "if"),
                (Name, "x1"),
                (Sign, ">"),
                (Sign, "="),
                (Number, "1.5e-3"),
                (Sign, ":"),
                (Comment, "# ok")
            ]
        );
        assert_eq!(pairs(Python, "rb'a\\'b' + f\"c\""), [(Text, "rb'a\\'b'"), (Sign, "+"), (Text, "f\"c\"")]);
        assert_eq!(pairs(Python, "'''a\n'b'''.join"), [(Text, "'''a\n'b'''"), (Sign, "."), (Name, "join")]);
        assert_eq!(pairs(Python, "'' \"\"\"\"\"\""), [(Text, "''"), (Text, "\"\"\"\"\"\"")]);
        assert_eq!(pairs(Python, "half.import_"), [(Name, "half"), (Sign, "."), (Name, "import_")]);
        assert_eq!(pairs(Python, "0xe+1"), [(Number, "0xe"), (Sign, "+"), (Number, "1")]);
        assert_eq!(pairs(Python, "größe"), [(Name, "größe")]);
    }

    #[test]
    fn javascript_is_split_into_tokens() {
        assert_eq!(
            pairs(JavaScript, "const $a = `x\n${y}` // z"),
            [(Keyword, "const"), (Name, "$a"), (Sign, "="), (Text, "`x\n${y}`"), (Comment, "// z")]
        );
        assert_eq!(pairs(JavaScript, "/[/'\"]/g.test"), [(Text, "/[/'\"]/g"), (Sign, "."), (Name, "test")]);
        assert_eq!(pairs(JavaScript, "a / b / c"), [(Name, "a"), (Sign, "/"), (Name, "b"), (Sign, "/"), (Name, "c")]);
        assert_eq!(
            pairs(JavaScript, "a.class /* b\n */ 1"),
            [(Name, "a"), (Sign, "."), (Name, "class"), (Comment, "/* b\n */"), (Number, "1")]
        );
    }

    #[test]
    fn unclosed_tokens_are_reported_open() {
        for (dialect, source) in
            [(Python, "x = 'a"), (Python, "\"\"\"a\n"), (JavaScript, "`a\n"), (JavaScript, "/* a"), (Python, "'\\'")]
        {
            assert!(tokens(dialect, source).last().unwrap().is_open, "{source}");
        }
        let line = tokens(Python, "'a\nb");
        assert!(line[0].is_open && line[1].text == "b");
        assert!(!tokens(Python, "'a'").last().unwrap().is_open);
    }

    #[test]
    fn tokens_cover_any_text() {
        for source in ["", " ", "\\", "\u{1b}[2J", "'\\", "é̂ x", "/", "/*/", "\u{2028}x", "0", "\"\"\"\"", "r", "rrr'"]
        {
            for dialect in [Python, JavaScript, Dialect::TypeScript] {
                let joined: String = tokens(dialect, source).iter().map(|token| token.text).collect();
                assert_eq!(joined, source.split_whitespace().collect::<String>(), "{source:?}");
            }
        }
    }

    #[test]
    fn names_are_valid_identifiers() {
        assert!(is_name("größe") && is_name("_1") && is_name("$"));
        for text in ["", "1a", "a b", "a\u{1b}", "a\u{202e}", "a\u{200b}b", "a\n"] {
            assert!(!is_name(text), "{text:?}");
        }
    }
}
