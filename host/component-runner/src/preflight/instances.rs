//! Simulates a component's instantiation as Wasmtime performs it during compilation, but only counts items.
//!
//! The simulation tracks arguments and captured items exactly as Wasmtime does, so the counts are exact. The simulation
//! does not validate the component. An inconsistency ends the count, and the component is rejected.

use std::{collections::HashMap, rc::Rc};

use wasmparser::ComponentExternalKind as Kind;

use super::{
    MAX_CANONICAL, MAX_INSTANCES, MAX_ITEMS, Module, Refusal,
    definitions::{Capture, Component, Definitions, InstantiationStep, NamedItem},
};

/// The host memory per component instance, without its handles: `InstanceState`, and flags in `VMComponentContext`.
const COMPONENT_INSTANCE_BYTES: u64 = 512;

/// The host memory per canonical ABI function: `VMFuncRef`, `VMLowering`, and pointers to its memory and functions.
const CANONICAL_BYTES: u64 = 128;

/// Additional host memory per function lowered from one component to another: the adapter module's imports and exports.
const ADAPTER_BYTES: u64 = 1_024;

/// The host memory per resource type that a component defines.
const RESOURCE_BYTES: u64 = 64;

/// An item of a component during instantiation. Its weight is the number of items that Wasmtime copies when it passes
/// the item to another instance. The simulation shares the items instead.
#[derive(Clone, Debug)]
enum Value<'a> {
    /// A function that the host provides, with its nesting depth in host instances.
    HostFunction(u64),
    /// A lifted function, with its nesting depth in components.
    Lifted(u64),
    Instance(Rc<Instance<'a>>),
    /// An instance that the host provides, with its nesting depth in host instances.
    HostInstance(u64),
    Component(Closure),
    /// The index of a module in [`Definitions::modules`].
    Module(usize),
    /// A type or value, or a module or component that the host would have to provide.
    Opaque(Kind),
}

#[derive(Debug, Default)]
struct Instance<'a> {
    exports: HashMap<&'a str, Value<'a>>,
    weight: u64,
    types: u64,
}

/// A component and the scope of its definition.
#[derive(Clone, Copy, Debug)]
struct Closure {
    definition: usize,
    scope: usize,
    weight: u64,
}

impl Value<'_> {
    fn kind(&self) -> Kind {
        match self {
            Self::HostFunction(_) | Self::Lifted(_) => Kind::Func,
            Self::Instance(_) | Self::HostInstance(_) => Kind::Instance,
            Self::Component(_) => Kind::Component,
            Self::Module(_) => Kind::Module,
            Self::Opaque(kind) => *kind,
        }
    }

    fn weight(&self) -> u64 {
        match self {
            Self::HostFunction(depth) | Self::Lifted(depth) | Self::HostInstance(depth) => depth.saturating_add(1),
            Self::Instance(instance) => instance.weight,
            Self::Component(closure) => closure.weight,
            Self::Module(_) | Self::Opaque(_) => 1,
        }
    }

    /// Returns the number of types in the item. Wasmtime copies the resource types among them at each instantiation.
    fn types(&self) -> u64 {
        match self {
            Self::Opaque(Kind::Type) => 1,
            Self::Instance(instance) => instance.types,
            _ => 0,
        }
    }
}

impl<'a> Instance<'a> {
    fn new(items: Vec<(&'a str, Value<'a>)>) -> Self {
        let sum =
            |of: fn(&Value<'a>) -> u64| items.iter().fold(0, |sum: u64, (_, value)| sum.saturating_add(of(value)));
        let (weight, types) = (sum(Value::weight).saturating_add(1), sum(Value::types));
        Self { exports: items.into_iter().collect(), weight, types }
    }
}

/// Modules and components of one component, which nested components can capture.
#[derive(Debug)]
struct Scope<'a> {
    parent: Option<usize>,
    modules: Vec<Value<'a>>,
    components: Vec<Value<'a>>,
}

