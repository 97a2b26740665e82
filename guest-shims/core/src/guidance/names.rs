//! The names of existing modules. Finds the name closest to a misspelt one.

use crate::Language;

/// Python's standard library, without deprecated modules and modules that are useless to scripts.
const PYTHON: &str = "\
    abc argparse array ast asyncio atexit base64 bdb binascii bisect builtins bz2 cProfile calendar cmath cmd code \
    codecs codeop collections colorsys compileall concurrent configparser contextlib contextvars copy copyreg csv \
    dataclasses datetime dbm decimal difflib dis doctest email encodings enum errno faulthandler filecmp fileinput \
    fnmatch fractions ftplib functools gc getopt getpass gettext glob graphlib gzip hashlib heapq hmac html http \
    imaplib importlib inspect io ipaddress itertools json keyword linecache locale logging mailbox marshal math \
    mimetypes modulefinder multiprocessing netrc numbers opcode operator optparse os pathlib pdb pickle pickletools pkgutil \
    platform plistlib poplib posixpath pprint profile pstats py_compile pyclbr pydoc queue quopri random re \
    reprlib runpy sched secrets select selectors shelve shlex shutil signal site smtplib socket socketserver \
    sqlite3 stat statistics string stringprep struct subprocess symtable sys sysconfig tarfile tempfile textwrap \
    threading time timeit token tokenize tomllib trace traceback tracemalloc types typing unicodedata unittest \
    urllib uuid warnings wave weakref wsgiref xml xmlrpc zipapp zipfile zipimport zlib zoneinfo";

/// The import names of the packages at `/app/site-packages`.
const PACKAGES: &str = "\
    PyPDF2 attr attrs certifi charset_normalizer cobble dateutil defusedxml et_xmlfile idna jinja2 leather mammoth markdown markupsafe \
    openpyxl requests sandbox_utils six tabulate tomli urllib3 xlsxwriter";

/// The modules for `import` and `require`, including the interpreter's own modules.
const JAVASCRIPT: &str = "\
    assert assert/strict buffer console crypto events fs fs/promises module os path path/posix perf_hooks process \
    querystring std string_decoder sys timers timers/promises tty url util util/types";

/// The vendored packages for `require` and `requireVendor`.
pub(super) const VENDORED: [&str; 4] = ["csv-simple", "json-utils", "sandbox-utils", "string-utils"];

/// Returns the modules that need no installation. Tests check that each of them exists and that the list is complete.
pub(super) fn of(language: Language) -> impl Iterator<Item = &'static str> {
    match language {
        Language::Python => PYTHON,
        Language::JavaScript => JAVASCRIPT,
    }
    .split(' ')
}

/// Returns the import names of the packages at `/app/site-packages`. A test checks that the list is complete.
pub(super) fn packages() -> impl Iterator<Item = &'static str> {
    PACKAGES.split(' ')
}

/// Maximum length of a name to compare, in characters.
const MAX_CHARS: usize = 64;

/// Returns the name closest to a misspelt one. Up to a third of the letters may differ, or one letter in a short name.
pub(super) fn nearest<'n>(name: &str, among: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let length = name.chars().count();
    if length > MAX_CHARS {
        return None;
    }
    let most = (length / 3).max(1);
    let distance = |other: &'n str| (strsim::damerau_levenshtein(&name.to_lowercase(), &other.to_lowercase()), other);
    let nearest = among.into_iter().map(distance).min_by_key(|(distance, _)| *distance);
    nearest
        .filter(|(distance, other)| *distance <= most && *distance < length && name != *other)
        .map(|(_, other)| other)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn nearest_name_is_within_the_distance_limit() {
        let names = ["json", "os", "random", "statistics"];
        for (name, found) in [
            ("jsno", Some("json")),
            ("JSON", Some("json")),
            ("json", None),
            ("rnadom", Some("random")),
            ("statistic", Some("statistics")),
            ("o", None),
            ("osx", Some("os")),
            ("numpy", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, names), found, "{name}");
        }
        let long = "a".repeat(64);
        let near = format!("{long}b");
        assert_eq!(nearest(&long, [near.as_str()]), Some(near.as_str()));
        assert_eq!(nearest(&near, [long.as_str()]), None, "one letter too long to be compared");
    }
}
