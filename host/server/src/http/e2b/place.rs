//! Paths, as these clients name them.

use super::failure::Failure;

/// The workspace, as scripts name it.
pub(super) const WORKSPACE: &str = "/app";
/// What clients know as the user's own directory.
const HOME: &str = "/home/user";

/// A path relative to the workspace: what clients name so, or below the directory that they know as the user's, or below the workspace.
pub(super) fn relative(path: &str) -> Result<String, Failure> {
    let below = |top: &str| path.strip_prefix(top).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let rest = below(WORKSPACE).or_else(|| below(HOME)).or_else(|| below("~"));
    let rest = match rest {
        Some(rest) => rest,
        None if path.starts_with('/') => {
            let path = glovebox::escaped(path);
            return Err(Failure::invalid(format!(
                "`{path}` is outside of the sandbox's files; give it relative to `{WORKSPACE}`, which is `{HOME}` too"
            )));
        }
        None => path,
    };
    // The same path, as the file system takes it.
    Ok(rest.split('/').filter(|name| !matches!(*name, "" | ".")).collect::<Vec<_>>().join("/"))
}

/// A path of the workspace, as scripts name it.
pub(super) fn absolute(path: &str) -> String {
    if path.is_empty() { WORKSPACE.to_owned() } else { format!("{WORKSPACE}/{path}") }
}

/// The last name of a path.
pub(super) fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_of_the_workspace_or_refused() {
        for (path, expected) in [
            ("a/b", Some("a/b")),
            ("/home/user/a", Some("a")),
            ("/home/user", Some("")),
            ("/app//a/./b", Some("a/b")),
            ("~/a", Some("a")),
            (".", Some("")),
            ("", Some("")),
            // The file system refuses it.
            ("a/../b", Some("a/../b")),
            ("/home/user/../x", Some("../x")),
            ("/home/userx", None),
            ("/etc/passwd", None),
            ("/", None),
        ] {
            assert_eq!(relative(path).ok().as_deref(), expected, "{path}");
        }
        assert_eq!((absolute("").as_str(), absolute("a/b").as_str(), name("a/b")), ("/app", "/app/a/b", "b"));
    }
}
