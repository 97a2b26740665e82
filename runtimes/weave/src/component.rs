//! Encodes woven modules as components, and composes a provider with the HTTP adapter.

use std::fmt::Display;

use wasm_encoder::{
    Alias, Component, ComponentAliasSection, ComponentExportKind, ComponentExportSection, ComponentInstanceSection,
    ComponentSectionId, RawSection,
};
use wasmparser::{Parser, Payload, Validator, WasmFeatures};
use wit_component::ComponentEncoder;

use crate::{
    Description, Guest, WeaveError, WeaveOptions,
    weave::{WovenCore, weave_core},
};

/// A provider component with statistics.
#[derive(Clone, Debug)]
pub struct WovenComponent {
    /// The component's binary.
    pub component: Vec<u8>,
    /// The core module inside the component.
    pub core: Vec<u8>,
    /// The size of the core module's code in bytes.
    pub code_bytes: usize,
    /// The size of the core module's data in bytes. Images make up most of the data.
    pub data_bytes: usize,
    /// The names of the component's imports.
    pub imports: Vec<String>,
    /// The names of the component's exports.
    pub exports: Vec<String>,
    /// The description of the guests, which the shim receives.
    pub description: Description,
}

impl WovenComponent {
    /// Composes the component with the HTTP adapter, like [`served`].
    ///
    /// # Errors
    /// Fails if the component has imports or does not match the adapter.
    pub fn served(mut self, adapter: &[u8]) -> Result<Self, WeaveError> {
        self.component = served(&self.component, adapter)?;
        (self.imports, self.exports) = names(&self.component)?;
        Ok(self)
    }
}

