//! Matching a path against a pattern.

use std::iter;
use std::mem;

use super::parser::{Chosen, Token};

/// A pattern as an automaton that follows all its states at once: matching takes time in proportion to the length of
/// the path times that of the pattern.
pub(in super::super) struct Matcher {
    /// At most one for each byte of the pattern, and [`State::End`]. A state comes after those it leads to, so that one
    /// pass from the last to the first finds all states that are reached without a character.
    states: Vec<State>,
    start: usize,
}

enum State {
    /// The pattern ends.
    End,
    /// Exactly one character.
    One { chosen: Chosen, then: usize },
    /// Any number of characters, with or without slashes.
    Run { slashes: bool, then: usize },
    /// All of these.
    Fork(Vec<usize>),
}

impl Matcher {
    pub(super) fn new(tokens: Vec<Token>) -> Self {
        let mut matcher = Self { states: vec![State::End], start: 0 };
        matcher.start = matcher.sequence(tokens, 0);
        matcher
    }

    pub(in super::super) fn is_match(&self, path: &str) -> bool {
        self.run(path).0
    }

    /// Returns whether a path matches, and the number of steps.
    pub(super) fn run(&self, path: &str) -> (bool, usize) {
        let (mut now, mut after) = (Set::new(self.states.len()), Set::new(self.states.len()));
        now.insert(self.start);
        let mut steps = 0;
        let mut matches = false;
        // The end of the path is also a step.
        for c in path.chars().map(Some).chain(iter::once(None)) {
            let mut is_over = true;
            while let Some(at) = now.take_highest() {
                is_over = false;
                steps += 1;
                match self.states.get(at) {
                    None => {}
                    Some(State::End) => matches |= c.is_none(),
                    Some(State::One { chosen, then }) => {
                        steps += chosen.steps();
                        if c.is_some_and(|c| chosen.has(c)) {
                            after.insert(*then);
                        }
                    }
                    Some(State::Run { slashes, then }) => {
                        now.insert(*then);
                        if c.is_some_and(|c| *slashes || c != '/') {
                            after.insert(at);
                        }
                    }
                    Some(State::Fork(branches)) => {
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

    /// Adds `tokens`, followed by the state `then`, and returns their first state. Works backwards, because a state
    /// refers to its successors.
    fn sequence(&mut self, tokens: Vec<Token>, then: usize) -> usize {
        tokens.into_iter().rev().fold(then, |then, token| match token {
            Token::One(chosen) => self.state(State::One { chosen, then }),
            Token::Star => self.state(State::Run { slashes: false, then }),
            Token::Dirs => self.dirs(then),
            Token::SlashDirs => {
                let dirs = self.dirs(then);
                self.slash(dirs)
            }
            Token::SlashAll => {
                let all = self.state(State::Run { slashes: true, then });
                self.slash(all)
            }
            Token::Alternatives(branches) if branches.is_empty() => then,
            Token::Alternatives(branches) => {
                let starts = branches.into_iter().map(|branch| self.sequence(branch, then)).collect();
                self.state(State::Fork(starts))
            }
        })
    }

    fn dirs(&mut self, then: usize) -> usize {
        let slash = self.slash(then);
        let names = self.state(State::Run { slashes: true, then: slash });
        self.state(State::Fork(vec![names, then]))
    }

    fn slash(&mut self, then: usize) -> usize {
        self.state(State::One { chosen: Chosen::Exactly('/'), then })
    }

    fn state(&mut self, state: State) -> usize {
        self.states.push(state);
        self.states.len() - 1
    }
}

impl Chosen {
    fn has(&self, c: char) -> bool {
        match self {
            Self::Exactly(this) => c == *this,
            Self::OfName => c != '/',
            Self::Class { negated, ranges } => ranges.iter().any(|(from, to)| (*from..=*to).contains(&c)) != *negated,
        }
    }

    /// Returns the number of comparisons of [`Chosen::has`] beyond the first.
    fn steps(&self) -> usize {
        match self {
            Self::Exactly(_) | Self::OfName => 0,
            Self::Class { ranges, .. } => ranges.len() - 1,
        }
    }
}

/// A set of states, as bits.
struct Set {
    words: Vec<u64>,
    /// No word from here on has a bit set.
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
