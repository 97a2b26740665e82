//! What of the host's files an application is granted.

use std::{path::PathBuf, str::FromStr};

/// A directory of the host's that an application may open.
///
/// As text: `HOST`, `HOST::GUEST`, either with `:ro` behind it.
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
    /// Where it is. Nothing outside of it can be reached through it, by `..` or by links.
    pub host: PathBuf,
    /// What the application calls it.
    pub guest: String,
    /// Whether nothing in it can be changed.
    pub is_read_only: bool,
}

/// A text that grants no directory.
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
