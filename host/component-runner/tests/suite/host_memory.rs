//! Applications cannot make the host allocate what they request.

use glovebox_component_runner::{AppOutcome, Input, Output};

use crate::support::{call, config, trap, value};

#[test]
fn random_bytes_are_bounded_in_one_call() {
    const MOST: u64 = 16 << 20;
    let limits = config(|_| ());
    for bytes in [0, MOST - 1, MOST] {
        assert_eq!(value(&format!("random({bytes})"), &limits), bytes.to_string());
    }
    for bytes in [MOST + 1, 1 << 40, u64::MAX] {
        assert!(trap(&format!("random({bytes})"), &limits).contains("exceeds limit"), "{bytes}");
    }
}

#[test]
fn a_million_timers_are_a_trap() {
    assert!(trap("timers(1000000)", &config(|_| ())).contains("no free keys"));
}

#[test]
fn a_read_of_everything_gives_what_there_is() {
    let input = config(|config| config.stdin = Input::Bytes(vec![1; 100_000]));
    assert_eq!(value(&format!("read-input({})", u64::MAX), &input), "100000");
}

#[test]
fn zeroes_without_end_are_refused() {
    for stdout in [Output::Discard, Output::Buffer(glovebox_component_runner::OutputBuffer::new(1 << 40))] {
        let limits = config(|config| config.stdout = stdout);
        assert_eq!(value("write-zeroes(1)", &limits), "0");
        let outcome = call(&format!("write-zeroes({})", 1_u64 << 41), &limits).outcome;
        assert!(matches!(&outcome, AppOutcome::Trapped { words } if words.contains("zeroes")), "{outcome:?}");
    }
}
