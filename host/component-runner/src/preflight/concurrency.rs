//! Detects components that use the asynchronous component model, which need an engine with support for concurrency.

use wasmparser::{CanonicalFunction, CanonicalOption, Parser, Payload};

/// Returns `true` if a component, or a component nested in it, uses asynchronous calls or an interface of version 0.3.
///
/// Does not read types, because reading nested types is recursive. Therefore does not detect asynchronous function
/// types without asynchronous calls, unless an interface has version 0.3. Malformed input ends the search, because
/// Wasmtime rejects it later.
pub(crate) fn is_concurrent(component: &[u8]) -> bool {
    Parser::new(0).parse_all(component).map_while(Result::ok).any(|payload| match payload {
        Payload::ComponentImportSection(imports) => {
            imports.into_iter().map_while(Result::ok).any(|import| has_version_0_3(import.name.name))
        }
        Payload::ComponentExportSection(exports) => {
            exports.into_iter().map_while(Result::ok).any(|export| has_version_0_3(export.name.name))
        }
        Payload::ComponentCanonicalSection(functions) => {
            functions.into_iter().map_while(Result::ok).any(|function| is_asynchronous(&function))
        }
        _ => false,
    })
}

fn has_version_0_3(interface: &str) -> bool {
    interface.contains("@0.3.")
}

fn is_asynchronous(function: &CanonicalFunction) -> bool {
    match function {
        CanonicalFunction::Lift { options, .. } | CanonicalFunction::Lower { options, .. } => {
            options.contains(&CanonicalOption::Async)
        }
        CanonicalFunction::ResourceNew { .. }
        | CanonicalFunction::ResourceDrop { .. }
        | CanonicalFunction::ResourceRep { .. } => false,
        // All other built-in functions belong to tasks, streams and futures.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::is_concurrent;

    #[test]
    fn asynchronous_components_are_recognized() {
        let table = [
            ("", false),
            (r#"(import "a:b/c@0.2.0" (instance))"#, false),
            (r#"(import "a:b/c@0.3.0" (instance))"#, true),
            (r#"(component (import "a:b/c@0.3.1" (instance)))"#, true),
            (r#"(instance $i) (export "a:b/c@0.3.0" (instance $i))"#, true),
            (r#"(import "f" (func $f)) (core func (canon lower (func $f)))"#, false),
            (r#"(import "f" (func $f)) (core func (canon lower (func $f) async))"#, true),
            (r"(type $r (resource (rep i32))) (core func (canon resource.new $r))", false),
            ("(core func (canon waitable-set.new))", true),
            ("(component (core func (canon task.cancel)))", true),
        ];
        for (text, expected) in table {
            let component = wat::parse_str(format!("(component {text})")).unwrap();
            assert_eq!(is_concurrent(&component), expected, "{text}");
            assert!(!is_concurrent(&component[..8]), "a header only");
        }
    }
}
