//! Exported functions of a component, their names on the command line, and calls of them in WAVE.

use std::fmt::{self, Write as _};

use wasmtime::{
    Engine,
    component::{
        Component, ComponentExportIndex, Type, Val,
        types::{ComponentFunc, ComponentItem},
        wasm_wave::{untyped::UntypedFuncCall, wasm::DisplayType},
    },
};

use crate::{InvokeError, run::Call};

/// Maximum length of a displayed signature. A small component can have types that take megabytes to spell out.
const SIGNATURE_BYTES: usize = 400;

/// A function that a component exports.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Export {
    /// Full name: `add`, or `ns:pkg/iface@0.1.0.add` for a function in an interface.
    pub name: String,
    /// Name with parameters and result, in WIT syntax. Long signatures are cut.
    pub signature: String,
    /// The function can be invoked from outside: neither parameters nor result contain resources.
    pub is_invocable: bool,
    pub(crate) function: String,
    pub(crate) interface: Option<String>,
    pub(crate) index: ComponentExportIndex,
    pub(crate) parameters: Vec<Type>,
    pub(crate) result_count: usize,
}

impl Export {
    fn new(interface: Option<&str>, function: &str, index: ComponentExportIndex, ty: &ComponentFunc) -> Self {
        let name = match interface {
            Some(interface) => format!("{interface}.{function}"),
            None => function.to_owned(),
        };
        let mut text = Cut(String::new());
        // An error means that the text was cut.
        let _ = signature(&mut text, &name, ty);
        let parameters: Vec<Type> = ty.params().map(|(_, ty)| ty).collect();
        let mut left = TYPES_MAX;
        let is_invocable = parameters.iter().cloned().chain(ty.results()).all(|ty| has_text(&ty, &mut left));
        Self {
            signature: text.0,
            is_invocable,
            name,
            function: function.to_owned(),
            interface: interface.map(str::to_owned),
            index,
            parameters,
            result_count: ty.results().len(),
        }
    }

    /// Returns `true` if `name` denotes this function: `iface.add`, `ns:pkg/iface.add`, with or without the version, or
    /// `add`.
    pub(crate) fn answers_to(&self, name: &str) -> bool {
        let Some(interface) = &self.interface else { return name == self.function };
        let (path, version) =
            interface.split_once('@').map_or((interface.as_str(), ""), |(path, version)| (path, version));
        let short = path.rsplit_once('/').map_or(path, |(_, short)| short);
        let function = &self.function;
        let with_version =
            |name: &str| [format!("{name}@{version}.{function}"), format!("{name}.{function}@{version}")];
        name == function
            || [path, short]
                .iter()
                .any(|part| name == format!("{part}.{function}") || with_version(part).contains(&name.to_owned()))
    }
}