/// Weaves guests into a shim. Identical inputs produce identical bytes.
///
/// # Errors
/// Fails if the shim or a guest is invalid or unsupported, or if they do not match.
pub fn weave(shim: &[u8], guests: &[Guest<'_>], options: &WeaveOptions) -> Result<WovenComponent, WeaveError> {
    let core = weave_core(shim, guests, options)?;
    let component = component(&core.wasm)?;
    let (imports, exports) = names(&component)?;
    let WovenCore { wasm, code_bytes, data_bytes, description } = core;
    Ok(WovenComponent { component, core: wasm, code_bytes, data_bytes, imports, exports, description })
}

/// Creates a component from the woven module, according to its `component-type` section.
fn component(core: &[u8]) -> Result<Vec<u8>, WeaveError> {
    let mut encoder = ComponentEncoder::default().validate(true).module(core).map_err(failed)?;
    without_names(encoder.encode().map_err(failed)?)
}

/// Removes the name section, which takes 7 kB and is never read.
fn without_names(mut component: Vec<u8>) -> Result<Vec<u8>, WeaveError> {
    let (mut depth, mut end, mut names) = (0u32, 0, None);
    for payload in Parser::new(0).parse_all(&component) {
        let payload = payload.map_err(failed)?;
        let section = payload.as_section().map(|(_, range)| range).filter(|_| depth == 1);
        match &payload {
            Payload::Version { range, .. } if depth == 0 => end = range.end,
            Payload::CustomSection(custom) if depth == 1 && custom.name() == "component-name" => {
                // Include the section's header, which is between the end of the previous section and the section's
                // contents.
                names = section.as_ref().map(|section| end..section.end);
            }
            _ => {}
        }
        match payload {
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
        end = section.map_or(end, |section| section.end);
    }
    if let Some(names) = names {
        component.drain(names);
    }
    Ok(component)
}

/// Returns the names of a component's imports and exports.
fn names(component: &[u8]) -> Result<(Vec<String>, Vec<String>), WeaveError> {
    let (mut imports, mut exports, mut depth) = (Vec::new(), Vec::new(), 0u32);
    for payload in Parser::new(0).parse_all(component) {
        match payload.map_err(failed)? {
            // Skip the imports and exports of nested modules and components.
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 1 => {
                for import in section {
                    imports.push(import.map_err(failed)?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                for export in section {
                    exports.push(export.map_err(failed)?.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    Ok((imports, exports))
}

/// Converts an encoder's error, including its chain of causes.
fn failed(error: impl Display) -> WeaveError {
    WeaveError::Component(format!("{error:#}"))
}

/// The prefix of the interfaces that the provider exports to the adapter.
const SANDBOX: &str = "glovebox:sandbox/";

/// The possible names of the composed component's export, without their versions: WASI 0.2 and WASI 0.3.
const HANDLERS: [&str; 2] = ["wasi:http/incoming-handler@", "wasi:http/handler@"];

/// Composes a provider without imports with the HTTP adapter. The result exports the adapter's handler,
/// `wasi:http/incoming-handler` or `wasi:http/handler`, and imports what the adapter imports, except the sandbox.
///
/// `adapter` is a core module that `guest-shims/component/build http http-0.3` builds, or a component made from it.
///
/// # Errors
/// Fails if the provider has imports or does not match the adapter. To compose a provider that has imports, use a tool
/// such as `wac`.
pub fn served(provider: &[u8], adapter: &[u8]) -> Result<Vec<u8>, WeaveError> {
    let made;
    let adapter = if Parser::is_component(adapter) {
        adapter
    } else {
        made = component(adapter)?;
        &made
    };
    let (imports, exports) = names(provider)?;
    if let Some(import) = imports.first() {
        return Err(refused(format!("the provider imports `{import}`; use a provider without imports")));
    }
    let (_, handlers) = names(adapter)?;
    let handler = handlers.iter().find(|name| HANDLERS.iter().any(|handler| name.starts_with(handler)));
    let handler = handler.ok_or_else(|| {
        refused("the adapter exports neither `wasi:http/incoming-handler` nor `wasi:http/handler`; use another adapter")
    })?;
    let mut whole = Component::new();
    let adapted = Imports::copied(adapter, &mut whole)?;
    let instance = whole_of(&mut whole, provider, adapter, &adapted, &exports)?;
    whole.section(ComponentAliasSection::new().alias(exported(instance, handler)));
    whole.section(ComponentExportSection::new().export(handler, ComponentExportKind::Instance, instance + 1, None));
    let whole = whole.finish();
    // Validate the result, because nothing else checks that the provider's exports match the adapter's imports.
    Validator::new_with_features(WasmFeatures::all()).validate_all(&whole).map_err(refused)?;
    Ok(whole)
}

/// The names of the instances that the adapter imports, in index order.
struct Imports {
    /// Imports that the composed component also has.
    outer: Vec<String>,
    /// Imports that the provider satisfies.
    sandbox: Vec<String>,
}

impl Imports {
    /// Copies the adapter's sections that precede the sandbox import to the composed component, unchanged, so that
    /// the indices in these sections stay valid.
    fn copied(adapter: &[u8], whole: &mut Component) -> Result<Self, WeaveError> {
        let (mut outer, mut sandbox, mut depth) = (Vec::new(), Vec::new(), 0_u32);
        for payload in Parser::new(0).parse_all(adapter) {
            let payload = payload.map_err(refused)?;
            match &payload {
                Payload::Version { .. } => depth += 1,
                // All imports precede the first module or component.
                Payload::ModuleSection { .. } | Payload::ComponentSection { .. } | Payload::End(_) => break,
                Payload::ComponentImportSection(section) if depth == 1 => {
                    let before = outer.len();
                    for import in section.clone() {
                        let name = import.map_err(refused)?.name.name.to_owned();
                        let of = if name.starts_with(SANDBOX) { &mut sandbox } else { &mut outer };
                        of.push(name);
                    }
                    // A section that imports the sandbox is not copied, so it must not contain any other import.
                    if let Some(name) = outer.get(before).filter(|_| !sandbox.is_empty()) {
                        return Err(refused(format!(
                            "the adapter imports `{name}` in the section that imports the sandbox, or after it; \
                             import the sandbox last, in its own section"
                        )));
                    }
                }
                _ => {}
            }
            let is_copied = matches!(
                payload,
                Payload::ComponentTypeSection(_)
                    | Payload::ComponentImportSection(_)
                    | Payload::ComponentAliasSection(_)
            );
            if let Some((id, range)) = payload.as_section().filter(|_| is_copied && sandbox.is_empty()) {
                let data = adapter.get(range).ok_or_else(|| refused("the adapter is truncated"))?;
                whole.section(&RawSection { id, data });
            }
        }
        Ok(Self { outer, sandbox })
    }
}

/// Adds both components after the imports, and instantiates the adapter. Returns the index of the adapter's instance.
fn whole_of(
    whole: &mut Component,
    provider: &[u8],
    adapter: &[u8],
    imports: &Imports,
    provided: &[String],
) -> Result<u32, WeaveError> {
    for data in [provider, adapter] {
        whole.section(&RawSection { id: ComponentSectionId::Component as u8, data });
    }
    const NONE: [(&str, ComponentExportKind, u32); 0] = [];
    whole.section(ComponentInstanceSection::new().instantiate(0, NONE));
    let count = |names: &[String]| u32::try_from(names.len()).map_err(refused);
    let source = count(&imports.outer)?;
    let mut aliases = ComponentAliasSection::new();
    for name in &imports.sandbox {
        if !provided.contains(name) {
            return Err(refused(format!("the adapter imports `{name}`, but the provider does not export it")));
        }
        aliases.alias(exported(source, name));
    }
    whole.section(&aliases);
    // The index of the provider's instance follows the imports' indices and precedes the aliases' indices.
    let outer = imports.outer.iter().zip(0..);
    let sandbox = imports.sandbox.iter().zip(source + 1..);
    let given: Vec<_> =
        outer.chain(sandbox).map(|(name, number)| (name.as_str(), ComponentExportKind::Instance, number)).collect();
    whole.section(ComponentInstanceSection::new().instantiate(1, given));
    Ok(source + 1 + count(&imports.sandbox)?)
}

fn exported(instance: u32, name: &str) -> Alias<'_> {
    Alias::InstanceExport { instance, kind: ComponentExportKind::Instance, name }
}

fn refused(reason: impl Display) -> WeaveError {
    WeaveError::Served(reason.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A provider that exports the `types` interface with a record, and `sandbox` with a function.
    const PROVIDER: &str = r#"(component
        (type $answer (record (field "number" u32)))
        (component $types (type $answer (record (field "number" u32))) (export "answer" (type $answer)))
        (instance $types (instantiate $types))
        (alias export $types "answer" (type $exported))
        (core module $m (func (export "f") (result i32) i32.const 42))
        (core instance $i (instantiate $m))
        (func $f (result u32) (canon lift (core func $i "f")))
        (instance $sandbox (export "ask" (func $f)))
        (export "glovebox:sandbox/types@0.2.0" (instance $types))
        (export "glovebox:sandbox/sandbox@0.2.0" (instance $sandbox)))"#;

    fn adapter(imports: &str) -> String {
        format!(
            r#"(component {imports}
            (core module $m (func (export "handle")))
            (core instance $i (instantiate $m))
            (func $handle (canon lift (core func $i "handle")))
            (instance $handler (export "handle" (func $handle)))
            (export "wasi:http/incoming-handler@0.2.12" (instance $handler)))"#
        )
    }

    const ENVIRONMENT: &str =
        r#"(import "wasi:cli/environment@0.2.12" (instance (export "cwd" (func (result string)))))"#;
    const SANDBOX: &str = r#"(import "glovebox:sandbox/sandbox@0.2.0" (instance (export "ask" (func (result u32)))))"#;

    fn composed(provider: &str, adapter: &str) -> Result<Vec<u8>, String> {
        let bytes = |text: &str| wat::parse_str(text).unwrap();
        served(&bytes(provider), &bytes(adapter)).map_err(|error| error.to_string())
    }

    #[test]
    fn combined_component_imports_all_but_the_sandbox() {
        let whole = composed(PROVIDER, &adapter(&[ENVIRONMENT, SANDBOX].concat())).unwrap();
        let (imports, exports) = names(&whole).unwrap();
        assert_eq!(imports, ["wasi:cli/environment@0.2.12"]);
        assert_eq!(exports, ["wasi:http/incoming-handler@0.2.12"]);
        let concurrent = adapter(SANDBOX).replace("incoming-handler@0.2.12", "handler@0.3.0");
        let (imports, exports) = names(&composed(PROVIDER, &concurrent).unwrap()).unwrap();
        assert_eq!((imports, exports), (Vec::new(), vec!["wasi:http/handler@0.3.0".to_owned()]));
    }

    #[test]
    fn mismatched_imports_are_named() {
        let whole = adapter(SANDBOX);
        let importing = PROVIDER.replacen("(component", "(component (import \"wasi:x/y@0.1.0\" (instance))", 1);
        let other = SANDBOX.replace("u32", "u64");
        let unknown = SANDBOX.replace("sandbox@0.2.0", "sandbox@0.9.0");
        for (provider, adapter, expected) in [
            (importing.as_str(), whole.as_str(), "the provider imports `wasi:x/y@0.1.0`"),
            (PROVIDER, PROVIDER, "exports neither `wasi:http/incoming-handler` nor"),
            (PROVIDER, &adapter(&[SANDBOX, ENVIRONMENT].concat()), "or after it; import the sandbox last"),
            (PROVIDER, &adapter(&other), "type mismatch"),
            (
                PROVIDER,
                &adapter(&unknown),
                "the adapter imports `glovebox:sandbox/sandbox@0.9.0`, but the provider does not export it",
            ),
        ] {
            let error = composed(provider, adapter).unwrap_err();
            assert!(error.contains(expected), "{expected}: {error}");
        }
        assert!(served(b"no component", &wat::parse_str(&whole).unwrap()).is_err());
        assert!(served(&wat::parse_str(PROVIDER).unwrap(), b"").is_err());
    }
}
