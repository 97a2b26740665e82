//! Tests of the charges of small functions.

use super::{Charges, FuelCheck, OperatorCharge, charges};
use crate::{guest::Module, lengths};

fn plan(body: &str) -> Charges {
    let text = format!("(module (memory 1) (func $f (param i32) {body}))");
    let bytes = wat::parse_str(text).unwrap();
    let module = Module::read("guest", &bytes).unwrap();
    let reader = module.bodies.first().unwrap().get_operators_reader().unwrap();
    let operators: Vec<_> = reader.into_iter().collect::<Result<_, _>>().unwrap();
    let constants = lengths::constants(&module, 1, &[], &operators).unwrap();
    charges(&operators, &constants, false)
}

#[test]
fn only_variable_memory_sizes_are_checked() {
    let known = plan("i32.const 1 memory.grow drop");
    assert!(known.steps.iter().all(|step| step.check == FuelCheck::No), "{known:?}");
    let unknown = plan("local.get 0 memory.grow drop");
    let grow = OperatorCharge {
        is_live: true,
        before: 2,
        check: FuelCheck::Check,
        stays_saved: true,
        ..OperatorCharge::default()
    };
    assert_eq!(unknown.steps.get(1), Some(&grow));
}

#[test]
fn label_arity_matches_its_target() {
    let plan = plan("block local.get 0 br_if 0 nop end i32.const 1 drop");
    // Both paths to the label have the same cost, so everything is charged at the beginning.
    assert_eq!(plan.first, 3);
    assert!(plan.steps.iter().all(|step| step.before == 0 && step.after == 0), "{plan:?}");
}

#[test]
fn code_before_landings_saves_the_counter() {
    let plan = plan("block try_table (catch_all 0) local.get 0 call 0 end nop end i32.const 1 drop");
    assert!(plan.catches && plan.catches_all && !plan.branches_out, "{plan:?}");
    // The call charges all operators before it. None of them is charged again after the label.
    assert_eq!((plan.first, plan.steps[3].before, plan.steps[9].before), (0, 3, 1));
    let flags: Vec<_> = plan.steps.iter().map(|step| (step.syncs, step.lands)).collect();
    let mut expected = vec![(false, false); 10];
    expected[6] = (true, true);
    assert_eq!(flags, expected, "{plan:?}");
}

#[test]
fn only_branches_to_landings_save_the_counter() {
    let plan = plan("block block local.get 0 br_if 0 local.get 0 br_if 1 try_table (catch_all 1) end end end");
    let syncing: Vec<_> = (0..plan.steps.len()).filter(|at| plan.steps[*at].syncs).collect();
    // The counter is saved at the second branch and at the end of the outer block.
    assert_eq!(syncing, [5, 9], "{plan:?}");
    assert!(plan.catches_all);
}

#[test]
fn cheaper_branch_of_an_if_is_refunded() {
    let plan = plan("local.get 0 if nop else i32.const 1 drop end");
    assert_eq!(plan.first, 3);
    let charged: Vec<_> = plan.steps.iter().map(|step| step.after).collect();
    assert_eq!(charged, [0, -1, 0, 0, 0, 0, 0, 0], "{plan:?}");
}
