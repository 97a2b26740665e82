//! Parsing of patterns.
//!
//! The language is that of the crate `globset`; a test compares the two. The crate itself would add half a megabyte of
//! regular expressions to every provider component.

use std::iter::Peekable;
use std::mem;
use std::str::Chars;

/// Maximum nesting of alternatives. Each level is one more recursion.
const MAX_DEPTH: usize = 32;

/// A part of a pattern.
#[derive(Debug)]
pub(super) enum Token {
    /// Exactly one character.
    One(Chosen),
    /// `*`: any number of characters of a name.
    Star,
    /// `**/` at the beginning: nothing, or directories with a trailing slash.
    Dirs,
    /// `/**/`: a slash, and then [`Token::Dirs`].
    SlashDirs,
    /// `/**` at the end: a slash and everything after it.
    SlashAll,
    /// `{a,b}`, without empty ones: `globset` skips them, in `{}` and `{{},}` too.
    Alternatives(Vec<Vec<Token>>),
}

/// The characters that match.
#[derive(Debug)]
pub(super) enum Chosen {
    /// Exactly this character.
    Exactly(char),
    /// Any character of a name: `?`.
    OfName,
    /// A character in these ranges, both ends included, or in none of them. A slash is an ordinary character here.
    Class { negated: bool, ranges: Vec<(char, char)> },
}

/// Parses a pattern, or returns the reason why it is invalid.
pub(super) fn parse(pattern: &str) -> Result<Vec<Token>, String> {
    let mut parser =
        Parser { chars: pattern.chars().peekable(), last: None, before: None, tokens: Vec::new(), open: Vec::new() };
    parser.all()?;
    if !parser.open.is_empty() {
        return Err("a `{` has no `}`; write `\\{` for the character".to_owned());
    }
    Ok(match &*parser.tokens {
        // `**` matches everything; elsewhere directories end with a slash.
        [Token::Dirs] => vec![Token::Dirs, Token::Star],
        _ => parser.tokens,
    })
}

struct Parser<'a> {
    chars: Peekable<Chars<'a>>,
    /// The last character, and the one before it.
    last: Option<char>,
    before: Option<char>,
    /// The sequence being parsed: the pattern's, or that of the innermost alternative.
    tokens: Vec<Token>,
    /// The alternatives being parsed, the innermost last.
    open: Vec<Open>,
}

/// Alternatives that have not been closed.
struct Open {
    /// The sequence before them.
    outside: Vec<Token>,
    /// The completed alternatives.
    branches: Vec<Vec<Token>>,
}

impl Parser<'_> {
    fn all(&mut self) -> Result<(), String> {
        while let Some(c) = self.take() {
            match c {
                '?' => self.tokens.push(Token::One(Chosen::OfName)),
                '*' => self.star(),
                '[' => self.class()?,
                '{' if self.open.len() == MAX_DEPTH => {
                    return Err(format!("its alternatives are nested more than {MAX_DEPTH} levels deep; flatten them"));
                }
                '{' => {
                    self.open.push(Open { outside: mem::take(&mut self.tokens), branches: Vec::new() });
                }
                '}' => self.close()?,
                ',' => match self.open.last_mut() {
                    Some(open) => open.branches.push(mem::take(&mut self.tokens)),
                    None => self.literal(','),
                },
                '\\' => {
                    let c = self.take().ok_or("it ends with a single `\\`; write `\\\\` for the character")?;
                    self.literal(c);
                }
                c => self.literal(c),
            }
        }
        Ok(())
    }

    fn take(&mut self) -> Option<char> {
        self.before = self.last;
        self.last = self.chars.next();
        self.last
    }

    fn literal(&mut self, c: char) {
        self.tokens.push(Token::One(Chosen::Exactly(c)));
    }

    fn close(&mut self) -> Result<(), String> {
        let Open { outside, mut branches } =
            self.open.pop().ok_or("a `}` has no `{`; write `\\}` for the character")?;
        branches.push(mem::replace(&mut self.tokens, outside));
        let is_nothing = |token: &Token| matches!(token, Token::Alternatives(branches) if branches.is_empty());
        branches.retain(|branch| !branch.iter().all(is_nothing));
        // Added even if empty: text that follows is not at the beginning of the pattern.
        self.tokens.push(Token::Alternatives(branches));
        Ok(())
    }

    /// `**` matches directories only between slashes and at the ends of a pattern or an alternative.
    fn star(&mut self) {
        let after_slash = self.before == Some('/');
        if self.chars.next_if_eq(&'*').is_none() {
            return self.within_name();
        }
        self.before = self.last;
        let next = self.chars.peek().copied();
        if self.tokens.is_empty() {
            if !matches!(next, None | Some('/')) {
                return self.within_name();
            }
            self.tokens.push(Token::Dirs);
        } else {
            let is_end = match next {
                None => true,
                Some(',' | '}') => !self.open.is_empty(),
                _ => false,
            };
            if !after_slash || !(is_end || next == Some('/')) {
                return self.within_name();
            }
            // The token includes the slash before it, and directories before that, as in `**/**`.
            match self.tokens.pop() {
                Some(Token::Dirs) => self.tokens.push(Token::Dirs),
                _ if is_end => self.tokens.push(Token::SlashAll),
                _ => self.tokens.push(Token::SlashDirs),
            }
        }
        if next == Some('/') {
            self.take();
        }
    }

    /// Treats adjacent stars as one.
    fn within_name(&mut self) {
        if !matches!(self.tokens.last(), Some(Token::Star)) {
            self.tokens.push(Token::Star);
        }
    }

    /// As in POSIX, `]` is literal in first position, `-` in first or last position, and `\` everywhere.
    fn class(&mut self) -> Result<(), String> {
        let negated = matches!(self.chars.peek(), Some('!' | '^'));
        if negated {
            self.take();
        }
        let mut ranges: Vec<(char, char)> = Vec::new();
        let mut in_range = false;
        loop {
            let c = self.take().ok_or("a `[` has no `]`; write `\\[` for the character")?;
            match ranges.last_mut() {
                Some(_) if c == ']' => break,
                Some((from, to)) if in_range => {
                    if c < *from {
                        return Err(format!("the range `{from}-{c}` is empty; write `{c}-{from}`"));
                    }
                    *to = c;
                    in_range = false;
                }
                Some(_) if c == '-' => in_range = true,
                _ => ranges.push((c, c)),
            }
        }
        if in_range {
            ranges.push(('-', '-'));
        }
        self.tokens.push(Token::One(Chosen::Class { negated, ranges }));
        Ok(())
    }
}
