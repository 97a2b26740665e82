//! Generates `docs/reference.md`, the contract's documentation page, from `wit/`.

use std::{collections::BTreeMap, path::Path};

use wit_parser::{
    Docs, Function, FunctionKind, Handle, Interface, PackageId, Resolve, Type, TypeDef, TypeDefKind, TypeId, World,
    WorldItem, WorldKey,
};

/// Returns the page for the WIT package in a directory.
pub fn page(directory: &Path) -> String {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(directory).expect("the package resolves");
    let links = links(&resolve, package);
    let mut page = Page { resolve: &resolve, links, resource: None, text: String::new() };
    page.package(package);
    page.text
}

/// Returns a heading's anchor, as GitHub generates it.
pub fn anchor(heading: &str) -> String {
    let lower = heading.to_lowercase().replace(' ', "-");
    lower.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
}

/// Collects the anchors of all names that documentation can refer to.
fn links(resolve: &Resolve, package: PackageId) -> BTreeMap<String, String> {
    let mut links = BTreeMap::new();
    for id in resolve.packages[package].interfaces.values() {
        let interface = &resolve.interfaces[*id];
        for (name, id) in &interface.types {
            let definition = &resolve.types[*id];
            if is_used(definition) {
                continue;
            }
            links.insert(name.clone(), anchor(name));
            for part in parts(definition) {
                links.insert(format!("{name}.{}", part.name), anchor(name));
            }
        }
        for function in interface.functions.values() {
            let title = title(function);
            links.insert(title.clone(), anchor(&title));
        }
    }
    links
}

/// Returns `true` if the interface does not define the type but uses it from another interface.
fn is_used(definition: &TypeDef) -> bool {
    matches!(definition.kind, TypeDefKind::Type(_))
}

/// Returns a function's title on the page: `execute`, `session.execute`.
fn title(function: &Function) -> String {
    match function.name.rsplit_once(']') {
        Some((_, resource)) if matches!(function.kind, FunctionKind::Constructor(_)) => {
            format!("{resource}.constructor")
        }
        Some((_, method)) => method.to_owned(),
        None => function.name.clone(),
    }
}

/// A field, a case or a flag of a type.
struct Part<'a> {
    name: &'a str,
    of: Option<Type>,
    docs: &'a Docs,
}

fn parts(definition: &TypeDef) -> Vec<Part<'_>> {
    match &definition.kind {
        TypeDefKind::Record(of) => {
            of.fields.iter().map(|field| Part { name: &field.name, of: Some(field.ty), docs: &field.docs }).collect()
        }
        TypeDefKind::Variant(of) => {
            of.cases.iter().map(|case| Part { name: &case.name, of: case.ty, docs: &case.docs }).collect()
        }
        TypeDefKind::Enum(of) => {
            of.cases.iter().map(|case| Part { name: &case.name, of: None, docs: &case.docs }).collect()
        }
        TypeDefKind::Flags(of) => {
            of.flags.iter().map(|flag| Part { name: &flag.name, of: None, docs: &flag.docs }).collect()
        }
        _ => Vec::new(),
    }
}

struct Page<'a> {
    resolve: &'a Resolve,
    links: BTreeMap<String, String>,
    /// The resource being documented. References to its methods may omit its name.
    resource: Option<&'a str>,
    text: String,
}

impl<'a> Page<'a> {
    fn line(&mut self, line: impl AsRef<str>) {
        self.text.push_str(line.as_ref());
        self.text.push('\n');
    }

    fn paragraph(&mut self, text: impl AsRef<str>) {
        self.line(text);
        self.line("");
    }

    fn package(&mut self, package: PackageId) {
        let resolve = self.resolve;
        let package = &resolve.packages[package];
        let version = package.name.version.as_ref().map_or_else(String::new, |version| format!("@{version}"));
        self.paragraph(format!("# `{}:{}{version}`", package.name.namespace, package.name.name));
        self.paragraph(
            "<!-- Generated from wit/. Change those files, then run `BLESS=1 cargo test --workspace --test all reference::`. -->",
        );
        self.paragraph(
            "Look up the functions and types of the contract between a sandbox and its embedder, [`wit/`](../wit).",
        );
        // Functions come first, because readers look for them first.
        let interfaces =
            ["sandbox", "tools", "types"].map(|name| (name, &resolve.interfaces[package.interfaces[name]]));
        for (name, interface) in interfaces {
            self.contents(name, interface);
        }
        let worlds: Vec<String> =
            package.worlds.keys().map(|name| format!("[`{name}`](#{})", anchor(&format!("World `{name}`")))).collect();
        self.paragraph(format!("* [Worlds](#worlds): {}", worlds.join(", ")));
        for (name, interface) in interfaces {
            self.interface(name, interface);
        }
        self.paragraph("## Worlds");
        for (name, world) in &package.worlds {
            self.world(name, &resolve.worlds[*world]);
        }
        self.text.truncate(self.text.trim_end().len());
        self.text.push('\n');
    }

