//! Common failures of TypeScript scripts. Types are removed; syntax beyond types stays in place.

use super::{Advice, AdviceKind, Correction, UncaughtException};

/// TypeScript syntax that generates code, by the type remover's message, with replacements.
const MAKES_CODE: &[(&str, &str, &str)] = &[
    (
        "TypeScript enum is",
        "An `enum` makes code, and types are only taken out here.",
        "Write `const Color = { Red: 0, Green: 1 } as const;` and `type Color = (typeof Color)[keyof typeof Color];`.",
    ),
    (
        "TypeScript namespace declaration is",
        "A `namespace` with values makes code, and types are only taken out here.",
        "Put them into an object, `const Name = { … };`, or declare them without the namespace around them.",
    ),
    (
        "TypeScript parameter property is",
        "A parameter that is a property makes code, and types are only taken out here.",
        "Declare the property in the class, and set it in the constructor: `x: number; constructor(x: number) { this.x = x; }`.",
    ),
    (
        "TypeScript import equals declaration is",
        "`import … =` makes code, and types are only taken out here.",
        "Write `const name = require('…');` or `import name from '…';`.",
    ),
    (
        "TypeScript export assignment is",
        "`export =` makes code, and types are only taken out here.",
        "Write `export default …;`.",
    ),
    (
        "The angle-bracket syntax for type assertions",
        "`<Type>value` cannot be told from other syntax.",
        "Write `value as Type`.",
    ),
    (
        "the script is nested too deeply for its types",
        "Its brackets or operators are nested too deeply for its types to be taken out.",
        "Put what is inside into variables and functions of their own, or data into a file.",
    ),
];

/// Returns advice on code that the type remover rejected; `None` if it did not raise the exception.
pub(super) fn advice(failure: &UncaughtException<'_>) -> Option<Advice> {
    let message = failure.message();
    if is_in_module(failure) {
        return Some(Advice::new(
            AdviceKind::TypescriptSyntax,
            "Types are taken out of the script, and not of the modules that it loads.",
            &["Write the module in JavaScript, as `.js` or `.mjs`, or put what is in it into the script."],
        ));
    }
    let (_, summary, step) = MAKES_CODE.iter().find(|(beginning, _, _)| message.starts_with(beginning))?;
    Some(Advice::new(AdviceKind::TypescriptSyntax, *summary, &[step]).with(required(failure)))
}

/// Returns whether the error is in a TypeScript file that the script loads, not in the script.
fn is_in_module(failure: &UncaughtException<'_>) -> bool {
    let place = failure.raised.traceback.lines().find_map(|line| line.trim_start().strip_prefix("at "));
    let is_types = |place: &str| [".ts:", ".mts:", ".cts:"].iter().any(|extension| place.contains(extension));
    failure.raised.line.is_none() && place.is_some_and(is_types)
}

/// Corrects `import name = require('…')` in JavaScript.
fn required(failure: &UncaughtException<'_>) -> Option<Correction> {
    let line = failure.line()?;
    let rest = line.trim_start().strip_prefix("import ")?;
    let (name, value) = rest.split_once('=')?;
    let is_name =
        !name.trim().is_empty() && name.trim().chars().all(|char| char.is_alphanumeric() || "_$".contains(char));
    let is_call = value.trim_start().starts_with("require(") && value.trim_end().trim_end_matches(';').ends_with(')');
    if !is_name || !is_call {
        return None;
    }
    let indent = line.len() - line.trim_start().len();
    failure.corrected(format!("{}const {rest}", line.get(..indent)?))
}

/// Returns whether a line has types where JavaScript is expected.
pub(super) fn looks_like(line: &str) -> bool {
    let line = line.trim();
    let line = line.strip_prefix("export ").unwrap_or(line);
    let declares = |word: &str, after: char| {
        let rest = line.strip_prefix(word).and_then(|rest| rest.strip_prefix(' '));
        rest.is_some_and(|rest| rest.starts_with(|char: char| char.is_ascii_uppercase()) && rest.contains(after))
    };
    let is_basic = |rest: &str| {
        let rest = rest.trim_start();
        let word = rest.split(|char: char| !char.is_alphanumeric()).next().unwrap_or_default();
        matches!(word, "string" | "number" | "boolean" | "any" | "void" | "unknown")
            || ["Record<", "Array<", "Promise<"].iter().any(|generic| rest.starts_with(generic))
    };
    let is_typed = || line.match_indices(':').any(|(at, _)| line.get(at + 1..).is_some_and(is_basic));
    let holds = || ["const ", "let ", "var ", "function ", "async function "].iter().any(|word| line.starts_with(word));
    declares("interface", '{') || declares("type", '=') || (holds() && is_typed())
}
