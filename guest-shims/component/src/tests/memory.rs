use super::*;
use crate::bindings::types::{Exhausted, Outcome, ResourceKind, TrapKind};

/// Returns a limit with room for `pages` beyond the image. An eighth stays free, and the host holds a little.
fn with_pages(pages: u64) -> types::Policy {
    let bytes = (1 + pages) * 65_536;
    limits(|limits| limits.memory_bytes = Some((bytes + 4_096).div_ceil(7) * 8))
}

#[test]
fn memory_grows_up_to_its_limit() {
    for (pages, grown) in [(19, true), (20, true), (21, false)] {
        let (_, sandbox) = closed(with_pages(20));
        let execution = execute(&sandbox, &format!("grow {pages}\ngrow 0"));
        let said = if grown { format!("1\n{}\n", 1 + pages) } else { "-1\n1\n".into() };
        assert_eq!(printed(&execution), said, "{pages}");
    }
}

#[test]
fn a_refusal_is_what_an_exception_or_an_abort_is_about() {
    let (_, sandbox) = closed(with_pages(20));
    for end in ["raise", "abort"] {
        let execution = execute(&sandbox, &format!("grow 1000\n{end}"));
        let Outcome::Exhausted(Exhausted { resource: ResourceKind::Memory, limit, used }) = execution.outcome else {
            panic!("{:?}", execution.outcome);
        };
        assert!(used > limit && used < limit + 1001 * 65_536, "{end}: {used}");
        assert!(matches!(execute(&sandbox, "raise").outcome, Outcome::Raised(_)), "nothing was refused to this one");
    }
}

#[test]
fn a_size_that_no_memory_has_is_refused() {
    let (_, sandbox) = closed(limits(|limits| limits.memory_bytes = Some(4 << 30)));
    let execution = execute(&sandbox, "grow 65536\ngrow 4294967295\ngrow 3\ngrow 0");
    assert_eq!(printed(&execution), "-1\n-1\n1\n4\n");
}

#[test]
fn what_the_host_refuses_the_guest_does_not_get() {
    let (fake, sandbox) = closed(no_policy());
    fake.max_pages.set(3);
    assert_eq!(printed(&execute(&sandbox, "grow 2\ngrow 1\ngrow 0")), "1\n-1\n3\n");
    fake.max_pages.set(4);
    assert_eq!(printed(&execute(&sandbox, "grow 3\ngrow 0")), "1\n4\n");
}

#[test]
fn memory_that_is_there_already_is_grown_into() {
    let (fake, sandbox) = closed(no_policy());
    execute(&sandbox, "grow 9");
    assert_eq!(fake.real_memory(0).len(), 10 * 65_536);
    let execution = execute(&sandbox, "grow 2\ngrow 0");
    assert_eq!(printed(&execution), "1\n3\n");
    assert_eq!(execution.memory_used_bytes, 3 * 65_536 + 4, "what it prints is counted");
    assert_eq!(fake.real_memory(0).len(), 10 * 65_536);
}

#[test]
fn calls_reach_no_further_than_the_guest_is_told() {
    let (_, sandbox) = closed(no_policy());
    execute(&sandbox, "grow 9");
    let mut guest = sandbox.guest(Vec::new(), &[], sandbox.one_shot_ctx()).unwrap();
    let memory = guest.machine.memory().clone();
    let mut bytes = [0; 2];
    for (at, fits) in [(65_533, true), (65_534, true), (65_535, false), (65_536, false), (u32::MAX, false)] {
        assert_eq!(memory.read(at, &mut bytes).is_ok(), fits, "{at}");
        assert_eq!(memory.write(at, &bytes).is_ok(), fits, "{at}");
    }
    assert!(memory.read(65_536, &mut []).is_ok(), "nothing at the very end");
    use glovebox_interpreters::{Callee, Machine, MachineError};
    assert!(matches!(guest.machine.read(65_535, &mut bytes), Err(MachineError::OutOfBounds(65_535))));
    assert!(matches!(guest.machine.call(Callee::Export("no"), &[]), Err(MachineError::Missing(_))));
    assert!(matches!(guest.machine.call(Callee::Table(0), &[]), Err(MachineError::Missing(_))));
    assert!(matches!(guest.machine.call(Callee::Table(1), &[]), Ok(None)));
    let many = [glovebox_interpreters::Value::I32(0); 9];
    assert!(matches!(guest.machine.call(Callee::Table(1), &many), Err(MachineError::Missing(_))));
}

#[test]
fn every_way_to_end_leaves_the_instance_usable() {
    let (_, sandbox) = closed(no_policy());
    for (end, outcome) in [
        ("exit 3", Outcome::Exited(3)),
        ("leave 4", Outcome::Exited(4)),
        ("abort", Outcome::Trapped(TrapKind::Unreachable)),
        ("deep", Outcome::Trapped(TrapKind::StackOverflow)),
    ] {
        let execution = execute(&sandbox, &format!("print before\n{end}\nprint after"));
        assert_eq!((printed(&execution), &execution.outcome), ("before\n", &outcome));
        let next = execute(&sandbox, "print next");
        assert_eq!((printed(&next), &next.outcome), ("next\n", &Outcome::Completed), "{end}");
    }
}