    /// Writes links to an interface's functions and types.
    fn contents(&mut self, name: &str, interface: &Interface) {
        let functions = interface.functions.values().filter(|function| !is_of_resource(function)).map(title);
        let types = interface.types.iter().filter(|(_, id)| !is_used(&self.resolve.types[**id]));
        let (resources, types): (Vec<_>, Vec<_>) =
            types.partition(|(_, id)| matches!(self.resolve.types[**id].kind, TypeDefKind::Resource));
        let named = |types: Vec<(&String, _)>| types.into_iter().map(|(name, _)| name.clone()).collect();
        let lists: [(&str, Vec<String>); 3] =
            [("functions", functions.collect()), ("resources", named(resources)), ("types", named(types))];
        self.line(format!("* [Interface `{name}`](#interface-{name})"));
        for (what, names) in lists {
            if !names.is_empty() {
                let names: Vec<String> = names.iter().map(|name| self.linked_name(name)).collect();
                self.line(format!("  * {what}: {}", names.join(", ")));
            }
        }
    }

    fn interface(&mut self, name: &str, interface: &'a Interface) {
        let resolve = self.resolve;
        self.paragraph(format!("## Interface `{name}`"));
        self.docs(&interface.docs);
        for function in interface.functions.values().filter(|function| !is_of_resource(function)) {
            self.function(function);
        }
        for (name, id) in &interface.types {
            let definition = &resolve.types[*id];
            if !is_used(definition) {
                self.definition(name, *id, definition, interface);
            }
        }
    }

    fn function(&mut self, function: &Function) {
        // Methods are one level below their resource.
        let level = if is_of_resource(function) { "####" } else { "###" };
        self.paragraph(format!("{level} `{}`", title(function)));
        let parameters: Vec<String> = function
            .params
            .iter()
            // The title already names the resource.
            .filter(|parameter| parameter.name != "self")
            .map(|parameter| format!("`{}`: {}", parameter.name, self.kind(&parameter.ty)))
            .collect();
        let result = match (&function.result, &function.kind) {
            (_, FunctionKind::Constructor(of)) => self.id(*of),
            (Some(result), _) => self.kind(result),
            (None, _) => "nothing".to_owned(),
        };
        let is_static = if matches!(function.kind, FunctionKind::Static(_)) { "static, " } else { "" };
        self.paragraph(format!("{is_static}({}) → {result}", parameters.join(", ")));
        self.docs(&function.docs);
    }

    fn definition(&mut self, name: &'a str, id: TypeId, definition: &TypeDef, interface: &Interface) {
        let (kind, column) = match &definition.kind {
            TypeDefKind::Record(_) => ("record", "field"),
            TypeDefKind::Variant(_) => ("variant", "case"),
            TypeDefKind::Enum(_) => ("enum", "case"),
            TypeDefKind::Flags(_) => ("flags", "flag"),
            TypeDefKind::Resource => ("resource", ""),
            other => panic!("unsupported kind of `{name}`: {other:?}"),
        };
        self.paragraph(format!("### `{name}`"));
        self.text.push_str(&format!("*{kind}*: "));
        self.resource = Some(name).filter(|_| kind == "resource");
        self.docs(&definition.docs);
        let parts = parts(definition);
        if parts.iter().any(|part| part.of.is_some()) {
            self.line(format!("| {column} | type | |\n|---|---|---|"));
            for part in parts {
                let of = part.of.map_or_else(String::new, |of| self.kind(&of));
                self.line(format!("| `{}` | {of} | {} |", part.name, self.cell(part.docs)));
            }
            self.line("");
        } else if !parts.is_empty() {
            self.line(format!("| {column} | |\n|---|---|"));
            for part in parts {
                self.line(format!("| `{}` | {} |", part.name, self.cell(part.docs)));
            }
            self.line("");
        }
        for function in interface.functions.values().filter(|function| function.kind.resource() == Some(id)) {
            self.function(function);
        }
        self.resource = None;
    }

