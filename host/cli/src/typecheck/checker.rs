//! The pinned type checker, and its configuration.

use std::{
    env::consts::{ARCH, OS},
    fmt::Write as _,
    path::Path,
};

use glovebox_runtimes::{HostProgram, ProgramSource};

/// The name of the checker.
pub(super) const NAME: &str = "ty";

/// The version of the checker. After a change, run the tests in `host/cli/tests/types`: names of rules and texts of
/// messages change between versions.
const VERSION: &str = "0.0.108";

/// The platforms that the checker supports. The wheels for musl contain static executables, which run on every Linux
/// and need no other file.
const PROGRAMS: [(&str, &str, HostProgram); 4] = [
    (
        "linux",
        "x86_64",
        program("musllinux_1_2_x86_64", 34_965_280, "02bc8a97906543112696fc554e0510616adc16fd9ce359b3814b93765fa3327f"),
    ),
    (
        "linux",
        "aarch64",
        program(
            "musllinux_1_2_aarch64",
            29_909_456,
            "268fad35b3914ab7bba8b1247cebb33a822e37d442dfb069112b81214aa1cc7c",
        ),
    ),
    (
        "macos",
        "x86_64",
        program("macosx_10_12_x86_64", 31_773_552, "c6a4abb18dec183303984c85eadefd4ab09cb78985f430f254be40c6342667cc"),
    ),
    (
        "macos",
        "aarch64",
        program("macosx_11_0_arm64", 29_102_720, "179d805f7ba2a0cee5441be65c94ac06e7b0630cfdd35d6be05ccf679b524552"),
    ),
];

/// Describes the checker for one platform. The checker has the MIT licence.
const fn program(platform: &'static str, size_bytes: u64, sha256: &'static str) -> HostProgram {
    let source = ProgramSource::Wheel { package: NAME, platform, file: "ty-0.0.108.data/scripts/ty" };
    HostProgram { name: NAME, version: VERSION, source, size_bytes, sha256 }
}

/// Returns the checker for this platform, or `None` if it is not supported.
pub(super) fn program_for_this_platform() -> Option<HostProgram> {
    let mut programs = PROGRAMS.into_iter();
    programs.find(|(os, arch, _)| *os == OS && *arch == ARCH).map(|(_, _, program)| program)
}

/// The rules whose violation makes a script fail when it runs, separated by spaces. All other rules are off, such as
/// rules about style, annotations, and values that may be `None`, for example the result of `re.match`. The rule about
/// missing modules is off because the checker does not see all packages of the sandbox.
const RULES: &str = "\
    abstract-class-instantiation abstract-method-call conflicting-metaclass cyclic-class-definition duplicate-base \
    inconsistent-mro index-out-of-bounds instance-layout-conflict invalid-argument-type invalid-await invalid-base \
    invalid-context-manager invalid-exception-caught invalid-raise invalid-super-argument invalid-typed-dict-key \
    isinstance-against-protocol isinstance-against-typed-dict missing-argument missing-attribute \
    missing-module-member missing-slot missing-typed-dict-key no-matching-overload non-literal-typed-dict-key \
    not-callable not-iterable not-subscriptable parameter-already-assigned positional-only-parameter-as-kwarg \
    too-many-positional-arguments unavailable-implicit-super-arguments unbound-type-variable unknown-argument \
    unknown-typed-dict-constructor-key unresolved-reference unsupported-bool-conversion unsupported-operator \
    unused-awaitable zero-stepsize-in-slice";

/// Returns the rules whose violation is reported.
pub(super) fn rules() -> impl Iterator<Item = &'static str> {
    RULES.split_whitespace()
}

/// The version of Python for interpreters that report none.
const DEFAULT_VERSION: &str = "3.15";

/// The rule about undefined names.
const UNKNOWN_NAMES: &str = "unresolved-reference";

/// The rule about modules that the checker does not find.
pub(super) const MISSING_MODULES: &str = "import-not-found";

/// Returns the checker's configuration for an interpreter of this version, such as `3.15.0`. If unknown names are
/// allowed, the checker gives them the type `Unknown`, because they can be variables of a session. `packages` is a
/// directory with packages, if any.
pub(super) fn configuration(version: Option<&str>, allows_unknown_names: bool, packages: Option<&Path>) -> String {
    let mut text = settings(version, packages);
    text.push_str("all = \"ignore\"\n");
    for rule in rules().filter(|rule| !(allows_unknown_names && *rule == UNKNOWN_NAMES)) {
        let _ = writeln!(text, "{rule} = \"error\"");
    }
    text
}

