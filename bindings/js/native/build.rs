//! Links the module as each platform wants it: on macOS and Windows Node.js's symbols are looked up when it is loaded.

fn main() {
    napi_build::setup();
}
