use super::fake::FakeClocks;
use super::*;
use crate::bindings::types::{Clock, Entropy, Policy, SandboxError};

fn refusal(policy: Policy) -> SandboxError {
    sandbox_in(&closed_world().1, policy).unwrap_err()
}

#[test]
fn missing_provider_features_are_unsupported() {
    let host_clock = || Policy { clock: Some(Clock::Host), ..no_policy() };
    let host_entropy = Policy { entropy: Some(Entropy::Host), ..no_policy() };
    assert!(matches!(refusal(host_clock()), SandboxError::Unsupported(text) if text.starts_with("`clock`")));
    assert!(matches!(refusal(host_entropy), SandboxError::Unsupported(text) if text.starts_with("`entropy`")));
    let (_, world) = closed_world();
    let world = World { clocks: Some(FakeClocks::new(std::time::Duration::ZERO)), ..world };
    assert!(sandbox_in(&world, host_clock()).is_ok());
}

#[test]
fn limit_errors_use_the_contract_names() {
    let policy = limits(|limits| limits.fuel = Some(0));
    let SandboxError::InvalidPolicy(text) = refusal(policy) else { panic!() };
    assert_eq!(text, "`limits.fuel` is 0; it must be between 1 and 9223372036854775807");
    let policy = limits(|limits| limits.memory_bytes = Some((4 << 30) + 1));
    let SandboxError::InvalidPolicy(text) = refusal(policy) else { panic!() };
    assert_eq!(text, "`limits.memory-bytes` is 4294967297; it must be between 1048576 and 4294967296");
}

#[test]
fn sessions_are_limited_by_the_shims_memory() {
    let (_, world) = closed_world();
    let bytes = |requested| {
        let policy = limits(|limits| limits.session_total_bytes = requested);
        world.policy(policy).unwrap().limits.session_total_bytes
    };
    let max = 2 << 30;
    let requested = [Some(max - 1), Some(max), Some(max + 1), Some(4 << 30), None];
    assert_eq!(requested.map(bytes), [max - 1, max, max, max, max]);
    assert_eq!(world.default_policy().limits.session_total_bytes, max);
}

#[test]
fn invalid_variables_and_arguments_are_rejected() {
    let env = |env: &[(&str, &str)]| Policy {
        env: Some(env.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()),
        ..no_policy()
    };
    let SandboxError::InvalidPolicy(text) = refusal(env(&[("A", "1"), ("B", "2"), ("A", "1")])) else { panic!() };
    assert_eq!(text, "`env`: `A` is set twice");
    for wrong in [("", "v"), ("a=b", "v"), ("a", "\0")] {
        assert!(matches!(refusal(env(&[wrong])), SandboxError::InvalidPolicy(_)), "{wrong:?}");
    }
    let args = Policy { args: Some(vec!["\0".into()]), ..no_policy() };
    assert!(matches!(refusal(args), SandboxError::InvalidPolicy(_)));
}

#[test]
fn default_policy_is_complete_and_accepted() {
    let (_, world) = closed_world();
    let spelled = Policy::from(world.default_policy());
    assert_eq!((spelled.clock, spelled.entropy), (Some(Clock::Fixed(0)), Some(Entropy::Seeded(0))));
    let again = world.policy(spelled.clone()).unwrap();
    assert_eq!(again, world.default_policy());
    assert_eq!(Policy::from(again), spelled);
    let open = World { clocks: Some(FakeClocks::new(std::time::Duration::ZERO)), ..world };
    assert_eq!(Policy::from(open.default_policy()).clock, Some(Clock::Host));
}

#[test]
fn mismatched_image_is_reported() {
    let mut large = runtime(0);
    Rc::get_mut(&mut large).unwrap().memory_pages = 17;
    let (_, world) = closed_world();
    let policy = world.policy(limits(|limits| limits.memory_bytes = Some(1 << 20))).unwrap();
    let SandboxError::InvalidPolicy(text) = Sandbox::new(&world, large, policy, Rc::default()).unwrap_err() else {
        panic!()
    };
    assert_eq!(text, "`limits.memory-bytes` is 1048576, but `fake-0` alone needs 1114112; raise the limit");
}

#[test]
fn request_sizes_are_limited() {
    let (_, sandbox) = closed_sandbox(limits(|limits| (limits.source_bytes, limits.stdin_bytes) = (Some(2), Some(3))));
    let SandboxError::SourceTooLarge(size) = sandbox.task(request("123")).unwrap_err() else { panic!() };
    assert_eq!((size.bytes, size.limit), (3, 2));
    let stdin = |bytes: &[u8]| sandbox.task(types::Request { stdin: Some(bytes.to_vec()), ..request("") });
    assert!(stdin(b"123").is_ok());
    assert!(matches!(stdin(b"1234"), Err(SandboxError::StdinTooLarge(_))));
    let named = types::Request { name: Some("a\0".into()), ..request("") };
    assert!(matches!(sandbox.task(named), Err(SandboxError::InvalidArgument(_))));
}

#[test]
fn invalid_image_description_is_reported() {
    let guest = |language: &str, driver: &str| {
        let text = format!(
            r#"{{"name":"n","aliases":[],"language":"{language}","driver":"{driver}","version":"1","image_sha256":"",
                "memory_pages":1,"anchors":{{}},"exports":[],"globals":[],"image":[]}}"#
        );
        crate::Runtime::new(0, serde_json::from_str(&text).unwrap(), &fake::no_libraries())
    };
    assert!(guest("python", "cpython").is_ok() && guest("javascript", "quickjs-command").is_ok());
    assert!(guest("javascript", "quickjs-reactor").is_ok());
    assert!(guest("ruby", "cpython").unwrap_err().contains("unknown language `ruby`"));
    assert!(guest("python", "pypy").unwrap_err().contains("unknown driver `pypy`"));
}
