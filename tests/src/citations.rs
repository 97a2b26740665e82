//! Finds outdated references to tests in documentation.

use std::{fs, path::Path};

/// Returns the references in `text` whose file or function does not exist below `root`. A reference is `path.rs` or
/// `path.rs::function` between backticks.
pub fn lost_citations(text: &str, root: &Path) -> Vec<String> {
    let named = text.split('`').skip(1).step_by(2).filter(|named| named.contains(".rs") && !named.contains(' '));
    let lost = |named: &&str| {
        let (path, function) = named.split_once("::").unwrap_or((named, ""));
        let held = fs::read_to_string(root.join(path)).unwrap_or_default();
        held.is_empty() || !(function.is_empty() || held.contains(&format!("fn {function}(")))
    };
    named.filter(lost).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::lost_citations;

    #[test]
    fn only_missing_files_and_functions_are_reported() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(lost_citations("`src/citations.rs`, `src/citations.rs::lost_citations` and `x`", root), [""; 0]);
        let lost = lost_citations("`src/none.rs` and `src/citations.rs::none`", root);
        assert_eq!(lost, ["src/none.rs", "src/citations.rs::none"]);
    }
}
