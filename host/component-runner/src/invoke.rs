//! Parsing of calls in WAVE.

use wasmtime::component::{Type, Val, wasm_wave::untyped::UntypedFuncCall};

use crate::{Export, InvokeError, run::Call};

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
    let wrong = |error: &dyn std::fmt::Display| InvokeError::Arguments {
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