/// A component that is being instantiated.
#[derive(Debug)]
struct Frame<'d, 'a> {
    steps: std::slice::Iter<'d, InstantiationStep<'a>>,
    scope: usize,
    arguments: HashMap<&'a str, Value<'a>>,
    functions: Vec<Value<'a>>,
    instances: Vec<Value<'a>>,
    types: u64,
    exports: Vec<(&'a str, Value<'a>)>,
}

/// Simulates the instantiation and returns the host memory per instance in bytes.
pub(super) fn count(definitions: &Definitions<'_>) -> Result<u64, Refusal> {
    let mut machine = Machine { definitions, scopes: Vec::new(), frames: Vec::new(), count: Count::default() };
    machine.enter(0, None, HashMap::new())?;
    while let Some(frame) = machine.frames.last_mut() {
        match frame.steps.next() {
            Some(step) => machine.step(step)?,
            None => machine.leave()?,
        }
    }
    Ok(machine.count.bytes)
}

#[derive(Debug, Default)]
struct Count {
    instances: u64,
    canonical: u64,
    items: u64,
    bytes: u64,
}

impl Count {
    fn instance(&mut self, bytes: u64) -> Result<(), Refusal> {
        self.bytes = self.bytes.saturating_add(bytes);
        add(&mut self.instances, 1, MAX_INSTANCES, Refusal::Instances)
    }

    fn canonical(&mut self, bytes: u64) -> Result<(), Refusal> {
        self.bytes = self.bytes.saturating_add(bytes);
        add(&mut self.canonical, 1, MAX_CANONICAL, Refusal::Canonical)
    }

    fn items(&mut self, items: u64) -> Result<(), Refusal> {
        add(&mut self.items, items, MAX_ITEMS, Refusal::Items)
    }
}

fn add(sum: &mut u64, more: u64, max: u64, refusal: Refusal) -> Result<(), Refusal> {
    *sum = sum.saturating_add(more);
    if *sum > max { Err(refusal) } else { Ok(()) }
}

struct Machine<'d, 'a> {
    definitions: &'d Definitions<'a>,
    /// Includes the scopes of components that are already instantiated, because their nested components may be
    /// instantiated later.
    scopes: Vec<Scope<'a>>,
    frames: Vec<Frame<'d, 'a>>,
    count: Count,
}

impl<'d, 'a> Machine<'d, 'a> {
    /// Starts to instantiate a component.
    fn enter(
        &mut self,
        definition: usize,
        parent: Option<usize>,
        arguments: HashMap<&'a str, Value<'a>>,
    ) -> Result<(), Refusal> {
        self.count.instance(COMPONENT_INSTANCE_BYTES)?;
        let component: &'d Component<'a> =
            self.definitions.components.get(definition).ok_or_else(|| unknown("component"))?;
        let scope = self.scopes.len();
        self.scopes.push(Scope { parent, modules: Vec::new(), components: Vec::new() });
        self.frames.push(Frame {
            steps: component.steps.iter(),
            scope,
            arguments,
            functions: Vec::new(),
            instances: Vec::new(),
            types: 0,
            exports: Vec::new(),
        });
        Ok(())
    }

    /// Finishes the innermost component and adds its instance to the enclosing component.
    fn leave(&mut self) -> Result<(), Refusal> {
        let Some(frame) = self.frames.pop() else { return Ok(()) };
        if self.frames.is_empty() {
            return Ok(());
        }
        let instance = Instance::new(frame.exports);
        self.count.items(instance.weight)?;
        self.push(Value::Instance(Rc::new(instance)))
    }

