//! Generated code that sets up a context.

use std::collections::BTreeMap;

use glovebox::Language;

/// Returns `true` if `name` can be the name of an environment variable: not empty, without `=` and NUL.
pub(super) fn is_env_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

/// Returns code that sets environment variables, or `None` if `env` is empty.
pub(super) fn set_env(language: Language, env: &BTreeMap<String, String>) -> Option<String> {
    if env.is_empty() {
        return None;
    }
    let literal = literal(env)?;
    Some(match language {
        Language::Python => format!("__import__('os').environ.update(__import__('json').loads({literal})) or None"),
        Language::JavaScript => format!("void Object.assign(process.env, JSON.parse({literal}))"),
    })
}

/// Returns code to run before and after an execution. The first part sets environment variables and saves their old
/// values, the second part restores them.
pub(super) fn exchange_env(language: Language, env: &BTreeMap<String, String>) -> Option<(String, String)> {
    let set = set_env(language, env)?;
    let names = literal(&env.keys().collect::<Vec<_>>())?;
    Some(match language {
        Language::Python => (
            format!(
                "__import__('sys').__dict__['_e2b_env'] = {{name: __import__('os').environ.get(name) for name in __import__('json').loads({names})}}\n{set}"
            ),
            "for _e2b_name, _e2b_value in __import__('sys').__dict__.pop('_e2b_env', {}).items():\n    \
             __import__('os').environ.pop(_e2b_name, None) if _e2b_value is None else __import__('os').environ.__setitem__(_e2b_name, _e2b_value)\n\
             globals().pop('_e2b_name', None); globals().pop('_e2b_value', None); None"
                .to_owned(),
        ),
        Language::JavaScript => (
            format!(
                "void (globalThis[Symbol.for('e2b.env')] = JSON.parse({names}).map((name) => [name, process.env[name]]));\n{set}"
            ),
            "void (globalThis[Symbol.for('e2b.env')] ?? []).forEach(([name, value]) => { if (value === undefined) delete process.env[name]; else process.env[name] = value; })"
                .to_owned(),
        ),
    })
}

/// Returns Python code that creates a directory below the workspace and changes to it.
pub(super) fn change_directory(path: &str) -> Option<String> {
    let literal = serde_json::to_string(path).ok()?;
    Some(format!("__import__('os').makedirs({literal}, exist_ok=True) or __import__('os').chdir({literal})"))
}

/// Returns JSON as a string literal of both languages. Escapes the line separators U+2028 and U+2029, which JSON
/// strings may contain unescaped.
fn literal(value: &impl serde::Serialize) -> Option<String> {
    let json = serde_json::to_string(value).ok()?;
    let text = serde_json::to_string(&json).ok()?;
    Some(text.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029"))
}
