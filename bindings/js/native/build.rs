//! Sets the linker options for native modules: on macOS and Windows, Node.js's symbols are resolved when the module is
//! loaded.

fn main() {
    napi_build::setup();
}
