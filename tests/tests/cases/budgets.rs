//! Tests that the provider stops a script at the same point as the engine: for every budget, outcome, output, fuel and
//! memory are equal. In the engine, Wasmtime counts the fuel; in the provider, the interpreter's own code does.

use std::{fs, ops::RangeInclusive, path::Path};

use glovebox::{Clock, Entropy, Language, Sandbox};
use glovebox_tests::{Case, bare_engine, provider_path, sandbox_on, short, trial_with, whole_matrix};
use libtest_mimic::{Failed, Trial};
use wasmtime::{
    Config, Engine, OptLevel, Store,
    component::{Component, Func, Linker, Type, Val},
};

/// An execution's observable result.
#[derive(Debug, PartialEq)]
pub(crate) struct ExecutionSummary {
    outcome: String,
    stdout: Vec<u8>,
    fuel: u64,
    memory_bytes: u64,
}

// Scripts that end by themselves, after varying amounts of work.
const JAVASCRIPT: [&str; 3] = [
    "console.log(1)",
    "console.log([5, 3, 9].map(x => x * x).sort().join(), 'a-b'.replace(/-/g, '+'), JSON.stringify({ a: [1, { b: 2 }] }))",
    "let s = ''; for (let i = 0; i < 300; i++) s += i; throw new RangeError(s.slice(-3))",
];
const PYTHON: [&str; 2] =
    ["print(1)", "import json\nd = {str(i): i * i for i in range(40)}\nprint(json.dumps(d)[-9:])\nd['none']"];

fn in_engine(sandbox: &Sandbox, source: &str) -> ExecutionSummary {
    let execution = sandbox.execute(source).unwrap();
    ExecutionSummary {
        outcome: short(&execution.outcome),
        stdout: execution.stdout.bytes.to_vec(),
        fuel: execution.fuel_consumed,
        memory_bytes: execution.memory_used_bytes,
    }
}

/// Builds an engine sandbox with this budget. Its image has no libraries, like providers' images.
fn engine_with(language: Language, fuel: u64) -> Sandbox {
    sandbox_on(bare_engine(), language, |policy| {
        policy.clock = Clock::Fixed(0);
        policy.entropy = Entropy::Seeded(0);
        policy.limits.fuel = fuel;
        policy.limits.timeout_ms = 120_000;
    })
}

/// A compiled closed provider for one language.
pub(crate) struct CompiledProvider {
    engine: Engine,
    component: Component,
    language: Language,
}

impl CompiledProvider {
    pub(crate) fn new(mut config: Config, path: &Path, language: Language) -> wasmtime::Result<Self> {
        config.cranelift_opt_level(OptLevel::None);
        let engine = Engine::new(&config)?;
        let component = Component::new(&engine, fs::read(path)?)?;
        Ok(Self { engine, component, language })
    }

    pub(crate) fn instance(&self) -> wasmtime::Result<Provider> {
        let mut store = Store::new(&self.engine, ());
        let instance = Linker::new(&self.engine).instantiate(&mut store, &self.component)?;
        let sandbox = instance.get_export_index(&mut store, None, "glovebox:sandbox/sandbox@0.2.0").unwrap();
        let execute = instance.get_export_index(&mut store, Some(&sandbox), "execute").unwrap();
        let execute = instance.get_func(&mut store, execute).unwrap();
        Ok(Provider { store, execute, language: self.language })
    }
}

/// A provider instance that runs all calls.
pub(crate) struct Provider {
    store: Store<()>,
    execute: Func,
    language: Language,
}

impl Provider {
    pub(crate) fn execute(&mut self, source: &str, fuel: u64) -> ExecutionSummary {
        let some = |value| Val::Option(Some(Box::new(value)));
        let case = |name: &str, value| Val::Variant(name.to_owned(), Some(Box::new(value)));
        let types: Vec<Type> = self.execute.ty(&self.store).params().map(|(_, ty)| ty).collect();
        let [_, request, policy] = types.try_into().unwrap();
        let limits = policy.unwrap_record().fields().next().unwrap().ty.unwrap_option().ty();
        let runtime = Val::Variant(self.language.name().to_owned(), None);
        let request = record(&request, &[("source", Val::String(source.to_owned()))]);
        let policy = record(
            &policy,
            &[
                ("limits", some(record(&limits, &[("fuel", some(Val::U64(fuel)))]))),
                ("clock", some(case("fixed", Val::U64(0)))),
                ("entropy", some(case("seeded", Val::U64(0)))),
            ],
        );
        let mut results = [Val::Bool(false)];
        self.execute.call(&mut self.store, &[runtime, request, policy], &mut results).unwrap();
        let [Val::Result(Ok(Some(execution)))] = results else { panic!("{results:?}") };
        seen(&execution)
    }
}