/// Returns a configuration with the checker's own rules, in addition to those that [`configuration`] enables. They also
/// report annotations that a script contradicts, and modules that the checker does not find.
pub(super) fn strict_configuration(version: Option<&str>) -> String {
    let mut text = settings(version, None);
    let _ = writeln!(text, "{MISSING_MODULES} = \"error\"");
    for rule in rules() {
        let _ = writeln!(text, "{rule} = \"error\"");
    }
    text
}

/// Returns the settings of a configuration, up to the heading of its rules.
fn settings(version: Option<&str>, packages: Option<&Path>) -> String {
    let version = version.and_then(minor_version).unwrap_or_else(|| DEFAULT_VERSION.to_owned());
    let packages = packages.map(|path| toml::Value::String(path.to_string_lossy().into_owned()));
    let paths = packages.map(|path| format!("extra-paths = [{path}]\n")).unwrap_or_default();
    format!(
        "[environment]\npython-version = \"{version}\"\npython-platform = \"wasi\"\n{paths}\n\
         [src]\nrespect-ignore-files = false\n\n\
         [rules]\n"
    )
}

/// Returns the first two numbers of a version of Python 3.
fn minor_version(version: &str) -> Option<String> {
    let mut numbers = version.split('.');
    let (major, minor) = (numbers.next()?, numbers.next()?);
    (major == "3" && minor.parse::<u8>().is_ok()).then(|| format!("3.{minor}"))
}

#[cfg(test)]
mod tests {
    use glovebox_runtimes::Digest;

    use super::*;

    #[test]
    fn pins_are_valid_and_belong_to_the_version() {
        for (os, arch, program) in PROGRAMS {
            assert!(program.sha256.parse::<Digest>().is_ok(), "{os} {arch}");
            let ProgramSource::Wheel { file, .. } = program.source else { panic!("{os} {arch}") };
            assert_eq!(file, format!("{NAME}-{VERSION}.data/scripts/{NAME}"));
        }
    }

    #[test]
    fn configuration_has_the_interpreters_version() {
        for (version, expected) in [
            (Some("3.15.0"), "3.15"),
            (Some("3.12.0"), "3.12"),
            (Some("3.12"), "3.12"),
            (Some("2.7.1"), "3.15"),
            (Some("3.x\"\n"), "3.15"),
            (Some(""), "3.15"),
            (None, "3.15"),
        ] {
            let text = configuration(version, false, None);
            assert!(text.contains(&format!("\npython-version = \"{expected}\"\n")), "{version:?}: {text}");
            assert!(toml::from_str::<toml::Table>(&text).is_ok(), "{text}");
        }
    }

    #[test]
    fn configuration_names_the_directory_of_packages() {
        for (path, expected) in [(None, None), (Some("/tmp/a \"b\\\n'"), Some(["/tmp/a \"b\\\n'"].as_slice()))] {
            let table: toml::Table = toml::from_str(&configuration(None, false, path.map(Path::new))).unwrap();
            let paths = table["environment"].get("extra-paths").and_then(toml::Value::as_array);
            let paths: Option<Vec<_>> = paths.map(|paths| paths.iter().filter_map(toml::Value::as_str).collect());
            assert_eq!(paths.as_deref(), expected);
            assert!(table.contains_key("src"));
        }
    }

    #[test]
    fn unknown_names_are_allowed_on_request() {
        for is_allowed in [false, true] {
            let table: toml::Table = toml::from_str(&configuration(None, is_allowed, None)).unwrap();
            let rules = table["rules"].as_table().unwrap();
            assert_eq!(rules.contains_key(UNKNOWN_NAMES), !is_allowed);
            // The length includes the entry `all`.
            assert_eq!(rules.len(), super::rules().count() + usize::from(!is_allowed));
        }
    }

    #[test]
    fn strict_configuration_keeps_the_checkers_own_rules() {
        let table: toml::Table = toml::from_str(&strict_configuration(Some("3.12.0"))).unwrap();
        assert_eq!(table["environment"]["python-version"].as_str(), Some("3.12"));
        let rules = table["rules"].as_table().unwrap();
        assert_eq!((rules.get("all"), rules[MISSING_MODULES].as_str()), (None, Some("error")));
        assert_eq!(rules.len(), super::rules().count() + 1);
    }
}
