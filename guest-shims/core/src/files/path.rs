//! Validates paths that the embedder passes.

use super::FileError;

/// Normalizes a path: removes `.` and repeated slashes. The workspace itself becomes `""`.
///
/// The file system resolves `..` inside the workspace and refuses it only if it escapes. This function always refuses
/// `..`, because its meaning depends on links that the guest created.
pub fn inside(path: &str) -> Result<String, FileError> {
    if let Some(reason) = fault(path) {
        return Err(FileError::Path { path: path.to_owned(), reason });
    }
    let names: Vec<&str> = path.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    Ok(names.join("/"))
}

/// Like [`inside`], but rejects the workspace itself.
pub fn below(path: &str) -> Result<String, FileError> {
    let inner = inside(path)?;
    if inner.is_empty() {
        let reason = "is the workspace itself; name a file or directory in it";
        return Err(FileError::Path { path: path.to_owned(), reason });
    }
    Ok(inner)
}

/// Returns the reason for rejecting a path or pattern: it is absolute, or contains `..` or a zero byte.
#[must_use]
pub fn fault(path: &str) -> Option<&'static str> {
    if path.starts_with('/') {
        Some("is absolute; use a path relative to the workspace, such as `a/b` for `/app/a/b`")
    } else if path.split('/').any(|name| name == "..") {
        Some("contains `..`; use a path relative to the workspace, without `..`")
    } else if path.contains('\0') {
        Some("contains a NUL byte; remove it")
    } else {
        None
    }
}

/// Returns a normalized path in the form that the file system expects: `.` instead of an empty path.
#[must_use]
pub fn bytes(path: &str) -> &[u8] {
    if path.is_empty() { b"." } else { path.as_bytes() }
}
