//! The picture of the house, `docs/house.svg`: which crate depends on which, as their manifests say. `BLESS=1` draws it anew.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
    path::Path,
};

use glovebox_tests::hold_file;
use toml::{Table, Value};

const PICTURE: &str = "docs/house.svg";

/// Directories of crates, with their colour and what holds for all of them.
const PARTS: [(&str, &str, &str); 4] = [
    ("bindings", "#f2e3ec", "bindings: for programs that use the sandbox"),
    ("host", "#e1e9f5", "host: on Wasmtime, with threads and host files"),
    ("runtimes", "#f3ecd9", "runtimes: binaries of interpreters, and no engine"),
    ("guest-shims", "#e3f0e8", "guest-shims: no engine, no threads, no host files; also compiled to WebAssembly"),
];

const BOX: (usize, usize) = (230, 112);
const GAP: (usize, usize) = (30, 46);
/// What a line takes that only passes a row.
const PASSAGE: usize = 40;
const LINE_CHARS: usize = 36;

struct Crate {
    directory: String,
    description: String,
    /// Crates of ours that it depends on, and whether only with a feature.
    uses: BTreeMap<String, bool>,
}

fn table(root: &Path, directory: &str) -> Table {
    fs::read_to_string(root.join(directory).join("Cargo.toml")).unwrap().parse().unwrap()
}

/// The crates of the workspace by name, without the tests.
fn crates(root: &Path) -> BTreeMap<String, Crate> {
    let members = table(root, "")["workspace"]["members"].as_array().unwrap().clone();
    let directories = members.iter().filter_map(Value::as_str).filter(|directory| *directory != "tests");
    let mut crates: BTreeMap<_, _> = directories
        .map(|directory| {
            let manifest = table(root, directory);
            let text = |key: &str| manifest["package"][key].as_str().unwrap().to_owned();
            let dependencies = manifest.get("dependencies").and_then(Value::as_table).cloned().unwrap_or_default();
            let is_optional = |value: &Value| value.get("optional").and_then(Value::as_bool) == Some(true);
            let uses = dependencies.iter().map(|(name, value)| (name.clone(), is_optional(value))).collect();
            (text("name"), Crate { directory: directory.to_owned(), description: text("description"), uses })
        })
        .collect();
    let names: BTreeSet<String> = crates.keys().cloned().collect();
    crates.values_mut().for_each(|each| each.uses.retain(|name, _| names.contains(name)));
    crates
}

/// Whether one crate needs the other, directly or not.
fn reaches(crates: &BTreeMap<String, Crate>, from: &str, to: &str) -> bool {
    from == to || crates[from].uses.keys().any(|next| reaches(crates, next, to))
}

/// How many crates stand on each other below this one.
fn height(crates: &BTreeMap<String, Crate>, name: &str) -> usize {
    crates[name].uses.keys().map(|next| height(crates, next) + 1).max().unwrap_or(0)
}

/// The row of a crate, from the top: just below those that use it.
fn row(crates: &BTreeMap<String, Crate>, name: &str, top: usize) -> usize {
    let users = crates.iter().filter(|(_, user)| user.uses.contains_key(name));
    let unused = if crates[name].uses.is_empty() { 0 } else { top - height(crates, name) };
    users.map(|(user, _)| row(crates, user, top) + 1).max().unwrap_or(unused)
}

struct Picture {
    crates: BTreeMap<String, Crate>,
    /// From the top. Each place with its left end: a crate, or where a line passes.
    rows: Vec<Vec<(String, usize)>>,
    /// Every line from place to place, one row down, and whether it is there only with a feature.
    lines: Vec<(String, String, bool)>,
}

/// Whether only a line passes there: such places have blanks in their names.
fn is_passage(place: &str) -> bool {
    place.contains(' ')
}

fn width(place: &str) -> usize {
    if is_passage(place) { PASSAGE } else { BOX.0 }
}

impl Picture {
    fn new(crates: BTreeMap<String, Crate>) -> Self {
        let top = crates.keys().map(|name| height(&crates, name)).max().unwrap_or(0);
        let mut rows = vec![Vec::new(); top + 1];
        for name in crates.keys() {
            rows[row(&crates, name, top)].push((name.clone(), 0));
        }
        let mut lines = Vec::new();
        for (name, each) in &crates {
            for (used, is_optional) in &each.uses {
                // What goes without saying since another line leads there is left out.
                if each.uses.keys().any(|other| other != used && reaches(&crates, other, used)) {
                    continue;
                }
                let mut from = name.clone();
                let (above, below) = (row(&crates, name, top), row(&crates, used, top));
                for (number, passed) in rows[..below].iter_mut().enumerate().skip(above + 1) {
                    let passage = format!("{name} {used} {number}");
                    passed.push((passage.clone(), 0));
                    lines.push((from, passage.clone(), *is_optional));
                    from = passage;
                }
                lines.push((from, used.clone(), *is_optional));
            }
        }
        let mut picture = Self { crates, rows, lines };
        picture.arrange();
        picture
    }

