//! Random programs of executions, exceptions, exhaustions, forks, undos, hibernations, resumes and changes of files, against
//! a model that knows only what each of these should do.
//!
//! Each program follows from its seed, which a failure names: `GLOVEBOX_MODEL_SEED=17` runs that one alone, and
//! `GLOVEBOX_MODEL_STEPS=5000` makes the programs longer.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test program: a panic is a failed test"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    fmt::Write as _,
};

use glovebox::{
    CheckpointId, Checkpoints, HibernateOptions, IfExists, Language, Outcome, Resource, ResumeOptions, Sandbox, Session,
};
use glovebox_tests::sandbox;
use serde_json::{Value, json};

const SEEDS: std::ops::Range<u64> = 0..3;
const STEPS: usize = 300;
/// Few enough that each is looked at again and again.
const SESSIONS_MOST: usize = 5;

/// A xorshift generator: the same everywhere for the same seed.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        // Seeds that lie beside each other must not roll alike.
        let mut dice = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            dice.roll();
        }
        dice
    }

    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.roll() >> 16).unwrap() % most
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// What a session should hold.
#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    variables: BTreeMap<&'static str, i64>,
    items: Vec<i64>,
    /// How far the generator is.
    drawn: i64,
    /// What the closure counts.
    counted: i64,
    files: BTreeMap<String, String>,
    /// Whether the log that is open still has its name.
    log_linked: bool,
    log: String,
}

const NAMES: [&str; 4] = ["v0", "v1", "v2", "v3"];
const FILES: [&str; 4] = ["a", "b", "d/c", "d/e/f"];

