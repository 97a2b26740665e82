//! Tests of the advice on scripts that are not in the runtime's language, and on types in JavaScript.

use super::*;

#[test]
fn names_of_the_other_language_are_recognized() {
    let advice_for = |language: Language, source: &str, name: &str| {
        let (type_name, message) = match language {
            Language::Python => ("NameError", format!("name '{name}' is not defined")),
            Language::JavaScript => ("ReferenceError", format!("{name} is not defined")),
        };
        of(language, source, &raised(type_name, &message, Some(1))).pop()
    };
    for (source, name, text) in [
        ("console.log(1)", "console", None),
        ("x = JSON.parse(y)", "JSON", None),
        ("x = null", "null", Some("x = None")),
        ("x = [true, 1]", "true", Some("x = [True, 1]")),
        ("x = [true, true]", "true", None),
    ] {
        let advice = advice_for(Language::Python, source, name).unwrap();
        assert_eq!((advice.kind, advice.correction.map(|line| line.text).as_deref()), (AdviceKind::Syntax, text));
    }
    for (source, name) in [("process(console)", "console"), ("processed", "processed"), ("x + y", "x"), ("", "console")]
    {
        assert_eq!(advice_for(Language::Python, source, name), None, "{source}");
    }
    for (source, name, text) in [
        ("let n = len(x)", "len", None),
        ("const done = True;", "True", Some("const done = true;")),
        ("f(None)", "None", Some("f(null)")),
    ] {
        let advice = advice_for(Language::JavaScript, source, name).unwrap();
        assert_eq!((advice.kind, advice.correction.map(|line| line.text).as_deref()), (AdviceKind::Syntax, text));
    }
    for (source, name) in [("x + len", "len"), ("length(x)", "length"), ("", "len")] {
        assert_eq!(advice_for(Language::JavaScript, source, name), None, "{source}");
    }
}

#[test]
fn script_in_the_other_language_is_recognized() {
    let is_other = |language: Language, line: &str| {
        let advice = of(language, line, &raised("SyntaxError", "invalid syntax", Some(1)));
        advice.iter().any(|advice| advice.steps.iter().any(|step| step.starts_with("This looks like")))
    };
    for line in [
        "const x = 1;",
        "for (let i = 0; i < 3; i++) {",
        "if (x) { y }",
        "} else {",
        "const f = x => x;",
        "x++",
        "throw new Error('x')",
        "new Map()",
        "x = new Map()",
        "if (a && b) c",
        "x = `a${b}`",
    ] {
        assert!(is_other(Language::Python, line), "{line}");
    }
    for line in ["x = (1,", "if (x):", "if x && y:", "for (a, b) in c:", "print 'x'", "new = = 1", "x = 1 -"] {
        assert!(!is_other(Language::Python, line), "{line}");
    }
    for line in [
        "def f(x):",
        "def f(x): return x",
        "for i in range(3):",
        "for i in range(3): print(i)",
        "for k, v in x.items(): pass",
        "if x: y",
        "if x == 1:",
        "while True: pass",
        "with open('x') as f:",
        "elif x:",
        "except:",
        "except ValueError as e:",
        "class A:",
        "try:",
        "import os",
        "import numpy as np",
        "from os import path",
        "print(f'{x}')",
        "x = f\"{y}\"",
        "raise ValueError('x')",
        "assert x == 1",
        "\"\"\"doc\"\"\"",
        "x = not y",
        "sorted(x, key= lambda y: y)",
        "# a comment",
        "pass",
    ] {
        assert!(is_other(Language::JavaScript, line), "{line}");
    }
    for line in [
        "for (const x of y) {",
        "for await (const x of y) {",
        "if (x) y",
        "import fs from 'fs",
        "import { a } fro",
        "import Name = Other.Name;",
        "const x = {",
        "class A {",
        "while (x {",
        "let s = 'if",
        "defaults(x",
        "printer x",
        "#count = ;",
        "x = {for: 1, in: 2",
    ] {
        assert!(!is_other(Language::JavaScript, line), "{line}");
    }
    let comprehension = raised("SyntaxError", "Unexpected token 'for'", Some(1));
    let advice = of(Language::JavaScript, "x = [n for n in y]", &comprehension);
    assert!(advice[0].steps[0].starts_with("This looks like Python"), "{advice:?}");
    for language in Language::ALL {
        let fenced = of(language, "```\nx\n```", &raised("SyntaxError", "x", Some(1)));
        assert!(fenced.iter().all(|advice| advice.steps.iter().any(|step| step.contains("```"))), "{fenced:?}");
    }
}

