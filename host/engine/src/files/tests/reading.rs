//! Tests of listing, describing and reading files.

use glovebox_vfs::{FileKind, VfsError};

use super::{super::ListLimits, FileError, FilesError, Space, refusal};

fn sample() -> Space {
    let mut space = Space::holding(&[
        ("a.py", "1"),
        ("b.txt", "22"),
        (".hidden", ""),
        ("src/c.py", "333"),
        ("src/deep/er/d.py", "4444"),
        ("src-old/e.py", "5"),
        ("we[ird/f.py", "6"),
        ("line\nbreak", "7"),
        ("back\\slash", "8"),
    ]);
    space.link("to-src", "src");
    space
}

fn matching(space: &Space, pattern: &str) -> Vec<String> {
    space.files().list(pattern).unwrap().into_iter().map(|entry| entry.path).collect()
}

#[test]
fn patterns_match_exactly() {
    let space = sample();
    let cases: &[(&str, &[&str])] = &[
        ("*.py", &["a.py"]),
        ("./*.py", &["a.py"]),
        ("**/*.py", &["a.py", "src-old/e.py", "src/c.py", "src/deep/er/d.py", "we[ird/f.py"]),
        ("src/*", &["src/c.py", "src/deep"]),
        ("src//*", &["src/c.py", "src/deep"]),
        ("src/**", &["src/c.py", "src/deep", "src/deep/er", "src/deep/er/d.py"]),
        ("src/**/*.py", &["src/c.py", "src/deep/er/d.py"]),
        ("src*/?.py", &["src-old/e.py", "src/c.py"]),
        ("{src,src-old}/*.py", &["src-old/e.py", "src/c.py"]),
        ("{a.py,src/c.py}", &["a.py", "src/c.py"]),
        ("[ab].*", &["a.py", "b.txt"]),
        ("we\\[ird/*", &["we[ird/f.py"]),
        ("src", &["src"]),
        (".*", &[".hidden"]),
        ("line*", &["line\nbreak"]),
        ("back\\\\slash", &["back\\slash"]),
        ("nothing/*", &[]),
        ("a.py/*", &[]),
        ("", &[]),
        // Links are not followed.
        ("to-src", &["to-src"]),
        ("to-src/*", &[]),
        ("to-src/deep/*", &[]),
        ("to-src/**", &[]),
        // Patterns match existing names, and no entry is called `..`.
        ("[.][.]/*", &[]),
        ("{..,src}/c.py", &["src/c.py"]),
    ];
    for (pattern, expected) in cases {
        assert_eq!(matching(&space, pattern), *expected, "{pattern}");
    }
    assert_eq!(matching(&space, "*").len(), 9);
    assert_eq!(matching(&space, "**").len(), 15);
}

#[test]
fn a_pattern_cannot_leave_the_workspace() {
    let space = sample();
    for pattern in ["../*/*", "..", "src/../*", "/*", "/app/*", "/etc/**", "a\0", "[", "{a", "a/[b", &"a".repeat(4_097)]
    {
        assert!(
            matches!(space.files().list(pattern), Err(FilesError::Workspace(FileError::Pattern { .. }))),
            "{pattern}"
        );
    }
    let longest = "a".repeat(4_096);
    assert_eq!(matching(&space, &longest), [""; 0]);
}

#[test]
fn nesting_of_alternatives_is_limited() {
    let space = sample();
    let nested = |depth: usize| "{".repeat(depth) + "a.py" + &"}".repeat(depth);
    for depth in [1, 31, 32] {
        assert_eq!(matching(&space, &nested(depth)), ["a.py"], "{depth}");
    }
    for depth in [33, 300, 2_040] {
        let error = space.files().list(&nested(depth)).unwrap_err().to_string();
        assert!(error.contains("{{{{") && error.contains("32 levels"), "{error}");
    }
    // Literal braces and adjacent alternatives do not nest.
    let beside = "{a,b}".repeat(40);
    for pattern in
        ["\\{".repeat(40), "[{]".repeat(40), "[]{]".repeat(40), "[!{]".repeat(40), "[^]{]".repeat(40), beside]
    {
        assert_eq!(matching(&space, &pattern), [""; 0], "{pattern}");
    }
    assert!(space.files().list(&("[]{]".to_owned() + &nested(33))).is_err());
}

