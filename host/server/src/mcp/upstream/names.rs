//! Names of the tools of other servers, for scripts.

/// Returns `SERVER_TOOL`, with an underscore for each character that is not an ASCII letter or digit.
pub(super) fn script_name(server: &str, tool: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    format!("{server}_{tool}").chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::script_name;

    #[test]
    fn a_name_has_only_what_scripts_can_write() {
        for (server, tool, name) in [
            ("weather", "get_forecast", "weather_get_forecast"),
            ("my-server", "files/read.text", "my_server_files_read_text"),
            ("ü", "x", "__x"),
            ("a b", "c\n", "a_b_c_"),
        ] {
            assert_eq!(script_name(server, tool), name);
        }
    }
}
