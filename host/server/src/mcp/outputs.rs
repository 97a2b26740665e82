//! Displays of scripts, and temporary storage for outputs that are too long to show to a model.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use glovebox::{Display, Execution, Form};
use rmcp::model::{ContentBlock, Resource};

use super::{
    answer::{AnswerBuilder, HEAD_CHARS},
    resources::OUTPUT,
};
use crate::ServiceError;

/// Maximum number of stored outputs. The oldest output is evicted first, because models read the most recent ones.
const MAX_COUNT: usize = 64;

/// Maximum total size of the stored outputs in bytes. With the default limits, an execution can write 3 MB and display
/// 8 MiB.
const MAX_BYTES: usize = 16 << 20;

#[derive(Clone, Debug)]
pub(super) struct StoredOutput {
    /// The output's description, for lists and links.
    pub(super) resource: Resource,
    pub(super) bytes: Arc<[u8]>,
}

impl StoredOutput {
    pub(super) fn new(uri: String, name: &str, media_type: &str, bytes: &[u8]) -> Self {
        let resource = Resource::new(uri, name).with_mime_type(media_type);
        let size_bytes = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        Self { resource: resource.with_size(size_bytes), bytes: bytes.into() }
    }
}

/// The most recent outputs, limited in number and total size. The oldest output is evicted first.
#[derive(Debug, Default)]
pub(super) struct Outputs(Mutex<OutputRing>);

#[derive(Debug, Default)]
struct OutputRing {
    held: VecDeque<StoredOutput>,
    bytes: usize,
}

/// The random ID in the URIs of an execution's outputs. It cannot be guessed. A client needs a link, or the list of the
/// tenant's outputs, to read an output.
#[derive(Debug)]
pub(super) struct OutputId(String);

impl OutputId {
    pub(super) fn random() -> Result<Self, ServiceError> {
        Ok(Self(format!("{:032x}", u128::from_le_bytes(random()?))))
    }

    /// Returns the URI for the output `name`.
    pub(super) fn uri(&self, name: &str) -> String {
        format!("{OUTPUT}{}/{name}", self.0)
    }
}

pub(super) fn random<const N: usize>() -> Result<[u8; N], ServiceError> {
    let mut random = [0; N];
    getrandom::fill(&mut random)
        .map_err(|error| ServiceError::Invalid(format!("cannot get random numbers: {error}")))?;
    Ok(random)
}

impl Outputs {
    /// Stores an output. Returns `false` if the output alone exceeds the total limit.
    pub(super) fn keep(&self, held: StoredOutput) -> bool {
        let size = held.bytes.len();
        if size > MAX_BYTES {
            return false;
        }
        let mut ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while ring.held.len() >= MAX_COUNT || ring.bytes + size > MAX_BYTES {
            let Some(oldest) = ring.held.pop_front() else { break };
            ring.bytes -= oldest.bytes.len();
        }
        ring.bytes += size;
        ring.held.push_back(held);
        true
    }

    /// Returns the output with this URI, if it is still stored.
    pub(super) fn get(&self, uri: &str) -> Option<StoredOutput> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).held.iter().find(|held| held.resource.uri == uri).cloned()
    }

    /// Lists all outputs, oldest first.
    pub(super) fn list(&self) -> Vec<Resource> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).held.iter().map(|held| held.resource.clone()).collect()
    }
}

/// Maximum size of a picture in bytes. Its base64 encoding is shorter than 5 MB, the limit of model APIs.
const MAX_PICTURE_BYTES: usize = 3_700_000;

/// Maximum number of pictures per execution, because model APIs charge for each picture. Further pictures become links.
const MAX_PICTURES: usize = 16;

/// Maximum total size of an execution's pictures, in bytes. Their base64 encoding fits into 16 MiB, the maximum message
/// size of many clients.
const MAX_PICTURES_BYTES: usize = 8 << 20;

/// Maximum number of displays without pictures that are shown per execution.
const MAX_TEXTS: usize = 32;

