//! The types and traits that Wasmtime's macro generates from `wit/`, and the error of their functions.

use self::glovebox::sandbox::types::SandboxError;

wasmtime::component::bindgen!({
    path: "../../wit",
    inline: "
        package glovebox:host;

        world host {
            import glovebox:sandbox/sandbox@0.2.0;
            import glovebox:sandbox/tools@0.2.0;
        }
    ",
    world: "glovebox:host/host",
    // Using an invalid handle is a trap.
    imports: { default: trappable },
    trappable_error_type: { "glovebox:sandbox/types.sandbox-error" => crate::component::bindings::Failure },
    with: {
        "glovebox:sandbox/sandbox.session": crate::component::session_resource::SessionResource,
        "glovebox:sandbox/sandbox.started": crate::component::stepped::Stepped,
        "glovebox:sandbox/sandbox.files": crate::component::snapshot::Snapshot,
        "glovebox:sandbox/sandbox.blob": crate::component::bytes::Bytes,
    },
    // Equal policies share a sandbox.
    additional_derives: [PartialEq],
});

/// An error for the component, or a trap for calls that a correct component never makes.
#[expect(unreachable_pub, reason = "the generated modules, which are private as well, export it again")]
#[derive(Debug)]
pub enum Failure {
    Error(SandboxError),
    Trap(wasmtime::Error),
}