    fn step(&mut self, step: &'d InstantiationStep<'a>) -> Result<(), Refusal> {
        match step {
            InstantiationStep::Import { name, kind } => {
                let value = self.import(name, *kind)?;
                self.copy(value)
            }
            InstantiationStep::Module(definition) => self.copy(Value::Module(*definition)),
            InstantiationStep::Component(definition) => {
                let component = self.close(*definition)?;
                self.copy(component)
            }
            InstantiationStep::InstantiateModule(index) => {
                let module = self.module(*index)?;
                self.count.items(module.imports.saturating_add(1))?;
                self.count.instance(module.instance_bytes())
            }
            InstantiationStep::Instantiate { component, arguments } => {
                let Value::Component(closure) = self.item(Kind::Component, *component)? else {
                    return Err(Refusal::Imported);
                };
                let types = self.frames.iter().fold(0u64, |sum, frame| sum.saturating_add(frame.types));
                self.count.items(closure.weight.saturating_add(types))?;
                let arguments = self.items(arguments)?;
                self.enter(closure.definition, Some(closure.scope), arguments.into_iter().collect())
            }
            InstantiationStep::Bundle(items) => {
                let items = self.items(items)?;
                self.push(Value::Instance(Rc::new(Instance::new(items))))
            }
            InstantiationStep::AliasExport { kind, instance, name } => {
                let value = self.export(*kind, *instance, name)?;
                self.copy(value)
            }
            InstantiationStep::AliasOuter(outer) => {
                let value = self.outer(*outer)?;
                self.copy(value)
            }
            InstantiationStep::Lift => {
                self.count.canonical(CANONICAL_BYTES)?;
                let depth = u64::try_from(self.frames.len()).unwrap_or(u64::MAX);
                self.copy(Value::Lifted(depth))
            }
            InstantiationStep::Lower(index) => {
                let adapter = match self.item(Kind::Func, *index)? {
                    Value::Lifted(_) => ADAPTER_BYTES,
                    _ => 0,
                };
                self.count.canonical(CANONICAL_BYTES + adapter)
            }
            InstantiationStep::BuiltIn => self.count.canonical(CANONICAL_BYTES),
            InstantiationStep::Resources(count) => {
                self.count.bytes = self.count.bytes.saturating_add(count.saturating_mul(RESOURCE_BYTES));
                self.add_types(*count);
                self.count.items(*count)
            }
            InstantiationStep::Local(count) => self.count.items(*count),
            InstantiationStep::Export(named) => {
                let value = self.item(named.kind, named.index)?;
                self.count.items(value.weight())?;
                if let Some(frame) = self.frames.last_mut() {
                    frame.exports.push((named.name, value.clone()));
                }
                self.copy(value)
            }
        }
    }

    /// Resolves an import of the innermost component.
    fn import(&self, name: &'a str, kind: Kind) -> Result<Value<'a>, Refusal> {
        let given = match self.frames.as_slice() {
            [_] => Some(from_host(kind, 1)),
            frames => frames.last().and_then(|frame| frame.arguments.get(name).cloned()),
        };
        match given {
            Some(value) if value.kind() == kind => Ok(value),
            None if kind == Kind::Type => Ok(Value::Opaque(kind)),
            _ => Err(unknown("import")),
        }
    }

    /// Resolves an export of an instance.
    fn export(&self, kind: Kind, instance: u32, name: &str) -> Result<Value<'a>, Refusal> {
        match self.item(Kind::Instance, instance)? {
            Value::HostInstance(depth) => Ok(from_host(kind, depth.saturating_add(1))),
            Value::Instance(instance) => match instance.exports.get(name) {
                Some(value) if value.kind() == kind => Ok(value.clone()),
                _ => Err(unknown("export")),
            },
            _ => Err(unknown("instance")),
        }
    }