/// The picture types that models accept, with their magic numbers. Model APIs reject a whole conversation if it
/// contains an invalid picture.
const PICTURES: [(&str, &[u8]); 4] = [
    ("image/png", b"\x89PNG\r\n\x1a\n"),
    ("image/jpeg", b"\xff\xd8\xff"),
    ("image/gif", b"GIF8"),
    ("image/webp", b"RIFF"),
];

/// Text types that a model can read, in order of preference.
const TEXTS: [&str; 4] = ["text/markdown", "text/plain", "application/json", "text/latex"];

/// Returns `true` if the text is Python's default `repr` of an object, such as `<T object at 0x…>`.
fn is_default_repr(text: &str) -> bool {
    text.starts_with('<') && text.ends_with('>') && text.contains(" object at 0x")
}

/// Returns `true` if the bytes are a picture of this media type.
pub(super) fn is_picture(media_type: &str, bytes: &[u8]) -> bool {
    PICTURES.iter().any(|(known, begins)| *known == media_type && bytes.starts_with(begins))
        && (media_type != "image/webp" || bytes.get(8..12) == Some(b"WEBP"))
}

/// Returns the media type of a picture, detected by its magic number. Returns `None` if models do not accept the type.
pub(super) fn picture_type(bytes: &[u8]) -> Option<&'static str> {
    PICTURES.iter().map(|(media_type, _)| *media_type).find(|media_type| is_picture(media_type, bytes))
}

/// Returns a picture as a content block, or `None` if it is too large.
pub(super) fn picture(media_type: &str, bytes: &[u8]) -> Option<ContentBlock> {
    (bytes.len() <= MAX_PICTURE_BYTES).then(|| ContentBlock::image(BASE64_STANDARD.encode(bytes), media_type))
}

impl AnswerBuilder {
    /// Appends the execution's displays to `content`.
    pub(super) fn displays(&self, execution: &Execution, content: &mut Vec<ContentBlock>) {
        let (mut pictures, mut picture_bytes, mut texts) = (0, 0, 0);
        for (number, display) in execution.displays.iter().enumerate() {
            let number = number + 1;
            let shown = display.forms.iter().find(|form| is_picture(&form.media_type, &form.data));
            if let Some(form) = shown {
                pictures += 1;
                let fits = pictures <= MAX_PICTURES && picture_bytes + form.data.len() <= MAX_PICTURES_BYTES;
                match if fits { picture(&form.media_type, &form.data) } else { None } {
                    Some(sent) => {
                        picture_bytes += form.data.len();
                        content.push(sent);
                    }
                    None => content.push(self.linked(number, form)),
                }
                continue;
            }
            texts += 1;
            if texts <= MAX_TEXTS {
                self.texts(number, display, content);
            }
        }
        let left_out = texts.saturating_sub(MAX_TEXTS);
        if left_out > 0 {
            content.push(ContentBlock::text(format!("({left_out} more displays are not shown)")));
        }
    }

    /// Adds a display without a picture: the most suitable text for the model, and links to other forms for people.
    fn texts(&self, number: usize, display: &Display, content: &mut Vec<ContentBlock>) {
        let texts = || display.forms.iter().filter_map(|form| Some((form, form.text()?)));
        let best = TEXTS.iter().find_map(|wanted| texts().find(|(form, _)| form.media_type == *wanted));
        let best = best.filter(|(_, text)| !is_default_repr(text));
        let is_suitable = |text: &str| display.forms.len() == 1 || !is_default_repr(text);
        let shown = best.or_else(|| texts().find(|(_, text)| is_suitable(text)));
        if let Some((form, text)) = shown {
            // The plain text of a result is already shown as the value of the script.
            let is_value = best.is_some() && display.is_result && form.media_type == "text/plain";
            content.extend((!is_value).then(|| self.short(number, form, text)));
        }
        for form in &display.forms {
            let is_shown = shown.is_some_and(|(shown, _)| shown.media_type == form.media_type);
            // Other text forms repeat the shown text.
            let is_repeated = form.text().is_some() && TEXTS.contains(&form.media_type.as_str());
            if !is_shown && !is_repeated {
                content.push(self.linked(number, form));
            }
        }
    }

