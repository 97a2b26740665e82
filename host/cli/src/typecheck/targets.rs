//! The attributes that the assignments of a script name.
//!
//! Finds the targets of `=` in each form, such as `a.x, (b.y, *c.z) = …` and `a.x: int = …`, and the targets of `for`
//! and `as`. `a.x += 1` is not an assignment here, because it reads the attribute first.

use std::{collections::HashSet, mem};

/// Maximum depth of brackets. CPython rejects more than 200.
const MAX_DEPTH: usize = 1_000;

/// The keywords that are not operands, except those that precede targets.
const KEYWORDS: [&str; 26] = [
    "and", "assert", "async", "await", "class", "def", "del", "elif", "else", "except", "finally", "from", "global",
    "if", "import", "in", "is", "nonlocal", "not", "or", "raise", "return", "try", "while", "with", "yield",
];

/// Characters that operators consist of.
const OPERATORS: &str = "+-*/%@&|^<>!~";

/// Returns the names of the assigned attributes of a script without syntax errors. For other texts, the result is
/// arbitrary.
pub(super) fn assigned_attributes(source: &str) -> HashSet<&str> {
    let mut scan = Scan { outer: Vec::new(), level: Level::default(), names: HashSet::new() };
    let mut rest = source;
    while let Some((token, after)) = next_token(rest) {
        scan.read(token);
        if scan.outer.len() > MAX_DEPTH {
            break;
        }
        rest = after;
    }
    scan.names
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Name(&'a str),
    /// A number or a string.
    Literal,
    Dot,
    Comma,
    Colon,
    Equals,
    Operator,
    Open(char),
    Close,
    /// A line break or a semicolon.
    End,
}

/// Returns the first token of a text, and the text after it. Returns `None` if the text has no token.
fn next_token(text: &str) -> Option<(Token<'_>, &str)> {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\x0c']);
        if rest.starts_with('#') {
            rest = rest.get(rest.find(['\n', '\r']).unwrap_or(rest.len())..)?;
        } else if let Some(after) = rest.strip_prefix("\\\r\n").or_else(|| rest.strip_prefix("\\\n")) {
            rest = after;
        } else {
            break;
        }
    }
    let first = rest.chars().next()?;
    if first.is_numeric() {
        return Some((Token::Literal, rest.trim_start_matches(|c: char| is_word(c) || c == '.')));
    }
    if is_word(first) {
        let after = rest.trim_start_matches(is_word);
        let name = rest.get(..rest.len().saturating_sub(after.len()))?;
        let is_prefix = name.len() <= 2 && name.chars().all(|c| "bBfFrRtTuU".contains(c));
        return Some(if is_prefix && after.starts_with(['"', '\'']) {
            (Token::Literal, after_string(after))
        } else {
            (Token::Name(name), after)
        });
    }
    if matches!(first, '"' | '\'') {
        return Some((Token::Literal, after_string(rest)));
    }
    if OPERATORS.contains(first) {
        let after = rest.trim_start_matches(|c: char| OPERATORS.contains(c));
        return Some((Token::Operator, after.strip_prefix('=').unwrap_or(after)));
    }
    for (text, token) in [("...", Token::Literal), (":=", Token::Operator), ("==", Token::Operator)] {
        if let Some(after) = rest.strip_prefix(text) {
            return Some((token, after));
        }
    }
    let token = match first {
        '.' => Token::Dot,
        ',' => Token::Comma,
        ':' => Token::Colon,
        '=' => Token::Equals,
        '(' | '[' | '{' => Token::Open(first),
        ')' | ']' | '}' => Token::Close,
        '\n' | '\r' | ';' => Token::End,
        _ => Token::Operator,
    };
    rest.get(first.len_utf8()..).map(|after| (token, after))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the text after the string at the start of a text.
fn after_string(text: &str) -> &str {
    let quote = if text.starts_with('"') { "\"" } else { "'" };
    let triple = quote.repeat(3);
    let (end, is_long) = if text.starts_with(&triple) { (triple.as_str(), true) } else { (quote, false) };
    let mut rest = text.get(end.len()..).unwrap_or_default();
    while let Some(first) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix(end) {
            return after;
        }
        if first == '\n' && !is_long {
            // The string is part of an expression in an f-string.
            break;
        }
        let mut chars = rest.chars();
        chars.next();
        if first == '\\' {
            chars.next();
        }
        rest = chars.as_str();
    }
    rest
}

