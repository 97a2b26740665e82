use super::fake::{IMAGE, IMAGE_AT, SEED_AT};
use super::*;
use crate::Guests;
use crate::bindings::types::Outcome;

#[test]
fn nothing_of_one_guest_is_there_for_the_next() {
    let (fake, sandbox) = closed(no_policy());
    let seeded = {
        sandbox.guest(Vec::new(), &[], sandbox.one_shot_ctx()).unwrap();
        fake.real_memory(0)
    };
    let mut expected = vec![0; 65_536];
    expected[IMAGE_AT as usize..][..IMAGE.len()].copy_from_slice(&IMAGE);
    expected[SEED_AT as usize..][..8].copy_from_slice(&seeded[SEED_AT as usize..][..8]);
    assert_eq!(seeded, expected, "the image, and what makes its numbers its own");
    // Everywhere, also beyond the end that the guest sees.
    execute(&sandbox, "grow 5\nfill 1024 115");
    fake.global_set(0, 0, 12);
    assert!(fake.memory_grow(0, 3));
    sandbox.guest(Vec::new(), &[], sandbox.one_shot_ctx()).unwrap();
    expected.resize(9 * 65_536, 0);
    assert!(fake.real_memory(0) == expected, "all of it is the image again");
    assert_eq!((fake.virtual_size(0), fake.global_get(0, 0)), (1, 77));
}

#[test]
fn files_are_gone_with_their_execution() {
    let (_, sandbox) = closed(no_policy());
    let execution = execute(&sandbox, "write a.txt");
    assert_eq!((execution.files_created, execution.outcome), (vec!["a.txt".to_owned()], Outcome::Completed));
    let task = sandbox.task(request("")).unwrap();
    let executed = sandbox.execute(&task).unwrap();
    assert!(crate::Files::new(executed.files).list("**").unwrap().is_empty());
}

#[test]
fn seeded_numbers_are_the_same_each_time_and_differ_by_seed() {
    let (fake, world) = closed_world();
    let numbers = |seed| {
        let policy = types::Policy { entropy: Some(types::Entropy::Seeded(seed)), ..no_policy() };
        let sandbox = sandbox_in(&world, policy).unwrap();
        sandbox.guest(Vec::new(), &[], sandbox.one_shot_ctx()).unwrap();
        fake.real_memory(0)[SEED_AT as usize..][..8].to_vec()
    };
    assert_eq!(numbers(1), numbers(1));
    assert_ne!(numbers(1), numbers(2));
    assert_ne!(numbers(1), [0; 8]);
}

#[test]
fn a_call_of_nobodys_is_answered_with_the_end() {
    use crate::entered;
    assert_eq!(entered::refuel(), 1);
    assert_eq!(entered::grow(1), -1);
    assert_eq!(entered::wasi(|wasi, host| wasi.sched_yield(host)), entered::UNWIND);
}
