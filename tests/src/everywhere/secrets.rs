//! Searches a guest's memory for data of the previous guest.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher as _, Hasher as _},
};

use glovebox::{Clock, Entropy, Language, Policy};

use super::{
    HostPool,
    searched::{AddressRange, searched},
};
use crate::{Action, Case, Request, StepResult, portable_runtime};

/// Plants a secret in a large guest, and searches for it in the memory of the next, small guest, up to that memory's
/// real end. Repeats the search after an execution, after a session, and while the session with the secret is evicted.
///
/// The secret and the mark occur only in guest memory, because scripts receive both words reversed and reverse them
/// again. The address range with the small guest's mark is therefore its linear memory.
///
/// # Errors
/// Fails if the secret is found, or if it is not found where it must be.
pub fn keeps_secrets(hosted: &HostPool, language: Language) -> Result<(), String> {
    for after in ["an execution", "a session", "a session that is evicted"] {
        let (secret, mark) = (Word::new("secret"), Word::new("mark"));
        let (plant, small) = (run(&held(language, &secret, 64)), run(&held(language, &mark, 1)));
        let (fork, nothing) = (Action::Fork { to: "small".into() }, run(""));
        let before: Vec<(&str, Action)> = match after {
            "an execution" => vec![("main", plant)],
            "a session" => vec![("main", nothing), ("main", plant)],
            _ => vec![("main", nothing), ("main", fork), ("main", plant), ("small", small.clone())],
        };
        ask(hosted, language, before)?;
        if look(hosted, &secret)?.is_empty() {
            return Err(format!("after {after}: the secret was not found in the large guest's memory"));
        }
        if after != "a session that is evicted" {
            let steps =
                if after == "an execution" { vec![("main", small)] } else { vec![("main", run("")), ("main", small)] };
            ask(hosted, language, steps)?;
        }
        let (with_mark, with_secret) = (look(hosted, &mark)?, look(hosted, &secret)?);
        if with_mark.is_empty() {
            return Err(format!("after {after}: the small guest's own mark was not found"));
        }
        if let Some(both) = with_mark.iter().find(|stretch| with_secret.contains(stretch)) {
            return Err(format!("after {after}: the secret is in the small guest's {} bytes", both.bytes()));
        }
    }
    Ok(())
}

/// A word that occurs in no file and in no message.
struct Word {
    backwards: String,
    word: String,
}

impl Word {
    fn new(name: &str) -> Self {
        let random = |_| RandomState::new().build_hasher().finish();
        let word = format!("{name}-{:016x}{:016x}", random(0), random(1));
        Self { backwards: word.chars().rev().collect(), word }
    }
}

/// Returns a script that fills `mebibytes` of memory with a word.
fn held(language: Language, word: &Word, mebibytes: usize) -> String {
    let (backwards, times) = (&word.backwards, (mebibytes << 20) / (word.word.len() * 64));
    match language {
        Language::Python => format!("held = [('{backwards}'[::-1] + str(i)) * {times} for i in range(64)]"),
        Language::JavaScript => format!(
            "var held = []; const word = '{backwards}'.split('').reverse().join('');
            for (let i = 0; i < 64; i++) held.push((word + i).repeat({times})); undefined"
        ),
    }
}

fn run(source: &str) -> Action {
    Action::Run { source: source.to_owned(), request: Request::default() }
}

fn ask(hosted: &HostPool, language: Language, steps: Vec<(&str, Action)>) -> Result<(), String> {
    let mut policy = Policy::default();
    (policy.clock, policy.entropy) = (Clock::Fixed(0), Entropy::Seeded(0));
    (policy.limits.memory_bytes, policy.limits.timeout_ms) = (512 << 20, 120_000);
    let case = Case::of_steps("secrets", language, policy, steps);
    let answer = hosted.run(portable_runtime(language), &[&case]).0.remove(0)?;
    let ran = |result: &StepResult| match result {
        StepResult::Executed { observed, .. } => observed.success,
        StepResult::Done { .. } => true,
        _ => false,
    };
    if answer.iter().all(ran) { Ok(()) } else { Err(format!("{answer:?}")) }
}

fn look(hosted: &HostPool, word: &Word) -> Result<Vec<AddressRange>, String> {
    let process = hosted.process().ok_or("the host has no process")?;
    searched(process, &word.word).map_err(|error| format!("cannot read the host process's memory: {error}"))
}
