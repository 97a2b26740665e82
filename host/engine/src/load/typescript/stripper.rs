//! The stripper. Each call uses a new instance.

use glovebox_wasi::Stop;
use wasmtime::{Instance, InstancePre, Store, UpdateDeadline};

use crate::{
    Outcome, Resource, SourceKind, TrapKind,
    guest::trap::{Ended, classify},
};

use super::{
    Strip, Stripped, Wrong,
    glue::Glue,
    values::{Misuse, Value},
};

/// The stripper, ready to be called.
pub(crate) struct Stripper(pub(super) InstancePre<Glue>);

impl Stripper {
    /// Removes a script's types. Returns the result and the fuel used. Called on a guest stack while the epoch
    /// advances.
    ///
    /// # Errors
    /// Fails with Wasmtime's message if no instance could be created.
    pub(crate) fn strip(&self, strip: Strip<'_>) -> Result<(Stripped, u64), String> {
        let Strip { source, name, kind, fuel, memory_bytes, timeout_ms, ctx } = strip;
        let failed = |error: wasmtime::Error| format!("{error:#}");
        let mut store = Store::new(self.0.module().engine(), Glue::new(source.len(), memory_bytes, ctx));
        store.limiter(|glue| &mut glue.limiter);
        if let Some(fuel) = fuel {
            store.set_fuel(fuel).map_err(failed)?;
        }
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(|context| {
            context.data().check()?;
            Ok(UpdateDeadline::Continue(1))
        });
        let result = self.0.instantiate(&mut store).and_then(|instance| {
            store.data().check()?;
            transform(&mut store, &instance, source, name, kind)
        });
        let fuel = fuel.unwrap_or(0);
        let used = fuel.saturating_sub(store.get_fuel().unwrap_or(0));
        let glue = store.data();
        let stripped = match result {
            Ok(value) => understood(&value, source),
            Err(error) => {
                let words = format!("{error:#}");
                match (classify(error), glue.limiter.memory.refused_bytes()) {
                    // The module traps when it is out of memory.
                    (Ended::Trapped(_), Some(wanted)) => {
                        Stripped::Stopped(exhausted(Resource::Memory, memory_bytes, wanted))
                    }
                    (Ended::Trapped(TrapKind::StackOverflow | TrapKind::OutOfBounds), None) => {
                        Stripped::Wrong(Wrong::whole("the script is nested too deeply for its types to be removed"))
                    }
                    (Ended::Trapped(TrapKind::Unreachable), None) => {
                        Stripped::Wrong(Wrong::whole("the types cannot be removed: the TypeScript parser gave up"))
                    }
                    // Instantiation failed, or the module trapped in a way that it should not.
                    (Ended::Trapped(_), None) => return Err(words),
                    (Ended::Stopped(Stop::Deadline), _) => {
                        let ms = u64::try_from(glue.ctx.elapsed().as_millis()).unwrap_or(u64::MAX);
                        Stripped::Stopped(exhausted(Resource::Time, timeout_ms, ms))
                    }
                    (Ended::Stopped(Stop::Cancelled), _) => Stripped::Stopped(Outcome::Cancelled),
                    (Ended::Stopped(_), _) => Stripped::Stopped(exhausted(Resource::Fuel, fuel, fuel)),
                }
            }
        };
        Ok((stripped, used))
    }
}

fn exhausted(resource: Resource, limit: u64, used: u64) -> Outcome {
    Outcome::Exhausted { resource, limit, used }
}

/// Calls `transformSync(source, { mode: "strip-only", … })` like the package's own JavaScript. Returns the result or
/// the thrown error.
fn transform(
    store: &mut Store<Glue>,
    instance: &Instance,
    source: &str,
    name: &str,
    kind: SourceKind,
) -> wasmtime::Result<Value> {
    // `undefined` means to detect the kind.
    let module = match kind {
        SourceKind::Detect => Value::Undefined,
        SourceKind::Script => Value::Bool(false),
        SourceKind::Module => Value::Bool(true),
    };
    let options = [
        ("mode", Value::Text("strip-only".into())),
        ("filename", Value::Text(name.to_owned())),
        ("module", module),
        ("sourceMap", Value::Bool(false)),
    ];
    let options = options.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let values = &mut store.data_mut().values;
    let source = values.add(Value::Text(source.to_owned()))?;
    let options = values.add(Value::Object(options))?;
    let stack = instance.get_typed_func::<i32, u32>(&mut *store, "__wbindgen_add_to_stack_pointer")?;
    let transform = instance.get_typed_func::<(u32, u32, u32), ()>(&mut *store, "transformSync")?;
    let memory = instance.get_memory(&mut *store, "memory").ok_or(Misuse::Memory)?;
    let ret = stack.call(&mut *store, -16)?;
    transform.call(&mut *store, (ret, source, options))?;
    let mut words = [0; 12];
    memory.read(&*store, ret as usize, &mut words)?;
    let [given, thrown, is_thrown] = [0, 4, 8].map(|at| {
        let word = words.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default();
        u32::from_le_bytes(word)
    });
    Ok(store.data_mut().values.take(if is_thrown == 0 { given } else { thrown })?)
}

/// Interprets the returned or thrown value.
fn understood(value: &Value, source: &str) -> Stripped {
    match value.property("code") {
        // An error has a code too, such as `InvalidSyntax`, but always a message.
        Value::Text(code) if value.property("message") == Value::Undefined => {
            if lines(&code) == lines(source) {
                return Stripped::Plain(code);
            }
            Stripped::Wrong(Wrong::whole("the types cannot be removed without moving lines"))
        }
        _ => {
            let message = value.property("message");
            let message = message.text().or(value.text()).unwrap_or("the types cannot be removed");
            // The stripper counts columns from 0.
            let column = value.property("startColumn").count().unwrap_or(0).saturating_add(1);
            Stripped::Wrong(Wrong::at(message, value.property("startLine").count().filter(|line| *line > 0), column))
        }
    }
}

fn lines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}
