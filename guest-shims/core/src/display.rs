//! Pictures, tables and documents that a script displays in addition to its output.

use std::fmt;

use glovebox_wasi::CapturedDisplays;

/// Maximum number of forms per display. Further forms are dropped.
const MAX_FORMS: usize = 32;

/// Maximum length of a media type, in bytes. RFC 6838 allows 127 on each side of the slash; the registered types are
/// far shorter.
const MAX_MEDIA_TYPE_BYTES: usize = 127;

/// A displayed object in one or more forms. A client shows the form that it supports best. Jupyter calls this a MIME
/// bundle.
///
/// The content is untrusted. An HTML form may contain scripts, and data labelled `image/png` may have a different
/// format. Sanitize or isolate the content before rendering.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Display {
    /// The forms in the guest's order. Each media type occurs once.
    pub forms: Vec<Form>,
    /// `true` for the value of the script's last expression, `false` for a `display` call.
    pub is_result: bool,
}

/// A form of a [`Display`].
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Form {
    /// The media type in lower case, without parameters, such as `image/png`.
    pub media_type: String,
    /// The untrusted data. Text should be UTF-8; [`text`](Self::text) checks the encoding.
    pub data: Vec<u8>,
}

/// The displays of one execution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Displays {
    /// The retained displays, in order.
    pub retained: Vec<Display>,
    /// The number of displays that were dropped.
    pub dropped: u64,
}

impl fmt::Debug for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Form({}, {} bytes)", self.media_type, self.data.len())
    }
}

impl Form {
    /// Creates a form of `data` with this media type.
    pub fn new(media_type: impl Into<String>, data: Vec<u8>) -> Self {
        Self { media_type: media_type.into(), data }
    }

    /// Returns the data as text if the media type is textual and the data is valid UTF-8.
    pub fn text(&self) -> Option<&str> {
        is_text(&self.media_type).then(|| std::str::from_utf8(&self.data).ok()).flatten()
    }
}

impl Display {
    /// Creates a display from its forms.
    pub fn new(forms: Vec<Form>, is_result: bool) -> Self {
        Self { forms, is_result }
    }

    /// Returns the data of the form with this media type.
    pub fn data(&self, media_type: &str) -> Option<&[u8]> {
        self.forms.iter().find(|form| form.media_type == media_type).map(|form| &*form.data)
    }
}

/// Decodes a driver's message. Returns `None` if the message is invalid.
pub fn decode_display(message: &[u8]) -> Option<Display> {
    let (is_result, forms) = parse(message)?;
    let forms = forms.into_iter().map(|(media_type, data)| Form { media_type, data: data.to_vec() });
    Some(Display { forms: forms.collect(), is_result })
}

/// Returns `true` if [`decode_display`] can decode the message. Does not copy the data.
pub fn is_display(message: &[u8]) -> bool {
    parse(message).is_some()
}

/// The media type and the data of a form.
type BorrowedForm<'m> = (String, &'m [u8]);

/// Parses a driver's message: `D`, or `R` for a result, followed by each form's type and data, each with a length
/// prefix. Returns whether the display is a result, and its forms.
fn parse(message: &[u8]) -> Option<(bool, Vec<BorrowedForm<'_>>)> {
    let (kind, mut rest) = message.split_first()?;
    let is_result = match kind {
        b'D' => false,
        b'R' => true,
        _ => return None,
    };
    let mut forms: Vec<BorrowedForm<'_>> = Vec::new();
    while !rest.is_empty() && forms.len() < MAX_FORMS {
        let media_type = media_type(field(&mut rest)?)?;
        let data = field(&mut rest)?;
        if forms.iter().all(|(known, _)| *known != media_type) {
            forms.push((media_type, data));
        }
    }
    (!forms.is_empty()).then_some((is_result, forms))
}

impl From<CapturedDisplays> for Displays {
    /// Counts an invalid message as dropped. No driver writes invalid messages, so the guest has forged the message.
    fn from(CapturedDisplays { messages, mut dropped }: CapturedDisplays) -> Self {
        let mut retained = Vec::new();
        for message in messages {
            match decode_display(&message) {
                Some(display) => retained.push(display),
                None => dropped = dropped.saturating_add(1),
            }
        }
        Self { retained, dropped }
    }
}

/// Returns `true` if a media type is textual. All textual types use UTF-8, explicitly or by default (RFC 6838, section
/// 4.2.1; RFC 6839 for suffixes).
pub fn is_text(media_type: &str) -> bool {
    media_type.starts_with("text/")
        || media_type.ends_with("+json")
        || media_type.ends_with("+xml")
        || ["application/json", "application/javascript", "application/xml"].contains(&media_type)
}

