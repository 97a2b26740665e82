//! What a module defines and imports, as its text says.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A module.
#[derive(Default)]
pub(super) struct Module {
    /// The names of what it defines.
    pub(super) items: BTreeSet<String>,
    pub(super) imports: Vec<Import>,
    /// Every name in its code.
    pub(super) names: BTreeSet<String>,
}

/// A path that leads somewhere.
#[derive(Clone)]
pub(super) struct Import {
    pub(super) path: Vec<String>,
    /// The name that it has in the module; none for all names of another.
    pub(super) alias: Option<String>,
    /// It is there for others.
    pub(super) is_passed_on: bool,
}

impl Import {
    /// Whether the module that passes it on needs it as well.
    pub(super) fn is_used_in(&self, module: &Module) -> bool {
        self.alias.as_ref().is_some_and(|alias| module.names.contains(alias))
    }
}

/// Reads files.
pub(super) struct Read<'a> {
    pub(super) modules: &'a mut BTreeMap<String, Module>,
}

/// Where a module is: the files of those in it stand in `children`.
struct Place<'a> {
    name: &'a str,
    children: PathBuf,
}

impl Read<'_> {
    /// Reads the file of a module, and those of the modules in it.
    pub(super) fn file(&mut self, name: &str, file: &Path) {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let tokens: TokenStream = text.parse().unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let (directory, stem) = (file.parent().expect("a file"), file.file_stem().expect("a file"));
        let is_facade = ["lib", "main", "mod"].iter().any(|facade| stem == *facade);
        let children = if is_facade { directory.to_owned() } else { directory.join(stem) };
        self.module(&Place { name, children }, tokens);
    }

    fn module(&mut self, place: &Place<'_>, tokens: TokenStream) {
        let mut module = Module::default();
        let mut tokens = tokens.into_iter().peekable();
        while tokens.peek().is_some() {
            let mut item = Vec::new();
            // An item ends with `;`, or with what stands in braces if it does not begin as one that ends with `;`.
            for token in tokens.by_ref() {
                let ends = match &token {
                    TokenTree::Punct(punct) => punct.as_char() == ';',
                    TokenTree::Group(group) => group.delimiter() == Delimiter::Brace && !ends_with_semicolon(&item),
                    _ => false,
                };
                item.push(token);
                if ends {
                    break;
                }
            }
            self.item(place, &mut module, &item);
        }
        self.modules.insert(place.name.to_owned(), module);
    }

    fn item(&mut self, place: &Place<'_>, module: &mut Module, item: &[TokenTree]) {
        let (attributes, item) = split_attributes(item);
        if attributes.iter().any(|attribute| is_for_tests(attribute)) {
            return;
        }
        let words: Vec<String> = item.iter().map(ToString::to_string).collect();
        let is_public = words.first().is_some_and(|word| word == "pub");
        let begin = usize::from(is_public) + usize::from(is_public && matches!(item.get(1), Some(TokenTree::Group(_))));
        match words.get(begin).map(String::as_str) {
            Some("use") => uses(item.get(begin + 1..).unwrap_or_default(), is_public, &mut module.imports),
            Some("mod") => {
                let name = words.get(begin + 1).expect("a module has a name");
                let path = format!("{}::{name}", place.name);
                match item.last() {
                    Some(TokenTree::Group(group)) => {
                        let inner = Place { name: &path, children: place.children.join(name) };
                        self.module(&inner, group.stream());
                    }
                    _ => {
                        let file = place.children.join(format!("{name}.rs"));
                        let folder = place.children.join(name).join("mod.rs");
                        self.file(&path, if file.exists() { &file } else { &folder });
                    }
                }
            }
            _ => {
                module.items.extend(defined(&words));
                code(item.iter().cloned().collect(), module);
            }
        }
    }
}

fn ends_with_semicolon(item: &[TokenTree]) -> bool {
    let (_, item) = split_attributes(item);
    let mut words = item.iter().filter_map(|token| match token {
        TokenTree::Ident(ident) => Some(ident.to_string()),
        _ => None,
    });
    let first = words.find(|word| word != "pub" && word != "crate");
    match first.as_deref() {
        Some("use" | "static" | "type") => true,
        Some("const") => {
            !words.next().is_some_and(|word| matches!(word.as_str(), "fn" | "unsafe" | "async" | "extern"))
        }
        _ => false,
    }
}

