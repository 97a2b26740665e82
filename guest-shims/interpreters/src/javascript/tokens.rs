//! A tokenizer for JavaScript that distinguishes regular expressions from divisions, and blocks from objects.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Word,
    /// A string including its quotes.
    Text,
    /// A number, a regular expression, or a template up to its end or its first `${`.
    Literal,
    /// A punctuator. Holds its first character: only `++`, `--` and `=>` have two.
    Sign(u8),
    End,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) kind: TokenKind,
    pub(super) text: &'a str,
    pub(super) from: usize,
    pub(super) to: usize,
    /// The number of open brackets before the token.
    pub(super) depth: usize,
}

impl Token<'_> {
    pub(super) fn is(&self, word: &str) -> bool {
        self.kind == TokenKind::Word && self.text == word
    }

    pub(super) fn is_sign(&self, sign: u8) -> bool {
        self.kind == TokenKind::Sign(sign)
    }
}

/// The type of an open bracket.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OpenBracket {
    /// A parenthesis or square bracket. A slash after the closing bracket is a division, unless the group follows
    /// `if`, `while`, `for` or `with`.
    Group { is_head: bool },
    /// A brace. A slash after a block starts a regular expression.
    Brace { is_block: bool },
    /// A `${` in a template.
    Template,
}

/// Words that are followed by an operand.
const BEFORE_OPERAND: &str = "\
    return typeof instanceof in of new delete void throw case do else yield await default extends";

