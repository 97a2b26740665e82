//! The word that the Tab key completes.

use super::{
    dialect::Dialect,
    tokens::{Kind, Token, tokens},
};

/// An incomplete name or attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word<'a> {
    /// The names before the word, each followed by a dot: `["a", "b"]` for `a.b.c`.
    pub(super) path: Vec<&'a str>,
    /// Position of the word's first character.
    pub(super) start: usize,
    /// Typed part of the word.
    pub(super) prefix: &'a str,
}

/// Returns the word at the end of `typed`. Strings, comments and numbers contain no words. An attribute of an
/// expression with more than names and dots is not completed: its value is only known after running it.
pub(super) fn word_at_end(dialect: Dialect, typed: &str) -> Option<Word<'_>> {
    let tokens = tokens(dialect, typed);
    let mut before = tokens.as_slice();
    let mut word = Word { path: Vec::new(), start: typed.len(), prefix: "" };
    if let Some((last, rest)) = before.split_last().filter(|(last, _)| last.end() == typed.len()) {
        match last.kind {
            Kind::Name | Kind::Keyword => {
                (word.start, word.prefix) = (last.start, last.text);
                before = rest;
            }
            Kind::Number | Kind::Text | Kind::Comment => return None,
            Kind::Sign => {}
        }
    }
    while let Some(rest) = without_dot(before) {
        let (receiver, rest) = rest.split_last().filter(|(receiver, _)| receiver.kind == Kind::Name)?;
        word.path.insert(0, receiver.text);
        before = rest;
    }
    (!word.path.is_empty() || !word.prefix.is_empty()).then_some(word)
}

/// Returns the tokens before a final `.` or `?.`.
fn without_dot<'s, 'a>(tokens: &'s [Token<'a>]) -> Option<&'s [Token<'a>]> {
    let (_, rest) = tokens.split_last().filter(|(dot, _)| dot.is_sign("."))?;
    Some(rest.split_last().filter(|(mark, _)| mark.is_sign("?")).map_or(rest, |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use super::{
        super::dialect::Dialect::{JavaScript, Python},
        word_at_end,
    };

    #[test]
    fn names_and_attributes_are_completed() {
        for (dialect, typed, path, prefix) in [
            (Python, "pri", &[][..], "pri"),
            (Python, "x = fo", &[], "fo"),
            (Python, "wh", &[], "wh"),
            (Python, "os.", &["os"], ""),
            (Python, "f(os.path.ex", &["os", "path"], "ex"),
            (Python, "'a.b' + c.d", &["c"], "d"),
            (JavaScript, "a?.b.c", &["a", "b"], "c"),
            (JavaScript, "$x.in", &["$x"], "in"),
        ] {
            let word = word_at_end(dialect, typed).unwrap_or_else(|| panic!("{typed}"));
            assert_eq!((word.path.as_slice(), word.prefix), (path, prefix), "{typed}");
            assert_eq!(word.start, typed.len() - prefix.len(), "{typed}");
        }
    }

    #[test]
    fn nothing_else_is_completed() {
        for (dialect, typed) in [
            (Python, ""),
            (Python, "x = "),
            (Python, "'os."),
            (Python, "# os."),
            (Python, "f().x"),
            (Python, "'a'.up"),
            (Python, "1."),
            (Python, "."),
            (Python, "x[0].y"),
            (JavaScript, "`${a"),
            (JavaScript, "this.x"),
            (JavaScript, "...x.y.."),
        ] {
            assert_eq!(word_at_end(dialect, typed), None, "{typed}");
        }
    }
}
