//! Reachability of operators by Wasmtime's rules. Unreachable operators cost no fuel.

/// Kind of block that a label belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A block, or the function itself.
    Block,
    /// A loop, whose label is at its beginning.
    Loop,
    /// An `if` before its `else`, or without one.
    If,
    Else,
}

#[derive(Debug)]
struct Frame {
    kind: Kind,
    entered_live: bool,
    /// The part before `else` ran to its end.
    then_live: bool,
    /// A reachable operator branches to the end.
    branched: bool,
}

#[derive(Debug)]
pub(crate) struct Reach {
    frames: Vec<Frame>,
    live: bool,
}

impl Reach {
    /// Starts at a function's beginning.
    pub(crate) fn new() -> Self {
        let mut reach = Self { frames: Vec::new(), live: true };
        reach.enter(Kind::Block);
        reach
    }

    /// Returns `true` if the next operator is reachable.
    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    /// Enters a block, loop or `if`.
    pub(crate) fn enter(&mut self, kind: Kind) {
        self.frames.push(Frame { kind, entered_live: self.live, then_live: false, branched: false });
    }

    /// Records a possible branch of a reachable operator.
    pub(crate) fn branch(&mut self, relative_depth: u32) {
        let depth = usize::try_from(relative_depth).unwrap_or(usize::MAX);
        if let Some(target) = self.frames.iter_mut().nth_back(depth)
            && target.kind != Kind::Loop
        {
            target.branched = true;
        }
    }

    /// Marks the following operators as unreachable.
    pub(crate) fn stop(&mut self) {
        self.live = false;
    }

    /// Enters the `else` part.
    pub(crate) fn otherwise(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            frame.kind = Kind::Else;
            frame.then_live = self.live;
            self.live = frame.entered_live;
        }
    }

    /// Returns `true` if the innermost block is a loop, whose branches do not go to its `end`.
    pub(crate) fn is_loop(&self) -> bool {
        self.frames.last().is_some_and(|frame| frame.kind == Kind::Loop)
    }

    /// Returns `true` if several paths meet at the next `end`.
    pub(crate) fn is_join(&self) -> bool {
        self.frames.last().is_some_and(|frame| frame.branched || frame.is_gone_around())
    }

    /// Leaves a block at its `end`. Returns `true` if that ends the function.
    pub(crate) fn leave(&mut self) -> bool {
        if let Some(frame) = self.frames.pop() {
            self.live |= frame.branched || frame.is_gone_around();
        }
        self.frames.is_empty()
    }
}

impl Frame {
    /// Returns `true` if the other part of an `if` also reaches the end.
    fn is_gone_around(&self) -> bool {
        match self.kind {
            Kind::Block | Kind::Loop => false,
            Kind::If => self.entered_live,
            Kind::Else => self.then_live,
        }
    }
}
