//! Tests that stored sessions survive if the process dies during a write.

use std::{
    io::BufRead as _,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use super::*;
use crate::stored::test_store::{Directory, open_at};

on_each_store![killed_process_loses_no_stored_state];

/// The environment variable of the child process. Contains the store's address.
const CHILD_VARIABLE: &str = "GLOVEBOX_TEST_STORE_LOOP";

const SESSIONS: [&str; 3] = ["a", "b", "c"];

/// Returns a state with a repeating pattern, in which parts of another state would be detected.
fn state(generation: u64) -> Vec<u8> {
    let length = usize::try_from(generation * 7_919 % 200_000).unwrap();
    generation.to_le_bytes().into_iter().cycle().take(8 + length).collect()
}

/// Not a real test: the loop that the child process runs until it is killed.
#[test]
fn store_loop_for_the_kill_test() {
    let Ok(address) = std::env::var(CHILD_VARIABLE) else {
        return;
    };
    let store = open_at(&address);
    let highest = listed(&*store).into_iter().map(|entry| entry.record.unwrap().executions).max();
    for generation in highest.unwrap_or(0) + 1.. {
        let name = SESSIONS[usize::try_from(generation).unwrap() % SESSIONS.len()];
        let state = state(generation);
        let lock = lock(&*store, name);
        let found = block_on(store.record(&id(name))).unwrap();
        let expected = found.map_or(ExpectedVersion::Absent, |found| ExpectedVersion::Version(found.version));
        let mut record = record(name, 5_000, state.len());
        record.executions = generation;
        block_on(store.put(&lock, &expected, &record, &state)).unwrap();
        println!("stored {name} {generation}");
    }
}

const MIN_KILLS: u32 = 6;

fn killed_process_loses_no_stored_state(place: &dyn TestStore) {
    kill_repeatedly(place, Duration::from_secs(4), 30_000);
}

/// A process that writes to a disk spends most of its time waiting, but a process that writes to memory does not.
/// Kills therefore interrupt writes to memory at other points than writes to a disk.
#[test]
fn killed_process_keeps_the_memory_store() {
    if let Some(place) = Directory::inside(Path::new("/dev/shm")) {
        kill_repeatedly(&place, Duration::from_secs(3), 3_000);
    }
}

/// Kills the child repeatedly, each time within `within_us` microseconds of its first write. Continues for `time`, and
/// kills the child at least a few times.
fn kill_repeatedly(place: &dyn TestStore, time: Duration, within_us: u64) {
    let Some(address) = place.address() else { return };
    let seed = std::process::id();
    let mut random = u64::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut stored = [0_u64; SESSIONS.len()];
    let mut kills = 0;
    let begun = Instant::now();
    while begun.elapsed() < time || kills < MIN_KILLS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["stored::contract::crashing::store_loop_for_the_kill_test", "--exact", "--nocapture"])
            .env(CHILD_VARIABLE, &address)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // The output is read on a separate thread, because a full pipe would block the child.
        let output = std::io::BufReader::new(child.stdout.take().unwrap());
        let (send, receive) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let mut words = line.split(' ').skip_while(|word| *word != "stored").skip(1);
                if let (Some(name), Some(generation)) = (words.next(), words.next()) {
                    let index = SESSIONS.iter().position(|session| *session == name).unwrap();
                    let _ = send.send((index, generation.parse::<u64>().unwrap()));
                }
            }
        });
        let mut note = |(index, generation): (usize, u64)| stored[index] = generation;
        note(receive.recv().expect("the child died by itself"));
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        std::thread::sleep(Duration::from_micros(random % within_us));
        child.kill().unwrap();
        child.wait().unwrap();
        reader.join().unwrap();
        receive.try_iter().for_each(note);
        kills += 1;
        check(&*place.open(), &mut stored, &format!("seed {seed}, kill {kills}"));
    }
    println!("seed {seed}: {kills} kills, {stored:?}");
}

/// Asserts that every session is complete, and is either the last acknowledged write or the write in progress.
fn check(store: &dyn SessionStore, noted: &mut [u64], context: &str) {
    for (index, name) in SESSIONS.iter().enumerate() {
        assert!(noted[index] == 0 || get(store, name).is_some(), "{context}: {name} is lost");
    }
    for entry in listed(store) {
        assert_eq!(entry.damage, None, "{context}");
        let stored = get(store, entry.id.as_str()).unwrap();
        let generation = stored.record.executions;
        assert_eq!(stored.state, state(generation), "{context}");
        let index = SESSIONS.iter().position(|name| *name == entry.id.as_str()).unwrap();
        let next = noted[index] + SESSIONS.len() as u64;
        let is_one_of = generation == noted[index] || generation == next || noted[index] == 0;
        assert!(is_one_of, "{context}: stored {}, found {generation}", noted[index]);
        // The write succeeded, but the child died before it could report the generation.
        noted[index] = generation;
    }
}
