use std::io;

use super::*;
use crate::{Digest, SetupStep, wheel_files::tests::zipped};

fn step(code: &str) -> SetupStep {
    SetupStep { preload: vec!["json".into()], code: code.into() }
}

fn inputs(files: &[(&str, &[u8])]) -> ImageInputs {
    let owned = |files: &[(&str, &[u8])]| files.iter().map(|(path, bytes)| ((*path).into(), bytes.to_vec())).collect();
    ImageInputs { wheels: Vec::new(), files: owned(files) }
}

fn define(name: &str, steps: Vec<SetupStep>, inputs: &ImageInputs) -> ImageDefinition {
    ImageDefinition::new(name, ("python", Digest::of(b"binary")), steps, inputs, (1 << 30, 1000))
}

fn image(name: &str, code: &str, files: &[(&str, &[u8])]) -> CustomImage {
    let inputs = inputs(files);
    CustomImage::new(define(name, vec![step(code)], &inputs), inputs, &[]).unwrap()
}

fn problem(result: Result<impl std::fmt::Debug, CustomImageError>) -> String {
    result.unwrap_err().to_string()
}

fn stored() -> (tempfile::TempDir, CustomImages) {
    let dir = tempfile::tempdir().unwrap();
    let own = CustomImages::open(&dir.path().join("images")).unwrap();
    (dir, own)
}

#[test]
fn an_image_is_stored_found_listed_replaced_and_removed() {
    let (_dir, own) = stored();
    assert!(own.find("a").unwrap().is_none());
    own.store(&image("a", "x = 1", &[("data/b.csv", b"1,2"), ("a.txt", b"")])).unwrap();
    own.store(&image("b", "x = 2", &[])).unwrap();
    assert_eq!(own.names().unwrap(), ["a", "b"]);
    let found = own.find("a").unwrap().unwrap();
    assert_eq!(found.definition(), image("a", "x = 1", &[("data/b.csv", b"1,2"), ("a.txt", b"")]).definition());
    assert_eq!(found.inputs().unwrap(), inputs(&[("data/b.csv", b"1,2"), ("a.txt", b"")]));
    assert_eq!(found.packages().unwrap(), []);

    own.store(&image("a", "x = 3", &[])).unwrap();
    assert_eq!(own.find("a").unwrap().unwrap().definition().steps[0].code, "x = 3");
    assert_eq!(own.remove("a").unwrap(), Some(own.size_bytes("b")));
    assert_eq!(
        (own.remove("a").unwrap(), own.remove("../b").unwrap(), own.names().unwrap()),
        (None, None, vec!["b".into()])
    );
}

#[test]
fn digest_covers_only_the_images_inputs() {
    let plain = image("a", "x = 1", &[("f", b"1")]);
    let digest = |image: &CustomImage| image.definition().digest();
    assert_eq!(digest(&plain), digest(&image("b", "x = 1", &[("f", b"1")])), "the name does not affect the digest");
    let limits = ImageDefinition { memory_bytes: 1, timeout_ms: 1, ..plain.definition().clone() };
    assert_eq!(limits.digest(), digest(&plain), "the limits do not affect the digest");
    for (what, other) in [
        ("the code", image("a", "x = 2", &[("f", b"1")])),
        ("a file's content", image("a", "x = 1", &[("f", b"2")])),
        ("a file's path", image("a", "x = 1", &[("g", b"1")])),
        ("the files", image("a", "x = 1", &[])),
    ] {
        assert_ne!(digest(&plain), digest(&other), "{what}");
    }
    let binary = ImageDefinition { runtime_sha256: Digest::of(b"other"), ..plain.definition().clone() };
    assert_ne!(binary.digest(), digest(&plain));
    let split = |steps| define("a", steps, &inputs(&[])).digest();
    assert_ne!(split(vec![step("x"), step("y")]), split(vec![step("x\ny")]));
    let preloading = |modules: &[&str]| {
        let preload = modules.iter().map(|module| (*module).to_owned()).collect();
        split(vec![SetupStep { preload, code: String::new() }])
    };
    assert_ne!(preloading(&["a", "b"]), preloading(&["b", "a"]));
}

