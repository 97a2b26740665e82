//! The instantiation steps of a component and of each nested component.

use wasmparser::{
    CanonicalFunction, ComponentAlias, ComponentExternalKind, ComponentInstance, ComponentOuterAliasKind, Encoding,
    Instance, Parser, Payload,
};

use super::{MAX_ITEMS, Module, Refusal};

/// The possible first bytes of a resource type in a type section. Other data can contain these bytes too, so counting
/// them gives an upper bound.
const RESOURCE: [u8; 2] = [0x3e, 0x3f];

/// All modules and all components, ordered by their start offsets. The first component is the outermost one.
#[derive(Debug, Default)]
pub(super) struct Definitions<'a> {
    pub(super) components: Vec<Component<'a>>,
    pub(super) modules: Vec<Module>,
}

#[derive(Debug, Default)]
pub(super) struct Component<'a> {
    pub(super) steps: Vec<InstantiationStep<'a>>,
    /// Modules and components that this component, or a component nested in it, takes from enclosing components.
    /// Wasmtime copies the captured items into each copy of the component.
    pub(super) captures: Vec<Capture>,
}

/// A module or component from an enclosing component.
#[derive(Clone, Copy, Debug)]
pub(super) struct Capture {
    /// Always `Module` or `Component`.
    pub(super) kind: ComponentExternalKind,
    /// The number of levels up. In [`Component::captures`], levels are counted from the parent of the capturing
    /// component. In [`InstantiationStep::AliasOuter`], they are counted from the aliasing component itself.
    pub(super) up: u32,
    pub(super) index: u32,
}

/// A reference to an item, and the name under which it is passed or exported.
#[derive(Clone, Copy, Debug)]
pub(super) struct NamedItem<'a> {
    pub(super) name: &'a str,
    pub(super) kind: ComponentExternalKind,
    pub(super) index: u32,
}

