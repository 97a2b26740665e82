//! Splits a session's script into its `import` and `export` statements and all other code.
//!
//! In the language, a source with a top-level `import` is a module, which has its own variables and no value. In a
//! session, variables persist and a script has a value. The imports therefore become a module that binds the imported
//! names as globals, and all other code becomes a script. Both keep all lines and columns: white space replaces the code
//! of the other part.
//!
//! A tokenizer ([`Tokens`]) is sufficient. If the tokenizer misreads a source so that the script does not compile, the
//! whole source runs as a module. If only the module with the imports does not compile, its error ends the execution.

use super::tokens::{Token, TokenKind, Tokens};

/// The global through which the module calls the function that binds its names (`modules.js`).
const BINDER: &str = "glovebox.imports";

/// The global that replaces `import.meta` in a script (`modules.js`). The global's name is as long as `import.meta`,
/// to preserve columns.
const META: &str = "$importMeta";
/// The global function that replaces `import` in `import(…)`, so that its errors are the same as Node's. The function's
/// name is as long as `import`.
const DYNAMIC: &str = "$loads";

/// Returns `true` if a source contains a word that every import or export needs.
pub(super) fn may_import(source: &str) -> bool {
    ["import", "export", DYNAMIC].into_iter().any(|word| source.contains(word))
}

/// The two parts of a source.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Split {
    /// A module with the imports, and a call that binds their names.
    pub(super) imports: String,
    /// A script with all other code.
    pub(super) script: String,
}

/// Splits a source into its imports, which must run as a module, and the remaining script. Returns `None` if no
/// top-level statement needs a module.
pub(super) fn split(source: &str) -> Option<Split> {
    let Splitter { edits, names, .. } = Splitter::read(source);
    if edits.is_empty() {
        return None;
    }
    let (mut imports, mut script) = (String::new(), String::new());
    let mut at = 0;
    for Edit { from, to, replacement, is_import } in edits {
        let (before, piece) = (source.get(at..from)?, source.get(from..to)?);
        blank(before, &mut imports);
        script.push_str(before);
        if is_import {
            imports.push_str(piece)
        } else {
            blank(piece, &mut imports)
        }
        script.push_str(replacement);
        blank(piece.get(replacement.len()..)?, &mut script);
        at = to;
    }
    let rest = source.get(at..)?;
    blank(rest, &mut imports);
    script.push_str(rest);
    // Bind through arrow functions, because the exporting module may change the values later.
    let bound = names.iter().map(|name| format!("['{name}', () => {name}], "));
    imports.push_str(&format!(";globalThis['{BINDER}']([{}]);", bound.collect::<String>()));
    Some(Split { imports, script })
}

/// Replaces `import.meta`, and the `import` of `import(…)`, with globals of the driver, because the interpreter has
/// only a script's name, not its path. Returns `None` if neither occurs.
pub(super) fn replace_expressions(source: &str) -> Option<String> {
    let mut imports = source.split("import").skip(1);
    if !imports.any(|rest| rest.trim_start().starts_with(['.', '(', '/'])) {
        return None;
    }
    let mut replaced = String::new();
    let mut at = 0;
    for Expression { from, to, replacement } in Splitter::read(source).expressions {
        replaced.push_str(source.get(at..from)?);
        replaced.push_str(replacement);
        blank(source.get(from.saturating_add(replacement.len())..to)?, &mut replaced);
        at = to;
    }
    replaced.push_str(source.get(at..)?);
    (at > 0).then_some(replaced)
}

/// Appends white space with the same number of bytes and the same line breaks.
fn blank(text: &str, to: &mut String) {
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\u{2028}' | '\u{2029}' => to.push(c),
            _ => (0..c.len_utf8()).for_each(|_| to.push(' ')),
        }
    }
}

/// Replaces a range of the source with `replacement` and white space.
struct Edit {
    from: usize,
    to: usize,
    replacement: &'static str,
    is_import: bool,
}

/// An `import` within an expression.
struct Expression {
    from: usize,
    to: usize,
    /// The replacement in the script, at most as long as the replaced text.
    replacement: &'static str,
}

struct Splitter<'a> {
    tokens: Tokens<'a>,
    edits: Vec<Edit>,
    expressions: Vec<Expression>,
    names: Vec<&'a str>,
}

impl<'a> Splitter<'a> {
    fn read(source: &'a str) -> Self {
        let mut splitter =
            Self { tokens: Tokens::new(source), edits: Vec::new(), expressions: Vec::new(), names: Vec::new() };
        splitter.run();
        splitter
    }