    /// Returns a content block with the text, or a link if the text is long.
    fn short(&self, number: usize, form: &Form, text: &str) -> ContentBlock {
        if text.len() > HEAD_CHARS {
            return self.linked(number, form);
        }
        match form.media_type.as_str() {
            "text/plain" => ContentBlock::text(text),
            other => ContentBlock::text(format!("{other}:\n{text}")),
        }
    }

    fn linked(&self, number: usize, form: &Form) -> ContentBlock {
        let subtype = form.media_type.split_once('/').map_or("bin", |(_, subtype)| subtype);
        let name = format!("display-{number}.{}", subtype.split('+').next().unwrap_or("bin"));
        let too_large =
            || ContentBlock::text(format!("({}, {} bytes, too large to store)", form.media_type, form.data.len()));
        self.keep(&name, &form.media_type, &form.data).unwrap_or_else(too_large)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(name: &str, size: usize) -> StoredOutput {
        StoredOutput::new(name.into(), name, "text/plain", &vec![b'x'; size])
    }

    fn names(outputs: &Outputs) -> Vec<String> {
        outputs.list().into_iter().map(|resource| resource.name).collect()
    }

    #[test]
    fn oldest_output_is_evicted_over_the_count_limit() {
        let outputs = Outputs::default();
        for index in 0..MAX_COUNT {
            assert!(outputs.keep(held(&index.to_string(), 1)));
        }
        assert!(outputs.get("0").is_some(), "nothing is evicted at the limit");
        assert!(outputs.keep(held("one more", 1)));
        assert!(outputs.get("0").is_none() && outputs.get("1").is_some() && outputs.get("one more").is_some());
        assert_eq!(names(&outputs).len(), MAX_COUNT);
    }

    #[test]
    fn oldest_outputs_are_evicted_over_the_byte_limit() {
        let outputs = Outputs::default();
        assert!(outputs.keep(held("a", MAX_BYTES / 2)) && outputs.keep(held("b", MAX_BYTES / 2)));
        assert_eq!(names(&outputs), ["a", "b"], "at the limit");
        assert!(outputs.keep(held("c", 1)));
        assert_eq!(names(&outputs), ["b", "c"]);
        assert!(outputs.keep(held("d", MAX_BYTES)));
        assert_eq!(names(&outputs), ["d"]);
        assert!(!outputs.keep(held("e", MAX_BYTES + 1)), "larger than the whole limit");
        assert_eq!(names(&outputs), ["d"], "a rejected output must not evict others");
        assert!(outputs.keep(held("f", 1)));
        assert_eq!(names(&outputs), ["f"]);
    }

    #[test]
    fn picture_must_begin_as_its_media_type_requires() {
        for (media_type, bytes, expected) in [
            ("image/png", &b"\x89PNG\r\n\x1a\n..."[..], true),
            ("image/png", b"GIF89a", false),
            ("image/png", b"", false),
            ("image/gif", b"GIF89a", true),
            ("image/jpeg", b"\xff\xd8\xff\xe0", true),
            ("image/webp", b"RIFF....WEBPVP8 ", true),
            ("image/webp", b"RIFF....WAVE", false),
            ("image/svg+xml", b"<svg/>", false),
        ] {
            assert_eq!(is_picture(media_type, bytes), expected, "{media_type} {bytes:?}");
        }
    }

    #[test]
    fn picture_over_the_limit_is_not_sent() {
        assert!(picture("image/png", &vec![0; MAX_PICTURE_BYTES]).is_some());
        assert!(picture("image/png", &vec![0; MAX_PICTURE_BYTES + 1]).is_none());
    }
}
