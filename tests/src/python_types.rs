//! Generates `types.py` in `bindings/python`, the contract's types in Python, from `wit/`.
//!
//! Records and the cases of variants become dataclasses; enums become literals. The documentation is copied.

use std::path::Path;

use wit_parser::{Docs, Handle, Resolve, Type, TypeDef, TypeDefKind, TypeId};

const HEAD: &str = r#""""The types of the contract, `glovebox:sandbox`.

Records and the cases of variants are dataclasses; a case's `tag` is its name. Enums are strings.
"""

# Generated from wit/. Change those files, then run `BLESS=1 cargo test --workspace --test all reference::`.

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, Union
"#;

/// Returns the Python module for the WIT package in a directory.
pub fn module(directory: &Path) -> String {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(directory).expect("the package resolves");
    let mut module = Module { resolve: &resolve, text: HEAD.to_owned(), names: Vec::new() };
    for interface in ["types", "sandbox"] {
        let interface = &resolve.interfaces[resolve.packages[package].interfaces[interface]];
        for (name, id) in &interface.types {
            module.define(name, &resolve.types[*id]);
        }
    }
    module.names.sort();
    let names: String = module.names.iter().map(|name| format!("    \"{name}\",\n")).collect();
    format!("{}\n__all__ = [\n{names}]\n", module.text)
}

struct Module<'a> {
    resolve: &'a Resolve,
    text: String,
    names: Vec<String>,
}

impl Module<'_> {
    fn line(&mut self, indent: usize, text: &str) {
        if !text.is_empty() {
            self.text.push_str(&"    ".repeat(indent));
            self.text.push_str(text);
        }
        self.text.push('\n');
    }

    fn docs(&mut self, indent: usize, docs: &Docs) {
        let text = docs.contents.as_deref().unwrap_or("").trim();
        assert!(!text.contains("\"\"\"") && !text.is_empty(), "documentation that fits a string: {text}");
        // A raw string, because Python must not interpret the backslash.
        let raw = if text.contains('\\') { "r" } else { "" };
        let mut lines = text.lines();
        let first = lines.next().unwrap_or("");
        if lines.clone().next().is_none() {
            return self.line(indent, &format!("{raw}\"\"\"{first}\"\"\""));
        }
        self.line(indent, &format!("{raw}\"\"\"{first}"));
        for line in lines {
            self.line(indent, line);
        }
        self.line(indent, "\"\"\"");
    }

    fn define(&mut self, name: &str, definition: &TypeDef) {
        let class = class_of(name);
        match &definition.kind {
            TypeDefKind::Record(record) => {
                self.begin_class(&class, "frozen=True, kw_only=True", &definition.docs);
                for field in &record.fields {
                    let default = if self.is_option(field.ty) { " = None" } else { "" };
                    let ty = self.type_of(field.ty);
                    self.line(0, "");
                    self.line(1, &format!("{}: {ty}{default}", field.name.replace('-', "_")));
                    self.docs(1, &field.docs);
                }
            }
            TypeDefKind::Variant(variant) => {
                let mut cases = Vec::new();
                for case in &variant.cases {
                    let case_class = format!("{class}{}", class_of(&case.name));
                    self.begin_class(&case_class, "frozen=True", &case.docs);
                    self.line(0, "");
                    if let Some(ty) = case.ty {
                        let ty = self.type_of(ty);
                        self.line(1, &format!("value: {ty}"));
                    }
                    self.line(1, &format!("tag: ClassVar[Literal[\"{0}\"]] = \"{0}\"", case.name));
                    cases.push(case_class);
                }
                self.alias(&class, &format!("Union[{}]", cases.join(", ")), &definition.docs);
            }
            TypeDefKind::Enum(cases) => {
                let names: Vec<&str> = cases.cases.iter().map(|case| case.name.as_str()).collect();
                self.alias(&class, &literal(&names), &definition.docs);
            }
            TypeDefKind::Flags(flags) => {
                let names: Vec<&str> = flags.flags.iter().map(|flag| flag.name.as_str()).collect();
                self.alias(&class, &format!("frozenset[{}]", literal(&names)), &definition.docs);
            }
            // Resource classes are handwritten. A type that is used from another interface is generated with that
            // interface.
            TypeDefKind::Resource | TypeDefKind::Type(_) => {}
            other => panic!("`{name}` has an unsupported kind: {}", other.as_str()),
        }
    }

    fn begin_class(&mut self, name: &str, how: &str, docs: &Docs) {
        self.names.push(name.to_owned());
        self.text.push_str(&format!("\n\n@dataclass({how}, slots=True)\nclass {name}:\n"));
        self.docs(1, docs);
    }

    fn alias(&mut self, name: &str, of: &str, docs: &Docs) {
        self.names.push(name.to_owned());
        self.text.push_str(&format!("\n\n{name} = {of}\n"));
        self.docs(0, docs);
    }

    fn is_option(&self, ty: Type) -> bool {
        matches!(ty, Type::Id(id) if matches!(self.resolve.types[id].kind, TypeDefKind::Option(_)))
    }

    fn type_of(&self, ty: Type) -> String {
        match ty {
            Type::Bool => "bool".to_owned(),
            Type::String | Type::Char => "str".to_owned(),
            Type::F32 | Type::F64 => "float".to_owned(),
            Type::Id(id) => self.defined(id),
            _ => "int".to_owned(),
        }
    }

    fn defined(&self, id: TypeId) -> String {
        let definition = &self.resolve.types[id];
        if let Some(name) = &definition.name {
            return class_of(name);
        }
        match &definition.kind {
            TypeDefKind::Option(of) => format!("{} | None", self.type_of(*of)),
            TypeDefKind::List(Type::U8) => "bytes".to_owned(),
            TypeDefKind::List(of) => format!("list[{}]", self.type_of(*of)),
            TypeDefKind::Tuple(of) => {
                let parts: Vec<String> = of.types.iter().map(|ty| self.type_of(*ty)).collect();
                format!("tuple[{}]", parts.join(", "))
            }
            TypeDefKind::Result(of) => {
                let part = |ty: Option<Type>| ty.map_or_else(|| "None".to_owned(), |ty| self.type_of(ty));
                format!("{} | {}", part(of.ok), part(of.err))
            }
            TypeDefKind::Handle(Handle::Own(of) | Handle::Borrow(of)) => self.defined(*of),
            other => panic!("unsupported kind of type: {}", other.as_str()),
        }
    }
}

/// Converts a name to a class name: `sandbox-error` becomes `SandboxError`.
fn class_of(name: &str) -> String {
    let words = name.split('-').map(|word| {
        let (first, rest) = word.split_at(1);
        first.to_uppercase() + rest
    });
    words.collect()
}

fn literal(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    format!("Literal[{}]", names.join(", "))
}