#[test]
fn hardest_patterns_do_not_panic() {
    let space = sample();
    let levels = "{".repeat(32) + &"[!a]".repeat(900) + &"}".repeat(32);
    for pattern in ["**/".repeat(1_365), "{**/,}".repeat(682), "[!a-b]".repeat(682), "*?".repeat(2_048), levels] {
        let _ = space.files().list(&pattern);
    }
    assert_eq!(matching(&space, "a.py"), ["a.py"], "usable after");
}

#[test]
fn entries_have_kind_and_size() {
    let space = sample();
    for (path, kind, size_bytes) in [
        ("a.py", FileKind::File, 1),
        ("./src//c.py", FileKind::File, 3),
        ("src", FileKind::Directory, 0),
        ("src/", FileKind::Directory, 0),
        ("", FileKind::Directory, 0),
        (".", FileKind::Directory, 0),
        ("to-src", FileKind::Symlink, 3),
        ("to-src/c.py", FileKind::File, 3),
    ] {
        let entry = space.files().stat(path).unwrap();
        assert_eq!((entry.kind, entry.size_bytes), (kind, size_bytes), "{path}");
        assert_eq!(entry.modified_ns, 1_700_000_000_123_456_789, "{path}");
    }
    let json = serde_json::to_value(space.files().stat("./src//c.py").unwrap()).unwrap();
    let expected = r#"{"path":"src/c.py","kind":"file","size_bytes":3,"modified_ns":1700000000123456789}"#;
    assert_eq!(json, serde_json::from_str::<serde_json::Value>(expected).unwrap());
}

#[test]
fn a_path_cannot_leave_the_workspace() {
    let mut space = sample();
    space.link("up", "..");
    space.link("src/upup", "../../etc");
    let files = space.files();
    for path in ["/app/a.py", "/etc/passwd", "..", "../other", "src/../a.py", "a\0b"] {
        assert!(matches!(files.stat(path), Err(FilesError::Workspace(FileError::Path { .. }))), "{path}");
        assert!(matches!(files.read(path), Err(FilesError::Workspace(FileError::Path { .. }))), "{path}");
    }
    for path in ["up/x", "src/upup", "src/upup/passwd"] {
        assert_eq!(refusal(files.read(path)), VfsError::NotCapable, "{path}");
    }
    for path in ["", ".", "./"] {
        assert!(matches!(files.read(path), Err(FilesError::Workspace(FileError::Path { .. }))), "{path}");
    }
}

#[test]
fn a_file_is_read_whole_or_in_part() {
    let mut space = sample();
    space.write("digits", "0123456789");
    let files = space.files();
    for (offset, len_bytes, expected) in [
        (0, 10, "0123456789"),
        (0, 11, "0123456789"),
        (0, 9, "012345678"),
        (3, 2, "34"),
        (9, 5, "9"),
        (10, 1, ""),
        (u64::MAX, u64::MAX, ""),
    ] {
        assert_eq!(files.read_at("digits", offset, len_bytes).unwrap(), expected.as_bytes(), "{offset} {len_bytes}");
    }
    assert_eq!(files.read("to-src/c.py").unwrap(), b"333");
    assert_eq!(refusal(files.read("src")), VfsError::IsADirectory);
    assert_eq!(refusal(files.read_at("src", 0, 0)), VfsError::IsADirectory);
    assert_eq!(refusal(files.read("nothing")), VfsError::NotFound);
}