/// The meaning of the targets that a level collects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    /// Targets of `=`, if it follows.
    #[default]
    Plain,
    /// Targets after `for`, up to `in`.
    For,
    /// The target after `as`.
    As,
    /// A target with an annotation, which `=` can follow.
    Annotation,
    /// The parameters of a `lambda`.
    Lambda,
}

/// The state between two brackets, or outside of brackets.
#[derive(Debug, Default)]
struct Level<'a> {
    mode: Mode,
    /// `true` for brackets around targets, and `false` for those of calls, subscripts, dictionaries and sets.
    is_group: bool,
    /// The attributes at the ends of the complete elements.
    targets: Vec<&'a str>,
    /// The attributes at the end of the current element.
    last: Vec<&'a str>,
    is_after_operand: bool,
    is_after_dot: bool,
    /// `true` if the statement cannot be a single target.
    is_compound: bool,
}

impl<'a> Level<'a> {
    /// Ends the current element.
    fn end_element(&mut self) {
        self.end_operand();
        if self.mode == Mode::Annotation {
            self.last.clear();
            return;
        }
        // Append the shorter list, so that nested brackets do not copy a long list at each level.
        if self.targets.len() < self.last.len() {
            mem::swap(&mut self.targets, &mut self.last);
        }
        self.targets.append(&mut self.last);
    }

    fn end_operand(&mut self) {
        self.is_after_operand = false;
        self.is_after_dot = false;
    }

    /// Discards all targets, because an operator or a keyword precedes the next element.
    fn start(&mut self, mode: Mode) {
        self.end_operand();
        self.targets.clear();
        self.last.clear();
        self.mode = mode;
        self.is_compound = true;
    }

    fn read_operator(&mut self) {
        self.end_operand();
        self.last.clear();
        self.is_compound = true;
    }

    /// Adds an operand, or the name after a dot.
    fn add_operand(&mut self, attributes: Vec<&'a str>) {
        self.is_compound |= self.is_after_operand && !self.is_after_dot;
        self.end_with(attributes);
    }

    /// Sets the attributes at the end of the current element.
    fn end_with(&mut self, attributes: Vec<&'a str>) {
        self.is_after_operand = true;
        self.is_after_dot = false;
        self.last = attributes;
    }
}

struct Scan<'a> {
    /// The levels around the current level.
    outer: Vec<Level<'a>>,
    level: Level<'a>,
    names: HashSet<&'a str>,
}

impl<'a> Scan<'a> {
    fn read(&mut self, token: Token<'a>) {
        let is_statement = self.outer.is_empty();
        let level = &mut self.level;
        match token {
            Token::Name(name) if level.is_after_dot => level.add_operand(vec![name]),
            Token::Name("for") => level.start(Mode::For),
            Token::Name("as") => level.start(Mode::As),
            Token::Name("lambda") => level.start(Mode::Lambda),
            Token::Name("in") if level.mode == Mode::For => self.assign(),
            Token::Name(name) if KEYWORDS.contains(&name) => level.read_operator(),
            Token::Operator => level.read_operator(),
            Token::Name(_) | Token::Literal => level.add_operand(Vec::new()),
            Token::Dot => level.is_after_dot = true,
            Token::Comma => {
                level.is_compound = true;
                level.end_element();
                if level.mode == Mode::As {
                    self.assign();
                }
            }
            Token::Colon => self.read_colon(is_statement),
            Token::Equals if is_statement && level.mode != Mode::Lambda => self.assign(),
            Token::Equals => {
                level.end_operand();
                level.last.clear();
            }
            Token::Open(bracket) => {
                let is_group = bracket != '{' && !level.is_after_operand;
                self.outer.push(mem::replace(level, Level { is_group, ..Level::default() }));
            }
            Token::Close => self.close(),
            Token::End if is_statement => {
                if level.mode == Mode::As {
                    self.assign();
                }
                self.level = Level::default();
            }
            Token::End => {}
        }
    }

    /// Adds the collected targets to the assigned attributes.
    fn assign(&mut self) {
        self.level.end_element();
        self.names.extend(self.level.targets.drain(..));
        self.level.start(Mode::Plain);
    }

    fn read_colon(&mut self, is_statement: bool) {
        let level = &mut self.level;
        if level.mode == Mode::As {
            self.assign();
        } else if is_statement && level.mode == Mode::Plain && !level.is_compound && level.is_after_operand {
            level.end_element();
            level.mode = Mode::Annotation;
            return;
        }
        if is_statement {
            // The header of a compound statement, or the parameters of a `lambda`.
            self.level = Level::default();
        } else {
            self.level.start(Mode::Plain);
        }
    }

