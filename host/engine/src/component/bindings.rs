//! The types and traits that Wasmtime's macro generates from `wit/`.

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
    // A misused handle is a trap.
    imports: { default: trappable },
    trappable_error_type: { "glovebox:sandbox/types.sandbox-error" => crate::component::error::Failure },
    with: {
        "glovebox:sandbox/sandbox.session": crate::component::session_resource::SessionResource,
        "glovebox:sandbox/sandbox.started": crate::component::started::Stepped,
        "glovebox:sandbox/sandbox.files": crate::component::files::Snapshot,
        "glovebox:sandbox/sandbox.blob": crate::component::blob::Bytes,
    },
    // Two policies that are equal have one sandbox.
    additional_derives: [PartialEq],
});
