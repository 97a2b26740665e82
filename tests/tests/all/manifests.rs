//! Checks the manifests for component hosts, without running the hosts.

use std::{collections::BTreeMap, fs, path::Path};

use serde::Deserialize;

/// The fields of Spin's manifest version 2 that our manifest uses. An unknown name is a mistake or needs to be added
/// here.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spin {
    spin_manifest_version: u32,
    application: Application,
    trigger: Triggers,
    component: BTreeMap<String, Component>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Application {
    name: String,
    version: String,
    description: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Triggers {
    http: Vec<Trigger>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Trigger {
    route: String,
    component: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Component {
    source: String,
    allowed_outbound_hosts: Vec<String>,
    environment: BTreeMap<String, String>,
}

fn text(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)).unwrap()
}

#[test]
fn spin_manifest_uses_known_keys() {
    let Spin { spin_manifest_version, application, trigger, component } =
        toml::from_str(&text("dist/hosts/spin.toml")).unwrap();
    assert_eq!(spin_manifest_version, 2);
    assert!(![application.name, application.version, application.description].iter().any(String::is_empty));
    let [Trigger { route, component: triggered }] = trigger.http.as_slice() else { panic!("expected one trigger") };
    assert_eq!(route, "/...");
    let Component { source, allowed_outbound_hosts, environment } = &component[triggered];
    assert!(allowed_outbound_hosts.is_empty(), "scripts have no network");
    // The adapter accepts the policy as JSON with the keys of a policy file.
    let [(name, policy)] = environment.iter().collect::<Vec<_>>()[..] else {
        panic!("expected one variable: {environment:?}")
    };
    assert_eq!(name, "GLOVEBOX_POLICY");
    let policy: glovebox::Policy = serde_json::from_str(policy).unwrap();
    assert!(policy.limits.fuel < glovebox::Limits::default().fuel);
    is_built(source);
}

/// Asserts that the build creates the component whose path is in a manifest.
fn is_built(source: &str) {
    let name = source.strip_prefix("../../target/providers/").and_then(|name| name.strip_suffix(".wasm")).unwrap();
    let function = format!("\nbuild_{}()", name.replace('-', "_"));
    assert!(text("guest-shims/component/build").contains(&function), "{function}");
}

#[test]
fn wasmcloud_manifests_name_built_and_exported_items() {
    // `.ci/full` checks the fields against wadm's own types.
    let wadm = text("dist/hosts/wadm.yaml");
    let image = wadm.lines().find_map(|line| line.trim().strip_prefix("image: file://")).unwrap();
    is_built(image);
    let workload = text("dist/hosts/wasmcloud.yaml");
    assert!(workload.contains("apiVersion: runtime.wasmcloud.dev/v1alpha1\nkind: WorkloadDeployment\n"));
    for manifest in [wadm, workload] {
        assert!(manifest.contains("namespace: wasi") && manifest.contains("package: http"));
        assert!(manifest.contains("incoming-handler"));
        assert!(!manifest.contains('\t'), "YAML has no tabs");
    }
}
