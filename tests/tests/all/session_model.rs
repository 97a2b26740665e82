//! Compares random sequences of executions, exceptions, exhausted limits, forks, undos, hibernations, resumes and file
//! changes with a simple model of each session.
//!
//! A seed determines each program, and failures name the seed. `GLOVEBOX_MODEL_SEED=17` runs only that program, and
//! `GLOVEBOX_MODEL_STEPS=5000` makes programs longer.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
};

use glovebox::{
    CheckpointId, Checkpoints, HibernateOptions, IfExists, Language, Outcome, Resource, ResumeOptions, Sandbox, Session,
};
use glovebox_tests::{
    model::{Dice, FILES, ModelState, NAMES, ScriptAction, ScriptEnd, setup},
    sandbox,
};
use serde_json::{Value, json};

const SEEDS: std::ops::Range<u64> = 0..3;
const STEPS: usize = 300;
/// The maximum number of sessions. It is small, so that each session is used repeatedly.
const MAX_SESSIONS: usize = 5;
/// Events that must occur at least once across all programs. The successful interruption of a loop is omitted, because
/// it depends on the machine's speed.
const EVENTS: [&str; 16] = [
    "open",
    "execute",
    "raise",
    "exit",
    "loop",
    "loop on",
    "rolled back",
    "fork",
    "undo",
    "undo to",
    "checkpoint",
    "hibernate",
    "set",
    "change files",
    "look",
    "look at files",
];

/// A session and its model, with the model's state at each checkpoint.
struct ModelledSession {
    session: Session,
    state: ModelState,
    /// `None` is the state of a new session, before the setup script.
    saved: BTreeMap<CheckpointId, Option<ModelState>>,
}

impl ModelledSession {
    fn open(session: Session, language: Language) -> Self {
        let mut pair = Self { session, state: ModelState::default(), saved: BTreeMap::new() };
        pair.set_up(language);
        for info in pair.session.checkpoints().unwrap() {
            pair.saved.insert(info.id, None);
        }
        pair
    }

    fn set_up(&mut self, language: Language) {
        let execution = self.session.execute(setup(language)).unwrap();
        assert!(execution.is_success(), "{}", execution.stderr.text());
        self.state = ModelState { log_linked: true, ..ModelState::default() };
    }

    /// Updates the model after a rollback to this checkpoint. If the rollback undid the setup, runs the setup again,
    /// because the actions need it.
    fn is_back_at(&mut self, id: CheckpointId, language: Language) {
        self.saved.retain(|saved, _| *saved <= id);
        match self.saved[&id].clone() {
            Some(state) => self.state = state,
            None => self.set_up(language),
        }
    }

    /// Records that the automatic checkpoints taken since the last call have this state.
    fn note(&mut self, state: &ModelState) {
        for info in self.session.checkpoints().unwrap() {
            self.saved.entry(info.id).or_insert_with(|| Some(state.clone()));
        }
    }
}

struct Program {
    language: Language,
    sandbox: Sandbox,
    dice: Dice,
    pairs: Vec<ModelledSession>,
    /// All random numbers that the sessions have drawn; no two may be equal.
    random: BTreeSet<String>,
    /// The history of the program, for failure reports.
    story: Vec<String>,
    counts: BTreeMap<&'static str, u64>,
}