    fn close(&mut self) {
        let Some(outer) = self.outer.pop() else { return };
        if self.level.mode == Mode::As {
            self.assign();
        }
        self.level.end_element();
        let inner = mem::replace(&mut self.level, outer);
        self.level.end_with(if inner.is_group { inner.targets } else { Vec::new() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assigned(source: &str) -> Vec<&str> {
        let mut names: Vec<_> = assigned_attributes(source).into_iter().collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn all_forms_of_assignments_are_found() {
        for (source, names) in [
            ("p.a = 1", "a"),
            ("p.a = p.b = p.c", "a b"),
            ("p.a, p.b = 1, 2", "a b"),
            ("p.a, *p.b = rows", "a b"),
            ("[p.a, p.b] = (p.c, (*p.d, p.e)) = rows", "a b c d e"),
            ("(p.a), = rows", "a"),
            ("p.a: int = 3", "a"),
            ("p.a: dict[str, p.b] = p.c", "a"),
            ("(p.a): int = 3", "a"),
            ("rows[p.x].a, load(p.y).b, (x or p.z).c = rows", "a b c"),
            ("p.q.a, p.b[0], p.c() . d = rows", "a d"),
            ("(\n  p.a,  # A comment = 1\n  p.b,\n) = 1, 2", "a b"),
            ("p.a, \\\n  p.b \\\r\n = 1, 2", "a b"),
            ("for p.a in rows: pass", "a"),
            ("for at, (p.a, p.b) in enumerate(p.rows):\n  p.c, p.d = 1, 2", "a b c d"),
            ("x = [p.b for p.a in p.rows if p.c in p.d]", "a"),
            ("x = {k: v for k, p.a in p.rows}", "a"),
            ("async def f():\n  async for p.a in rows: pass\n  async with p.x as p.b: pass", "a b"),
            ("with open('x') as p.a, p.x as (p.b, p.c): p.d, = rows", "a b c d"),
            ("with (open(p.x) as p.a, p.y as p.b): pass", "a b"),
            ("if p.x: p.a, p.b = 1, 2", "a b"),
            ("if p.x: p.a: int = 2", "a"),
            ("else: p.a, p.b = 1, 2; p.c, p.d = 1, 2", "a b c d"),
            ("match p.x:\n  case p.y: p.a: int = 1", "a"),
            ("f = lambda p, q=p.x: p.y\np.a, p.b = 1, 2", "a b"),
            ("x = f'{p.x}' ; p.a, p.b = rb'\\'=' , '''\n=\\''''", "a b"),
            ("é.ä, p.b = 1, .5", "b ä"),
        ] {
            assert_eq!(assigned(source).join(" "), names, "{source}");
        }
    }

    #[test]
    fn other_attributes_are_not_assigned() {
        for source in [
            "p.a += 1",
            "p.a: int",
            "x: p.a = 1",
            "x: dict[str, p.a] = p.b",
            "x = p.a, p.b",
            "x = y = p.a",
            "x[p.a] = 1",
            "x[p.a:p.b], load(p.c) = 1, 2",
            "load(p.a, p.b, key=p.c)",
            "p.a == p.b",
            "p.a, p.b == 1, 2",
            "if p.a: x = p.b",
            "while p.a <= p.b: x = {p.c: 1}",
            "x = lambda y=p.a, z=p.b: p.c",
            "x = sorted(rows, key=lambda y, z=1: p.a)",
            "return p.a, p.b",
            "p.a in p.b",
            "x = [p.a for y in p.b]",
            "with p.a as x: pass",
            "import p.a as x, p.b as y",
            "match p.a:\n  case p.b: x = 1\n  case Place(x=p.c): y = 2",
            "def f(x: p.a = p.b, y=p.c) -> p.d: x = 1",
            "class A(p.a, metaclass=p.b): x = 1",
            "(x := p.a)",
            "print(p.a)\nx = 1",
            "print('''\np.a, x = 1, 2''')",
            "# p.a, p.b = 1, 2",
            "x = 1.5, 2.e, 3",
        ] {
            assert_eq!(assigned(source), [""; 0], "{source}");
        }
    }

    #[test]
    fn texts_that_are_not_scripts_are_accepted() {
        for source in
            [")]}", "p.", ".", "p..a = 1", "'", "\"\"\"", "\\", "f'\n", "=", ":", "as", "for in as lambda", "é"]
        {
            assigned(source);
        }
        let deep = "(".repeat(MAX_DEPTH * 2);
        assert_eq!(assigned(&format!("{deep}p.a = 1")), [""; 0]);
    }
}
