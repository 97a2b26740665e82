//! The configuration of a single-machine engine, which detects an unresponsive node within four seconds.

use std::path::Path;

/// Number of partitions. Each costs memory, and one machine has few processors.
const PARTITIONS: u32 = 4;
/// Memory limit for the engine's tables in bytes. The engine's default suits a dedicated machine.
const ROCKSDB_BYTES: u64 = 256 << 20;

/// Formats the configuration as TOML. The engine listens on loopback only, and its telemetry is off.
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

/// Formats a TOML string. JSON escapes strings the same way.
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
