//! Determines which operators are reachable by Wasmtime's rules, and finds landings. Unreachable operators consume no
//! fuel.
//!
//! Landings are the labels that `catch` clauses branch to. The call that threw the exception has updated the fuel
//! counter's global, so the function's cached counter is out of date at a landing. The global of the depth counter
//! still includes the functions that were unwound. Both counters are therefore reloaded after the label, and every
//! other branch to a landing first saves the fuel counter to its global.

use std::collections::HashSet;

use wasmparser::Operator;

use crate::guest::index;

/// The kind of block that a label belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LabelKind {
    /// A block, or the function itself.
    Block,
    /// A loop, whose label is at its beginning.
    Loop,
    /// An `if` before its `else`, or without an `else`.
    If,
    Else,
}

#[derive(Debug)]
struct ReachFrame {
    kind: LabelKind,
    entered_live: bool,
    /// `true` if execution can reach the end of the code before `else`.
    then_live: bool,
    /// `true` if a reachable operator branches to the block's end.
    branched: bool,
}

#[derive(Debug)]
pub(crate) struct Reach {
    frames: Vec<ReachFrame>,
    live: bool,
}

impl Reach {
    /// Creates the state at the beginning of a function.
    pub(crate) fn new() -> Self {
        let mut reach = Self { frames: Vec::new(), live: true };
        reach.enter(LabelKind::Block);
        reach
    }

    /// Returns `true` if the next operator is reachable.
    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    /// Enters a block, loop or `if`.
    pub(crate) fn enter(&mut self, kind: LabelKind) {
        self.frames.push(ReachFrame { kind, entered_live: self.live, then_live: false, branched: false });
    }

    /// Records a possible branch of a reachable operator.
    pub(crate) fn branch(&mut self, relative_depth: u32) {
        let depth = usize::try_from(relative_depth).unwrap_or(usize::MAX);
        if let Some(target) = self.frames.iter_mut().nth_back(depth)
            && target.kind != LabelKind::Loop
        {
            target.branched = true;
        }
    }

    /// Marks the following operators as unreachable.
    pub(crate) fn stop(&mut self) {
        self.live = false;
    }

    pub(crate) fn enter_else(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            frame.kind = LabelKind::Else;
            frame.then_live = self.live;
            self.live = frame.entered_live;
        }
    }

    /// Returns `true` if the innermost block is a loop, whose branches do not target its `end`.
    pub(crate) fn is_loop(&self) -> bool {
        self.frames.last().is_some_and(|frame| frame.kind == LabelKind::Loop)
    }

    /// Returns `true` if several paths meet at the next `end`.
    pub(crate) fn is_join(&self) -> bool {
        self.frames.last().is_some_and(|frame| frame.branched || frame.can_be_skipped())
    }

    /// Leaves a block at its `end`. Returns `true` if this is the end of the function.
    pub(crate) fn leave(&mut self) -> bool {
        if let Some(frame) = self.frames.pop() {
            self.live |= frame.branched || frame.can_be_skipped();
        }
        self.frames.is_empty()
    }
}

impl ReachFrame {
    /// Returns `true` if the other side of an `if` can also reach the end.
    fn can_be_skipped(&self) -> bool {
        match self.kind {
            LabelKind::Block | LabelKind::Loop => false,
            LabelKind::If => self.entered_live,
            LabelKind::Else => self.then_live,
        }
    }
}

/// The landings of one function.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Landings {
    /// The positions of the operators whose labels are landings.
    at: HashSet<usize>,
    /// `true` if the function's own label is a landing.
    pub(crate) is_function: bool,
}

impl Landings {
    pub(crate) fn of(operators: &[Operator<'_>]) -> Self {
        let (mut landings, mut open) = (Self::default(), Vec::new());
        for (place, operator) in operators.iter().enumerate() {
            match operator {
                Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } => open.push(place),
                Operator::TryTable { try_table } => {
                    for catch in &try_table.catches {
                        match open.iter().nth_back(index(label(catch))) {
                            Some(place) => _ = landings.at.insert(*place),
                            None => landings.is_function = true,
                        }
                    }
                    open.push(place);
                }
                Operator::End => _ = open.pop(),
                _ => {}
            }
        }
        landings
    }

    /// Returns `true` if the label of the operator at position `place` is a landing.
    pub(crate) fn is_landing(&self, place: usize) -> bool {
        self.at.contains(&place)
    }
}

/// Returns a clause's label, relative to the code that contains its `try_table`.
pub(crate) fn label(catch: &wasmparser::Catch) -> u32 {
    match catch {
        wasmparser::Catch::One { label, .. }
        | wasmparser::Catch::OneRef { label, .. }
        | wasmparser::Catch::All { label }
        | wasmparser::Catch::AllRef { label } => *label,
    }
}

/// Returns `true` for a clause that catches every exception, including the unwinding exception.
pub(crate) fn catches_all(catch: &wasmparser::Catch) -> bool {
    matches!(catch, wasmparser::Catch::All { .. } | wasmparser::Catch::AllRef { .. })
}

#[cfg(test)]
mod tests {
    use super::Landings;
    use crate::guest::Module;

    fn landings(body: &str) -> Landings {
        let bytes = wat::parse_str(format!("(module (tag $t) (func {body}))")).unwrap();
        let module = Module::read("guest", &bytes).unwrap();
        let operators = module.bodies.first().unwrap().get_operators_reader().unwrap();
        Landings::of(&operators.into_iter().collect::<Result<Vec<_>, _>>().unwrap())
    }

    #[test]
    fn landing_labels_count_from_the_outermost_block() {
        let found = landings("block loop block try_table (catch $t 0) (catch_all 2) end end end end");
        assert_eq!(found, Landings { at: [0, 2].into(), is_function: false });
        assert!(found.is_landing(0) && !found.is_landing(1) && !found.is_landing(3));
        assert_eq!(landings("try_table (catch_all 0) end"), Landings { at: [].into(), is_function: true });
        assert_eq!(landings("block end block br 0 end try_table end"), Landings::default());
    }
}