/// Parses a media type according to the naming rules of RFC 6838. Returns the media type in lower case.
fn media_type(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= MAX_MEDIA_TYPE_BYTES)?.to_ascii_lowercase();
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "!#$&-^_.+".contains(c))
    };
    text.split_once('/').is_some_and(|(kind, subtype)| is_name(kind) && is_name(subtype)).then_some(text)
}

fn field<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk()?;
    let (field, after) = after.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    *rest = after;
    Some(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, forms: &[(&str, &[u8])]) -> Vec<u8> {
        let mut message = vec![kind];
        for field in forms.iter().flat_map(|(media_type, data)| [media_type.as_bytes(), data]) {
            message.extend(u32::try_from(field.len()).unwrap().to_le_bytes());
            message.extend(field);
        }
        message
    }

    fn shown(messages: Vec<Vec<u8>>) -> Displays {
        CapturedDisplays { messages, dropped: 0 }.into()
    }

    #[test]
    fn display_forms_keep_order_and_drop_duplicates() {
        let forms: [(&str, &[u8]); 3] = [("Text/Plain", b"a"), ("image/png", b"\x89PNG"), ("text/plain", b"b")];
        let Displays { retained, dropped } = shown(vec![message(b'D', &forms), message(b'R', &forms[..1])]);
        let [one, two] = &retained[..] else { panic!("{retained:?}") };
        assert_eq!((dropped, one.is_result, two.is_result), (0, false, true));
        let names: Vec<_> = one.forms.iter().map(|form| form.media_type.as_str()).collect();
        assert_eq!(names, ["text/plain", "image/png"]);
        assert_eq!(
            (one.data("text/plain"), one.data("image/png"), one.data("text/html")),
            (Some(&b"a"[..]), Some(&b"\x89PNG"[..]), None)
        );
        assert_eq!((one.forms[0].text(), one.forms[1].text()), (Some("a"), None));
        assert_eq!(
            format!("{:?}", one.forms[1]),
            "Form(image/png, 4 bytes)",
            "`Debug` must not print data, which can be large or secret"
        );
    }

    #[test]
    fn malformed_displays_are_dropped() {
        let whole = message(b'D', &[("text/plain", b"a")]);
        assert!(is_display(&whole));
        for end in 0..whole.len() {
            assert_eq!(shown(vec![whole[..end].to_vec()]).dropped, 1, "{end}");
            assert!(!is_display(&whole[..end]), "{end}");
        }
        for wrong in [
            "",
            "text",
            "text/",
            "/plain",
            "text/plain; charset=utf-8",
            "te xt/plain",
            "text/plain/x",
            "\u{e9}/a",
            "-a/b",
        ] {
            assert_eq!(
                shown(vec![message(b'D', &[(wrong, b"a")])]),
                Displays { retained: Vec::new(), dropped: 1 },
                "{wrong}"
            );
        }
        assert_eq!(
            shown(vec![message(b'X', &[("text/plain", b"a")]), Vec::new(), vec![b'D', 255, 255, 255, 255]]).dropped,
            3
        );
    }

    #[test]
    fn media_types_and_forms_are_limited() {
        let of = |length: usize| format!("a/{}", "b".repeat(length - 2));
        assert_eq!(shown(vec![message(b'D', &[(&of(127), b"")])]).dropped, 0);
        assert_eq!(shown(vec![message(b'D', &[(&of(128), b"")])]).dropped, 1);
        let names: Vec<String> = (0..100).map(|number| format!("a/b{number}")).collect();
        for (count, retained) in [(31, 31), (32, 32), (33, 32), (100, 32)] {
            let forms: Vec<(&str, &[u8])> = names.iter().take(count).map(|name| (name.as_str(), &b""[..])).collect();
            assert_eq!(shown(vec![message(b'D', &forms)]).retained[0].forms.len(), retained);
        }
    }

    #[test]
    fn text_forms_are_distinguished_from_bytes() {
        for text in
            ["text/html", "image/svg+xml", "application/json", "application/vnd.vega.v5+json", "application/javascript"]
        {
            assert!(is_text(text), "{text}");
        }
        for bytes in ["image/png", "application/pdf", "image/jpeg", "application/octet-stream"] {
            assert!(!is_text(bytes), "{bytes}");
        }
        assert_eq!(Form { media_type: "text/plain".into(), data: vec![0xff] }.text(), None);
    }
}