/// A step in the instantiation of a component.
#[derive(Debug)]
pub(super) enum InstantiationStep<'a> {
    Import {
        name: &'a str,
        kind: ComponentExternalKind,
    },
    Module(usize),
    Component(usize),
    InstantiateModule(u32),
    Instantiate {
        component: u32,
        arguments: Box<[NamedItem<'a>]>,
    },
    Bundle(Box<[NamedItem<'a>]>),
    AliasExport {
        kind: ComponentExternalKind,
        instance: u32,
        name: &'a str,
    },
    AliasOuter(Capture),
    Lift,
    Lower(u32),
    BuiltIn,
    /// An upper bound on the number of resource types in a type section.
    Resources(u64),
    /// The number of items that no other component receives: aliases of core items and types, core instances, and
    /// types.
    Local(u64),
    Export(NamedItem<'a>),
}

impl<'a> Definitions<'a> {
    /// Reads a component without validating it. Wasmtime also rejects every component that this function rejects as
    /// malformed.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, Refusal> {
        let mut reader = Reader::default();
        for payload in Parser::new(0).parse_all(bytes) {
            reader.payload(payload?, bytes)?;
        }
        Ok(reader.definitions)
    }
}

/// An entry on the stack of modules and components that are being read.
#[derive(Clone, Copy, Debug)]
enum OpenDefinition {
    Module(usize),
    Component(usize),
}

#[derive(Debug, Default)]
struct Reader<'a> {
    definitions: Definitions<'a>,
    open: Vec<OpenDefinition>,
    items: u64,
}

impl<'a> Reader<'a> {
    fn payload(&mut self, payload: Payload<'a>, bytes: &'a [u8]) -> Result<(), Refusal> {
        match payload {
            Payload::Version { encoding, .. } => {
                self.open.push(match encoding {
                    Encoding::Module => {
                        self.definitions.modules.push(Module::default());
                        OpenDefinition::Module(self.definitions.modules.len() - 1)
                    }
                    Encoding::Component => {
                        self.definitions.components.push(Component::default());
                        OpenDefinition::Component(self.definitions.components.len() - 1)
                    }
                });
                Ok(())
            }
            // The next header adds the nested module or component, so its index is the current length of the list.
            Payload::ModuleSection { .. } => self.step(InstantiationStep::Module(self.definitions.modules.len()), 1),
            Payload::ComponentSection { .. } => {
                self.step(InstantiationStep::Component(self.definitions.components.len()), 1)
            }
            Payload::End(_) => {
                self.open.pop();
                Ok(())
            }
            payload => match self.open.last() {
                Some(OpenDefinition::Module(module)) => match self.definitions.modules.get_mut(*module) {
                    Some(module) => Ok(module.payload(&payload, bytes)?),
                    None => Ok(()),
                },
                _ => self.section(payload, bytes),
            },
        }
    }

    /// Adds the instantiation steps of a component's section.
    fn section(&mut self, payload: Payload<'a>, bytes: &'a [u8]) -> Result<(), Refusal> {
        match payload {
            Payload::ComponentImportSection(imports) => {
                for import in imports {
                    let import = import?;
                    self.step(InstantiationStep::Import { name: import.name.name, kind: import.ty.kind() }, 1)?;
                }
            }
            Payload::InstanceSection(instances) => {
                for instance in instances {
                    match instance? {
                        Instance::Instantiate { module_index, args } => {
                            self.step(InstantiationStep::InstantiateModule(module_index), 1 + count(&args))?;
                        }
                        Instance::FromExports(exports) => self.local(1 + count(&exports))?,
                    }
                }
            }
            Payload::ComponentInstanceSection(instances) => {
                for instance in instances {
                    match instance? {
                        ComponentInstance::Instantiate { component_index, args } => {
                            let named = |arg: &wasmparser::ComponentInstantiationArg<'a>| NamedItem {
                                name: arg.name,
                                kind: arg.kind,
                                index: arg.index,
                            };
                            let arguments: Box<[_]> = args.iter().map(named).collect();
                            let items = 1 + count(&arguments);
                            self.step(InstantiationStep::Instantiate { component: component_index, arguments }, items)?;
                        }
                        ComponentInstance::FromExports(exports) => {
                            let bundle: Box<[_]> = exports.iter().map(exported).collect();
                            let items = 1 + count(&bundle);
                            self.step(InstantiationStep::Bundle(bundle), items)?;
                        }
                    }
                }
            }
            Payload::ComponentAliasSection(aliases) => {
                for alias in aliases {
                    match alias? {
                        ComponentAlias::InstanceExport { kind, instance_index, name } => {
                            self.step(InstantiationStep::AliasExport { kind, instance: instance_index, name }, 1)?;
                        }
                        ComponentAlias::CoreInstanceExport { .. } => self.local(1)?,
                        ComponentAlias::Outer { kind, count, index } => match kind {
                            ComponentOuterAliasKind::CoreModule => {
                                self.outer(ComponentExternalKind::Module, count, index)?;
                            }
                            ComponentOuterAliasKind::Component => {
                                self.outer(ComponentExternalKind::Component, count, index)?;
                            }
                            ComponentOuterAliasKind::CoreType | ComponentOuterAliasKind::Type => self.local(1)?,
                        },
                    }
                }
            }
            Payload::ComponentCanonicalSection(functions) => {
                for function in functions {
                    let step = match function? {
                        CanonicalFunction::Lift { .. } => InstantiationStep::Lift,
                        CanonicalFunction::Lower { func_index, .. } => InstantiationStep::Lower(func_index),
                        _ => InstantiationStep::BuiltIn,
                    };
                    self.step(step, 1)?;
                }
            }
            Payload::ComponentExportSection(exports) => {
                for export in exports {
                    self.step(InstantiationStep::Export(exported(&export?)), 1)?;
                }
            }
            Payload::ComponentTypeSection(types) => {
                let text = bytes.get(types.range()).unwrap_or_default();
                let resources = text.iter().filter(|byte| RESOURCE.contains(byte)).count();
                let resources = u64::try_from(resources).unwrap_or(u64::MAX).min(types.count().into());
                self.step(InstantiationStep::Resources(resources), resources)?;
                self.local(types.count().into())?;
            }
            Payload::CoreTypeSection(types) => self.local(types.count().into())?,
            _ => {}
        }
        Ok(())
    }

    /// Adds an outer alias, and a capture to each component between the alias and its target.
    fn outer(&mut self, kind: ComponentExternalKind, count: u32, index: u32) -> Result<(), Refusal> {
        self.items(count.into())?;
        let enclosing = self.open.iter().rev().take(usize::try_from(count).unwrap_or(usize::MAX));
        for (open, up) in enclosing.zip((0..count).rev()) {
            if let OpenDefinition::Component(component) = open
                && let Some(component) = self.definitions.components.get_mut(*component)
            {
                component.captures.push(Capture { kind, up, index });
            }
        }
        self.step(InstantiationStep::AliasOuter(Capture { kind, up: count, index }), 1)
    }

    fn local(&mut self, items: u64) -> Result<(), Refusal> {
        if items == 0 { Ok(()) } else { self.step(InstantiationStep::Local(items), items) }
    }

    /// Adds a step with `items` items to the component that is being read.
    fn step(&mut self, step: InstantiationStep<'a>, items: u64) -> Result<(), Refusal> {
        self.items(items)?;
        let Some(OpenDefinition::Component(component)) = self.open.last() else {
            return Err(Refusal::Malformed("a core module contains a component section".into()));
        };
        if let Some(component) = self.definitions.components.get_mut(*component) {
            component.steps.push(step);
        }
        Ok(())
    }

    fn items(&mut self, items: u64) -> Result<(), Refusal> {
        self.items = self.items.saturating_add(items);
        if self.items > MAX_ITEMS { Err(Refusal::Items) } else { Ok(()) }
    }
}

fn exported<'a>(export: &wasmparser::ComponentExport<'a>) -> NamedItem<'a> {
    NamedItem { name: export.name.name, kind: export.kind, index: export.index }
}

fn count<T>(items: &[T]) -> u64 {
    u64::try_from(items.len()).unwrap_or(u64::MAX)
}
