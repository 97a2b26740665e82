use super::{MAX_METADATA_BYTES, *};
use crate::wheel_files::tests::zipped;

fn wheel(name: &str, version: &str, modules: &[&str]) -> Vec<u8> {
    let metadata = format!(
        "Name: {name}\nVersion: {version}\nLicense: MIT\nRequires-Dist: six\nRequires-Dist: x; extra == \"y\"\n\nText"
    );
    let path = format!("{name}-{version}.dist-info/METADATA");
    let mut files = vec![(path.as_str(), metadata.as_bytes())];
    files.extend(modules.iter().map(|module| (*module, &b"x = 1"[..])));
    zipped(&files)
}

fn own() -> (tempfile::TempDir, UserPackages) {
    let dir = tempfile::tempdir().unwrap();
    let own = UserPackages::open(&dir.path().join("own")).unwrap();
    (dir, own)
}

#[test]
fn a_package_is_added_listed_replaced_and_removed() {
    let (_dir, own) = own();
    let added = own.add("my_tool-1.0-py3-none-any.whl", &wheel("my-tool", "1.0", &["my_tool.py"]), &[]).unwrap();
    assert_eq!(
        (added.imports.as_slice(), added.requires.as_slice()),
        (&["my_tool".to_owned()][..], &["six".to_owned()][..])
    );
    assert_eq!(added.licence, "MIT");
    own.add("my_tool-2.0-py3-none-any.whl", &wheel("my-tool", "2.0", &["my_tool.py"]), &[]).unwrap();
    let listed = own.list().unwrap();
    assert_eq!(listed.iter().map(|package| package.version.as_str()).collect::<Vec<_>>(), ["2.0"]);
    assert!(own.files().unwrap().iter().any(|(path, _)| path == "my_tool.py"));
    assert!(own.remove("My.Tool").unwrap());
    assert!(!own.remove("my-tool").unwrap());
    assert!(own.list().unwrap().is_empty());
}

#[test]
fn wheel_file_name_gives_its_platform() {
    let (_dir, own) = own();
    let bytes = wheel("a", "1", &["a.py"]);
    for name in [
        "a.whl",
        "a-1.whl",
        "a-1-py3-none-any.zip",
        "a-1-py2-none-any.whl",
        "../a-1-py3-none-any.whl",
        "-a-1-py3-none-any.whl",
        "",
    ] {
        assert!(matches!(own.add(name, &bytes, &[]), Err(UserPackageError::FileName(_))), "{name}");
    }
    for tags in ["cp312-cp312-manylinux2014_x86_64", "py3-none-linux_x86_64"] {
        let error = own.add(&format!("a-1-{tags}.whl"), &bytes, &[]).unwrap_err();
        assert!(matches!(error, UserPackageError::Platform(..)), "{error}");
    }
    assert!(own.add("a-1-1-py2.py3-none-any.whl", &bytes, &[]).is_ok(), "with a build number");
}

#[test]
fn metadata_comes_from_the_wheel() {
    let (_dir, own) = own();
    for bytes in [wheel("b", "1", &["a.py"]), wheel("a", "2", &["a.py"]), wheel("a", "1", &["a.txt"])] {
        let error = own.add("a-1-py3-none-any.whl", &bytes, &[]).unwrap_err();
        assert!(matches!(error, UserPackageError::Metadata { .. }), "{error}");
    }
    let error = own.add("a-1-py3-none-any.whl", b"no archive", &[]).unwrap_err();
    assert!(matches!(error, UserPackageError::Wheel { .. }), "{error}");
}

#[test]
fn duplicate_modules_are_rejected() {
    let (_dir, own) = own();
    own.add("b-1-py3-none-any.whl", &wheel("b", "1", &["shared.py"]), &[]).unwrap();
    let taken = [("six".to_owned(), "the bundled `six`".to_owned())];
    for (module, owner) in [
        ("json.py", "the standard library"),
        ("os/x.py", "the standard library"),
        ("_ssl.py", "the standard library"),
        ("six.py", "the bundled `six`"),
        ("shared/x.py", "`b`"),
    ] {
        let error = own.add("a-1-py3-none-any.whl", &wheel("a", "1", &[module]), &taken).unwrap_err().to_string();
        assert!(error.contains(owner), "{error}");
    }
    assert_eq!(own.list().unwrap().len(), 1);
    own.add("a-1-py3-none-any.whl", &wheel("a", "1", &["_private.py"]), &taken).unwrap();
}

