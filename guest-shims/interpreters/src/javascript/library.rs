//! The JavaScript files at `/data_js`. A full image also contains most of them in compiled form.

/// Returns the paths and texts of files in `vendor_js/intl`.
macro_rules! intl {
    ($($name:literal)*) => {
        [$((concat!("intl/", $name), include_str!(concat!("../../vendor_js/intl/", $name)))),*]
    };
}

/// The files that `Intl` reads.
const INTL: &[(&str, &str)] = &intl! {
    "collation.json" "dates.js" "index.json" "lists.js" "locale.js" "locales/ar-AE.json" "locales/ar-EG.json"
    "locales/ar-SA.json" "locales/ar.json" "locales/bn.json" "locales/cs.json" "locales/da.json" "locales/de-AT.json"
    "locales/de-CH.json" "locales/de.json" "locales/el.json" "locales/en-AU.json" "locales/en-CA.json"
    "locales/en-GB.json" "locales/en-IE.json" "locales/en-IN.json" "locales/en-NZ.json" "locales/en-ZA.json"
    "locales/en.json" "locales/es-AR.json" "locales/es-CL.json" "locales/es-CO.json" "locales/es-MX.json"
    "locales/es-US.json" "locales/es.json" "locales/fa.json" "locales/fi.json" "locales/fr-BE.json"
    "locales/fr-CA.json" "locales/fr-CH.json" "locales/fr.json" "locales/he.json" "locales/hi.json" "locales/hu.json"
    "locales/id.json" "locales/it-CH.json" "locales/it.json" "locales/ja.json" "locales/ko.json" "locales/nb.json"
    "locales/nl-BE.json" "locales/nl.json" "locales/pl.json" "locales/pt-PT.json" "locales/pt.json" "locales/ro.json"
    "locales/ru.json" "locales/sk.json" "locales/sv.json" "locales/th.json" "locales/tr.json" "locales/uk.json"
    "locales/vi.json" "locales/zh-Hant-HK.json" "locales/zh-Hant.json" "locales/zh.json" "numbers.js" "plurals.js"
    "relative.js" "rules.js" "segments.js" "shared.js" "zones.json"
};

/// The files by path, sorted. Multi-line strings are not allowed in the files, because indentation is removed.
pub(super) const FILES: [(&str, &str); 30] = [
    ("csv-simple.js", include_str!("../../vendor_js/csv-simple.js")),
    ("json-utils.js", include_str!("../../vendor_js/json-utils.js")),
    ("node/args.js", include_str!("node/args.js")),
    ("node/assert.js", include_str!("node/assert.js")),
    ("node/blob.js", include_str!("node/blob.js")),
    ("node/buffer.js", include_str!("node/buffer.js")),
    ("node/channels.js", include_str!("node/channels.js")),
    ("node/clone.js", include_str!("node/clone.js")),
    ("node/crypto.js", include_str!("node/crypto.js")),
    ("node/digests.js", include_str!("node/digests.js")),
    ("node/display.js", include_str!("node/display.js")),
    ("node/encoding.js", include_str!("node/encoding.js")),
    ("node/events.js", include_str!("node/events.js")),
    ("node/fetch.js", include_str!("node/fetch.js")),
    ("node/fs.js", include_str!("node/fs.js")),
    ("node/glob.js", include_str!("node/glob.js")),
    ("node/hosts.js", include_str!("node/hosts.js")),
    ("node/imports.js", include_str!("node/imports.js")),
    ("node/intl.js", include_str!("node/intl.js")),
    ("node/legacy.js", include_str!("node/legacy.js")),
    ("node/modules.js", include_str!("node/modules.js")),
    ("node/performance.js", include_str!("node/performance.js")),
    ("node/process.js", include_str!("node/process.js")),
    ("node/promises.js", include_str!("node/promises.js")),
    ("node/test.js", include_str!("node/test.js")),
    ("node/url.js", include_str!("node/url.js")),
    ("node/util.js", include_str!("node/util.js")),
    ("node/windows.js", include_str!("node/windows.js")),
    ("sandbox-utils.js", include_str!("../../vendor_js/sandbox-utils.js")),
    ("string-utils.js", include_str!("../../vendor_js/string-utils.js")),
];

/// Returns the files at `/data_js`, by path below it, sorted. They are packages for `requireVendor`, modules in `node/`
/// that lean images compile on first use, and the data of `Intl` in `intl/`. A backend mounts the files read-only in
/// every guest.
pub fn library() -> Vec<(String, Vec<u8>)> {
    let mut files = compiled();
    files.extend(INTL.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())));
    files.sort_by(|(left, _), (right, _)| left.cmp(right));
    files
}

/// Returns the files that an image contains in compiled form.
///
/// Indentation and comments are removed, because guests pay for reading and compiling the files, and the files increase
/// the size of providers.
pub(super) fn compiled() -> Vec<(String, Vec<u8>)> {
    FILES.iter().map(|(path, text)| ((*path).to_owned(), minified(text).into_bytes())).collect()
}

/// Removes indentation, empty lines and comment lines. Line numbers therefore differ from the original file.
fn minified(text: &str) -> String {
    let lines = text.lines().map(str::trim_start).filter(|line| !line.is_empty() && !line.starts_with("//"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minified_source_contains_only_code() {
        assert_eq!(minified("// a\n\n  x = 'http://y';\n\t// b\nz();"), "x = 'http://y';\nz();\n");
    }

    #[test]
    fn files_are_sorted_and_no_text_spans_lines() {
        assert!(FILES.is_sorted_by_key(|(path, _)| *path));
        for (path, text) in FILES {
            let is_whole = |line: &str| line.matches('`').count() - line.matches("\\`").count() != 1;
            // An escaped backslash does not escape the next character.
            assert!(text.replace(r"\\", "").lines().all(is_whole), "{path}");
        }
    }
}
