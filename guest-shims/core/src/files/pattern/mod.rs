//! File name patterns.

#[cfg(test)]
mod tests;

use std::{
    iter::{self, Peekable},
    mem,
    str::Chars,
};

use super::{FileError, path_fault};

/// Maximum length of a pattern in bytes; paths have the same limit.
const MAX_PATTERN_BYTES: usize = 4_096;

/// A parsed pattern and the directories that it can match in.
pub(super) struct Pattern {
    pub(super) matcher: Matcher,
    /// The literal directories at the beginning of the pattern. The search starts below these directories, so that it
    /// does not list other host directories, which may be large.
    pub(super) prefix: Vec<String>,
    /// The maximum depth of a match, in names below the prefix.
    pub(super) max_depth: usize,
}

impl Pattern {
    pub(super) fn parse(pattern: &str) -> Result<Self, FileError> {
        let wrong = |reason: String| rejected(pattern, reason);
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(wrong(format!("it is longer than {MAX_PATTERN_BYTES} bytes; shorten it")));
        }
        if let Some(reason) = path_fault(pattern) {
            return Err(wrong(format!("it {reason}")));
        }
        let names: Vec<&str> = pattern.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
        let matcher = Matcher::new(parse(&names.join("/")).map_err(wrong)?);
        let dirs = names.split_last().map_or(&[][..], |(_, dirs)| dirs);
        let is_name = |name: &&&str| !name.contains(['*', '?', '[', ']', '{', '}', '\\']);
        let prefix: Vec<String> = dirs.iter().take_while(is_name).map(|name| (*name).to_owned()).collect();
        let max_depth = if pattern.contains("**") { usize::MAX } else { names.len() - prefix.len() };
        Ok(Self { matcher, prefix, max_depth })
    }
}

/// Returns the error for a pattern that cannot be used.
pub(super) fn rejected(pattern: &str, reason: String) -> FileError {
    FileError::Pattern { pattern: pattern.chars().take(100).collect(), reason }
}

/// A pattern as a nondeterministic automaton. All its states are followed in parallel, so matching time is proportional
/// to the length of the path times the length of the pattern.
pub(super) struct Matcher {
    /// The automaton's states: at most one for each byte of the pattern (four for a lone `**`), and
    /// [`MatcherState::End`]. Each state comes after its successors, so a single pass from last to first finds all
    /// states that are reachable without consuming a character.
    states: Vec<MatcherState>,
    start: usize,
}

enum MatcherState {
    /// The whole pattern has matched.
    End,
    /// Matches exactly one character.
    One { chosen: CharacterClass, then: usize },
    /// Matches any number of characters; slashes only with `slashes`.
    Run { slashes: bool, then: usize },
    /// Continues with each of these states.
    Fork(Vec<usize>),
}

impl Matcher {
    fn new(tokens: Vec<Token>) -> Self {
        let mut matcher = Self { states: vec![MatcherState::End], start: 0 };
        matcher.start = matcher.sequence(tokens, 0);
        matcher
    }

    /// Matches a path. Returns `true` if the pattern matches, and the number of steps that matching took.
    pub(super) fn run(&self, path: &str) -> (bool, usize) {
        let (mut now, mut after) = (Set::new(self.states.len()), Set::new(self.states.len()));
        now.insert(self.start);
        let mut steps = 0;
        let mut matches = false;
        // `None` stands for the end of the path.
        for c in path.chars().map(Some).chain(iter::once(None)) {
            let mut is_over = true;
            while let Some(at) = now.take_highest() {
                is_over = false;
                steps += 1;
                match self.states.get(at) {
                    None => {}
                    Some(MatcherState::End) => matches |= c.is_none(),
                    Some(MatcherState::One { chosen, then }) => {
                        steps += chosen.steps();
                        if c.is_some_and(|c| chosen.has(c)) {
                            after.insert(*then);
                        }
                    }
                    Some(MatcherState::Run { slashes, then }) => {
                        now.insert(*then);
                        if c.is_some_and(|c| *slashes || c != '/') {
                            after.insert(at);
                        }
                    }
                    Some(MatcherState::Fork(branches)) => {
                        steps += branches.len();
                        branches.iter().for_each(|branch| now.insert(*branch));
                    }
                }
            }
            if is_over {
                break;
            }
            mem::swap(&mut now, &mut after);
        }
        (matches, steps)
    }

