//! Sets the linker options of each platform: on macOS and Windows, Node.js's symbols are resolved when the module is
//! loaded.

fn main() {
    napi_build::setup();
}
