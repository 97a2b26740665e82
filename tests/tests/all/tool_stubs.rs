//! Tests that declarations of tools are valid Python and TypeScript, whatever their schemas contain.

use glovebox::{Language, Request, Sandbox, Tool, tool_stubs};
use glovebox_tests::engine;
use serde_json::{Value, json};

/// Strings that could end a literal, a comment or a line, or that are not names.
const TEXTS: [&str; 18] = [
    "",
    "\"\"\"",
    "'''",
    "*/ x",
    "/*",
    "\\",
    "\n",
    "\r\n#",
    "\u{2028}x",
    "`${x}`",
    "a\"b",
    "class",
    "delete",
    "self",
    "__a",
    "日本",
    "1",
    "\u{202e}\u{200b}\u{1f600}",
];

/// Names of tools that are keywords or types in one of the languages.
const NAMES: [&str; 14] = [
    "delete",
    "function",
    "new",
    "this",
    "enum",
    "default",
    "list",
    "type",
    "str",
    "dict",
    "Any",
    "object",
    "search",
    "ToolTypes",
];

/// Returns a schema with `text` in all places that reach a declaration.
fn schema(text: &str) -> Value {
    let member = json!({
        "description": text,
        "anyOf": [{ "enum": [text, 1, -2, null, true] }, { "const": text }, { "type": "array", "items": {} }],
        "default": text,
    });
    json!({
        "type": "object",
        "description": text,
        "properties": {
            (text): member,
            "a": { "type": "object", "properties": { (text): member, "b": { "$ref": "#" } }, "required": [text] },
            "c": { "type": "string", "default": text },
            "list": { "type": "object", "additionalProperties": { "type": ["integer", "null"] } },
        },
        "required": ["a", text],
        "additionalProperties": {},
    })
}

fn sandbox(language: Language) -> Sandbox {
    Sandbox::builder(engine()).language(language).build().unwrap()
}

#[test]
fn declarations_of_hostile_tools_are_valid() {
    let texts = TEXTS.iter().enumerate().map(|(at, text)| (format!("f{at}"), *text));
    let names = NAMES.iter().map(|name| ((*name).to_owned(), "Text."));
    let tools: Vec<Tool> = texts
        .chain(names)
        .map(|(name, text)| Tool::new(name, text).schema(schema(text)).result_schema(schema(text)).stepped())
        .collect();
    let (python, javascript) = (sandbox(Language::Python), sandbox(Language::JavaScript));
    // Check each tool separately, so that a failure names it.
    for tool in &tools {
        let tools = std::slice::from_ref(tool);
        let stub = tool_stubs(tools, Language::Python).unwrap();
        let found = python.validate_request(Request::new(&stub)).unwrap();
        assert!(found.is_empty(), "{found:?} {stub}");
        let stub = tool_stubs(tools, Language::JavaScript).unwrap();
        let found = javascript.validate_request(Request::new(&stub).name("tools.d.ts")).unwrap();
        assert!(found.is_empty(), "{found:?} {stub}");
    }
    let parse = "import ast, sys\n\
                 for node in ast.parse(sys.stdin.read()).body:\n\
                 \x20   if getattr(node, 'name', '') == '_Tools':\n\
                 \x20       print(*[each.target.id for each in node.body if isinstance(each, ast.AnnAssign)])";
    let stub = tool_stubs(&tools, Language::Python).unwrap();
    let parsed = python.run(Request::new(parse).stdin(stub.as_bytes())).unwrap();
    let expected: Vec<&str> = ["describe"].into_iter().chain(tools.iter().map(Tool::name)).collect();
    assert_eq!(parsed.stdout.text(), format!("{}\n", expected.join(" ")), "{}", parsed.stderr.text());

    let stub = tool_stubs(&tools, Language::JavaScript).unwrap();
    let source = format!("{stub}\nconsole.log('declared');");
    let ran = javascript.run(Request::new(&source).name("x.ts")).unwrap();
    assert_eq!(ran.stdout.text(), "declared\n", "{}", ran.stderr.text());
}
