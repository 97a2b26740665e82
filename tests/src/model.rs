//! What a session should hold, and scripts whose effect on it is known: the model of `tests/session_model.rs`.

use std::collections::BTreeMap;

use glovebox::Language;

/// A xorshift generator: the same everywhere for the same seed.
pub struct Dice(u64);

impl Dice {
    /// `seed` decides everything that comes.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // Seeds that lie beside each other must not roll alike.
        let mut dice = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            dice.roll();
        }
        dice
    }

    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number from 0 to below `most`.
    pub fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.roll() >> 16).unwrap() % most
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// What a session should hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Those of [`NAMES`] that are set.
    pub variables: BTreeMap<&'static str, i64>,
    /// A list that grows.
    pub items: Vec<i64>,
    /// How far the generator is.
    pub drawn: i64,
    /// What the closure counts.
    pub counted: i64,
    /// Those of [`FILES`] that are there, with their text.
    pub files: BTreeMap<String, String>,
    /// Whether the log that is open still has its name.
    pub log_linked: bool,
    /// What was written to it.
    pub log: String,
}

/// The variables that scripts set.
pub const NAMES: [&str; 4] = ["v0", "v1", "v2", "v3"];
/// The files that they write and remove.
pub const FILES: [&str; 4] = ["a", "b", "d/c", "d/e/f"];

/// Something that a script does, in either language, and what it does to the model.
#[derive(Clone, Debug)]
pub enum Deed {
    /// A variable.
    Set(&'static str, i64),
    /// An item onto the list.
    Push(i64),
    /// One step of the generator.
    Next,
    /// One call of the closure.
    Count,
    /// A file, from inside.
    Write(&'static str, String),
    /// A file that is there.
    Remove(&'static str),
    /// More in the log that is open.
    Log(String),
    /// A megabyte that is dropped again: pages that must not stay behind.
    Churn,
}

impl Deed {
    /// One that is possible in this state.
    pub fn roll(dice: &mut Dice, state: &State) -> Self {
        let number = i64::try_from(dice.below(1_000_000)).unwrap();
        match dice.below(9) {
            0 | 1 => Self::Set(dice.pick(&NAMES), number),
            2 => Self::Push(number),
            3 => Self::Next,
            4 => Self::Count,
            5 => Self::Write(dice.pick(&FILES), "x".repeat(dice.below(6_000)) + &number.to_string()),
            6 => {
                let path = dice.pick(&FILES);
                if state.files.contains_key(path) { Self::Remove(path) } else { Self::Count }
            }
            7 => Self::Log(format!("{number};")),
            _ => Self::Churn,
        }
    }

    /// The line of a script that does it.
    #[must_use]
    pub fn source(&self, language: Language) -> String {
        let python = language == Language::Python;
        match self {
            Self::Set(name, value) if python => format!("{name} = {value}"),
            Self::Set(name, value) => format!("globalThis.{name} = {value};"),
            Self::Push(value) if python => format!("items.append({value})"),
            Self::Push(value) => format!("items.push({value});"),
            Self::Next if python => "next(numbers)".into(),
            Self::Next => "numbers.next();".into(),
            Self::Count => if python { "count()" } else { "count();" }.into(),
            Self::Write(path, text) => format!("put('{path}', '{text}')"),
            Self::Remove(path) => format!("os.remove('{path}')"),
            Self::Log(text) if python => format!("log.write('{text}')"),
            Self::Log(text) => format!("log.puts('{text}');"),
            Self::Churn if python => "len([object() for _ in range(2_000)])".into(),
            Self::Churn => "Array.from({length: 2_000}, () => ({})).length;".into(),
        }
    }

    /// What it does to the model.
    pub fn apply(&self, state: &mut State) {
        match self {
            Self::Set(name, value) => drop(state.variables.insert(name, *value)),
            Self::Push(value) => state.items.push(*value),
            Self::Next => state.drawn += 1,
            Self::Count => state.counted += 1,
            Self::Write(path, text) => drop(state.files.insert((*path).to_owned(), text.clone())),
            Self::Remove(path) => drop(state.files.remove(*path)),
            Self::Log(text) => state.log.push_str(text),
            Self::Churn => {}
        }
    }
}

/// How a script ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum End {
    /// At its last line.
    Well,
    /// With an exception.
    Raises,
    /// In a loop that ends at the first exception.
    Loops,
    /// In a loop that catches what can be caught.
    LoopsOn,
    /// By leaving: with a code, or with something that is no error.
    Exits,
}

impl End {
    /// The last lines of a script that ends so.
    #[must_use]
    pub fn source(self, language: Language) -> &'static str {
        match (self, language) {
            (Self::Well, _) => "",
            (Self::Raises, Language::Python) => "raise LookupError('as told')",
            (Self::Raises, Language::JavaScript) => "throw new RangeError('as told')",
            (Self::Loops, Language::Python) => "while True:\n    pass",
            (Self::Loops | Self::LoopsOn, Language::JavaScript) => "for (;;) { try { for (;;); } catch {} }",
            (Self::LoopsOn, Language::Python) => {
                "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass"
            }
            (Self::Exits, Language::Python) => "raise SystemExit(5)",
            (Self::Exits, Language::JavaScript) => "throw 5",
        }
    }
}

/// What a session executes first.
#[must_use]
pub fn setup(language: Language) -> &'static str {
    match language {
        Language::Python => {
            "
import itertools, os, random
items = []
def endless():
    n = 0
    while True:
        yield n
        n += 1
numbers = endless()
def counter():
    n = 0
    def count():
        nonlocal n
        n += 1
        return n
    return count
count = counter()
def put(path, text):
    os.makedirs(os.path.dirname(path) or '.', exist_ok=True)
    with open(path, 'w') as f:
        f.write(text)
log = open('log', 'w')
def look():
    found = {name: globals()[name] for name in ('v0', 'v1', 'v2', 'v3') if name in globals()}
    return {'variables': found, 'items': items, 'drawn': numbers.gi_frame.f_locals.get('n', -1) + 1,
            'counted': count.__closure__[0].cell_contents, 'log_at': log.tell(), 'random': random.random()}"
        }
        Language::JavaScript => {
            "
const items = [];
let drawn = 0;
function* endless() { for (;;) { drawn += 1; yield drawn } }
const numbers = endless();
let counted = 0;
const counter = () => { return () => { counted += 1; return counted } };
const count = counter();
function put(path, text) {
    const names = path.split('/');
    for (let end = 1; end < names.length; end++) os.mkdir(names.slice(0, end).join('/'));
    const f = std.open(path, 'w'); f.puts(text); f.close();
}
const log = std.open('log', 'w');
function look() {
    const found = {};
    for (const name of ['v0', 'v1', 'v2', 'v3']) if (name in globalThis) found[name] = globalThis[name];
    return {variables: found, items, drawn, counted, log_at: log.tell(), random: Math.random()};
}"
        }
    }
}