/// The attributes before an item, and the item.
fn split_attributes(item: &[TokenTree]) -> (Vec<String>, &[TokenTree]) {
    let (mut attributes, mut rest) = (Vec::new(), item);
    loop {
        match rest {
            [TokenTree::Punct(hash), TokenTree::Group(group), after @ ..] if hash.as_char() == '#' => {
                attributes.push(group.stream().to_string());
                rest = after;
            }
            [TokenTree::Punct(hash), TokenTree::Punct(bang), TokenTree::Group(_), after @ ..]
                if hash.as_char() == '#' && bang.as_char() == '!' =>
            {
                rest = after;
            }
            _ => return (attributes, rest),
        }
    }
}

fn is_for_tests(attribute: &str) -> bool {
    let attribute: String = attribute.split_whitespace().collect();
    ["cfg(test)", "cfg(all(test", "cfg(doctest)", "test"].iter().any(|of| attribute.starts_with(of))
}

/// The name that an item gives to what it defines.
fn defined(words: &[String]) -> Option<String> {
    let kinds = ["fn", "struct", "enum", "union", "trait", "type", "static", "const", "macro_rules"];
    let at = words.iter().position(|word| kinds.contains(&word.as_str()))?;
    if words.iter().take(at).any(|word| word == "impl") {
        return None;
    }
    let mut after = words.iter().skip(at + 1);
    after
        .find(|word| !kinds.contains(&word.as_str()) && !matches!(word.as_str(), "!" | "mut" | "unsafe" | "async"))
        .cloned()
}

/// The paths of a `use`, behind that word.
fn uses(tree: &[TokenTree], is_passed_on: bool, into: &mut Vec<Import>) {
    let tree = match tree {
        [before @ .., TokenTree::Punct(punct)] if punct.as_char() == ';' => before,
        whole => whole,
    };
    branch(&[], tree, is_passed_on, into);
}

fn branch(before: &[String], tree: &[TokenTree], is_passed_on: bool, into: &mut Vec<Import>) {
    let mut path = before.to_vec();
    let mut tokens = tree.iter();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(ident) if ident == "as" => {
                let alias = tokens.next().map(ToString::to_string);
                into.push(Import { path, alias, is_passed_on });
                return;
            }
            TokenTree::Ident(ident) => path.push(ident.to_string()),
            TokenTree::Punct(punct) if punct.as_char() == '*' => {
                into.push(Import { path, alias: None, is_passed_on });
                return;
            }
            TokenTree::Group(group) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                for part in inner.split(|token| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ',')) {
                    if !part.is_empty() {
                        branch(&path, part, is_passed_on, into);
                    }
                }
                return;
            }
            _ => {}
        }
    }
    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    let alias = path.last().cloned();
    into.push(Import { path, alias, is_passed_on });
}

/// The paths in code, and its names.
fn code(tokens: TokenStream, module: &mut Module) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        match token {
            TokenTree::Group(group) => code(group.stream(), module),
            TokenTree::Ident(ident) if ident == "use" => {
                let rest = tokens.get(at..).unwrap_or_default();
                let end =
                    rest.iter().position(|token| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ';'));
                // `use<'_>` is no import.
                if let Some((end, TokenTree::Ident(_))) = end.zip(rest.first()) {
                    uses(rest.get(..end).unwrap_or_default(), false, &mut module.imports);
                    at += end;
                }
            }
            TokenTree::Ident(ident) => {
                module.names.insert(ident.to_string());
                let mut path = vec![ident.to_string()];
                while let [TokenTree::Punct(one), TokenTree::Punct(two), TokenTree::Ident(next), ..] =
                    tokens.get(at..).unwrap_or_default()
                {
                    if one.as_char() != ':' || two.as_char() != ':' {
                        break;
                    }
                    path.push(next.to_string());
                    module.names.insert(next.to_string());
                    at += 3;
                }
                if path.len() > 1 {
                    let alias = Some(format!("{} in code", path.join("::")));
                    module.imports.push(Import { path, alias, is_passed_on: false });
                }
            }
            _ => {}
        }
    }
}
