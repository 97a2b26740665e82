//! Tests `glovebox monty-worker`: frames over the standard streams. `bindings/python/integrations` tests the command
//! with Monty's client.

mod types;

use std::{io::Write, process::Stdio};

use super::prepared;

const CONFIGURE: u8 = 1;
const FEED: u8 = 3;
const RESUME_CALL: u8 = 4;
const DUMP: u8 = 7;
const LOAD: u8 = 8;
const SHUTDOWN: u8 = 10;

const PRINT: u8 = 1;
const OS_CALL: u8 = 3;
const COMPLETE: u8 = 6;
const ERROR: u8 = 7;
const TYPING_ERROR: u8 = 8;
const DUMP_RESULT: u8 = 9;
const OK: u8 = 10;
const FATAL_ERROR: u8 = 11;

/// Field 9, the version of the protocol.
const VERSION_6: &[u8] = &[72, 6];

fn field(number: u8, value: &[u8]) -> Vec<u8> {
    let size = u8::try_from(value.len()).unwrap();
    assert!(size < 128, "the size needs a single byte");
    [&[(number << 3) | 2, size], value].concat()
}

fn frame(message: &[u8]) -> Vec<u8> {
    [&u32::try_from(message.len()).unwrap().to_le_bytes(), message].concat()
}

/// Sends requests to a worker, and returns its events and its exit code.
fn events(input: &[u8]) -> (Vec<Vec<u8>>, Option<i32>) {
    // The arguments that Monty's client passes.
    let mut child = prepared(&["subprocess"]).stdin(Stdio::piped()).spawn().unwrap();
    // The worker may exit before it has read all requests.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    let (mut rest, mut events) = (&output.stdout[..], Vec::new());
    while let Some((size, after)) = rest.split_first_chunk::<4>() {
        let (event, after) = after.split_at(u32::from_le_bytes(*size).try_into().unwrap());
        events.push(event.to_vec());
        rest = after;
    }
    (events, output.status.code())
}

/// Returns the kinds of events: the numbers of their first fields.
fn kinds(events: &[Vec<u8>]) -> Vec<u8> {
    events.iter().filter_map(|event| event.first()).map(|key| key >> 3).collect()
}

fn contains(event: &[u8], part: &[u8]) -> bool {
    event.windows(part.len()).any(|window| window == part)
}

#[test]
fn monty_snippets_print_and_return_values() {
    let requests = [
        field(CONFIGURE, VERSION_6),
        field(FEED, &field(1, b"x = 6\nprint('seen')")),
        field(FEED, &field(1, b"x * 7")),
        field(FEED, &field(1, b"1 / 0")),
        field(LOAD, &[]),
        field(SHUTDOWN, &[]),
    ];
    // A session that has begun cannot be replaced, so the fifth request ends the worker.
    let (events, code) = events(&requests.iter().flat_map(|request| frame(request)).collect::<Vec<u8>>());
    assert_eq!(kinds(&events), [OK, PRINT, COMPLETE, COMPLETE, ERROR, FATAL_ERROR], "{events:?}");
    assert!(contains(&events[1], b"seen\n"), "{events:?}");
    // The integer 42 is written as 84, in field 5.
    assert!(contains(&events[3], &[40, 84]), "{events:?}");
    assert!(contains(&events[4], b"ZeroDivisionError"), "{events:?}");
    assert_ne!(code, Some(0));
}

/// The snippet reports its result and then exits the interpreter, which ends the session.
#[test]
fn monty_result_of_a_lost_session_is_an_error() {
    let snippet = b"m = __import__('_monty')\nt = m.turn\ndef f(**k):\n t(**k)\n __import__('os')._exit(0)\nm.turn = f";
    let requests = [field(CONFIGURE, VERSION_6), field(FEED, &field(1, snippet)), field(FEED, &field(1, b"6 * 7"))];
    let (events, code) = events(&requests.iter().flat_map(|request| frame(request)).collect::<Vec<u8>>());
    assert_eq!(kinds(&events), [OK, ERROR, COMPLETE], "{events:?}");
    assert!(contains(&events[1], b"changes are lost"), "{events:?}");
    assert_eq!(code, Some(0));
}

#[test]
fn monty_output_is_complete_text() {
    // Two characters in two parts each. The second character stays incomplete. An empty write follows the first part.
    let snippet = b"import os\nfor b in b'\\xc3', b'', b'\\xa9', b'\\xe2\\x82': os.write(1, b)";
    let requests = [field(CONFIGURE, VERSION_6), field(FEED, &field(1, snippet))];
    let (events, _) = events(&requests.iter().flat_map(|request| frame(request)).collect::<Vec<u8>>());
    assert_eq!(kinds(&events), [OK, PRINT, PRINT, COMPLETE], "{events:?}");
    assert!(contains(&events[1], "\u{e9}".as_bytes()), "{events:?}");
    assert!(contains(&events[2], "\u{fffd}".as_bytes()), "{events:?}");
}

#[test]
fn monty_workers_end_at_invalid_requests() {
    let configured = frame(&field(CONFIGURE, VERSION_6));
    for (input, count) in [
        (vec![255; 8], 1),
        (frame(&field(CONFIGURE, &[72, 4])), 1),
        (frame(&field(FEED, &[])), 1),
        (frame(&[]), 1),
        (frame(&[11, 12]), 1),
        ([configured.clone(), configured.clone()].concat(), 2),
        // Truncated frames.
        ([configured.clone(), vec![9, 0, 0, 0, 1]].concat(), 2),
        ([configured.clone(), vec![9, 0]].concat(), 2),
    ] {
        let (events, code) = events(&input);
        assert_eq!((events.len(), kinds(&events).last()), (count, Some(&FATAL_ERROR)), "{input:?}: {events:?}");
        assert_ne!(code, Some(0), "{input:?}");
    }
    // The worker exits at the end of its input, and when the client requests a shutdown.
    for end in [vec![], frame(&field(SHUTDOWN, &[]))] {
        assert_eq!(events(&[configured.clone(), end].concat()).1, Some(0));
    }
    // A forged dump is an error, and the worker continues with its own configuration.
    let named = [&[0, 10, 0, 0, 0][..], VERSION_6, &field(1, b"forged")[..], &[1][..]].concat();
    for state in [&[][..], &[1], &[0, 255, 255, 255, 255], &[1, 2, 0, 0, 0, 72, 6, 1], &named[..]] {
        let input = [configured.clone(), frame(&field(LOAD, &field(1, state))), frame(&field(SHUTDOWN, &[]))].concat();
        let (events, code) = events(&input);
        assert_eq!(kinds(&events), [OK, ERROR, OK], "{state:?}: {events:?}");
        assert!(!events.iter().any(|event| contains(event, b"forged")), "{events:?}");
        assert_eq!(code, Some(0));
    }
}