    fn run(&mut self) {
        loop {
            let is_property = self.tokens.is_after_dot;
            let token = self.tokens.next();
            if token.kind == TokenKind::End {
                return;
            }
            if is_property {
                continue;
            }
            if token.is("import") {
                self.import(token);
            } else if token.is("export") && token.depth == 0 {
                self.export(token);
            }
        }
    }

    fn edit(&mut self, from: usize, to: usize, replacement: &'static str, is_import: bool) {
        self.edits.push(Edit { from, to, replacement, is_import });
    }

    fn import(&mut self, import: Token<'a>) {
        let next = self.tokens.peek();
        if next.is_sign(b'.') {
            self.tokens.next();
            let meta = self.tokens.next();
            if meta.is("meta") {
                self.expressions.push(Expression { from: import.from, to: meta.to, replacement: META });
            }
        } else if next.is_sign(b'(') {
            if !self.is_method() {
                self.expressions.push(Expression { from: import.from, to: import.to, replacement: DYNAMIC });
            }
        } else if import.depth == 0 && !next.is_sign(b':') {
            let mut names = Vec::new();
            if let Some(Clause { to, has_source: true }) = self.clause(&mut names) {
                self.names.append(&mut names);
                self.edit(import.from, to, ";", true);
            }
        }
    }