    fn world(&mut self, name: &str, world: &World) {
        self.paragraph(format!("### World `{name}`"));
        self.docs(&world.docs);
        let names = |items: &mut dyn Iterator<Item = (&WorldKey, &WorldItem)>| -> Vec<String> {
            let mut names: Vec<String> = Vec::new();
            for (key, _) in items {
                let name = format!("`{}`", short(&self.resolve.name_world_key(key)));
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            names
        };
        let (imports, exports) = (names(&mut world.imports.iter()), names(&mut world.exports.iter()));
        for (what, names) in [("Imports", imports), ("Exports", exports)] {
            let names = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
            self.line(format!("* {what}: {names}"));
        }
        self.line("");
    }
}

/// Transforms the text between backticks.
fn quoted_by(text: &str, write: impl Fn(&str) -> String) -> String {
    let pieces = text.split('`').enumerate();
    pieces.map(|(index, piece)| if index % 2 == 0 { piece.to_owned() } else { write(piece) }).collect()
}

fn link(name: &str, anchor: Option<&String>) -> String {
    anchor.map_or_else(|| format!("`{name}`"), |anchor| format!("[`{name}`](#{anchor})"))
}

/// Returns an interface's short name; for WASI, the package and its version.
fn short(name: &str) -> String {
    match name.strip_prefix("wasi:").and_then(|rest| Some((rest.split_once('/')?.0, rest.split_once('@')?.1))) {
        Some((package, version)) => format!("wasi:{package}@{version}"),
        _ => name.to_owned(),
    }
}

fn is_of_resource(function: &Function) -> bool {
    function.kind.resource().is_some()
}

impl Page<'_> {
    /// Writes documentation unchanged, with links.
    fn docs(&mut self, docs: &Docs) {
        let text = docs.contents.as_deref().unwrap_or_default().trim();
        // After `Errors:`, a name is always an error. Before it, the name may be a common word.
        let text = match text.split_once("Errors:") {
            Some((before, errors)) => format!("{}Errors:{}", self.linked(before), self.linked_errors(errors)),
            None => self.linked(text),
        };
        self.paragraph(text);
    }

    /// Formats documentation as a table cell, on one line.
    fn cell(&self, docs: &Docs) -> String {
        let text = docs.contents.as_deref().unwrap_or_default();
        self.linked(&text.split_whitespace().collect::<Vec<_>>().join(" ")).replace('|', "\\|")
    }

    /// Links each name between backticks that has an anchor on the page.
    fn linked(&self, text: &str) -> String {
        quoted_by(text, |name| self.linked_name(name))
    }

    /// Like [`linked`](Self::linked), but also links cases of `sandbox-error` without their type's name.
    fn linked_errors(&self, text: &str) -> String {
        quoted_by(text, |name| match self.links.get(&format!("sandbox-error.{name}")) {
            Some(anchor) => link(name, Some(anchor)),
            None => self.linked_name(name),
        })
    }

    /// Links a name in documentation. A method of the current resource takes precedence.
    fn linked_name(&self, name: &str) -> String {
        let method = self.resource.and_then(|resource| self.links.get(&format!("{resource}.{name}")));
        link(name, method.or_else(|| self.links.get(name)))
    }

    /// Formats a type in WIT notation, with links.
    fn kind(&self, kind: &Type) -> String {
        match kind {
            Type::Id(id) => self.id(*id),
            Type::Bool => "`bool`".into(),
            Type::String => "`string`".into(),
            Type::Char => "`char`".into(),
            Type::U8 => "`u8`".into(),
            Type::U32 => "`u32`".into(),
            Type::U64 => "`u64`".into(),
            Type::S32 => "`s32`".into(),
            other => panic!("unsupported type: {other:?}"),
        }
    }

    fn id(&self, id: TypeId) -> String {
        let definition = &self.resolve.types[id];
        if let Some(name) = &definition.name {
            return link(name, self.links.get(name));
        }
        let kind = |kind: &Option<Type>| kind.map_or_else(|| "_".to_owned(), |kind| self.kind(&kind));
        match &definition.kind {
            TypeDefKind::Option(of) => format!("option\\<{}\\>", self.kind(of)),
            TypeDefKind::List(of) => format!("list\\<{}\\>", self.kind(of)),
            TypeDefKind::Result(of) => format!("result\\<{}, {}\\>", kind(&of.ok), kind(&of.err)),
            TypeDefKind::Tuple(of) => {
                let of: Vec<String> = of.types.iter().map(|of| self.kind(of)).collect();
                format!("tuple\\<{}\\>", of.join(", "))
            }
            TypeDefKind::Handle(Handle::Own(of)) => self.id(*of),
            TypeDefKind::Handle(Handle::Borrow(of)) => format!("borrow\\<{}\\>", self.id(*of)),
            other => panic!("unsupported type: {other:?}"),
        }
    }
}
