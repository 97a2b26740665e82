//! Links the module as each platform wants it: on macOS the interpreter's symbols are looked up when it is loaded.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