    /// Puts each place near those that it has lines to, now from above and now from below.
    fn arrange(&mut self) {
        let across = |row: &[(String, usize)]| row.iter().map(|(place, _)| width(place) + GAP.0).sum::<usize>();
        let widest = self.rows.iter().map(|row| across(row)).max().unwrap_or(0);
        for turn in 0..8 {
            let count = self.rows.len();
            for index in if turn % 2 == 0 { (0..count).collect::<Vec<_>>() } else { (0..count).rev().collect() } {
                let mut row = std::mem::take(&mut self.rows[index]);
                row.sort_by_key(|(place, _)| self.wanted(place, widest / 2));
                let mut x = (widest - across(&row)) / 2 + GAP.0;
                for (place, at) in &mut row {
                    *at = x;
                    x += width(place) + GAP.0;
                }
                self.rows[index] = row;
            }
        }
    }

    /// The middle of a place.
    fn middle(&self, place: &str) -> usize {
        let found = self.rows.iter().flatten().find(|(other, _)| other == place);
        found.map_or(0, |(_, at)| at + width(place) / 2)
    }

    /// Where a place would best be: between all that it has lines to and that are in their rows.
    fn wanted(&self, place: &str, otherwise: usize) -> usize {
        let ends = self.lines.iter().filter(|(from, to, _)| from == place || to == place);
        let middles: Vec<usize> =
            ends.map(|(from, to, _)| self.middle(if from == place { to } else { from })).collect();
        if middles.is_empty() { otherwise } else { middles.iter().sum::<usize>() / middles.len() }
    }

    fn draw(&self) -> String {
        let right = self.rows.iter().flatten().map(|(place, at)| at + width(place)).max().unwrap_or(0);
        let (across, step) = (right + GAP.0, BOX.1 + GAP.1);
        let height = GAP.1 + self.rows.len() * step + PARTS.len() * 20;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {across} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <title>Crates of Glovebox: each stands above those that it depends on</title>\n\
             <marker id=\"end\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\">\
             <path d=\"M 0 0 L 8 4 L 0 8\" fill=\"#555\"/></marker>\n\
             <rect width=\"{across}\" height=\"{height}\" fill=\"white\"/>\n"
        );
        let top = |place: &str| {
            let row = self.rows.iter().position(|row| row.iter().any(|(other, _)| other == place)).unwrap();
            GAP.1 / 2 + row * step
        };
        for (from, to, is_optional) in &self.lines {
            let (x, y) = (self.middle(from), top(from) + BOX.1);
            let (to_x, to_y) = (self.middle(to), top(to));
            let between = usize::midpoint(y, to_y);
            let dashes = if *is_optional { " stroke-dasharray=\"5 4\"" } else { "" };
            let end =
                if is_passage(to) { format!(" V {}\"", to_y + BOX.1) } else { "\" marker-end=\"url(#end)\"".into() };
            let _ = writeln!(
                svg,
                "<path fill=\"none\" stroke=\"#555\"{dashes} d=\"M {x} {y} C {x} {between} {to_x} {between} {to_x} {to_y}{end}/>"
            );
        }
        for (place, x) in self.rows.iter().flatten().filter(|(place, _)| !is_passage(place)) {
            let (each, y) = (&self.crates[place], top(place));
            let part = PARTS.iter().find(|(part, ..)| each.directory.starts_with(part));
            let (_, colour, _) = part.unwrap_or_else(|| panic!("`{}` is in none of the parts", each.directory));
            let (wide, high) = BOX;
            let _ = write!(
                svg,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{wide}\" height=\"{high}\" rx=\"6\" fill=\"{colour}\" stroke=\"#555\"/>\n\
                 <text x=\"{0}\" y=\"{1}\" font-weight=\"bold\">{2}</text>\n<text x=\"{0}\" y=\"{3}\" fill=\"#555\">{4}</text>\n",
                x + 10,
                y + 20,
                place,
                y + 36,
                each.directory,
            );
            for (number, line) in wrapped(&each.description).iter().enumerate() {
                let _ = writeln!(
                    svg,
                    "<text x=\"{}\" y=\"{}\" font-size=\"11\">{line}</text>",
                    x + 10,
                    y + 54 + number * 14
                );
            }
        }
        for (number, (_, colour, words)) in PARTS.iter().enumerate() {
            let y = GAP.1 / 2 + self.rows.len() * step + number * 20;
            let _ = write!(
                svg,
                "<rect x=\"{0}\" y=\"{y}\" width=\"14\" height=\"14\" fill=\"{colour}\" stroke=\"#555\"/>\n\
                 <text x=\"{1}\" y=\"{2}\">{words}</text>\n",
                GAP.0,
                GAP.0 + 22,
                y + 12,
            );
        }
        svg + "</svg>\n"
    }
}

/// A text in lines, as XML has it.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.len() + word.len() < LINE_CHARS => *line += &format!(" {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines.iter().map(|line| line.replace('&', "&amp;").replace('<', "&lt;")).collect()
}

#[test]
fn the_picture_of_the_house_is_what_the_manifests_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let picture = Picture::new(crates(&root)).draw();
    hold_file(PICTURE, &picture);
}