    /// Adds the states for `tokens`, followed by the state `then`, and returns the first added state. Works backwards,
    /// because each state refers to its successors.
    fn sequence(&mut self, tokens: Vec<Token>, then: usize) -> usize {
        tokens.into_iter().rev().fold(then, |then, token| match token {
            Token::One(chosen) => self.state(MatcherState::One { chosen, then }),
            Token::Star => self.state(MatcherState::Run { slashes: false, then }),
            Token::Dirs => self.dirs(then),
            Token::SlashDirs => {
                let dirs = self.dirs(then);
                self.slash(dirs)
            }
            Token::SlashAll => {
                let all = self.state(MatcherState::Run { slashes: true, then });
                self.slash(all)
            }
            Token::Alternatives(branches) if branches.is_empty() => then,
            Token::Alternatives(branches) => {
                let starts = branches.into_iter().map(|branch| self.sequence(branch, then)).collect();
                self.state(MatcherState::Fork(starts))
            }
        })
    }

    fn dirs(&mut self, then: usize) -> usize {
        let slash = self.slash(then);
        let names = self.state(MatcherState::Run { slashes: true, then: slash });
        self.state(MatcherState::Fork(vec![names, then]))
    }

    fn slash(&mut self, then: usize) -> usize {
        self.state(MatcherState::One { chosen: CharacterClass::Exactly('/'), then })
    }

    fn state(&mut self, state: MatcherState) -> usize {
        self.states.push(state);
        self.states.len() - 1
    }
}

impl CharacterClass {
    fn has(&self, c: char) -> bool {
        match self {
            Self::Exactly(this) => c == *this,
            Self::OfName => c != '/',
            Self::Class { negated, ranges } => ranges.iter().any(|(from, to)| (*from..=*to).contains(&c)) != *negated,
        }
    }

    /// Returns the number of range comparisons in [`CharacterClass::has`] beyond the first.
    fn steps(&self) -> usize {
        match self {
            Self::Exactly(_) | Self::OfName => 0,
            Self::Class { ranges, .. } => ranges.len() - 1,
        }
    }
}

/// A set of state numbers, as a bit set.
struct Set {
    words: Vec<u64>,
    /// All words above this index are zero.
    top: usize,
}

impl Set {
    fn new(count: usize) -> Self {
        Self { words: vec![0; count.div_ceil(64)], top: 0 }
    }

    fn insert(&mut self, state: usize) {
        let at = state / 64;
        if let Some(word) = self.words.get_mut(at) {
            *word |= 1 << (state % 64);
            self.top = self.top.max(at);
        }
    }

    fn take_highest(&mut self) -> Option<usize> {
        loop {
            let word = self.words.get_mut(self.top)?;
            if let Some(bit) = word.checked_ilog2() {
                *word ^= 1 << bit;
                return Some(self.top * 64 + bit as usize);
            }
            self.top = self.top.checked_sub(1)?;
        }
    }
}

/// Maximum nesting depth of alternatives. Compiling recurses once per level.
const MAX_DEPTH: usize = 32;

/// An element of a pattern.
#[derive(Debug)]
enum Token {
    /// Exactly one character, of this class.
    One(CharacterClass),
    /// `*`: any number of characters other than `/`.
    Star,
    /// `**/` at the beginning of a pattern or an alternative: nothing, or any number of directories with a trailing
    /// slash.
    Dirs,
    /// `/**/`: a slash followed by [`Token::Dirs`].
    SlashDirs,
    /// `/**` at the end of a pattern or an alternative: a slash and everything after it.
    SlashAll,
    /// `{a,b}`, without empty alternatives. `globset` ignores empty alternatives, even in `{}` and `{{},}`.
    Alternatives(Vec<Vec<Token>>),
}

