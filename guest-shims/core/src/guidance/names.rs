//! Names that scripts look for, and the nearest that are there.

use crate::Language;

/// The standard library, without what is on its way out of it or not for scripts.
const PYTHON: &str = "\
    abc argparse array ast asyncio atexit base64 bdb binascii bisect builtins bz2 cProfile calendar cmath cmd code \
    codecs codeop collections colorsys compileall concurrent configparser contextlib contextvars copy copyreg csv \
    dataclasses datetime dbm decimal difflib dis doctest email encodings enum errno faulthandler filecmp fileinput \
    fnmatch fractions ftplib functools gc getopt getpass gettext glob graphlib gzip hashlib heapq hmac html http \
    imaplib importlib inspect io ipaddress itertools json keyword linecache locale logging mailbox marshal math \
    mimetypes modulefinder netrc numbers opcode operator optparse os pathlib pdb pickle pickletools pkgutil \
    platform plistlib poplib posixpath pprint profile pstats py_compile pyclbr pydoc queue quopri random re \
    reprlib runpy sched secrets select selectors shelve shlex shutil signal site smtplib socket socketserver \
    sqlite3 stat statistics string stringprep struct subprocess symtable sys sysconfig tarfile tempfile textwrap \
    threading time timeit token tokenize tomllib trace traceback tracemalloc types typing unicodedata unittest \
    urllib uuid warnings wave weakref wsgiref xml xmlrpc zipapp zipfile zipimport zlib zoneinfo";

/// What the packages at `/app/site-packages` are imported by.
const PACKAGES: &str = "\
    PyPDF2 attr attrs certifi charset_normalizer cobble dateutil defusedxml et_xmlfile idna jinja2 mammoth markdown markupsafe \
    openpyxl sandbox_utils six tabulate tomli urllib3 xlsxwriter";

/// What `import` and `require` find, and the interpreter's own.
const JAVASCRIPT: &str = "\
    assert assert/strict buffer console crypto events fs fs/promises module os path path/posix perf_hooks process \
    querystring std string_decoder timers timers/promises url util util/types";

/// What `require` and `requireVendor` find beside it.
pub(super) const VENDORED: [&str; 4] = ["csv-simple", "json-utils", "sandbox-utils", "string-utils"];

/// The modules that a script finds without bringing them. That they are there, and that none is missing here, is tested with the
/// interpreters.
pub(super) fn of(language: Language) -> impl Iterator<Item = &'static str> {
    match language {
        Language::Python => PYTHON,
        Language::JavaScript => JAVASCRIPT,
    }
    .split(' ')
}

/// The packages that a Python script finds, if it finds any. That none is missing here is tested with the list of packages.
pub(super) fn packages() -> impl Iterator<Item = &'static str> {
    PACKAGES.split(' ')
}

/// Longer names are not compared.
const MAX_CHARS: usize = 64;

/// The name that a misspelt one most likely stands for: the nearest, not further than a third of its letters.
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
    fn the_nearest_is_not_too_far() {
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