#[test]
fn unsupported_typescript_gets_a_replacement() {
    let advice_for = |source: &str, message: &str| {
        of(Language::JavaScript, source, &raised("SyntaxError", message, Some(1))).pop().unwrap()
    };
    for (message, step) in [
        ("TypeScript enum is not supported in strip-only mode", "as const"),
        ("TypeScript namespace declaration is not supported in strip-only mode", "const Name"),
        ("TypeScript parameter property is not supported in strip-only mode", "this.x = x"),
        ("TypeScript import equals declaration is not supported in strip-only mode", "require"),
        ("TypeScript export assignment is not supported in strip-only mode", "export default"),
        ("The angle-bracket syntax for type assertions, `<T>expr`, is not supported", "value as Type"),
        ("cannot remove the types: the script is nested too deeply", "variables"),
    ] {
        let advice = advice_for("x", message);
        assert_eq!(advice.kind, AdviceKind::TypescriptSyntax, "{message}");
        assert!(advice.steps[0].contains(step), "{message}: {:?}", advice.steps);
    }
    assert_eq!(advice_for("x", "TypeScript").kind, AdviceKind::Syntax);
    let import = "TypeScript import equals declaration is not supported in strip-only mode";
    let corrected = |source: &str| advice_for(source, import).correction.map(|correction| correction.text);
    assert_eq!(corrected("  import fs = require('fs');").as_deref(), Some("  const fs = require('fs');"));
    for other in
        ["import A = B.C;", "export import fs = require('fs')", "import fs = require('fs'), x = 1", "import = x"]
    {
        assert_eq!(corrected(other), None, "{other}");
    }
}

#[test]
fn type_modules_are_distinguished_from_scripts() {
    let kind = |traceback: &str, line: Option<u32>| {
        let (type_name, message, traceback) = ("SyntaxError".to_owned(), "x".to_owned(), traceback.to_owned());
        let outcome = Outcome::Raised(RaisedOutcome { type_name, message, traceback, line });
        of(Language::JavaScript, "import './util.ts'", &outcome).pop().unwrap().kind
    };
    assert_eq!(kind("SyntaxError: x\n    at util.ts:1:15", None), AdviceKind::TypescriptSyntax);
    assert_eq!(kind("SyntaxError: x\n    at f (/app/util.mts:1:15)", None), AdviceKind::TypescriptSyntax);
    assert_eq!(kind("SyntaxError: x\n    at script.ts:1:15", Some(1)), AdviceKind::Syntax);
    assert_eq!(kind("SyntaxError: x\n    at util.js:1:15\n    at a.ts:1:1", None), AdviceKind::Syntax);
    assert_eq!(kind("", None), AdviceKind::Syntax);
}

#[test]
fn types_in_a_javascript_file_are_recognized() {
    let kind =
        |source: &str| of(Language::JavaScript, source, &raised("SyntaxError", "x", Some(1))).pop().unwrap().kind;
    for typed in [
        "interface Point { x: number }",
        "export type Name = string;",
        "const x: number = 1;",
        "function f(a: string, b?: number) {",
        "let all: Array<string> = []",
    ] {
        assert_eq!(kind(typed), AdviceKind::TypescriptSyntax, "{typed}");
    }
    for plain in [
        "const x = { a: 1 };",
        "let y = a ? b : c;",
        "type = Point",
        "interface(x)",
        "f(a: string)",
        "let x = {n: numbers(}",
    ] {
        assert_eq!(kind(plain), AdviceKind::Syntax, "{plain}");
    }
}
