//! Scripts that are no part of the image.

/// The files at `/data_js`, by path below it: packages that scripts ask for by `requireVendor`, and in `node/` what the boot scripts
/// compile when it is first used. A backend shows them to every guest, read-only.
pub const LIBRARY: [(&str, &str); 17] = [
    ("csv-simple.js", include_str!("../../../../vendor_js/csv-simple.js")),
    ("json-utils.js", include_str!("../../../../vendor_js/json-utils.js")),
    ("node/assert.js", include_str!("node/assert.js")),
    ("node/buffer.js", include_str!("node/buffer.js")),
    ("node/clone.js", include_str!("node/clone.js")),
    ("node/crypto.js", include_str!("node/crypto.js")),
    ("node/encoding.js", include_str!("node/encoding.js")),
    ("node/events.js", include_str!("node/events.js")),
    ("node/fs.js", include_str!("node/fs.js")),
    ("node/glob.js", include_str!("node/glob.js")),
    ("node/modules.js", include_str!("node/modules.js")),
    ("node/process.js", include_str!("node/process.js")),
    ("node/promises.js", include_str!("node/promises.js")),
    ("node/url.js", include_str!("node/url.js")),
    ("node/util.js", include_str!("node/util.js")),
    ("sandbox-utils.js", include_str!("../../../../vendor_js/sandbox-utils.js")),
    ("string-utils.js", include_str!("../../../../vendor_js/string-utils.js")),
];
