//! Escapes untrusted names and texts in messages.

use std::ffi::OsStr;
use std::fmt::{self, Write as _};

/// Escapes a name, or any text from a guest or a host file, for messages, tables and logs. The result cannot forge
/// lines, be invisible, or reorder adjacent text.
///
/// The escapes are the same as in Rust strings. They apply to line ends and all other controls, U+2028 and U+2029, and
/// to characters that change the text direction. They also apply to invisible characters (zero-width characters,
/// U+FEFF, variation selectors, tags), the backslash, and the backtick, which quotes names. Bytes that are not UTF-8
/// become `\xNN`. All other characters are unchanged. A name of more than 256 bytes is shortened to its beginning and
/// its end, with `…` between them.
///
/// ```
/// use glovebox_vfs::escaped;
///
/// assert_eq!(escaped("Größe (1).txt").to_string(), "Größe (1).txt");
/// assert_eq!(escaped("a\nerror: b\u{202e}").to_string(), r"a\nerror: b\u{202e}");
/// ```
pub fn escaped<N: AsRef<OsStr> + ?Sized>(name: &N) -> Escaped<'_> {
    Escaped { text: name.as_ref(), is_name: true }
}

/// Like [`escaped`], but for a sentence that may contain quoted names. Backslashes and backticks are unchanged, and a
/// text of more than 1,024 bytes is shortened.
pub fn escaped_text<T: AsRef<OsStr> + ?Sized>(text: &T) -> Escaped<'_> {
    Escaped { text: text.as_ref(), is_name: false }
}

/// The displayable result of [`escaped`] and [`escaped_text`].
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a> {
    text: &'a OsStr,
    is_name: bool,
}

/// Text from a guest, a client or a file. The text can only be displayed as [`escaped_text`].
///
/// Errors for clients store their messages as this type, so that no code path can forget to escape them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Untrusted(String);

impl<T: Into<String>> From<T> for Untrusted {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escaped_text(&self.0).fmt(f)
    }
}

impl fmt::Debug for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// Maximum length of a name that is displayed in full, in bytes. A name of this length fits into one or two lines of a
/// terminal.
const MAX_NAME_BYTES: usize = 256;
/// Maximum length of a sentence that is displayed in full, in bytes. Glovebox's own messages are shorter, even those
/// that quote several names.
const MAX_TEXT_BYTES: usize = 1_024;

impl Escaped<'_> {
    /// Returns the displayed ranges: the whole text, or the beginning and the end of a long text.
    fn shown(&self) -> (&[u8], Option<&[u8]>) {
        let bytes = self.text.as_encoded_bytes();
        let max = if self.is_name { MAX_NAME_BYTES } else { MAX_TEXT_BYTES };
        if bytes.len() <= max {
            return (bytes, None);
        }
        let is_boundary = |at: &usize| bytes.get(*at).is_none_or(|byte| byte & 0xc0 != 0x80);
        // In bytes that are not UTF-8, the nearest boundary can be far away.
        let near = |at: usize| (at.saturating_sub(3)..=at).rev().find(is_boundary).unwrap_or(at);
        let (begin, _) = bytes.split_at(near(max / 2));
        let (_, end) = bytes.split_at(near(bytes.len() - max / 4));
        (begin, Some(end))
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
        for chunk in bytes.utf8_chunks() {
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

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (begin, end) = self.shown();
        self.write(f, begin)?;
        let Some(end) = end else { return Ok(()) };
        f.write_char('…')?;
        self.write(f, end)
    }
}

/// Returns `true` if a character controls a terminal, ends a line, or changes the direction of adjacent text.
pub fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns `true` if a character is invisible, or a control character as defined by [`is_control`]. Ordinary text can
/// also contain invisible characters, for example within an emoji.
pub fn is_hidden(c: char) -> bool {
    is_control(c)
        || matches!(c,
            // Unicode's default-ignorable characters, including fillers, joiners and direction marks.
            '\u{ad}' | '\u{34f}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
            // Annotations, and the blank Braille pattern.
            | '\u{fff9}'..='\u{fffb}' | '\u{2800}')
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};

    use super::{Untrusted, escaped, escaped_text};

    #[test]
    fn ordinary_names_are_not_escaped() {
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
    fn control_and_invisible_characters_are_escaped() {
        for (name, expected) in [
            ("a\nb\rc\td", r"a\nb\rc\td"),
            ("\u{0}\u{1b}[31m\u{7f}\u{85}\u{9b}", r"\u{0}\u{1b}[31m\u{7f}\u{85}\u{9b}"),
            ("\u{2028}\u{2029}", r"\u{2028}\u{2029}"),
            ("\u{202e}txt.exe\u{2066}\u{200f}\u{61c}", r"\u{202e}txt.exe\u{2066}\u{200f}\u{61c}"),
            ("a\u{200b}\u{200d}\u{2060}\u{feff}\u{ad}", r"a\u{200b}\u{200d}\u{2060}\u{feff}\u{ad}"),
            ("\u{3164}\u{fe0f}\u{e0041}\u{2800}", r"\u{3164}\u{fe0f}\u{e0041}\u{2800}"),
            // A name that already looks escaped, and a name that would end its quotation.
            (r"a\nb", r"a\\nb"),
            ("a`; `b", r"a\u{60}; \u{60}b"),
        ] {
            assert_eq!(escaped(name).to_string(), expected);
        }
        assert_eq!(escaped_text("a\nb: `c\\d`\u{202e}").to_string(), r"a\nb: `c\d`\u{202e}");
        assert_eq!(escaped(OsStr::from_bytes(b"a\xff\xe2\x80\n")).to_string(), r"a\xff\xe2\x80\n");
    }

    #[test]
    fn a_long_text_keeps_its_beginning_and_its_end() {
        for (text, max) in [(escaped(&"ä".repeat(128)), 256), (escaped_text(&"ä".repeat(512)), 1_024)] {
            assert_eq!(text.to_string().len(), max);
        }
        for shift in 0..4 {
            let begin = format!("{}ß€😀ß", "a".repeat(shift));
            let long = format!("{}{}z", "a".repeat(shift), "ß€😀".repeat(1 << 20));
            for (shown, max) in [(escaped(&long).to_string(), 256), (Untrusted::from(&*long).to_string(), 1_024)] {
                assert!(shown.len() <= max && shown.starts_with(&begin) && shown.ends_with('z'), "{shown}");
                assert_eq!(shown.matches('…').count(), 1);
                assert!(!shown.contains("\\x"), "{shown}");
            }
        }
        let bytes = [0x80; 1_000];
        assert!(escaped(OsStr::from_bytes(&bytes)).to_string().len() < 1_024);
    }

    #[test]
    fn escaping_covers_every_way_of_formatting() {
        let text = Untrusted::from("a\nerror: `b`\u{85}");
        assert_eq!(text.to_string(), r"a\nerror: `b`\u{85}");
        assert_eq!(format!("{text:?}"), r#""a\nerror: `b`\u{85}""#);
    }

    #[test]
    fn every_control_character_and_line_end_is_escaped() {
        for c in (0..=u32::from(char::MAX)).filter_map(char::from_u32) {
            let text = escaped(c.encode_utf8(&mut [0; 4])).to_string();
            assert!(!text.chars().any(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')), "{text:?}");
            assert!(text == c.to_string() || text.starts_with('\\') && text.is_ascii(), "{text:?}");
        }
    }
}
