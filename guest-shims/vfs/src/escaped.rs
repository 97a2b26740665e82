//! Names in messages.

use std::ffi::OsStr;
use std::fmt::{self, Write as _};

/// Escapes a name, or any text chosen by a guest or a host's file, for messages, tables and logs, so that it cannot
/// forge lines, hide, or reorder the text beside it.
///
/// Escaped, as in a Rust string, are line ends and all other controls, U+2028 and U+2029, characters that change the
/// text direction, invisible characters (zero-width characters, U+FEFF, variation selectors, tags), the backslash, and
/// the backtick that quotes names. Bytes that are not UTF-8 become `\xNN`. All else stays: an ordinary name is
/// unchanged.
///
/// ```
/// use glovebox_vfs::escaped;
///
/// assert_eq!(escaped("Größe (1).txt").to_string(), "Größe (1).txt");
/// assert_eq!(escaped("a\nerror: b\u{202e}").to_string(), r"a\nerror: b\u{202e}");
/// ```
#[must_use]
pub fn escaped<N: AsRef<OsStr> + ?Sized>(name: &N) -> Escaped<'_> {
    Escaped { text: name.as_ref(), is_name: true }
}

/// Like [`escaped`], for a sentence that may quote names itself: backslashes and backticks stay.
#[must_use]
pub fn escaped_text<T: AsRef<OsStr> + ?Sized>(text: &T) -> Escaped<'_> {
    Escaped { text: text.as_ref(), is_name: false }
}

/// The result of [`escaped`] and [`escaped_text`], to be displayed.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a> {
    text: &'a OsStr,
    is_name: bool,
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.text.as_encoded_bytes().utf8_chunks() {
            for c in chunk.valid().chars() {
                match c {
                    '\\' if self.is_name => f.write_str("\\\\")?,
                    '`' if self.is_name => write!(f, "{}", c.escape_unicode())?,
                    '\n' | '\r' | '\t' => write!(f, "{}", c.escape_default())?,
                    c if is_hidden(c) => write!(f, "{}", c.escape_unicode())?,
                    c => f.write_char(c)?,
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// Whether a character controls a terminal, ends a line, or is invisible.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            // Unicode's default-ignorable characters, including fillers, joiners and direction marks.
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
            // Line and paragraph ends, annotations, and the blank Braille pattern.
            | '\u{2028}' | '\u{2029}' | '\u{fff9}'..='\u{fffb}' | '\u{2800}')
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use super::{escaped, escaped_text};

    #[test]
    fn an_ordinary_name_is_itself() {
        for name in [
            "a.txt",
            "My Documents/it's \"x\" (1) [2] {3} 50% #&;$!~.csv",
            "Größe",
            "naïve cafe\u{301}",
            "日本語 ファイル.txt",
            "русский",
            "ملف",
            "👍🏽",
            "a\u{a0}b",
            "",
        ] {
            assert_eq!(escaped(name).to_string(), name);
        }
    }

    #[test]
    fn what_could_write_a_line_or_hide_is_seen() {
        for (name, expected) in [
            ("a\nb\rc\td", r"a\nb\rc\td"),
            ("\u{0}\u{1b}[31m\u{7f}\u{85}\u{9b}", r"\u{0}\u{1b}[31m\u{7f}\u{85}\u{9b}"),
            ("\u{2028}\u{2029}", r"\u{2028}\u{2029}"),
            ("\u{202e}txt.exe\u{2066}\u{200f}\u{61c}", r"\u{202e}txt.exe\u{2066}\u{200f}\u{61c}"),
            ("a\u{200b}\u{200d}\u{2060}\u{feff}\u{ad}", r"a\u{200b}\u{200d}\u{2060}\u{feff}\u{ad}"),
            ("\u{3164}\u{fe0f}\u{e0041}\u{2800}", r"\u{3164}\u{fe0f}\u{e0041}\u{2800}"),
            // A name that looks escaped already, and one that closes its quotes.
            (r"a\nb", r"a\\nb"),
            ("a`; `b", r"a\u{60}; \u{60}b"),
        ] {
            assert_eq!(escaped(name).to_string(), expected);
        }
        assert_eq!(escaped_text("a\nb: `c\\d`\u{202e}").to_string(), r"a\nb: `c\d`\u{202e}");
        assert_eq!(escaped(OsStr::from_bytes(b"a\xff\xe2\x80\n")).to_string(), r"a\xff\xe2\x80\n");
    }

    #[test]
    fn no_control_and_no_end_of_a_line_is_left_of_any_character() {
        for c in (0..=u32::from(char::MAX)).filter_map(char::from_u32) {
            let text = escaped(c.encode_utf8(&mut [0; 4])).to_string();
            assert!(!text.chars().any(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')), "{text:?}");
            assert!(text == c.to_string() || text.starts_with('\\') && text.is_ascii(), "{text:?}");
        }
    }
}
