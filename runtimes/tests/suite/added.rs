//! Runtimes that a user has added, further images of a runtime, and runtimes with a library.

use glovebox_runtimes::{Digest, Fetched, Language, Manifest, Quiet, Runtimes};

use crate::support::{World, pinned};

const LIBRARY: &[u8] = b"a library";

/// Returns a manifest with `fake`, which has a library, and two further images of it.
fn manifest() -> Manifest {
    let text = format!(
        r#"
        [[runtime]]
        name = "fake"
        language = "python"
        default = true
        version = "1.0"
        sha256 = "{}"
        size_bytes = {}
        licence = "MIT"
        homepage = "https://example.org"
        origin = "a test"
        recipe = "r"
        library = {{ file = "a/lib.zip", guest_path = "/lib/lib.zip", sha256 = "{}", size_bytes = {} }}
        sources = [{{ kind = "pypi", package = "first", version = "1", file = "a/fake.wasm" }}]
        [[image]]
        name = "more"
        runtime = "fake"
        origin = "more"
        setup = "import more"
        [[image]]
        name = "most"
        runtime = "fake"
        origin = "most"
        setup = "import most"
        [recipe.r]
        driver = "cpython"
        "#,
        Digest::of(&pinned()),
        pinned().len(),
        Digest::of(LIBRARY),
        LIBRARY.len(),
    );
    Manifest::parse(&text).unwrap()
}

fn runtimes(world: &World) -> Runtimes {
    Runtimes::new(manifest(), world.cache()).with_fetcher(world.fetcher())
}

#[test]
fn scripts_run_on_the_last_that_was_added_or_on_the_default() {
    let world = World::with_wheels();
    let runtimes = runtimes(&world);
    let entry = |name: &str| runtimes.manifest().find(name).unwrap();
    let preferred = || runtimes.preferred(Language::Python).unwrap().unwrap().name.as_str();
    assert_eq!(preferred(), "fake");
    runtimes.add(entry("most")).unwrap();
    runtimes.add(entry("more")).unwrap();
    runtimes.add(entry("more")).unwrap();
    assert_eq!(preferred(), "most", "by the manifest's order, not by that of adding");
    assert!(runtimes.is_added(entry("more")).unwrap() && !runtimes.is_added(entry("fake")).unwrap());
    assert!(runtimes.withdraw(entry("most")).unwrap());
    assert!(!runtimes.withdraw(entry("most")).unwrap());
    assert_eq!(preferred(), "more");
    assert!(runtimes.withdraw(entry("more")).unwrap());
    assert_eq!(preferred(), "fake");
    assert!(runtimes.preferred(Language::JavaScript).unwrap().is_none());
}

#[test]
fn a_library_comes_with_its_binary_is_checked_like_it_and_goes_with_it() {
    let world = World::with_wheels();
    world.wheel_of("first", &[("a/fake.wasm", &pinned()), ("a/lib.zip", LIBRARY)]);
    let runtimes = runtimes(&world);
    let (entry, image) = (runtimes.manifest().find("fake").unwrap(), runtimes.manifest().find("more").unwrap());
    assert_eq!(runtimes.fetch(image, &Quiet).unwrap(), Fetched::Now);
    assert_eq!(runtimes.fetch(entry, &Quiet).unwrap(), Fetched::AlreadyThere, "an image has its runtime's files");
    assert_eq!(world.files("binaries").len(), 2);
    let library = world.files("binaries").into_iter().find(|name| name.ends_with(".zip")).unwrap();
    runtimes.verify(entry).unwrap();
    let path = world.path("cache").join("binaries").join(&library);
    std::fs::write(&path, b"a LIBRARY").unwrap();
    assert!(runtimes.verify(entry).unwrap_err().to_string().contains(&library));
    std::fs::remove_file(&path).unwrap();
    assert!(!runtimes.present(entry).unwrap(), "one of two files is not enough");
    assert!(runtimes.library(entry, &Quiet).unwrap().is_some(), "it is fetched again");
    assert_eq!(runtimes.remove(entry).unwrap(), entry.total_bytes());
    assert_eq!(world.files("binaries"), Vec::<String>::new());
}

#[test]
fn a_library_with_other_bytes_is_not_stored() {
    let world = World::with_wheels();
    world.wheel_of("first", &[("a/fake.wasm", &pinned()), ("a/lib.zip", b"b library")]);
    let runtimes = runtimes(&world);
    let entry = runtimes.manifest().find("fake").unwrap();
    let error = runtimes.fetch(entry, &Quiet).unwrap_err();
    assert!(format!("{error:?}").contains(&Digest::of(LIBRARY).to_string()), "{error:?}");
    assert!(!world.files("binaries").iter().any(|name| name.ends_with(".zip")));
    assert!(!runtimes.present(entry).unwrap());
}