#[test]
fn exported_image_round_trips() {
    let (dir, own) = stored();
    own.store(&image("a", "x = 1", &[("f", b"1")])).unwrap();
    let path = dir.path().join("out.tar");
    let export = || {
        let mut bytes = Vec::new();
        own.find("a").unwrap().unwrap().export(&path, &mut bytes).unwrap();
        bytes
    };
    assert_eq!(export(), export());
    assert_eq!(export(), std::fs::read(own.path_of("a")).unwrap());
    std::fs::write(&path, export()).unwrap();
    let imported = CustomImage::import(&path, &[]).unwrap().named("b").unwrap();
    assert_eq!(imported.definition().digest(), own.find("a").unwrap().unwrap().definition().digest());
    own.store(&imported).unwrap();
    assert_eq!(own.names().unwrap(), ["a", "b"]);
    assert!(problem(CustomImage::import(&path, &[]).unwrap().named("-b")).contains("`-b` is not a valid image name"));
}

#[test]
fn damaged_image_file_is_rejected_and_removable() {
    let (dir, own) = stored();
    own.store(&image("a", "x = 1", &[("f", b"12345678")])).unwrap();
    let path = own.path_of("a");
    let whole = std::fs::read(&path).unwrap();
    let outside = dir.path().join("x.tar");
    let import = |bytes: &[u8]| {
        std::fs::write(&outside, bytes).unwrap();
        problem(CustomImage::import(&outside, &[]))
    };
    for cut in [0, 1, 512, 700, whole.len() - 1600] {
        let message = import(&whole[..cut]);
        assert!(message.contains("is not an image, or is damaged"), "{cut}: {message}");
    }
    let at = whole.windows(8).position(|bytes| bytes == b"12345678").unwrap();
    let mut changed = whole.clone();
    changed[at] = b'0';
    assert!(import(&changed).contains("its file `f` does not match the definition"));
    assert!(problem(CustomImage::import(&dir.path().join("none"), &[])).contains("cannot read"));

    // `find` reads only the definition. `inputs` reads the remaining entries.
    std::fs::write(&path, &changed).unwrap();
    assert!(problem(own.find("a").unwrap().unwrap().inputs()).contains("damaged"));
    std::fs::write(&path, &whole[..100]).unwrap();
    assert!(problem(own.find("a")).contains("damaged"));
    std::fs::rename(&path, own.path_of("b")).unwrap();
    std::fs::write(own.path_of("b"), &whole).unwrap();
    assert!(problem(own.find("b")).contains("contains the image `a`; rename the file to `a.tar`"));
    assert!(own.remove("b").unwrap().is_some());
}

/// Returns an archive whose definition might not match its entries.
fn archived(definition: &str, entries: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
    let mut archive = Builder::new(Vec::new());
    let all = [("image.json", EntryType::Regular, definition.as_bytes())];
    for (name, kind, bytes) in all.iter().chain(entries) {
        let mut header = Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_entry_type(*kind);
        header.set_path(name).unwrap();
        header.set_cksum();
        archive.append(&header, *bytes).unwrap();
    }
    archive.into_inner().unwrap()
}