    fn module(&self, index: u32) -> Result<&'d Module, Refusal> {
        match self.item(Kind::Module, index)? {
            Value::Module(definition) => self.definitions.modules.get(definition).ok_or_else(|| unknown("module")),
            _ => Err(Refusal::Imported),
        }
    }

    /// Returns a component with its scope and the weight of its captured items.
    fn close(&self, definition: usize) -> Result<Value<'a>, Refusal> {
        let component = self.definitions.components.get(definition).ok_or_else(|| unknown("component"))?;
        let mut weight = 1u64;
        for capture in &component.captures {
            weight = weight.saturating_add(self.outer(*capture)?.weight());
        }
        let scope = self.frames.last().map_or(0, |frame| frame.scope);
        Ok(Value::Component(Closure { definition, scope, weight }))
    }

    /// Resolves a module or component in a scope that encloses the innermost component.
    fn outer(&self, outer: Capture) -> Result<Value<'a>, Refusal> {
        let mut scope = self.frames.last().and_then(|frame| self.scopes.get(frame.scope));
        for _ in 0..outer.up {
            scope = scope.and_then(|scope| scope.parent).and_then(|parent| self.scopes.get(parent));
        }
        let scope = scope.ok_or_else(|| unknown("enclosing component"))?;
        let list = if outer.kind == Kind::Module { &scope.modules } else { &scope.components };
        item_at(list, outer.index).ok_or_else(|| unknown("item of an enclosing component"))
    }

    fn items(&mut self, named: &[NamedItem<'a>]) -> Result<Vec<(&'a str, Value<'a>)>, Refusal> {
        let mut items = Vec::with_capacity(named.len());
        for NamedItem { name, kind, index } in named {
            let value = self.item(*kind, *index)?;
            self.count.items(value.weight().saturating_add(1))?;
            items.push((*name, value));
        }
        Ok(items)
    }

    /// Resolves an item of the innermost component.
    fn item(&self, kind: Kind, index: u32) -> Result<Value<'a>, Refusal> {
        let frame = self.frames.last().ok_or_else(|| unknown("component"))?;
        let scope = self.scopes.get(frame.scope).ok_or_else(|| unknown("component"))?;
        let value = match kind {
            Kind::Func => item_at(&frame.functions, index),
            Kind::Instance => item_at(&frame.instances, index),
            Kind::Module => item_at(&scope.modules, index),
            Kind::Component => item_at(&scope.components, index),
            Kind::Type | Kind::Value => Some(Value::Opaque(kind)),
        };
        value.ok_or_else(|| unknown(kind.desc()))
    }

    /// Adds a copy of an item to the innermost component.
    fn copy(&mut self, value: Value<'a>) -> Result<(), Refusal> {
        self.count.items(value.weight())?;
        self.push(value)
    }

    fn push(&mut self, value: Value<'a>) -> Result<(), Refusal> {
        self.add_types(value.types());
        let frame = self.frames.last_mut().ok_or_else(|| unknown("component"))?;
        let scope = self.scopes.get_mut(frame.scope).ok_or_else(|| unknown("component"))?;
        match value.kind() {
            Kind::Func => frame.functions.push(value),
            Kind::Instance => frame.instances.push(value),
            Kind::Module => scope.modules.push(value),
            Kind::Component => scope.components.push(value),
            Kind::Type | Kind::Value => {}
        }
        Ok(())
    }

    fn add_types(&mut self, count: u64) {
        if let Some(frame) = self.frames.last_mut() {
            frame.types = frame.types.saturating_add(count);
        }
    }
}

fn item_at<'a>(list: &[Value<'a>], index: u32) -> Option<Value<'a>> {
    list.get(usize::try_from(index).ok()?).cloned()
}

/// Returns an item that the host provides, with its nesting depth in host instances.
fn from_host<'a>(kind: Kind, depth: u64) -> Value<'a> {
    match kind {
        Kind::Func => Value::HostFunction(depth),
        Kind::Instance => Value::HostInstance(depth),
        Kind::Component | Kind::Module | Kind::Type | Kind::Value => Value::Opaque(kind),
    }
}

/// Returns the error for a reference to a missing item.
fn unknown(what: &str) -> Refusal {
    Refusal::Malformed(format!("it refers to a missing {what}"))
}
