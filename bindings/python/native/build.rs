//! Sets the linker options for extension modules: on macOS, the interpreter's symbols are resolved when the module is
//! loaded.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
