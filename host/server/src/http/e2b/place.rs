//! Paths as E2B's clients write them.

use super::failure::Failure;

/// Path of the workspace, as scripts see it.
pub(super) const WORKSPACE: &str = "/app";
/// The home directory that E2B's clients expect: an alias of the workspace.
const HOME: &str = "/home/user";

/// Converts a client's path to a path relative to the workspace. Accepts relative paths, and absolute paths below the
/// workspace or the home directory.
pub(super) fn relative(path: &str) -> Result<String, Failure> {
    let below = |top: &str| path.strip_prefix(top).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let rest = below(WORKSPACE).or_else(|| below(HOME)).or_else(|| below("~"));
    let rest = match rest {
        Some(rest) => rest,
        None if path.starts_with('/') => {
            let path = glovebox::escaped(path);
            return Err(Failure::invalid(format!(
                "`{path}` is outside of the workspace; use a path below `{WORKSPACE}` or `{HOME}`"
            )));
        }
        None => path,
    };
    // Drops empty and `.` segments, so that the file system accepts the path.
    Ok(rest.split('/').filter(|name| !matches!(*name, "" | ".")).collect::<Vec<_>>().join("/"))
}

/// Converts a path relative to the workspace to an absolute path, as scripts see it.
pub(super) fn absolute(path: &str) -> String {
    if path.is_empty() { WORKSPACE.to_owned() } else { format!("{WORKSPACE}/{path}") }
}

/// Returns the last segment of a path.
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
            // The file system refuses `..`.
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
