//! Displays of scripts, on a terminal that can show images.

use std::{
    env, fmt,
    io::{self, IsTerminal as _, Write as _},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use glovebox::{Display, Execution};

use crate::{
    displays::mention_dropped,
    terminal::{dimmed, out, printable},
};

/// The signature of PNG files (PNG, 5.2).
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Shows displays on standard output: as images if the terminal supports them, otherwise as text. The text of a result
/// has already been printed.
pub(super) fn show(execution: &Execution) -> io::Result<()> {
    let protocol = ImageProtocol::of_terminal();
    for display in &execution.displays {
        let picture = display.data("image/png").filter(|data| data.starts_with(PNG));
        match (picture, protocol) {
            (Some(data), Some(protocol)) => {
                let mut out = io::stdout().lock();
                out.write_all(protocol.sequence(data).as_bytes())?;
                out.write_all(b"\n")?;
            }
            _ if display.is_result => {}
            _ => show_text(display)?,
        }
    }
    mention_dropped(execution);
    Ok(())
}

fn show_text(display: &Display) -> io::Result<()> {
    match display.data("text/plain") {
        Some(text) => out(&format!("{}\n", printable(&String::from_utf8_lossy(text)))),
        None => {
            let types: Vec<&str> = display.forms.iter().map(|form| form.media_type.as_str()).collect();
            dimmed(&format!("({})", types.join(", ")));
            Ok(())
        }
    }
}

/// Protocols for images on terminals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ImageProtocol {
    /// kitty's graphics protocol, which Ghostty and WezTerm support as well.
    Kitty,
    /// iTerm2's inline images.
    Iterm,
}

/// Maximum length of the base64 text in one kitty sequence, in bytes.
const KITTY_CHUNK: usize = 4096;

impl ImageProtocol {
    fn of_terminal() -> Option<Self> {
        let is = |name: &str, value: &str| env::var_os(name).is_some_and(|set| set == value);
        if !io::stdout().is_terminal() {
            return None;
        }
        let is_kitty = env::var_os("KITTY_WINDOW_ID").is_some() || is("TERM", "xterm-kitty");
        if is_kitty || is("TERM_PROGRAM", "ghostty") || is("TERM_PROGRAM", "WezTerm") {
            return Some(Self::Kitty);
        }
        is("TERM_PROGRAM", "iTerm.app").then_some(Self::Iterm)
    }

    /// Returns the sequence that draws a PNG. It contains untrusted data only as base64.
    fn sequence(self, png: &[u8]) -> String {
        let data = BASE64_STANDARD.encode(png);
        let written = match self {
            Self::Iterm => return format!("\x1b]1337;File=inline=1;size={}:{data}\x07", png.len()),
            Self::Kitty => data.as_bytes().chunks(KITTY_CHUNK),
        };
        let (last, mut sequence) = (written.len().saturating_sub(1), String::new());
        for (number, chunk) in written.enumerate() {
            let head = if number == 0 { "f=100,a=T," } else { "" };
            let more = u8::from(number < last);
            // The chunk contains only base64 characters.
            let chunk = String::from_utf8_lossy(chunk);
            let _ = fmt::Write::write_fmt(&mut sequence, format_args!("\x1b_G{head}m={more};{chunk}\x1b\\"));
        }
        sequence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_use_the_terminals_protocol() {
        assert_eq!(ImageProtocol::Iterm.sequence(b"abc"), "\x1b]1337;File=inline=1;size=3:YWJj\x07");
        assert_eq!(ImageProtocol::Kitty.sequence(b"abc"), "\x1b_Gf=100,a=T,m=0;YWJj\x1b\\");
        let long = ImageProtocol::Kitty.sequence(&[0; 4_000]);
        assert!(long.starts_with("\x1b_Gf=100,a=T,m=1;AAAA") && long.contains("\x1b\\\x1b_Gm=0;AAA"), "{}", long.len());
    }
}
