//! The configuration of an engine of one machine. It notices within four seconds that a node no longer answers.

use std::path::Path;

/// Few partitions: each costs memory, and one machine has few processors.
const PARTITIONS: u32 = 4;
/// What the engine may hold in memory for its tables. Its default is for machines of its own.
const ROCKSDB_BYTES: u64 = 256 << 20;

/// The configuration, in the engine's TOML: reached from this machine alone, telling nobody of itself.
pub(super) fn text(ingress: u16, admin: u16, node: u16, data: &Path) -> String {
    let data = toml_string(&data.to_string_lossy());
    format!(
        r#"node-name = "glovebox"
cluster-name = "glovebox"
base-dir = {data}
bind-ip = "127.0.0.1"
bind-port = {node}
listen-mode = "tcp"
advertised-address = "http://127.0.0.1:{node}"
default-num-partitions = {PARTITIONS}
rocksdb-total-memory-size = "{ROCKSDB_BYTES} B"
log-format = "compact"
log-disable-ansi-codes = true
disable-telemetry = true

[worker.invoker]
http2-keep-alive-interval = "2s"
http2-keep-alive-timeout = "2s"

[admin]
bind-address = "127.0.0.1:{admin}"

[ingress]
bind-address = "127.0.0.1:{ingress}"
"#
    )
}

/// A string of TOML: as JSON has it, which escapes the same way.
fn toml_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_of_any_name_stands_in_the_configuration_as_it_is() {
        let text = text(1, 2, 3, Path::new("/a \"b\"\\c"));
        assert!(text.contains(r#"base-dir = "/a \"b\"\\c""#), "{text}");
    }
}