    /// Returns `true` if a block follows the next parentheses. If so, the word before the parentheses is a method's
    /// name.
    fn is_method(&self) -> bool {
        let mut ahead = self.tokens.ahead();
        let mut depth = 0_u32;
        loop {
            let token = ahead.next();
            match token.kind {
                TokenKind::End => return false,
                TokenKind::Sign(b'(') => depth = depth.saturating_add(1),
                TokenKind::Sign(b')') if depth <= 1 => return ahead.next().is_sign(b'{'),
                TokenKind::Sign(b')') => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    fn export(&mut self, export: Token<'a>) {
        let next = self.tokens.peek();
        if next.is("default") {
            let default = self.tokens.next();
            let mut ahead = self.tokens.ahead();
            let mut word = ahead.next();
            if word.is("async") {
                word = ahead.next();
            }
            let is_declaration = word.is("function") || word.is("class");
            let mut name = ahead.next();
            if name.is_sign(b'*') {
                name = ahead.next();
            }
            let is_named = is_declaration && name.kind == TokenKind::Word && !name.is("extends");
            // An unnamed default export is treated as an expression.
            self.edit(export.from, default.to, if is_named { "" } else { "0," }, false);
            self.tokens.after_operand(false);
        } else if next.is_sign(b'{') || next.is_sign(b'*') {
            if let Some(Clause { to, has_source }) = self.clause(&mut Vec::new()) {
                self.edit(export.from, to, ";", has_source);
            }
        } else {
            self.edit(export.from, export.to, "", false);
            self.tokens.after_operand(false);
            self.tokens.is_block_next = true;
        }
    }

    /// Reads the clause after `import` or `export` up to the end of the statement, and collects the names that it
    /// binds.
    fn clause(&mut self, names: &mut Vec<&'a str>) -> Option<Clause> {
        let mut to = 0;
        let mut has_source = false;
        while !has_source {
            let token = self.tokens.next();
            match token.kind {
                TokenKind::Text => has_source = true,
                TokenKind::Word if token.is("from") && self.tokens.peek().kind == TokenKind::Text => continue,
                TokenKind::Word => names.push(token.text),
                TokenKind::Sign(b',') => {}
                TokenKind::Sign(b'*') => {
                    if self.tokens.peek().is("as") {
                        self.tokens.next();
                        names.push(self.tokens.next().text);
                    }
                }
                TokenKind::Sign(b'{') => {
                    to = self.list(names)?;
                    if !self.tokens.peek().is("from") {
                        break;
                    }
                }
                _ => return None,
            }
            to = token.to.max(to);
        }
        let mut ahead = self.tokens.ahead();
        if has_source && ahead.next().is("with") && ahead.next().is_sign(b'{') {
            while !self.tokens.next().is_sign(b'}') {
                if self.tokens.at >= self.tokens.source.len() {
                    return None;
                }
            }
            to = self.tokens.at;
        }
        if self.tokens.peek().is_sign(b';') {
            to = self.tokens.next().to;
        }
        self.tokens.after_operand(false);
        self.tokens.is_block_next = true;
        Some(Clause { to, has_source })
    }

    /// Reads the names in braces, after the opening brace. Returns the end of the closing brace.
    fn list(&mut self, names: &mut Vec<&'a str>) -> Option<usize> {
        loop {
            let token = self.tokens.next();
            match token.kind {
                TokenKind::Sign(b'}') => return Some(token.to),
                TokenKind::Sign(b',') => {}
                TokenKind::Word | TokenKind::Text => {
                    let mut local = token;
                    if self.tokens.peek().is("as") {
                        self.tokens.next();
                        local = self.tokens.next();
                    }
                    names.push(local.text);
                }
                _ => return None,
            }
        }
    }
}

/// The clause of a statement after `import` or `export`.
struct Clause {
    /// The statement's end in the source.
    to: usize,
    /// `true` if the statement names a module.
    has_source: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(source: &str) -> (String, String) {
        let Split { imports, script } = split(source).unwrap_or_else(|| panic!("{source} needs no module"));
        let (module, call) = imports.split_at(source.len());
        assert_eq!(script.len(), source.len());
        let names = call.split("['").skip(2).filter_map(|name| name.split('\'').next()).collect::<Vec<_>>();
        (format!("{}|{}", module.trim(), names.join(",")), script)
    }

    #[test]
    fn imports_are_collected_and_replaced_by_white_space() {
        for (source, imports, script) in [
            ("import a from 'x'\n(1)", "import a from 'x'|a", ";                \n(1)"),
            ("import 'x';1", "import 'x';|", ";          1"),
            (
                "import a, { b as c, 'd e' as f, from } from \"x\"",
                "import a, { b as c, 'd e' as f, from } from \"x\"|a,c,f,from",
                ";",
            ),
            ("import a, * as b from 'x'", "import a, * as b from 'x'|a,b", ";"),
            ("import j from './j' with { type: 'json' }; j", "import j from './j' with { type: 'json' };|j", "; j"),
            ("export * from 'x'; 2", "export * from 'x';|", "; 2"),
            ("export { a as b }; 2", "|", "; 2"),
            ("export const n = 1", "|", "const n = 1"),
            ("export default function f() {}", "|", "function f() {}"),
            ("export default class { a = 1 }", "|", "0, class { a = 1 }"),
        ] {
            let (found, rest) = parts(source);
            assert_eq!(found, imports, "{source}");
            let squeezed = rest.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(squeezed, script.split_whitespace().collect::<Vec<_>>().join(" "), "{source}");
        }
    }

    #[test]
    fn import_meta_is_replaced_in_code_only() {
        let source = "f(import.meta.url, 'import.meta', /import.meta/, `${import.meta}`); a.import.meta";
        let replaced = "f($importMeta.url, 'import.meta', /import.meta/, `${$importMeta}`); a.import.meta";
        assert_eq!(replace_expressions(source).as_deref(), Some(replaced));
        assert_eq!(replace_expressions("'import.meta'"), None);
        assert_eq!(replace_expressions("1"), None);
    }

    #[test]
    fn dynamic_import_calls_are_replaced() {
        let source = "await import('a'); import /* b */ ('b'); `${import(c)}`; import d from 'd'";
        let replaced = "await $loads('a'); $loads /* b */ ('b'); `${$loads(c)}`; import d from 'd'";
        assert_eq!(replace_expressions(source).as_deref(), Some(replaced));
        for source in ["a.import('x')", "({ import(x) { return (x); } })", "class A { import(x) {} }", "'import(x)'"] {
            assert_eq!(replace_expressions(source), None, "{source}");
        }
    }

    #[test]
    fn import_outside_declarations_is_ignored() {
        for source in [
            "import('x')",
            "a.import; ({ import: 1 })",
            "`import a from 'x'`; // import b from 'x'\n/* import c from 'x' */ 'import d'",
            "`${ `}` } import a from 'x'`",
            "if (a) /import 'x'/.test(b)",
            "x = a / 2; /import/.exec(y) / 1",
            "",
            "'\\",
            "`${",
        ] {
            assert_eq!(split(source), None, "{source}");
        }
    }

    #[test]
    fn slash_before_import_follows_the_grammar() {
        for source in [
            "const r = /[/'\"`]/;\nimport a from 'x'",
            "const q = (1 + 2) / 3, s = '/';\nimport a from 'x'",
            "if (b) /'/.test(b);\nimport a from 'x'",
            "function f() {} /'/.test(b);\nimport a from 'x'",
            "const o = {} / 2; const s = '/';\nimport a from 'x'",
            "const t = `a${ { b: 1 }.b / 2 }'`;\nimport a from 'x'",
            "i++ / 2; '/';\nimport a from 'x'",
            "const f = x => { return /'/ };\nimport a from 'x'",
        ] {
            assert_eq!(parts(source).0, "import a from 'x'|a", "{source}");
        }
    }
}