/// Returns the functions of a component and of the interfaces that it exports, sorted by name.
pub(crate) fn exports(engine: &Engine, component: &Component) -> Vec<Export> {
    let mut found = Vec::new();
    for (name, item) in component.component_type().exports(engine) {
        let Some(index) = component.get_export_index(None, name) else { continue };
        match item.ty {
            ComponentItem::ComponentFunc(ty) => found.push(Export::new(None, name, index, &ty)),
            ComponentItem::ComponentInstance(instance) => {
                let functions = instance.exports(engine).filter_map(|(function, item)| {
                    let ComponentItem::ComponentFunc(ty) = item.ty else { return None };
                    let index = component.get_export_index(Some(&index), function)?;
                    Some(Export::new(Some(name), function, index, &ty))
                });
                found.extend(functions);
            }
            _ => {}
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// Text with a maximum length.
struct Cut(String);

impl fmt::Write for Cut {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = SIGNATURE_BYTES.saturating_sub(self.0.len());
        if text.len() <= room {
            self.0.push_str(text);
            return Ok(());
        }
        let (beginning, _) = text.split_at(text.floor_char_boundary(room));
        self.0.push_str(beginning);
        self.0.push('…');
        Err(fmt::Error)
    }
}

fn signature(text: &mut Cut, name: &str, ty: &ComponentFunc) -> fmt::Result {
    write!(text, "{name}: func(")?;
    for (at, (name, ty)) in ty.params().enumerate() {
        let comma = if at == 0 { "" } else { ", " };
        write!(text, "{comma}{name}: ")?;
        type_text(text, &ty)?;
    }
    text.write_str(")")?;
    for ty in ty.results() {
        text.write_str(" -> ")?;
        type_text(text, &ty)?;
    }
    Ok(())
}

fn type_text(text: &mut Cut, ty: &Type) -> fmt::Result {
    let mut left = TYPES_MAX;
    // Each type takes at least a byte, so unvisited types lie beyond the cut.
    if has_text(ty, &mut left) || left == 0 {
        write!(text, "{}", DisplayType(ty))
    } else {
        text.write_str("(with a resource)")
    }
}

/// Maximum number of types in a function's parameters and result, for calls from the command line. A small file can
/// describe types that consist of millions of others.
const TYPES_MAX: u32 = 1_000;

/// Returns `true` if values of a type have a textual form. Visits at most `left` types.
fn has_text(ty: &Type, left: &mut u32) -> bool {
    let Some(fewer) = left.checked_sub(1) else { return false };
    *left = fewer;
    match ty {
        Type::Own(_) | Type::Borrow(_) | Type::Stream(_) | Type::Future(_) | Type::ErrorContext | Type::Map(_) => false,
        Type::List(list) => has_text(&list.ty(), left),
        Type::FixedLengthList(list) => has_text(&list.ty(), left),
        Type::Record(record) => record.fields().all(|field| has_text(&field.ty, left)),
        Type::Tuple(tuple) => tuple.types().all(|ty| has_text(&ty, left)),
        Type::Variant(variant) => variant.cases().all(|case| case.ty.is_none_or(|ty| has_text(&ty, left))),
        Type::Option(option) => has_text(&option.ty(), left),
        Type::Result(result) => [result.ok(), result.err()].into_iter().flatten().all(|ty| has_text(&ty, left)),
        _ => true,
    }
}

/// Finds the function and parses its arguments.
pub(crate) fn parse(component: &str, exports: &[Export], call: &str) -> Result<Call, InvokeError> {
    let no_call = || InvokeError::NoCall { call: call.to_owned() };
    let (function, arguments) = call.split_at(call.find('(').ok_or_else(no_call)?);
    let function = function.trim();
    if function.is_empty() {
        return Err(no_call());
    }
    let export = find(component, exports, function)?;
    if !export.is_invocable {
        return Err(InvokeError::Resource { function: export.name.clone() });
    }
    let wrong = |error: &dyn fmt::Display| InvokeError::Arguments {
        signature: export.signature.clone(),
        arguments: arguments.to_owned(),
        reason: error.to_string(),
    };
    // WAVE accepts plain names only, so a placeholder replaces the function's name.
    let text = format!("f{arguments}");
    let untyped = UntypedFuncCall::parse(&text).map_err(|error| wrong(&error))?;
    let types: Vec<&Type> = export.parameters.iter().collect();
    let arguments: Vec<Val> = untyped.to_wasm_params(types).map_err(|error| wrong(&error))?;
    Ok(Call { function: export.index, arguments, result_count: export.result_count })
}

fn find<'a>(component: &str, exports: &'a [Export], function: &str) -> Result<&'a Export, InvokeError> {
    if let Some(export) = exports.iter().find(|export| export.name == function) {
        return Ok(export);
    }
    let candidates: Vec<&Export> = exports.iter().filter(|export| export.answers_to(function)).collect();
    match candidates.as_slice() {
        [export] => Ok(export),
        [] => Err(InvokeError::NoSuchFunction {
            name: component.to_owned(),
            function: function.to_owned(),
            exports: exports.to_vec(),
        }),
        _ => Err(InvokeError::Ambiguous {
            function: function.to_owned(),
            candidates: candidates.iter().map(|export| export.name.clone()).collect(),
        }),
    }
}