impl Program {
    fn new(language: Language, seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let sandbox = sandbox(language, |policy| {
            policy.limits.fuel = 400_000_000;
            policy.limits.timeout_ms = 60_000;
            // A reserve of 0 disables the soft limit, so that every loop ends in a rollback.
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
        self.pairs.push(ModelledSession::open(self.sandbox.session().unwrap(), self.language));
        self.tell("open", String::new());
    }

    fn step(&mut self) {
        let at = self.dice.below(self.pairs.len());
        match self.dice.below(100) {
            0..45 => self.execute(at, ScriptEnd::Well),
            45..52 => self.execute(at, ScriptEnd::Raises),
            52..55 => self.execute(at, ScriptEnd::Exits),
            55..60 => self.execute(at, ScriptEnd::Loops),
            60..63 => self.execute(at, ScriptEnd::LoopsOn),
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

    fn execute(&mut self, at: usize, end: ScriptEnd) {
        let mut after = self.pairs[at].state.clone();
        let mut source = String::new();
        for _ in 0..self.dice.below(4) {
            let action = ScriptAction::roll(&mut self.dice, &after);
            action.apply(&mut after);
            source += &action.source(self.language);
            source.push('\n');
        }
        source += end.source(self.language);
        self.tell(
            match end {
                ScriptEnd::Well => "execute",
                ScriptEnd::Raises => "raise",
                ScriptEnd::Loops => "loop",
                ScriptEnd::LoopsOn => "loop on",
                ScriptEnd::Exits => "exit",
            },
            format!("{at}: {source:.200}"),
        );
        let pair = &mut self.pairs[at];
        let execution = pair.session.execute(&source).unwrap();
        match (end, &execution.outcome) {
            (ScriptEnd::Well, Outcome::Completed) | (ScriptEnd::Raises | ScriptEnd::Exits, Outcome::Raised(_)) => {}
            (ScriptEnd::Exits, Outcome::Exited { code: 5 }) => {}
            (ScriptEnd::Loops | ScriptEnd::LoopsOn, Outcome::Exhausted { resource: Resource::Fuel, .. }) => {}
            (_, outcome) => panic!("{outcome:?}\n{}", execution.stderr.text()),
        }
        // Every new checkpoint was taken before this execution.
        let before = pair.state.clone();
        pair.note(&before);
        match (end, execution.rolled_back_to, &execution.interrupted) {
            (ScriptEnd::Loops | ScriptEnd::LoopsOn, Some(back), None) => {
                assert_eq!(back.executions_lost, 0, "a checkpoint precedes every execution");
                self.tell("rolled back", String::new());
            }
            (ScriptEnd::Loops | ScriptEnd::LoopsOn, None, Some(raised)) => {
                assert!(!raised.traceback.is_empty());
                pair.state = after;
                self.tell("interrupted", String::new());
            }
            (ScriptEnd::Well | ScriptEnd::Raises | ScriptEnd::Exits, None, None) => pair.state = after,
            (end, back, interrupted) => panic!("{end:?}: {back:?} {interrupted:?}"),
        }
    }

    fn fork(&mut self, at: usize) {
        if self.pairs.len() == MAX_SESSIONS {
            let gone = self.dice.below(self.pairs.len());
            drop(self.pairs.remove(gone));
            self.tell("drop", gone.to_string());
        }
        let at = at.min(self.pairs.len() - 1);
        self.tell("fork", at.to_string());
        let pair = &self.pairs[at];
        let (session, state) = (pair.session.fork().unwrap(), pair.state.clone());
        self.pairs.push(ModelledSession { session, state, saved: BTreeMap::new() });
    }

    fn undo(&mut self, at: usize) {
        let pair = &mut self.pairs[at];
        let known: Vec<_> = pair.session.checkpoints().unwrap().into_iter().map(|info| info.id).collect();
        match pair.session.undo() {
            Ok(id) => {
                // The newest checkpoint, or the one before it if nothing has changed since the newest.
                let newest = &known[known.len().saturating_sub(2)..];
                assert!(newest.contains(&id), "{id:?} of {known:?}");
                pair.is_back_at(id, self.language);
                self.tell("undo", format!("{at} {id:?}"));
            }
            Err(error) => {
                assert!(known.len() < 2, "{error}: {known:?}");
                self.tell("undo refused", at.to_string());
            }
        }
    }

    fn checkpoint(&mut self, at: usize) {
        self.tell("checkpoint", at.to_string());
        let pair = &mut self.pairs[at];
        let id = pair.session.checkpoint().unwrap();
        pair.saved.insert(id, Some(pair.state.clone()));
    }

    fn undo_to(&mut self, at: usize) {
        let pair = &mut self.pairs[at];
        let known = pair.session.checkpoints().unwrap();
        if known.is_empty() {
            return;
        }
        let id = known[self.dice.below(known.len())].id;
        pair.session.undo_to(id).unwrap();
        pair.is_back_at(id, self.language);
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
        let before = pair.state.clone();
        let files = pair.session.files();
        let change = match self.dice.below(4) {
            0 if pair.state.log_linked => {
                // A session continues to write to its open file after the file is unlinked.
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
        // If a checkpoint was due, it was taken before the change.
        pair.note(&before);
        self.tell("change files", format!("{at} {change}"));
    }

    /// Checks the session's state with a script.
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

    /// Checks the session's files through the host.
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
    let one = number("GLOVEBOX_MODEL_SEED");
    let seeds: Vec<u64> = one.map_or_else(|| seeds.collect(), |seed| vec![seed]);
    let mut happened = BTreeSet::new();
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
                "{language}, seed {seed}, after {} events:\n{}",
                program.story.len(),
                program.story[tail..].join("\n")
            );
        }
        happened.extend(program.counts.into_keys());
    }
    if one.is_none() && steps >= STEPS {
        for what in EVENTS {
            assert!(happened.contains(what), "{language}: no program contained `{what}`");
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
