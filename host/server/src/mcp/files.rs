//! MCP tools for the files of a session.

use glovebox::{FileEntry, FilePage, IfExists, ListLimits};
use rmcp::model::{CallToolResult, ContentBlock, Resource};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    answer, arguments as given, outputs,
    resources::{self, FileAddress},
};
use crate::{
    Service, ServiceError, Tenant,
    executor::{FileAnswer, FileOperation},
};

/// Maximum number of bytes of text per call, about sixteen thousand tokens. A model should not read more in one call.
pub(super) const MAX_TEXT_BYTES: u64 = 64 << 10;

/// Maximum number of listed files. A working directory can contain 10,000.
const MAX_LISTED: usize = 500;

/// Maximum total length of the listed paths in bytes.
const MAX_LISTED_BYTES: usize = 128 << 10;

/// A file, directory or symbolic link.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct ListedEntry {
    path: String,
    /// `file`, `directory` or `symlink`.
    kind: &'static str,
    size_bytes: u64,
}

/// The structured content of `files_list`.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ListAnswer {
    files: Vec<ListedEntry>,
    /// The number of files that are not listed.
    more: u64,
}

/// The structured content of `files_read`.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ReadAnswer {
    path: String,
    size_bytes: u64,
    media_type: String,
    /// The byte offset of the part that was read.
    offset: u64,
    /// The text that was read. Missing if the file is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// The offset of the next part. Missing at the end of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
    /// The URI of the whole file as a resource.
    uri: String,
}

/// The structured content of `files_write`.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct WriteAnswer {
    path: String,
    size_bytes: u64,
}

impl ListedEntry {
    fn of(entry: FileEntry) -> Self {
        Self { path: entry.path, kind: entry.kind.name(), size_bytes: entry.size_bytes }
    }

    fn line(&self) -> String {
        let path = glovebox::escaped(&self.path);
        match self.kind {
            "file" => format!("{path} ({} bytes)", self.size_bytes),
            kind => format!("{path} ({kind})"),
        }
    }
}

pub(super) async fn list(tenant: &Tenant, given: given::ListFiles) -> Result<CallToolResult, ServiceError> {
    let id = given::session_id(&given.session)?;
    let limits = ListLimits { entries: MAX_LISTED, path_bytes: MAX_LISTED_BYTES };
    let FilePage { entries, more } = tenant.list_files(&id, given.pattern, None, limits).await?;
    let files: Vec<ListedEntry> = entries.into_iter().map(ListedEntry::of).collect();
    let mut lines: Vec<String> = files.iter().map(ListedEntry::line).collect();
    match (lines.is_empty(), more) {
        (true, _) => lines.push("No files match.".to_owned()),
        (_, 0) => {}
        (_, more) => lines.push(format!("and {more} more: use a narrower pattern")),
    }
    Ok(answer::text(lines.join("\n"), &ListAnswer { files, more }))
}

pub(super) async fn read(tenant: &Tenant, given: given::ReadFile) -> Result<CallToolResult, ServiceError> {
    let id = given::session_id(&given.session)?;
    let given::ReadFile { path, offset, length, .. } = given;
    let wanted = length.unwrap_or(MAX_TEXT_BYTES);
    if !(1..=MAX_TEXT_BYTES).contains(&wanted) {
        return Err(ServiceError::Invalid(format!("`length` is {wanted}; it must be between 1 and {MAX_TEXT_BYTES}")));
    }
    let uri = FileAddress { session: id.clone(), path: path.clone() }.uri();
    let read_at = FileOperation::ReadAt { path: path.clone(), offset, length: wanted };
    let (FileAnswer::Content { size_bytes }, part) = tenant.files(&id, read_at).await? else {
        return Err(ServiceError::WorkerDied);
    };
    // A picture is returned in full, because a part of a picture is useless.
    let is_picture = offset == 0 && length.is_none() && outputs::picture_type(&part).is_some();
    let whole = match is_picture {
        true => tenant.read_file(&id, path.clone(), resources::MAX_READ_BYTES, |_| Ok(())).await?.ok(),
        false => None,
    };
    let media_type = resources::media_type(&path, &part);
    let mut read =
        ReadAnswer { path, size_bytes, media_type: media_type.clone(), offset, text: None, next_offset: None, uri };
    let picture = whole.and_then(|(bytes, ())| outputs::picture(outputs::picture_type(&bytes)?, &bytes));
    if let Some(picture) = picture {
        return Ok(answer::success(vec![picture], &read));
    }
    let content = match text(&part, offset) {
        Some((text, begins, used)) => {
            read.offset = begins;
            let next = begins + used;
            read.next_offset = (next < size_bytes).then_some(next);
            let mut content = vec![ContentBlock::text(text)];
            if let Some(next) = read.next_offset {
                content.push(ContentBlock::text(format!("({size_bytes} bytes in total; continue with offset {next})")));
            }
            read.text = Some(text.to_owned());
            content
        }
        None => {
            let about = format!("`{}` is not text: {media_type}, {size_bytes} bytes.", glovebox::escaped(&read.path));
            let link = Resource::new(&read.uri, &read.path).with_mime_type(media_type).with_size(size_bytes);
            vec![ContentBlock::text(about), ContentBlock::resource_link(link)]
        }
    };
    Ok(answer::success(content, &read))
}

