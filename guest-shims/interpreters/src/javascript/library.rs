//! JavaScript files outside the image.

/// The files by path, sorted. Multi-line strings are not allowed in them, because indentation is removed.
pub(super) const FILES: [(&str, &str); 24] = [
    ("csv-simple.js", include_str!("../../../../vendor_js/csv-simple.js")),
    ("json-utils.js", include_str!("../../../../vendor_js/json-utils.js")),
    ("node/args.js", include_str!("node/args.js")),
    ("node/assert.js", include_str!("node/assert.js")),
    ("node/blob.js", include_str!("node/blob.js")),
    ("node/buffer.js", include_str!("node/buffer.js")),
    ("node/channels.js", include_str!("node/channels.js")),
    ("node/clone.js", include_str!("node/clone.js")),
    ("node/crypto.js", include_str!("node/crypto.js")),
    ("node/display.js", include_str!("node/display.js")),
    ("node/encoding.js", include_str!("node/encoding.js")),
    ("node/events.js", include_str!("node/events.js")),
    ("node/fetch.js", include_str!("node/fetch.js")),
    ("node/fs.js", include_str!("node/fs.js")),
    ("node/glob.js", include_str!("node/glob.js")),
    ("node/legacy.js", include_str!("node/legacy.js")),
    ("node/modules.js", include_str!("node/modules.js")),
    ("node/performance.js", include_str!("node/performance.js")),
    ("node/process.js", include_str!("node/process.js")),
    ("node/promises.js", include_str!("node/promises.js")),
    ("node/url.js", include_str!("node/url.js")),
    ("node/util.js", include_str!("node/util.js")),
    ("sandbox-utils.js", include_str!("../../../../vendor_js/sandbox-utils.js")),
    ("string-utils.js", include_str!("../../../../vendor_js/string-utils.js")),
];

/// Returns the files at `/data_js`, by path below it: packages for `requireVendor`, and in `node/` the modules that the
/// boot scripts compile on first use. A backend mounts the files read-only in every guest.
///
/// Indentation and comments are removed, because guests pay for reading and compiling the files, and providers contain
/// the files.
pub fn library() -> Vec<(String, Vec<u8>)> {
    FILES.iter().map(|(path, text)| ((*path).to_owned(), squeezed(text).into_bytes())).collect()
}

/// Removes indentation, empty lines and comment lines. Line numbers therefore differ from the original file.
fn squeezed(text: &str) -> String {
    let lines = text.lines().map(str::trim_start).filter(|line| !line.is_empty() && !line.starts_with("//"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minified_source_contains_only_code() {
        assert_eq!(squeezed("// a\n\n  x = 'http://y';\n\t// b\nz();"), "x = 'http://y';\nz();\n");
    }

    #[test]
    fn files_are_sorted_and_no_text_spans_lines() {
        assert!(FILES.is_sorted_by_key(|(path, _)| *path));
        for (path, text) in FILES {
            let is_whole = |line: &str| line.matches('`').count() - line.matches("\\`").count() != 1;
            assert!(text.lines().all(is_whole), "{path}");
        }
    }
}