#[test]
fn a_file_over_a_gibibyte_is_read_in_parts_only() {
    const MAX: u64 = 1 << 30;
    let mut space = Space::with(glovebox_vfs::VfsLimits { bytes: 4 << 30, ..Default::default() });
    space.write("big", "x");
    let inode = space.vfs.file_stat(space.root, "big").unwrap().inode;
    // The file is sparse: only bytes that are read take memory.
    space.vfs.set_len(inode, MAX + 1).unwrap();
    assert_eq!(refusal(space.files().read("big")), VfsError::FileTooBig);
    assert_eq!(refusal(space.files().read_at("big", 0, MAX + 1)), VfsError::FileTooBig);
    assert_eq!(space.files().read_at("big", MAX, MAX).unwrap(), [0]);
    assert_eq!(space.files().read_at("big", 0, 2).unwrap(), b"x\0");
}

#[test]
fn snapshot_does_not_see_later_changes() {
    let mut space = sample();
    let before = space.files();
    space.write("a.py", "changed");
    assert_eq!(before.read("a.py").unwrap(), b"1");
    assert_eq!(space.text("a.py"), "changed");
}

#[test]
fn page_fills_its_limit_and_counts_the_rest() {
    let files = Space::holding(&[("a", ""), ("b/c", ""), ("b/d/e", ""), ("b.f", ""), ("g", "")]).files();
    let page = |after, entries, path_bytes| {
        let page = files.list_page("**", after, ListLimits { entries, path_bytes }).unwrap();
        (page.entries.into_iter().map(|entry| entry.path).collect::<Vec<_>>().join(" "), page.more)
    };
    let expected = |paths: &str, more| (paths.to_owned(), more);
    assert_eq!(page(None, 6, 100), expected("a b b.f b/c b/d b/d/e", 1));
    assert_eq!(page(None, 7, 100), expected("a b b.f b/c b/d b/d/e g", 0));
    assert_eq!(page(None, 8, 100), expected("a b b.f b/c b/d b/d/e g", 0));
    assert_eq!(page(Some("b.f"), 2, 100), expected("b/c b/d", 2));
    assert_eq!(page(Some("g"), 2, 100), expected("", 0));
    assert_eq!(page(None, 9, 5), expected("a b b.f", 4));
    assert_eq!(page(None, 9, 4), expected("a b", 5));
    assert_eq!(
        page(Some("b/d"), 9, 0),
        expected("b/d/e", 1),
        "a page has at least one entry, even if its path is too long"
    );
    let below = |dir, depth| {
        let limits = ListLimits { entries: 2, path_bytes: 100 };
        let page = files.list_below(dir, depth, limits).unwrap();
        (page.entries.into_iter().map(|entry| entry.path).collect::<Vec<_>>().join(" "), page.more)
    };
    assert_eq!(below("", 1), expected("a b", 2));
    assert_eq!(below("b", 1), expected("b/c b/d", 0));
    assert_eq!(below("b", 2), expected("b/c b/d", 1));
    assert_eq!(below("a", 1), expected("", 0));
    assert!(files.list_below("nothing", 1, ListLimits::NONE).is_err());
}

#[test]
fn matching_a_costly_pattern_is_limited() {
    let deep = vec!["a".repeat(240); 15].join("/");
    let costly = format!("**/{}b", "*a".repeat(500));
    for (count, fits) in [(10, true), (400, false)] {
        let paths: Vec<String> = (0..count).map(|index| format!("{deep}/{}{index}", "a".repeat(240))).collect();
        let files = Space::holding(&paths.iter().map(|path| (&**path, "")).collect::<Vec<_>>()).files();
        let listed = files.list(&costly);
        assert_eq!(listed.is_ok(), fits, "{count}: {listed:?}");
        assert!(listed.map_or_else(|error| error.to_string().contains("use fewer `*`"), |listed| listed.is_empty()));
        assert_eq!(files.list("**/a*").unwrap().len(), count + 15);
    }
}
