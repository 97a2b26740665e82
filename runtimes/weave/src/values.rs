//! Tracks the values of variables in static single assignment (SSA) form, which is built while a function is read.
//!
//! This module follows Cranelift's frontend (Braun et al., "Simple and Efficient Construction of Static Single
//! Assignment Form", 2013), including the order of its queries. The time of a query determines whether a value is
//! recognized as constant. For example, a variable is never constant inside a loop whose back edges are not known yet,
//! even if its final value is constant.

use std::collections::HashMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value(usize);

/// The number of a basic block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Block(usize);

/// The number of a local, a block parameter or a block result.
pub(crate) type Variable = u32;

/// The origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Constant(i32),
    /// A value that is computed at run time.
    Computed,
    /// A value that this analysis cannot determine. Wasmtime may still recognize the value as a constant.
    Obscure,
    /// A value that is equal to another value.
    Same(Value),
}

#[derive(Debug, Default)]
struct Node {
    predecessors: Vec<Block>,
    /// `true` once all predecessors are known.
    is_sealed: bool,
    /// Variables that were queried before the block was sealed.
    open: Vec<(Variable, Value)>,
}

/// A step of a pending query.
enum Task {
    /// Finds the variable's value at the block's end, and pushes it to the results.
    Find(Variable, Block),
    /// Joins the last results, one for each predecessor, into this value.
    Join(Value, Block),
}

#[derive(Debug, Default)]
pub(crate) struct Values {
    origins: Vec<Origin>,
    nodes: Vec<Node>,
    definitions: HashMap<(Block, Variable), Value>,
}

impl Values {
    pub(crate) fn value(&mut self, origin: Origin) -> Value {
        self.origins.push(origin);
        Value(self.origins.len() - 1)
    }

    pub(crate) fn block(&mut self) -> Block {
        self.nodes.push(Node::default());
        Block(self.nodes.len() - 1)
    }

    /// Returns the resolved origin of a value, which is never `Same`.
    pub(crate) fn origin(&self, value: Value) -> Origin {
        self.origins.get(self.resolve(value).0).copied().unwrap_or(Origin::Obscure)
    }

    fn resolve(&self, mut value: Value) -> Value {
        // The loop terminates, because a value can only become equal to an older or resolved value.
        while let Some(Origin::Same(other)) = self.origins.get(value.0) {
            value = *other;
        }
        value
    }

    /// Adds a control-flow edge from the end of one block to the beginning of another.
    pub(crate) fn jump(&mut self, from: Block, to: Block) {
        if let Some(node) = self.nodes.get_mut(to.0)
            && !node.predecessors.contains(&from)
        {
            node.predecessors.push(from);
        }
    }

    /// Redirects the edge from `from` to `before`, so that it leads to `now`.
    pub(crate) fn move_jump(&mut self, from: Block, before: Block, now: Block) {
        if let Some(node) = self.nodes.get_mut(before.0) {
            node.predecessors.retain(|predecessor| *predecessor != from);
        }
        self.jump(from, now);
    }

    /// Declares that all predecessors of the block are known.
    pub(crate) fn seal(&mut self, block: Block) {
        let Some(node) = self.nodes.get_mut(block.0) else { return };
        node.is_sealed = true;
        for (variable, value) in std::mem::take(&mut node.open) {
            let mut tasks = Vec::new();
            self.ask_predecessors(variable, value, block, &mut tasks);
            self.run(tasks);
        }
    }

    pub(crate) fn define(&mut self, variable: Variable, block: Block, value: Value) {
        self.definitions.insert((block, variable), value);
    }

    /// Returns the variable's value at the current end of the block.
    pub(crate) fn find(&mut self, variable: Variable, block: Block) -> Value {
        match self.definitions.get(&(block, variable)) {
            Some(value) => *value,
            None => self.run(vec![Task::Find(variable, block)]),
        }
    }

    /// Runs a query. Uses an explicit stack instead of recursion, because a function can have thousands of consecutive
    /// blocks.
    fn run(&mut self, mut tasks: Vec<Task>) -> Value {
        let mut results = Vec::new();
        while let Some(task) = tasks.pop() {
            match task {
                Task::Find(variable, block) => {
                    if let Some(value) = self.find_or_ask(variable, block, &mut tasks) {
                        results.push(value);
                    }
                }
                Task::Join(value, block) => {
                    let count = self.nodes.get(block.0).map_or(0, |node| node.predecessors.len());
                    let incoming = results.split_off(results.len().saturating_sub(count));
                    results.push(self.join(value, &incoming));
                }
            }
        }
        results.pop().unwrap_or_else(|| self.value(Origin::Obscure))
    }

    /// Returns the variable's value, or pushes the tasks that find it.
    fn find_or_ask(&mut self, variable: Variable, block: Block, tasks: &mut Vec<Task>) -> Option<Value> {
        let (mut at, mut passed) = (block, Vec::new());
        let (value, is_found) = loop {
            if let Some(value) = self.definitions.get(&(at, variable)) {
                break (*value, true);
            }
            passed.push(at);
            match self.nodes.get(at.0) {
                Some(Node { is_sealed: true, predecessors, .. }) if passed.len() <= self.nodes.len() => {
                    if let [only] = predecessors.as_slice() {
                        at = *only;
                        continue;
                    }
                    let value = self.value(Origin::Computed);
                    self.definitions.insert((at, variable), value);
                    self.ask_predecessors(variable, value, at, tasks);
                    break (value, false);
                }
                _ => {
                    let value = self.value(Origin::Computed);
                    if let Some(node) = self.nodes.get_mut(at.0) {
                        node.open.push((variable, value));
                    }
                    break (value, true);
                }
            }
        };
        for block in passed {
            self.definitions.insert((block, variable), value);
        }
        is_found.then_some(value)
    }

    fn ask_predecessors(&self, variable: Variable, value: Value, block: Block, tasks: &mut Vec<Task>) {
        tasks.push(Task::Join(value, block));
        if let Some(node) = self.nodes.get(block.0) {
            tasks.extend(node.predecessors.iter().rev().map(|predecessor| Task::Find(variable, *predecessor)));
        }
    }

    /// Joins the values from all predecessors, ignoring this value itself. If all joined values are equal, the result
    /// is their common value. Otherwise, the result is computed at run time. A block without predecessors has the
    /// result zero, as in Cranelift.
    fn join(&mut self, value: Value, incoming: &[Value]) -> Value {
        let mut others = incoming.iter().map(|other| self.resolve(*other)).filter(|other| *other != value);
        match others.next() {
            Some(first) if others.all(|other| other == first) => {
                if let Some(origin) = self.origins.get_mut(value.0) {
                    *origin = Origin::Same(first);
                }
                first
            }
            None => {
                if let Some(origin) = self.origins.get_mut(value.0) {
                    *origin = Origin::Constant(0);
                }
                value
            }
            _ => value,
        }
    }
}