pub(super) struct Tokens<'a> {
    pub(super) source: &'a str,
    pub(super) at: usize,
    open: Vec<OpenBracket>,
    /// `true` after an operand, where a slash is a division.
    is_after_operand: bool,
    /// `true` if the next brace starts a block.
    pub(super) is_block_next: bool,
    /// `true` after `if`, `while`, `for` or `with`.
    is_head_next: bool,
    pub(super) is_after_dot: bool,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(source: &'a str) -> Self {
        let at = if source.starts_with("#!") { source.find('\n').unwrap_or(source.len()) } else { 0 };
        Self {
            source,
            at,
            open: Vec::new(),
            is_after_operand: false,
            is_block_next: true,
            is_head_next: false,
            is_after_dot: false,
        }
    }

    /// Returns the next token without consuming it. Tracking brackets is unnecessary for a single token.
    pub(super) fn peek(&self) -> Token<'a> {
        self.ahead().next()
    }

    /// Returns a copy of the reader for looking ahead, without the open brackets.
    pub(super) fn ahead(&self) -> Self {
        Self { open: Vec::new(), ..*self }
    }

    fn byte(&self, ahead: usize) -> u8 {
        self.source.as_bytes().get(self.at.saturating_add(ahead)).copied().unwrap_or(0)
    }

    fn rest(&self) -> &'a str {
        self.source.get(self.at..).unwrap_or_default()
    }

    fn skip_to(&mut self, end: Option<usize>) {
        self.at = end.map_or(self.source.len(), |end| self.at.saturating_add(end));
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = self.rest();
            if rest.starts_with("//") {
                self.skip_to(rest.find(['\n', '\r', '\u{2028}', '\u{2029}']));
            } else if rest.starts_with("/*") {
                self.skip_to(rest.find("*/").map(|end| end + 2));
            } else if let Some(c) = rest.chars().next().filter(|c| c.is_whitespace() || *c == '\u{feff}') {
                self.at += c.len_utf8();
            } else {
                return;
            }
        }
    }

    /// Skips text up to an unescaped `quote`. A line break also ends a string.
    fn skip_text(&mut self, quote: u8) {
        self.at += 1;
        while self.at < self.source.len() {
            match self.byte(0) {
                b'\\' => self.at += 2,
                b'\n' => return,
                byte => {
                    self.at += 1;
                    if byte == quote {
                        return;
                    }
                }
            }
        }
    }

    fn skip_regex(&mut self) {
        self.at += 1;
        let mut is_in_class = false;
        while self.at < self.source.len() {
            match self.byte(0) {
                b'\\' => self.at += 1,
                b'\n' => return,
                b'[' => is_in_class = true,
                b']' => is_in_class = false,
                b'/' if !is_in_class => {
                    self.at += 1;
                    self.skip_word();
                    return;
                }
                _ => {}
            }
            self.at += 1;
        }
    }

    /// Skips a template up to its end or to the next `${`.
    fn skip_template(&mut self) {
        while self.at < self.source.len() {
            match self.byte(0) {
                b'\\' => self.at += 1,
                b'`' => {
                    self.at += 1;
                    self.after_operand(true);
                    return;
                }
                b'$' if self.byte(1) == b'{' => {
                    self.at += 2;
                    self.open.push(OpenBracket::Template);
                    self.after_operand(false);
                    return;
                }
                _ => {}
            }
            self.at += 1;
        }
    }

    fn skip_word(&mut self) {
        let is_end = |c: char| c.is_whitespace() || c == '\u{feff}' || (c.is_ascii() && !is_word(c));
        self.skip_to(self.rest().find(is_end));
    }

    pub(super) fn after_operand(&mut self, is_after_operand: bool) {
        self.is_after_operand = is_after_operand;
        // An operand before a brace is the name of a class, or ends a statement without a semicolon.
        self.is_block_next = is_after_operand;
        self.is_head_next = false;
        self.is_after_dot = false;
    }

    pub(super) fn next(&mut self) -> Token<'a> {
        self.skip_blanks();
        let (from, depth) = (self.at, self.open.len());
        let byte = self.byte(0);
        let kind = match byte {
            _ if from >= self.source.len() => TokenKind::End,
            b'\'' | b'"' => {
                self.skip_text(byte);
                self.after_operand(true);
                TokenKind::Text
            }
            b'`' => {
                self.at += 1;
                self.skip_template();
                TokenKind::Literal
            }
            b'0'..=b'9' => {
                self.skip_number();
                self.after_operand(true);
                TokenKind::Literal
            }
            b'/' if !self.is_after_operand => {
                self.skip_regex();
                self.after_operand(true);
                TokenKind::Literal
            }
            _ if !byte.is_ascii() || is_word(char::from(byte)) => {
                self.skip_word();
                self.after_word(from);
                TokenKind::Word
            }
            _ => {
                self.at += 1;
                self.after_sign(byte);
                TokenKind::Sign(byte)
            }
        };
        // Clamp, because a backslash at the very end advances beyond the end.
        self.at = self.at.min(self.source.len());
        Token { kind, text: self.source.get(from..self.at).unwrap_or_default(), from, to: self.at, depth }
    }

    fn skip_number(&mut self) {
        self.skip_to(self.rest().find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '.' | '_')));
    }

    fn after_word(&mut self, from: usize) {
        let word = self.source.get(from..self.at).unwrap_or_default();
        let is_property = self.is_after_dot;
        self.after_operand(is_property || !BEFORE_OPERAND.split(' ').any(|other| other == word));
        if !is_property {
            self.is_head_next = matches!(word, "if" | "while" | "for" | "with");
            self.is_block_next |= matches!(word, "do" | "else");
        }
    }

    fn after_sign(&mut self, sign: u8) {
        match sign {
            b'(' | b'[' => {
                self.open.push(OpenBracket::Group { is_head: sign == b'(' && self.is_head_next });
                self.after_operand(false);
            }
            b'{' => {
                self.open.push(OpenBracket::Brace { is_block: self.is_block_next });
                self.after_operand(false);
                self.is_block_next = true;
            }
            b')' | b']' => {
                let is_head = self.open.pop() == Some(OpenBracket::Group { is_head: true });
                self.after_operand(!is_head);
                self.is_block_next = true;
            }
            b'}' => match self.open.pop() {
                Some(OpenBracket::Template) => self.skip_template(),
                open => {
                    self.after_operand(open == Some(OpenBracket::Brace { is_block: false }));
                    self.is_block_next = true;
                }
            },
            b'+' | b'-' if self.byte(0) == sign => {
                self.at += 1;
                let is_after_operand = self.is_after_operand;
                self.after_operand(is_after_operand);
            }
            b'=' if self.byte(0) == b'>' => {
                self.at += 1;
                self.after_operand(false);
                self.is_block_next = true;
            }
            _ => {
                self.after_operand(false);
                self.is_block_next = sign == b';';
                // A single dot precedes a property. Three dots are a spread.
                self.is_after_dot =
                    sign == b'.' && !self.source.get(..self.at).is_some_and(|read| read.ends_with(".."));
            }
        }
    }
}

/// Returns `true` if an ASCII character can be part of a name. A backslash starts an escaped character.
fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '#' | '\\')
}