/// Decodes a range of a file. Returns the text, its offset in the file, and its length in bytes. Excludes incomplete
/// characters at both ends. Returns `None` if the range is not text.
fn text(part: &[u8], offset: u64) -> Option<(&str, u64, u64)> {
    // At most three bytes can belong to a character that starts before the range.
    let is_inside = |byte: &&u8| offset > 0 && (0x80..0xc0).contains(*byte);
    let cut = part.iter().take(3).take_while(is_inside).count();
    let part = part.get(cut..)?;
    let text = match std::str::from_utf8(part) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => std::str::from_utf8(part.get(..error.valid_up_to())?).ok()?,
        Err(_) => return None,
    };
    if text.contains('\0') || (text.is_empty() && !part.is_empty()) {
        return None;
    }
    let begins = offset + u64::try_from(cut).unwrap_or_default();
    Some((text, begins, u64::try_from(text.len()).unwrap_or_default()))
}

pub(super) async fn write(tenant: &Tenant, given: given::WriteFile) -> Result<CallToolResult, ServiceError> {
    let id = given::session_id(&given.session)?;
    let given::WriteFile { path, text, base64, replace, .. } = given;
    // Decode on a blocking thread: the file can be 36 MiB long, and decoding it takes a few hundredths of a second.
    let decode = move || given::content(&path, text, base64).map(|bytes| (path, bytes));
    let (path, bytes) = Service::blocking(decode).await??;
    let size_bytes = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let if_exists = if replace { IfExists::Replace } else { IfExists::Fail };
    tenant.write_files(&id, vec![(path.clone(), bytes)], if_exists, ()).await?;
    let about = format!("Wrote {size_bytes} bytes to `{}`.", glovebox::escaped(&path));
    Ok(answer::text(about, &WriteAnswer { path, size_bytes }))
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn split_character_is_left_to_the_next_part() {
        let whole = "aé🙂z".as_bytes();
        // Reading in ranges of at least four bytes, the longest character, must return the complete text.
        for length in 4..=whole.len() {
            let (mut at, mut read) = (0_usize, String::new());
            while at < whole.len() {
                let end = (at + length).min(whole.len());
                let offset = u64::try_from(at).unwrap();
                let (part, begins, used) = text(&whole[at..end], offset).unwrap();
                assert_eq!(begins, offset);
                read.push_str(part);
                at += usize::try_from(used).unwrap();
            }
            assert_eq!(read, "aé🙂z", "{length}");
        }
        assert_eq!(text(&whole[2..], 2), Some(("🙂z", 3, 5)), "an offset within a character");
    }

    #[test]
    fn binary_data_is_not_returned_as_text() {
        for bytes in [&b"\xff\xfe"[..], b"a\0b", b"\x80\x80\x80\x80", b"\xf0\x9f"] {
            assert_eq!(text(bytes, 0), None, "{bytes:?}");
        }
        assert_eq!(text(b"", 0), Some(("", 0, 0)));
    }
}
