//! Checks `SECURITY.md`: the promises are numbered consecutively, and every test that a promise cites exists.

use std::{fs, path::Path};

use glovebox_tests::lost_citations;

/// Returns the files and directories that the text mentions in backticks but that do not exist.
fn lost_paths(text: &str, root: &Path) -> Vec<String> {
    let named = text.split('`').skip(1).step_by(2).filter(|named| named.contains('/') && !named.contains("::"));
    named.filter(|path| !root.join(path).exists()).map(str::to_owned).collect()
}

#[test]
fn every_promise_names_existing_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = fs::read_to_string(root.join("SECURITY.md")).unwrap();
    let (_, promises) = page.split_once("\n## Promises\n").unwrap();
    let (promises, _) = promises.split_once("\n## ").unwrap();
    let rows = promises.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| |"));
    let mut count = 0;
    for row in rows {
        count += 1;
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, number, _, held_by, _] = cells.as_slice() else { panic!("{row}") };
        assert_eq!(*number, count.to_string(), "{row}");
        assert!(held_by.contains('`'), "promise {number} names no test");
        assert_eq!(lost_citations(held_by, &root), [""; 0], "promise {number}");
        assert_eq!(lost_paths(held_by, &root), [""; 0], "promise {number}");
    }
    assert!(count >= 25, "promises are missing: {count}");
}