/// Something that a script does, in either language, and what it does to the model.
#[derive(Clone, Debug)]
enum Deed {
    Set(&'static str, i64),
    Push(i64),
    Next,
    Count,
    Write(&'static str, String),
    Remove(&'static str),
    Log(String),
    /// A megabyte that is dropped again: pages that must not stay behind.
    Churn,
}

impl Deed {
    fn roll(dice: &mut Dice, state: &State) -> Self {
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

    fn source(&self, language: Language) -> String {
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

    fn apply(&self, state: &mut State) {
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
enum End {
    Well,
    Raises,
    /// In a loop that ends at the first exception.
    Loops,
    /// In a loop that catches what can be caught.
    LoopsOn,
    /// By leaving: with a code, or with something that is no error.
    Exits,
}

impl End {
    fn source(self, language: Language) -> &'static str {
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

fn setup(language: Language) -> &'static str {
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

/// A session with its model, and what it was at each of its checkpoints.
struct Pair {
    session: Session,
    state: State,
    saved: BTreeMap<CheckpointId, State>,
}

impl Pair {
    /// Takes note of checkpoints that the session has taken by itself since the last time, in this state.
    fn note(&mut self, state: &State) {
        for info in self.session.checkpoints().unwrap() {
            self.saved.entry(info.id).or_insert_with(|| state.clone());
        }
    }
}

struct Program {
    language: Language,
    sandbox: Sandbox,
    dice: Dice,
    pairs: Vec<Pair>,
    /// Every random number that any session has drawn.
    random: BTreeSet<String>,
    /// What happened, for a failure's report.
    story: Vec<String>,
    counts: BTreeMap<&'static str, u64>,
}

impl Program {
    fn new(language: Language, seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let sandbox = sandbox(language, |policy| {
            policy.limits.fuel = 400_000_000;
            policy.limits.timeout_ms = 60_000;
            // Without a reserve nothing is asked to stop: then every loop ends in going back.
            policy.limits.fuel_reserve = if dice.below(2) == 0 { 0 } else { 40_000_000 };
            policy.session.checkpoints = dice.pick(&[Checkpoints::Always, Checkpoints::Auto]);
        });
        let mut program = Self {
            language,
            sandbox,
            dice,
            pairs: Vec::new(),
            random: BTreeSet::new(),
            story: Vec::new(),
            counts: BTreeMap::new(),
        };
        program.open();
        program
    }

    fn tell(&mut self, what: &'static str, more: String) {
        *self.counts.entry(what).or_default() += 1;
        self.story.push(format!("{what} {more}"));
    }

    fn open(&mut self) {
        let session = self.sandbox.session().unwrap();
        let execution = session.execute(setup(self.language)).unwrap();
        assert!(execution.is_success(), "{}", execution.stderr.text());
        let state = State { log_linked: true, ..State::default() };
        self.pairs.push(Pair { session, state, saved: BTreeMap::new() });
        self.tell("open", String::new());
    }

    fn step(&mut self) {
        let at = self.dice.below(self.pairs.len());
        match self.dice.below(100) {
            0..45 => self.execute(at, End::Well),
            45..52 => self.execute(at, End::Raises),
            52..55 => self.execute(at, End::Exits),
            55..60 => self.execute(at, End::Loops),
            60..63 => self.execute(at, End::LoopsOn),
            63..68 => self.fork(at),
            68..74 => self.undo(at),
            74..78 => self.checkpoint(at),
            78..82 => self.undo_to(at),
            82..87 => self.hibernate(at),
            87..91 => self.set(at),
            91..97 => self.change_files(at),
            _ if self.pairs.len() > 1 => {
                drop(self.pairs.remove(at));
                self.tell("drop", at.to_string());
            }
            _ => self.open(),
        }
        let at = self.dice.below(self.pairs.len());
        match self.dice.below(4) {
            0 => self.look(at),
            1 => self.look_at_files(at),
            _ => {}
        }
    }

    fn execute(&mut self, at: usize, end: End) {
        let mut after = self.pairs[at].state.clone();
        let mut source = String::new();
        for _ in 0..self.dice.below(4) {
            let deed = Deed::roll(&mut self.dice, &after);
            deed.apply(&mut after);
            writeln!(source, "{}", deed.source(self.language)).unwrap();
        }
        source += end.source(self.language);
        self.tell(
            match end {
                End::Well => "execute",
                End::Raises => "raise",
                End::Loops => "loop",
                End::LoopsOn => "loop on",
                End::Exits => "exit",
            },
            format!("{at}: {source:.200}"),
        );
        let pair = &mut self.pairs[at];
        let execution = pair.session.execute(&source).unwrap();
        match (end, &execution.outcome) {
            (End::Well, Outcome::Completed) | (End::Raises | End::Exits, Outcome::Raised(_)) => {}
            (End::Exits, Outcome::Exited { code: 5 }) => {}
            (End::Loops | End::LoopsOn, Outcome::Exhausted { resource: Resource::Fuel, .. }) => {}
            (_, outcome) => panic!("{outcome:?}\n{}", execution.stderr.text()),
        }
        // Whatever is new was saved before this execution.
        let before = pair.state.clone();
        pair.note(&before);
        match (end, execution.went_back, &execution.interrupted) {
            (End::Loops | End::LoopsOn, Some(back), None) => {
                assert_eq!(back.executions_lost, 0, "there is a checkpoint before every execution");
                self.tell("went back", String::new());
            }
            (End::Loops | End::LoopsOn, None, Some(raised)) => {
                assert!(!raised.traceback.is_empty());
                pair.state = after;
                self.tell("interrupted", String::new());
            }
            (End::Well | End::Raises | End::Exits, None, None) => pair.state = after,
            (end, back, interrupted) => panic!("{end:?}: {back:?} {interrupted:?}"),
        }
    }

    fn fork(&mut self, at: usize) {
        if self.pairs.len() == SESSIONS_MOST {
            let gone = self.dice.below(self.pairs.len());
            drop(self.pairs.remove(gone));
            self.tell("drop", gone.to_string());
        }
        let at = at.min(self.pairs.len() - 1);
        self.tell("fork", at.to_string());
        let pair = &self.pairs[at];
        let (session, state) = (pair.session.fork().unwrap(), pair.state.clone());
        self.pairs.push(Pair { session, state, saved: BTreeMap::new() });
    }

    fn undo(&mut self, at: usize) {
        self.tell("undo", at.to_string());
        let pair = &mut self.pairs[at];
        let known: Vec<_> = pair.session.checkpoints().unwrap().into_iter().map(|info| info.id).collect();
        match pair.session.undo() {
            Ok(id) => {
                // The newest, or the one before where nothing has changed since.
                let newest = &known[known.len().saturating_sub(2)..];
                assert!(newest.contains(&id), "{id:?} of {known:?}");
                pair.state = pair.saved[&id].clone();
                // Numbers may be given again to what comes after it.
                pair.saved.retain(|saved, _| *saved <= id);
            }
            Err(error) => assert!(known.len() < 2, "{error}: {known:?}"),
        }
    }

    fn checkpoint(&mut self, at: usize) {
        self.tell("checkpoint", at.to_string());
        let pair = &mut self.pairs[at];
        let id = pair.session.checkpoint().unwrap();
        pair.saved.insert(id, pair.state.clone());
    }

    fn undo_to(&mut self, at: usize) {
        let pair = &mut self.pairs[at];
        let known = pair.session.checkpoints().unwrap();
        if known.is_empty() {
            return;
        }
        let id = known[self.dice.below(known.len())].id;
        pair.session.undo_to(id).unwrap();
        pair.state = pair.saved[&id].clone();
        pair.saved.retain(|saved, _| *saved <= id);
        for later in pair.session.checkpoints().unwrap() {
            assert!(later.id <= id, "{later:?} is newer than {id:?}");
        }
        self.tell("undo to", format!("{at} {id:?}"));
    }

    fn hibernate(&mut self, at: usize) {
        self.tell("hibernate", at.to_string());
        let pair = &mut self.pairs[at];
        let bytes = pair.session.hibernate(&HibernateOptions::default()).unwrap();
        let session = self.sandbox.resume(&bytes, ResumeOptions::default()).unwrap();
        pair.session = session;
        pair.saved.clear();
    }

    fn set(&mut self, at: usize) {
        let (name, value) = (self.dice.pick(&NAMES), i64::try_from(self.dice.below(1_000)).unwrap());
        self.tell("set", format!("{at} {name} {value}"));
        let pair = &mut self.pairs[at];
        let before = pair.state.clone();
        pair.session.set_variable(name, &json!(value)).unwrap();
        pair.note(&before);
        pair.state.variables.insert(name, value);
        let read = pair.session.get_variable(name).unwrap().unwrap();
        assert_eq!(read.to_json(), Some(json!(value)));
        let after = pair.state.clone();
        pair.note(&after);
    }

    fn change_files(&mut self, at: usize) {
        let path = self.dice.pick(&FILES);
        let pair = &mut self.pairs[at];
        let files = pair.session.files();
        let told = match self.dice.below(4) {
            0 if pair.state.log_linked => {
                // What the session has open it goes on writing, where nobody sees it.
                files.delete("log").unwrap();
                pair.state.log_linked = false;
                "delete the log".to_owned()
            }
            0 | 1 if pair.state.files.contains_key(path) => {
                files.delete(path).unwrap();
                pair.state.files.remove(path);
                format!("delete {path}")
            }
            2 if pair.state.files.contains_key(path) => {
                assert!(files.write(path, "refused", IfExists::Fail).is_err());
                format!("write over {path}")
            }
            _ => {
                let text = "o".repeat(self.dice.below(9_000));
                files.write(path, &text, IfExists::Replace).unwrap();
                pair.state.files.insert(path.to_owned(), text);
                format!("write {path}")
            }
        };
        self.tell("change files", format!("{at} {told}"));
    }

    /// From inside.
    fn look(&mut self, at: usize) {
        self.tell("look", at.to_string());
        let pair = &mut self.pairs[at];
        let execution = pair.session.execute("look()").unwrap();
        let state = pair.state.clone();
        pair.note(&state);
        assert!(execution.is_success(), "{}", execution.stderr.text());
        let mut seen = execution.value.unwrap().to_json().unwrap();
        let random = seen.as_object_mut().unwrap().remove("random").unwrap();
        let expected = json!({
            "variables": state.variables,
            "items": state.items,
            "drawn": state.drawn,
            "counted": state.counted,
            "log_at": state.log.len(),
        });
        assert_eq!(seen, expected);
        let Value::Number(random) = random else { panic!("{random}") };
        assert!(self.random.insert(random.to_string()), "{random} was drawn twice");
    }

    /// From outside.
    fn look_at_files(&mut self, at: usize) {
        self.tell("look at files", at.to_string());
        let pair = &self.pairs[at];
        let snapshot = pair.session.files().snapshot().unwrap();
        let mut seen = BTreeMap::new();
        for entry in snapshot.list("**").unwrap() {
            if entry.kind == glovebox::FileKind::File {
                seen.insert(entry.path.clone(), String::from_utf8(snapshot.read(&entry.path).unwrap()).unwrap());
            }
        }
        let mut expected = pair.state.files.clone();
        if pair.state.log_linked {
            expected.insert("log".into(), pair.state.log.clone());
        }
        assert_eq!(seen, expected);
    }
}

fn run(language: Language, seeds: impl Iterator<Item = u64>) {
    let number = |name: &str| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let steps = number("GLOVEBOX_MODEL_STEPS").map_or(STEPS, |steps| usize::try_from(steps).unwrap());
    let seeds: Vec<u64> = match number("GLOVEBOX_MODEL_SEED") {
        Some(seed) => vec![seed],
        None => seeds.collect(),
    };
    for seed in seeds {
        let mut program = Program::new(language, seed);
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..steps {
                program.step();
            }
            for at in 0..program.pairs.len() {
                program.look(at);
                program.look_at_files(at);
            }
        }));
        println!("{language}, seed {seed}: {:?}", program.counts);
        if ran.is_err() {
            let tail = program.story.len().saturating_sub(60);
            panic!(
                "{language}, seed {seed}, after {} deeds:\n{}",
                program.story.len(),
                program.story[tail..].join("\n")
            );
        }
    }
}

#[test]
fn random_python_programs_agree_with_the_model() {
    run(Language::Python, SEEDS);
}

#[test]
fn random_javascript_programs_agree_with_the_model() {
    run(Language::JavaScript, SEEDS);
}
