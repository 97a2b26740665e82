//! Paths given by the embedder.

use super::FileError;

/// Returns the path without `.` and doubled slashes; `""` for the workspace itself.
///
/// The file system would resolve `..` inside the workspace and refuse it only where it leads out. This function always
/// refuses it, because its meaning depends on links that the guest created.
pub fn inside(path: &str) -> Result<String, FileError> {
    if let Some(reason) = fault(path) {
        return Err(FileError::Path { path: path.to_owned(), reason });
    }
    let names: Vec<&str> = path.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    Ok(names.join("/"))
}

/// Like [`inside`], for operations that do not apply to the workspace itself.
pub fn below(path: &str) -> Result<String, FileError> {
    let inner = inside(path)?;
    if inner.is_empty() {
        let reason = "is the workspace itself; name a file or directory in it";
        return Err(FileError::Path { path: path.to_owned(), reason });
    }
    Ok(inner)
}

/// Returns the reason why a path or pattern is outside the workspace or invalid.
#[must_use]
pub fn fault(path: &str) -> Option<&'static str> {
    if path.starts_with('/') {
        Some("is absolute; give it relative to the workspace, `a/b` for `/app/a/b`")
    } else if path.split('/').any(|name| name == "..") {
        Some("contains `..`; give it relative to the workspace and without it")
    } else if path.contains('\0') {
        Some("contains a zero byte; no name may")
    } else {
        None
    }
}

/// Returns the path in the form that the file system expects.
#[must_use]
pub fn bytes(path: &str) -> &[u8] {
    if path.is_empty() { b"." } else { path.as_bytes() }
}
