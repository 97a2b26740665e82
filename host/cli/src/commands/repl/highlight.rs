//! Colours of the input line.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use super::{
    dialect::Dialect,
    tokens::{Kind, tokens},
};

/// Returns the input with colours. Only escape sequences are added.
pub(super) fn highlighted(dialect: Dialect, input: &str) -> String {
    let mut out = String::with_capacity(input.len() * 2);
    let mut done = 0;
    for token in tokens(dialect, input) {
        let Some(style) = style(token.kind) else { continue };
        out.push_str(input.get(done..token.start).unwrap_or_default());
        let _ = write!(out, "{style}{}{style:#}", token.text);
        done = token.end();
    }
    out.push_str(input.get(done..).unwrap_or_default());
    out
}

fn style(kind: Kind) -> Option<Style> {
    match kind {
        Kind::Keyword => Some(AnsiColor::Magenta.on_default()),
        Kind::Text => Some(AnsiColor::Green.on_default()),
        Kind::Number => Some(AnsiColor::Cyan.on_default()),
        Kind::Comment => Some(Style::new().dimmed()),
        Kind::Name | Kind::Sign => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::dialect::Dialect, highlighted};

    #[test]
    fn words_strings_numbers_and_comments_have_colours() {
        assert_eq!(
            highlighted(Dialect::Python, "if x: y = 'a', 1  # b"),
            "\x1b[35mif\x1b[0m x: y = \x1b[32m'a'\x1b[0m, \x1b[36m1\x1b[0m  \x1b[2m# b\x1b[0m"
        );
        assert_eq!(highlighted(Dialect::JavaScript, "x.if"), "x.if");
    }

    #[test]
    fn only_escape_sequences_are_added() {
        for input in ["", "  def f():\n    return 'a\n", "x = \"\"\"\n1", "é = 1"] {
            let plain = anstream::adapter::strip_str(&highlighted(Dialect::Python, input)).to_string();
            assert_eq!(plain, input);
        }
    }
}
