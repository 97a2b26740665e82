//! Host directories that are granted to an application.

use std::{path::PathBuf, str::FromStr};

/// A host directory that an application may open.
///
/// Textual form: `HOST` or `HOST::GUEST`, optionally followed by `:ro`.
///
/// ```
/// use glovebox_component_runner::Directory;
///
/// let data: Directory = "data::/in:ro".parse()?;
/// assert_eq!((data.guest.as_str(), data.is_read_only), ("/in", true));
/// # Ok::<(), glovebox_component_runner::DirectoryError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// Path on the host. The application cannot leave the directory through `..` or links.
    pub host: PathBuf,
    /// Path that the application sees.
    pub guest: String,
    /// The application cannot change anything in the directory.
    pub is_read_only: bool,
}

/// The text does not describe a directory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write it as `HOST`, `HOST::GUEST`, `HOST:ro` or `HOST::GUEST:ro`")]
pub struct DirectoryError;

impl FromStr for Directory {
    type Err = DirectoryError;

    fn from_str(text: &str) -> Result<Self, DirectoryError> {
        let (path, is_read_only) = match text.strip_suffix(":ro") {
            Some(path) => (path, true),
            None => (text, false),
        };
        let (host, guest) = path.split_once("::").unwrap_or((path, path));
        if host.is_empty() || guest.is_empty() || guest.contains("::") || path.ends_with(':') {
            return Err(DirectoryError);
        }
        Ok(Self { host: host.into(), guest: guest.into(), is_read_only })
    }
}

#[cfg(test)]
mod tests {
    use super::Directory;

    #[test]
    fn a_directory_is_its_host_path_its_name_and_whether_it_can_change() {
        let table = [
            ("data", "data", "data", false),
            ("/a/b:ro", "/a/b", "/a/b", true),
            ("data::/in", "data", "/in", false),
            ("data::/in:ro", "data", "/in", true),
            (".::.", ".", ".", false),
            ("a:b::c:d", "a:b", "c:d", false),
        ];
        for (text, host, guest, is_read_only) in table {
            let expected = Directory { host: host.into(), guest: guest.into(), is_read_only };
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for wrong in ["", ":ro", "::", "a::", "::b", "a::b::c", "a::b:", "a:", "::b:ro", "a:::ro"] {
            assert!(wrong.parse::<Directory>().is_err(), "{wrong}");
        }
    }
}