#[test]
fn packages_of_types_are_added_and_do_not_overlap() {
    let (_dir, own) = own();
    // A package of types has no modules. It can describe a package of any other wheel.
    let files = ["six-stubs/__init__.pyi", "six-stubs/moves/x.pyi", "-stubs/x.pyi", "a b-stubs/x.pyi"];
    let taken = [("six".to_owned(), "the bundled `six`".to_owned())];
    let added = own.add("types_six-1-py3-none-any.whl", &wheel("types-six", "1", &files), &taken).unwrap();
    assert_eq!((added.imports.len(), added.stubs), (0, vec!["six-stubs".to_owned()]));
    assert!(own.files().unwrap().iter().any(|(path, _)| path == "six-stubs/moves/x.pyi"));
    // A newer version replaces the types.
    own.add("types_six-2-py3-none-any.whl", &wheel("types-six", "2", &files), &taken).unwrap();
    let other = wheel("other", "1", &["other.py", "six-stubs/__init__.pyi"]);
    let error = own.add("other-1-py3-none-any.whl", &other, &taken).unwrap_err().to_string();
    assert!(error.contains("`types-six` also contains a module `six-stubs`"), "{error}");
    // A directory without types is not a package of types.
    let error = own.add("a-1-py3-none-any.whl", &wheel("a", "1", &["b-stubs/x.txt", "x.pyi"]), &taken).unwrap_err();
    assert!(error.to_string().contains("it has no importable module"), "{error}");
}

#[test]
fn the_number_of_packages_is_bounded() {
    let (_dir, own) = own();
    let add = |number: usize| {
        let name = format!("p{number}");
        own.add(&format!("{name}-1-py3-none-any.whl"), &wheel(&name, "1", &[&format!("{name}.py")]), &[])
    };
    for number in 0..MAX_USER_PACKAGES {
        add(number).unwrap();
    }
    assert!(matches!(add(MAX_USER_PACKAGES), Err(UserPackageError::TooMany)));
    add(0).unwrap();
}

/// Returns a wheel with one module of `bytes` bytes, mostly zeros, and `modules` empty modules.
fn large(name: &str, bytes: usize, modules: usize) -> (String, Vec<u8>) {
    let (path, metadata) = (format!("{name}-1.dist-info/METADATA"), format!("Name: {name}\nVersion: 1\n"));
    let (module, content) = (format!("{name}/__init__.py"), vec![b'\n'; bytes.saturating_sub(metadata.len())]);
    let empty: Vec<String> = (0..modules).map(|number| format!("{name}/m{number}.py")).collect();
    let mut files = vec![(path.as_str(), metadata.as_bytes()), (module.as_str(), content.as_slice())];
    files.extend(empty.iter().map(|path| (path.as_str(), &b""[..])));
    (format!("{name}-1-py3-none-any.whl"), zipped(&files))
}

fn put(own: &UserPackages, (file, bytes): &(String, Vec<u8>)) -> Result<UserPackage, UserPackageError> {
    own.add(file, bytes, &[])
}

/// Writes a wheel to the directory without any checks.
fn put_unchecked(own: &UserPackages, (file, bytes): &(String, Vec<u8>)) {
    std::fs::write(own.dir.path_of(file), bytes).unwrap();
}

