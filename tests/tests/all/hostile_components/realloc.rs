//! Tests components that misbehave while the host returns a result.

use glovebox_tests::puppet::Misbehaviour;
use serde_json::json;

use super::{assert_others_work, ok, open, puppet};

/// Makes a call whose result is returned to a component that misbehaves.
fn given(how: Misbehaviour) -> wasmtime::Result<()> {
    let mut puppet = puppet();
    let session = open(&mut puppet);
    puppet.misbehave(how);
    let request = json!([session, { "source": "console.log('x'.repeat(1000))" }]);
    let result = puppet.call("session.execute", &request);
    if result.is_err() {
        puppet.call("info", &json!([])).expect_err("an instance that trapped is not entered again");
    }
    assert_others_work();
    result.map(drop)
}

#[test]
fn misbehaving_realloc_traps() {
    let table = [
        (Misbehaviour::Trap, "unreachable"),
        (Misbehaviour::Misaligned, "realloc return: result not aligned"),
        (Misbehaviour::OutOfBounds, "realloc return: beyond end of memory"),
        (Misbehaviour::Endless, "all fuel consumed"),
        // The component calls the host while the host lowers the result of another call.
        (Misbehaviour::CallInRealloc, "cannot leave component instance"),
    ];
    for (how, words) in table {
        let trap = given(how).unwrap_err();
        assert!(format!("{trap:#} {trap:?}").contains(words), "{how:?}: {trap:?}");
    }
}

#[test]
fn overlapping_realloc_harms_only_the_component() {
    let mut puppet = puppet();
    let session = open(&mut puppet);
    puppet.misbehave(Misbehaviour::Overlapping);
    // The overlapping result is meaningless and is not read.
    puppet.call_flat("session.id", &[session.as_u64().unwrap()]).expect("the call must succeed");
    puppet.call_flat("default-policy", &[]).expect("the call must succeed");
    puppet.misbehave(Misbehaviour::None);
    let ran = puppet.call("session.execute", &json!([session, { "source": "console.log('well')" }])).unwrap();
    assert_eq!(ok(&ran)["stdout"]["bytes"], "well\n");
    assert_others_work();
}

#[test]
fn post_return_cannot_call_the_sandbox() {
    let mut puppet = puppet();
    puppet.talk().unwrap();
    puppet.misbehave(Misbehaviour::CallInPostReturn);
    let trap = puppet.talk().unwrap_err();
    assert!(format!("{trap:#} {trap:?}").contains("cannot leave component instance"), "{trap:?}");
    assert_others_work();
}
