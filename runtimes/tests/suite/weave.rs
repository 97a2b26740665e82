//! Weaving: what the passes make of small modules, and of the pinned binaries.

use glovebox_runtimes::weave::{self, WeaveError};
use wasmparser::{Validator, WasmFeatures};

use crate::real_binaries::load;

fn valid(wasm: &[u8]) {
    let features = WasmFeatures::WASM3 - WasmFeatures::GC - WasmFeatures::MEMORY64;
    Validator::new_with_features(features).validate_all(wasm).unwrap();
}

#[test]
fn the_pinned_binaries_can_be_metered() {
    for name in ["python", "javascript", "javascript-0.11"] {
        let Some(binary) = load(name) else { continue };
        let metered = weave::metered(&binary.bytes).unwrap();
        valid(&metered);
        assert_eq!(metered, weave::metered(&binary.bytes).unwrap());
    }
}

#[test]
fn what_the_rules_do_not_cover_is_refused_by_name() {
    for (text, says) in [
        ("(module (memory i64 1))", "memory64"),
        ("(module (tag) (func (throw 0)))", "exceptions"),
        ("(module (type (array i8)))", "array"),
        ("(component)", "component"),
    ] {
        let error = weave::metered(&wat::parse_str(text).unwrap()).unwrap_err();
        assert!(matches!(&error, WeaveError::Invalid { module, .. } if module == "the module"), "{error}");
        assert!(error.to_string().contains(says), "{text}: {error}");
    }
}
