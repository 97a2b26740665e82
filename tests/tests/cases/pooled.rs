//! Tests the closed providers in a pool, as servers such as `wasmtime serve` use it: each instance reuses the slot of
//! an earlier one.

use std::path::Path;

use glovebox::Language;
use glovebox_tests::{Case, provider_path, trial_with, whole_matrix};
use libtest_mimic::{Failed, Trial};
use wasmtime::{Config, InstanceAllocationStrategy, PoolingAllocationConfig};

use crate::budgets::CompiledProvider;

/// Maximum number of concurrent instances.
const INSTANCES: u32 = 2;

const FUEL: u64 = 20_000_000;

pub(crate) fn trials(_: &[Case]) -> Vec<Trial> {
    // Compiling the Python provider takes longer than all other tests here.
    let languages = Language::ALL.into_iter().filter(|language| *language == Language::JavaScript || whole_matrix());
    let trial = |language| {
        let provider = provider_path(&format!("glovebox-{language}-closed"));
        trial_with(format!("pooled/{language}"), provider, move |path| each_instance_is_new(&path, language))
    };
    languages.map(trial).collect()
}

/// Configures a pool like `wasmtime serve`, except for the number of instances and of memories and tables per module.
fn pool(per_module: u32) -> Config {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(INSTANCES)
        .total_core_instances(INSTANCES * 20)
        // The exception heap needs an additional memory, and the connection of the component's modules an additional
        // table.
        .total_memories(INSTANCES * (per_module + 1))
        .total_tables(INSTANCES * (per_module + 1))
        .max_memories_per_module(per_module)
        .max_tables_per_module(per_module);
    let mut config = Config::new();
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    config
}

fn each_instance_is_new(path: &Path, language: Language) -> Result<(), Failed> {
    // Wasmtime's default of one memory and one table per module is too small, as docs/embed-anywhere.md explains.
    let refused =
        CompiledProvider::new(pool(1), path, language).err().ok_or("a pool with one memory per module accepts it")?;
    let refused = format!("{refused:?}");
    if !refused.contains("defined memories count of 2 exceeds the per-instance limit of 1") {
        return Err(refused.into());
    }
    let compiled = CompiledProvider::new(pool(2), path, language)?;
    let scripts = match language {
        Language::Python => [
            "import builtins, os\nprint(hasattr(builtins, 'left'), os.listdir())\nbuiltins.left = 'x' * 1_000_000\nopen('left', 'w').write('x')",
            "raise ValueError('left')",
            "while True: pass",
        ],
        Language::JavaScript => [
            "console.log('left' in globalThis, os.readdir('.')[0].length); globalThis.left = 'x'.repeat(1_000_000); std.open('left', 'w').puts('x')",
            "throw new Error('left')",
            "for (;;);",
        ],
    };
    // The expected results, from an instance that has private memory because it is not in the pool.
    let mut alone = CompiledProvider::new(Config::new(), path, language)?.instance()?;
    let expected: Vec<_> = scripts.iter().map(|source| alone.execute(source, FUEL)).collect();
    for round in 0..6 {
        // Fills both slots, which earlier instances have used.
        let (mut one, mut two) = (compiled.instance()?, compiled.instance()?);
        if compiled.instance().is_ok() {
            return Err("a pool for two instances created a third one".into());
        }
        for (source, expected) in scripts.iter().zip(&expected) {
            for provider in [&mut one, &mut two] {
                let seen = provider.execute(source, FUEL);
                if seen != *expected {
                    return Err(format!("round {round}, {source:?}: {seen:?}\ninstead of {expected:?}").into());
                }
            }
        }
    }
    Ok(())
}