#[derive(Debug)]
enum CharacterClass {
    /// Exactly this character.
    Exactly(char),
    /// `?`: any character other than `/`.
    OfName,
    /// `[a-z]`: a character in one of these inclusive ranges, or in none of them if negated. A slash is an ordinary
    /// character here.
    Class { negated: bool, ranges: Vec<(char, char)> },
}

/// Parses a pattern. An error is the reason why the pattern is invalid.
fn parse(pattern: &str) -> Result<Vec<Token>, String> {
    let mut parser =
        Parser { chars: pattern.chars().peekable(), last: None, before: None, tokens: Vec::new(), open: Vec::new() };
    parser.all()?;
    if !parser.open.is_empty() {
        return Err("a `{` has no matching `}`; write `\\{` for a literal `{`".to_owned());
    }
    Ok(match &*parser.tokens {
        // A lone `**` matches everything. Any other leading `**` matches directories and is followed by a slash.
        [Token::Dirs] => vec![Token::Dirs, Token::Star],
        _ => parser.tokens,
    })
}

struct Parser<'a> {
    chars: Peekable<Chars<'a>>,
    /// The last consumed character.
    last: Option<char>,
    before: Option<char>,
    /// The sequence being parsed: the top level, or the innermost alternative.
    tokens: Vec<Token>,
    /// The open groups of alternatives, innermost last.
    open: Vec<OpenGroup>,
}

/// A group of alternatives whose closing brace has not been parsed.
struct OpenGroup {
    /// The tokens before the group.
    outside: Vec<Token>,
    /// The group's complete alternatives.
    branches: Vec<Vec<Token>>,
}

impl Parser<'_> {
    fn all(&mut self) -> Result<(), String> {
        while let Some(c) = self.take() {
            match c {
                '?' => self.tokens.push(Token::One(CharacterClass::OfName)),
                '*' => self.star(),
                '[' => self.class()?,
                '{' if self.open.len() == MAX_DEPTH => {
                    return Err(format!("its alternatives are nested more than {MAX_DEPTH} levels deep; flatten them"));
                }
                '{' => {
                    self.open.push(OpenGroup { outside: mem::take(&mut self.tokens), branches: Vec::new() });
                }
                '}' => self.close()?,
                ',' => match self.open.last_mut() {
                    Some(open) => open.branches.push(mem::take(&mut self.tokens)),
                    None => self.literal(','),
                },
                '\\' => {
                    let c = self.take().ok_or("it ends with a single `\\`; write `\\\\` for a literal `\\`")?;
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
        self.tokens.push(Token::One(CharacterClass::Exactly(c)));
    }

    fn close(&mut self) -> Result<(), String> {
        let OpenGroup { outside, mut branches } =
            self.open.pop().ok_or("a `}` has no matching `{`; write `\\}` for a literal `}`")?;
        branches.push(mem::replace(&mut self.tokens, outside));
        let is_nothing = |token: &Token| matches!(token, Token::Alternatives(branches) if branches.is_empty());
        branches.retain(|branch| !branch.iter().all(is_nothing));
        // Pushed even if empty, because `**` after it is not at the beginning of the pattern.
        self.tokens.push(Token::Alternatives(branches));
        Ok(())
    }

    /// Parses a star. `**` matches directories only between slashes and at the ends of a pattern or an alternative;
    /// elsewhere it is equal to `*`.
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
            // The new token includes the slash before it. Adjacent directory tokens, as in `**/**`, are merged.
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

    /// Adds a `*`, unless the previous token is also a `*`.
    fn within_name(&mut self) {
        if !matches!(self.tokens.last(), Some(Token::Star)) {
            self.tokens.push(Token::Star);
        }
    }

    /// Parses a bracket expression. As in POSIX, `]` is literal in first position, `-` in first or last position, and
    /// `\` everywhere.
    fn class(&mut self) -> Result<(), String> {
        let negated = matches!(self.chars.peek(), Some('!' | '^'));
        if negated {
            self.take();
        }
        let mut ranges: Vec<(char, char)> = Vec::new();
        let mut in_range = false;
        loop {
            let c = self.take().ok_or("a `[` has no matching `]`; write `\\[` for a literal `[`")?;
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
        self.tokens.push(Token::One(CharacterClass::Class { negated, ranges }));
        Ok(())
    }
}
