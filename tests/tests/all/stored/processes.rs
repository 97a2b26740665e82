//! Tests a session shared by several processes and threads.

use std::{
    io::BufRead as _,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use super::{
    support::{COUNT, COUNT_JS, id, javascript, open_in as open, open_over, policy, python, run},
    test_store::{TestStore, on_each_store, open_at},
};
use glovebox::{CancelToken, IfExists, Language, Request};
use glovebox_sessions::{Sessions, SessionsError};
use glovebox_tests::sandbox;

on_each_store![
    one_process_at_a_time,
    wait_behind_another_thread_can_be_cancelled,
    reported_executions_survive_a_killed_process,
];

fn one_process_at_a_time(place: &dyn TestStore) {
    let one = open(place, |_| {});
    let session = python(&one, "a");
    run(&session, COUNT);
    let other = open(place, |_| {});
    let begun = Instant::now();
    assert!(matches!(python(&other, "a").execute(COUNT), Err(SessionsError::InUse { .. })));
    assert!(begun.elapsed() < Duration::from_secs(60));
    // Reading does not need the lock.
    assert_eq!(other.list_all().unwrap().len(), 1);
    other.export(&id("a")).unwrap();
    assert!(matches!(other.delete(&id("a")), Err(SessionsError::InUse { .. })));

    let waiting = open(place, |policy| policy.lock_wait_ms = 600_000);
    let cancel = CancelToken::new();
    let impatient = Sessions::builder(place.open())
        .sandbox(sandbox(Language::Python, |_| {}))
        .policy(policy(|policy| policy.lock_wait_ms = 600_000))
        .cancel(&cancel)
        .build();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| run(&python(&waiting, "a"), COUNT));
        let gives_up = scope.spawn(|| python(&impatient, "a").execute(COUNT));
        std::thread::sleep(Duration::from_millis(50));
        cancel.cancel();
        assert!(matches!(gives_up.join().unwrap(), Err(SessionsError::InUse { .. })));
        one.hibernate(&id("a")).unwrap();
        assert_eq!(waiter.join().unwrap(), "2");
    });
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    assert!(
        matches!(session.execute(COUNT), Err(SessionsError::InUse { .. })),
        "the session moved to the other process"
    );
}

fn wait_behind_another_thread_can_be_cancelled(place: &dyn TestStore) {
    let holder = open(place, |_| {});
    run(&python(&holder, "a"), COUNT);
    let waiting = open(place, |policy| policy.lock_wait_ms = u64::MAX);
    let session = waiting.open(&id("a")).unwrap();
    let (first, second) = (CancelToken::new(), CancelToken::new());
    let in_use = |error: SessionsError| assert!(matches!(error, SessionsError::InUse { .. }), "{error}");
    let wakes = |cancel: &CancelToken| session.run(Request::new(COUNT).cancel(cancel));
    std::thread::scope(|scope| {
        let one = scope.spawn(|| wakes(&first));
        std::thread::sleep(Duration::from_millis(50));
        let other = scope.spawn(|| wakes(&second));
        std::thread::sleep(Duration::from_millis(50));
        second.cancel();
        in_use(other.join().unwrap().unwrap_err());
        assert!(!one.is_finished(), "the waiter must wait for the other process");
        // These operations also fail while another process holds the lock.
        in_use(waiting.hibernate(&id("a")).unwrap_err());
        in_use(waiting.delete(&id("a")).unwrap_err());
        let exported = waiting.export(&id("a")).unwrap();
        in_use(waiting.import(id("a"), &exported, IfExists::Replace).unwrap_err());
        assert!(waiting.hibernate_all().hibernated.is_empty());
        assert!(!one.is_finished());
        holder.hibernate(&id("a")).unwrap();
        assert_eq!(one.join().unwrap().unwrap().stdout.text().trim_end(), "2");
    });
    assert_eq!(run(&session, COUNT), "3");
}

/// The environment variable of the child process. Contains the store's address.
const CHILD_VARIABLE: &str = "GLOVEBOX_TEST_STORED_LOOP";

/// Does nothing unless this process is the child process of another test, which kills it.
#[test]
fn count_loop_for_the_kill_test() {
    let Ok(address) = std::env::var(CHILD_VARIABLE) else {
        return;
    };
    let sessions = open_over(open_at(&address), |policy| policy.lock_wait_ms = 60_000);
    let session = javascript(&sessions, "a");
    loop {
        println!("counted {}", run(&session, COUNT_JS));
    }
}

fn reported_executions_survive_a_killed_process(place: &dyn TestStore) {
    kill_repeatedly(place, 12);
}

fn kill_repeatedly(place: &dyn TestStore, kills: u64) {
    let Some(address) = place.address() else { return };
    let mut last = 0;
    for kill in 0..kills {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["stored::processes::count_loop_for_the_kill_test", "--exact", "--nocapture"])
            .env(CHILD_VARIABLE, &address)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut output = std::io::BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut counted =
            move || output.find_map(|line| line.split_once("counted ").map(|(_, count)| count.parse::<u64>().unwrap()));
        let first = counted().expect("the child died by itself");
        assert!(first == last + 1 || first == last + 2, "kill {kill}: {first} after {last}");
        last = first;
        std::thread::sleep(Duration::from_micros(kill * 1_700));
        child.kill().unwrap();
        child.wait().unwrap();
        while let Some(count) = counted() {
            assert_eq!(count, last + 1);
            last = count;
        }
    }
    // The lock might not be free immediately: a child process that another test starts inherits the killed process's
    // descriptor between fork and exec.
    let sessions = open(place, |policy| policy.lock_wait_ms = 60_000);
    let count: u64 = run(&javascript(&sessions, "a"), COUNT_JS).parse().unwrap();
    assert!(count == last + 1 || count == last + 2, "{count} after {last}");
    println!("{last} counted over {kills} kills");
}
