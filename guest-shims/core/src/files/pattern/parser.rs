//! What a pattern says.
//!
//! The language is that of the crate `globset`, which a test compares it with. The crate itself would bring half a megabyte of
//! regular expressions into every provider component.

use std::iter::Peekable;
use std::mem;
use std::str::Chars;

/// How deeply alternatives stand in one another: what goes through them goes one call deeper for each.
const MAX_DEPTH: usize = 32;

/// A part of a pattern.
#[derive(Debug)]
pub(super) enum Token {
    /// One character.
    One(Chosen),
    /// `*`: any number of characters of a name.
    Star,
    /// `**/` at the beginning: nothing, or directories with the slash behind them.
    Dirs,
    /// `/**/`: a slash, and then [`Token::Dirs`].
    SlashDirs,
    /// `/**` at the end: a slash and whatever follows.
    SlashAll,
    /// `{a,b}`, without those that are empty: `globset` passes over them, `{}` and `{{},}` too.
    Alternatives(Vec<Vec<Token>>),
}

/// Which character it may be.
#[derive(Debug)]
pub(super) enum Chosen {
    /// This one.
    Exactly(char),
    /// Any of a name: `?`.
    OfName,
    /// One in these ranges, both ends included, or else one in none of them. A slash is a character like any other here.
    Class { negated: bool, ranges: Vec<(char, char)> },
}

/// The parts of a pattern, or what is wrong with it.
pub(super) fn parse(pattern: &str) -> Result<Vec<Token>, String> {
    let mut parser =
        Parser { chars: pattern.chars().peekable(), last: None, before: None, tokens: Vec::new(), open: Vec::new() };
    parser.all()?;
    if !parser.open.is_empty() {
        return Err("a `{` has no `}`; write `\\{` for the character".to_owned());
    }
    Ok(match &*parser.tokens {
        // `**` is everything; elsewhere directories end with a slash.
        [Token::Dirs] => vec![Token::Dirs, Token::Star],
        _ => parser.tokens,
    })
}

struct Parser<'a> {
    chars: Peekable<Chars<'a>>,
    /// The character taken last, and the one before it.
    last: Option<char>,
    before: Option<char>,
    /// The sequence that is being read: the pattern's, or that of the innermost alternative.
    tokens: Vec<Token>,
    /// The alternatives that are being read, the innermost last.
    open: Vec<Open>,
}

/// Alternatives whose end is not reached.
struct Open {
    /// What stands before them in their sequence.
    outside: Vec<Token>,
    /// Those that are complete.
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
                    return Err(format!("its alternatives are over {MAX_DEPTH} levels deep; flatten them"));
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
        // Even without any: what follows them is not at the beginning.
        self.tokens.push(Token::Alternatives(branches));
        Ok(())
    }

    /// `**` is directories only between slashes and at the ends of a pattern or an alternative.
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
            // The slash before is part of it; so are directories before, `**/**`.
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

    /// Stars beside one another are one.
    fn within_name(&mut self) {
        if !matches!(self.tokens.last(), Some(Token::Star)) {
            self.tokens.push(Token::Star);
        }
    }

    /// As in POSIX, `]` stands for itself where it is first, `-` where it is first or last, and `\` everywhere.
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