/// Builds a record from the given fields; the remaining fields are `none`.
fn record(ty: &Type, given: &[(&str, Val)]) -> Val {
    let fields = ty.unwrap_record();
    let of = |name: &str| {
        given.iter().find(|(field, _)| *field == name).map_or(Val::Option(None), |(_, value)| value.clone())
    };
    Val::Record(fields.fields().map(|field| (field.name.to_owned(), of(field.name))).collect())
}

fn field<'a>(record: &'a Val, name: &str) -> &'a Val {
    let Val::Record(fields) = record else { panic!("{record:?}") };
    &fields.iter().find(|(field, _)| field == name).unwrap().1
}

fn number(record: &Val, name: &str) -> u64 {
    let Val::U64(number) = field(record, name) else { panic!("{record:?}") };
    *number
}

fn seen(execution: &Val) -> ExecutionSummary {
    let Val::Variant(outcome, payload) = field(execution, "outcome") else { panic!("{execution:?}") };
    let detail = payload.as_deref().map_or_else(String::new, |payload| match outcome.as_str() {
        "raised" => match field(payload, "type-name") {
            Val::String(name) => format!(" {name}"),
            other => panic!("{other:?}"),
        },
        "exhausted" => match field(payload, "resource") {
            Val::Enum(name) => format!(" {name}"),
            other => panic!("{other:?}"),
        },
        _ => format!(" {payload:?}"),
    });
    let Val::List(stdout) = field(field(execution, "stdout"), "bytes") else { panic!("{execution:?}") };
    let stdout = stdout.iter().map(|byte| match byte {
        Val::U8(byte) => *byte,
        other => panic!("{other:?}"),
    });
    ExecutionSummary {
        outcome: format!("{outcome}{detail}"),
        stdout: stdout.collect(),
        fuel: number(execution, "fuel-consumed"),
        memory_bytes: number(execution, "memory-used-bytes"),
    }
}

/// Returns budgets near zero, near the total and in between.
fn budgets(total: u64, first: u64, last: u64, between: usize) -> Vec<u64> {
    let around: RangeInclusive<u64> = total.saturating_sub(last).max(1)..=total + 2;
    let step = usize::try_from(total).unwrap() / between + 1;
    (1..=first.min(total)).chain(around).chain((1..total).step_by(step)).collect()
}

fn compare(path: &Path, language: Language, scripts: &[&str], (first, last, between): (u64, u64, usize)) {
    let mut provider = CompiledProvider::new(Config::new(), path, language).unwrap().instance().unwrap();
    for (place, source) in scripts.iter().enumerate() {
        let whole = in_engine(&engine_with(language, 10_000_000_000), source);
        assert_eq!(whole, provider.execute(source, 10_000_000_000), "{source}");
        // Many budgets for the first script, fewer for the others.
        let budgets =
            if place == 0 { budgets(whole.fuel, first, last, between) } else { budgets(whole.fuel, 3, 8, 20) };
        println!("{language} {source:?}: {} fuel, {} budgets", whole.fuel, budgets.len());
        for budget in budgets {
            let expected = in_engine(&engine_with(language, budget), source);
            assert_eq!(expected, provider.execute(source, budget), "{source} with {budget}");
        }
    }
}

fn trial(language: Language, scripts: &'static [&'static str], counts: (u64, u64, usize)) -> Trial {
    let name = format!("budgets/{language}_stops_at_every_budget_where_the_engine_does");
    trial_with(name, provider_path(&format!("glovebox-{language}-closed")), move |path| -> Result<(), Failed> {
        compare(&path, language, scripts, counts);
        Ok(())
    })
}

pub(crate) fn trials(_: &[Case]) -> Vec<Trial> {
    // Every push tests a tenth of the budgets.
    let of = |first: u64, last: u64, between: usize| match whole_matrix() {
        true => (first, last, between),
        false => (first / 10, last / 10, between / 10),
    };
    vec![trial(Language::JavaScript, &JAVASCRIPT, of(300, 400, 400)), trial(Language::Python, &PYTHON, of(40, 60, 100))]
}