#[test]
fn total_unpacked_size_is_limited() {
    let (_dir, own) = own();
    let each = usize::try_from(MAX_USER_PACKAGES_BYTES / 4).unwrap();
    for name in ["a", "b", "c"] {
        put(&own, &large(name, each, 0)).unwrap();
    }
    put(&own, &large("d", each - 1, 0)).unwrap();
    assert_eq!(
        own.list().unwrap().iter().map(|package| package.unpacked_bytes).sum::<u64>(),
        MAX_USER_PACKAGES_BYTES - 1
    );
    // The size of a replaced package does not count towards the limit, so the packages can reach the limit exactly.
    put(&own, &large("d", each, 0)).unwrap();
    let over = large("e", 40, 0);
    let error = put(&own, &over).unwrap_err();
    assert!(matches!(&error, UserPackageError::TooLarge(name) if name == "e"), "{error}");
    assert!(error.to_string().contains("glovebox packages remove NAME"), "{error}");
    assert_eq!(own.files().unwrap().len(), 8);
    // A wheel above the size limit, copied into the directory by hand, is listed and can be removed, but cannot be
    // imported.
    put_unchecked(&own, &over);
    assert_eq!(own.list().unwrap().len(), 5);
    assert!(matches!(own.files(), Err(UserPackageError::TooLarge(name)) if name == "e"));
    assert!(own.remove("e").unwrap());
    own.files().unwrap();
}

#[test]
fn total_number_of_files_is_limited() {
    let (_dir, own) = own();
    let each = MAX_USER_PACKAGES_FILES / 4;
    for name in ["a", "b", "c"] {
        put(&own, &large(name, 1, each - 2)).unwrap();
    }
    put(&own, &large("d", 1, each - 3)).unwrap();
    put(&own, &large("d", 1, each - 2)).unwrap();
    assert_eq!(own.files().unwrap().len(), MAX_USER_PACKAGES_FILES);
    let error = put(&own, &large("e", 1, 0)).unwrap_err();
    assert!(matches!(&error, UserPackageError::TooManyFiles(name) if name == "e"), "{error}");
    put_unchecked(&own, &large("e", 1, 0));
    assert!(matches!(own.files(), Err(UserPackageError::TooManyFiles(_))));
}

#[test]
fn understated_wheel_size_is_detected() {
    let (_dir, own) = own();
    let each = usize::try_from(MAX_WHEEL_BYTES).unwrap();
    for name in ["a", "b", "c", "d", "e"] {
        let (file, mut bytes) = large(name, each, 0);
        // Changes the length of the large module in the central directory and in its local header.
        let length = u32::try_from(each - "Name: a\nVersion: 1\n".len()).unwrap().to_le_bytes();
        for at in 0..bytes.len() - 4 {
            if bytes[at..at + 4] == length {
                bytes[at..at + 4].copy_from_slice(&1u32.to_le_bytes());
            }
        }
        put_unchecked(&own, &(file, bytes));
    }
    assert!(own.list().unwrap().iter().all(|package| package.unpacked_bytes < 100));
    // The archive reader may detect the mismatch first, so do not check the message.
    assert!(own.files().is_err());
}

#[test]
fn listing_unpacks_at_most_a_megabyte_of_metadata() {
    let (_dir, own) = own();
    let (file, mut bytes) = large("a", 1_000_000, 0);
    // A damaged module does not affect the list.
    let begin = bytes.windows(13).position(|window| window == b"a/__init__.py").unwrap() + 13;
    bytes[begin..begin + 20].fill(0xff);
    put_unchecked(&own, &(file, bytes));
    assert_eq!(own.list().unwrap()[0].unpacked_bytes, 1_000_000);
    assert!(own.files().is_err());
    assert!(own.remove("a").unwrap());
    let metadata = |bytes: u64| {
        let text = format!("Name: b\nVersion: 1\n\n{}", "x".repeat(usize::try_from(bytes).unwrap() - 20));
        let wheel = zipped(&[("b-1.dist-info/METADATA", text.as_bytes()), ("b.py", b"")]);
        own.add("b-1-py3-none-any.whl", &wheel, &[])
    };
    metadata(MAX_METADATA_BYTES - 1).unwrap();
    metadata(MAX_METADATA_BYTES).unwrap();
    assert!(matches!(metadata(MAX_METADATA_BYTES + 1), Err(UserPackageError::Metadata { .. })));
}
