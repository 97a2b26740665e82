//! A model of a session's contents, and scripts whose effects it predicts, for `tests/tests/all/session_model.rs`.

use std::collections::BTreeMap;

use glovebox::Language;

/// A xorshift generator: the same seed yields the same numbers on every platform.
#[derive(Clone)]
pub struct Dice(u64);

impl Dice {
    /// Creates a generator from a seed.
    pub fn new(seed: u64) -> Self {
        // Adjacent seeds must not yield similar numbers.
        let mut dice = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            dice.roll();
        }
        dice
    }

    /// Returns the next number.
    pub fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a number below `max`.
    pub fn below(&mut self, max: usize) -> usize {
        usize::try_from(self.roll() >> 16).unwrap() % max
    }

    /// Returns a random element of `from`.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// The predicted contents of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelState {
    /// The variables of [`NAMES`] that are set.
    pub variables: BTreeMap<&'static str, i64>,
    /// The items in the growing list.
    pub items: Vec<i64>,
    /// The number of values that the generator has yielded so far.
    pub drawn: i64,
    /// The count stored in the closure.
    pub counted: i64,
    /// The existing files of [`FILES`], with their text.
    pub files: BTreeMap<String, String>,
    /// `true` until the open log file is unlinked.
    pub log_linked: bool,
    /// The text in the log file.
    pub log: String,
}

/// The variables that scripts set.
pub const NAMES: [&str; 4] = ["v0", "v1", "v2", "v3"];
/// The files that scripts write and remove.
pub const FILES: [&str; 4] = ["a", "b", "d/c", "d/e/f"];

/// An action of a script, available in both languages, with a known effect on the model.
#[derive(Clone, Debug)]
pub enum ScriptAction {
    /// Sets a variable.
    Set(&'static str, i64),
    /// Appends an item to the list.
    Push(i64),
    /// Advances the generator.
    Next,
    /// Calls the closure, which increments its count.
    Count,
    /// Writes a file.
    Write(&'static str, String),
    /// Removes an existing file.
    Remove(&'static str),
    /// Appends text to the open log file.
    Log(String),
    /// Allocates and drops a megabyte, whose pages must not stay allocated.
    Churn,
}

impl ScriptAction {
    /// Picks a random action that is possible in this state.
    pub fn roll(dice: &mut Dice, state: &ModelState) -> Self {
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

    /// Returns the source line that performs the action.
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

    /// Applies the action's effect to the model.
    pub fn apply(&self, state: &mut ModelState) {
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

/// The end of a script.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScriptEnd {
    /// The script runs to its last line.
    Well,
    /// The script raises an exception.
    Raises,
    /// The script loops until an exception interrupts it.
    Loops,
    /// The script loops and catches every exception that it can catch.
    LoopsOn,
    /// The script exits with a code, or with a value that does not mean failure.
    Exits,
}

impl ScriptEnd {
    /// Returns the last lines of a script that ends this way.
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

/// Returns the first script of a session, which creates the objects that the actions use.
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