#[test]
fn invalid_image_archives_are_rejected() {
    use tar::EntryType::{Link, Regular, Symlink};
    let sound = define("a", Vec::new(), &inputs(&[("f", b"1")]));
    let json = serde_json::to_value(&sound).unwrap();
    let changed = |pointer: &str, value: serde_json::Value| {
        let mut json = json.clone();
        *json.pointer_mut(pointer).unwrap() = value;
        json.to_string()
    };
    let one: &[(&str, EntryType, &[u8])] = &[("inputs/0", Regular, b"1")];
    let read = |definition: &str, entries| {
        read_archive(&*archived(definition, entries), |_, _| Ok(())).map_err(|e| e.to_string())
    };
    read(&json.to_string(), one).unwrap();
    for (what, definition, entries, says) in [
        ("another format", changed("/format", 2.into()), one, "format 2"),
        ("an unknown key", changed("/files/0", serde_json::json!({"path": "f"})), one, "missing field"),
        (
            "a path outside the workspace",
            changed("/files/0/path", "../f".into()),
            one,
            "`../f` is not a valid file path",
        ),
        ("an absolute path", changed("/files/0/path", "/etc/x".into()), one, "not a valid file path"),
        (
            "a path of a package",
            changed("/files/0/path", "site-packages/x".into()),
            one,
            "inside the packages directory",
        ),
        (
            "files over the total limit",
            changed("/files/0/size_bytes", (MAX_IMAGE_FILE_BYTES + 1).into()),
            one,
            "the maximum is 268435456",
        ),
        ("a size over the actual size", changed("/files/0/size_bytes", 2.into()), one, "does not match the definition"),
        ("a name with a path", changed("/name", "../a".into()), one, "is not a valid image name"),
        ("an excessive timeout", changed("/timeout_ms", u64::MAX.into()), one, "must be between 1 and 3600000"),
        ("a timeout of zero", changed("/timeout_ms", 0.into()), one, "must be between 1 and 3600000"),
        (
            "an excessive memory limit",
            changed("/memory_bytes", (1u64 << 40).into()),
            one,
            "must be between 134217728 and 4294967296",
        ),
        (
            "a path with a line break",
            changed("/files/0/path", "a\nerror: b".into()),
            one,
            r"`a\nerror: b` is not a valid file path",
        ),
        ("no input", json.to_string(), &[], "`inputs/0` is missing or in the wrong place"),
        ("another input", json.to_string(), &[("inputs/1", Regular, b"1")], "`inputs/0` is missing"),
        ("a link", json.to_string(), &[("inputs/0", Link, b"1")], "`inputs/0` is missing"),
        ("a symbolic link", json.to_string(), &[("inputs/0", Symlink, b"1")], "`inputs/0` is missing"),
        ("a longer input", json.to_string(), &[("inputs/0", Regular, b"12")], "is larger than 1 bytes"),
    ] {
        let message = read(&definition, entries).unwrap_err();
        assert!(message.contains(says), "{what}: {message}");
    }
    let padded = format!("{}{}", json, " ".repeat(16 << 20));
    assert!(read(&padded, one).unwrap_err().contains("its file `image.json` is larger than 16777216 bytes"));
}

/// The inputs contain only zeros, which use no disk space in a sparse file. The inputs are not wheels, but their
/// digests are correct.
#[test]
fn import_stops_at_the_first_invalid_wheel() {
    struct CountingReader<R> {
        reader: R,
        bytes_read: std::rc::Rc<std::cell::Cell<u64>>,
    }
    impl<R: Read> Read for CountingReader<R> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let read = self.reader.read(buffer)?;
            self.bytes_read.set(self.bytes_read.get() + read as u64);
            Ok(read)
        }
    }
    let zeros = vec![0; 1 << 20];
    let wheel = |at: usize| (format!("w{at}-1.0-py3-none-any.whl"), zeros.clone());
    let wheels = ImageInputs { wheels: (0..8).map(wheel).collect(), files: Vec::new() };
    let definition = define("a", Vec::new(), &wheels);
    let mut file = Vec::new();
    write_archive(&definition, &wheels, &mut file).unwrap();
    let bytes_read = std::rc::Rc::default();
    let counted = CountingReader { reader: &*file, bytes_read: std::rc::Rc::clone(&bytes_read) };
    let check = |name: &str, bytes: &[u8]| check_wheel(name, bytes).map_err(io::Error::other);
    read_archive(counted, check).unwrap_err();
    assert!(bytes_read.get() < 2 << 20, "{} bytes", bytes_read.get());

    let mut larger = definition.clone();
    larger.wheels.iter_mut().for_each(|wheel| wheel.size_bytes = MAX_WHEEL_BYTES);
    assert!(problem(larger.check()).contains("its wheels are 268435456 bytes in total; the maximum is 134217728"));
}

#[test]
fn image_definition_is_limited() {
    let with = |steps: Vec<SetupStep>, files: &[(&str, &[u8])]| define("a", steps, &inputs(files)).check();
    let code = |bytes: usize| vec![SetupStep { preload: Vec::new(), code: " ".repeat(bytes) }];
    let preload = |count: usize| vec![SetupStep { preload: vec!["m".into(); count], code: String::new() }];
    with(code(MAX_IMAGE_CODE_BYTES), &[]).unwrap();
    assert!(problem(with(code(MAX_IMAGE_CODE_BYTES + 1), &[])).contains("the maximum is 1048576"));
    with(vec![step(""); MAX_IMAGE_STEPS], &[]).unwrap();
    assert!(problem(with(vec![step(""); MAX_IMAGE_STEPS + 1], &[])).contains("more than 16 setups"));
    with(preload(MAX_IMAGE_PRELOADED), &[]).unwrap();
    assert!(problem(with(preload(MAX_IMAGE_PRELOADED + 1), &[])).contains("more than 256 modules"));
    for module in ["", "a b", "a;b", "a\nb", "a\"b", &"a".repeat(201)] {
        let steps = vec![SetupStep { preload: vec![module.into()], code: String::new() }];
        assert!(problem(with(steps, &[])).contains("is not the name of a module"), "{module:?}");
    }
    for module in ["a.b_c", "node:fs", "./lib.js", "@a/b-c"] {
        with(vec![SetupStep { preload: vec![module.into()], code: String::new() }], &[]).unwrap();
    }
    let names: Vec<String> = (0..=MAX_IMAGE_FILES).map(|at| format!("f{at}")).collect();
    let files: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
    with(Vec::new(), &files[1..]).unwrap();
    assert!(problem(with(Vec::new(), &files)).contains("1025 files; the maximum is 1024"));
    for (files, says) in [
        (&[("f", &b""[..]), ("f", b"")][..], "the file `f` twice"),
        (&[("f/g/h", b""), ("f", b"")], "`f` is a file and a directory"),
        (&[("f/g", b""), ("f-", b""), ("f", b"")], "`f` is a file and a directory"),
        (&[("f//g", b"")], "is not a valid file path"),
        (&[("f/.", b"")], "is not a valid file path"),
        (&[("", b"")], "is not a valid file path"),
        (&[("f\u{1b}[1m", b"")], "is not a valid file path"),
    ] {
        assert!(problem(with(Vec::new(), files)).contains(says), "{says}");
    }
    with(Vec::new(), &[("f/g", b""), ("f-", b""), ("f.x", b"")]).unwrap();
}

fn wheel(name: &str, module: &str) -> (String, Vec<u8>) {
    let (path, metadata) = (format!("{name}-1.dist-info/METADATA"), format!("Name: {name}\nVersion: 1\n"));
    let wheel = zipped(&[(path.as_str(), metadata.as_bytes()), (module, b"x = 1")]);
    (format!("{name}-1-py3-none-any.whl"), wheel)
}

#[test]
fn image_wheels_are_checked_and_included() {
    let (dir, own) = stored();
    let with = |wheels: Vec<(String, Vec<u8>)>, taken: &[(String, String)]| {
        let inputs = ImageInputs { wheels, files: Vec::new() };
        CustomImage::new(define("a", Vec::new(), &inputs), inputs, taken)
    };
    own.store(&with(vec![wheel("one", "one.py"), wheel("two", "two.py")], &[]).unwrap()).unwrap();
    let found = own.find("a").unwrap().unwrap().packages().unwrap();
    assert_eq!(found.iter().filter(|(path, _)| path.ends_with(".py")).count(), 2);
    let taken = [("one".to_owned(), "somebody".to_owned())];
    for (wheels, taken, says) in [
        (vec![("x.txt".to_owned(), Vec::new())], &[][..], "is not a wheel file name"),
        (vec![wheel("one", "one.py"), wheel("two", "one.py")], &[], "`one` also contains a module"),
        (vec![wheel("one", "json.py")], &[], "the standard library"),
        (vec![wheel("one", "one.py")], &taken, "somebody also contains a module"),
        (vec![wheel("one", "one.so")], &[], "it contains native code"),
    ] {
        assert!(problem(with(wheels, taken)).contains(says), "{says}");
    }
    let path = dir.path().join("exported");
    own.find("a").unwrap().unwrap().export(&path, &mut File::create(&path).unwrap()).unwrap();
    assert!(problem(CustomImage::import(&path, &taken)).contains("somebody also contains a module"));
}
