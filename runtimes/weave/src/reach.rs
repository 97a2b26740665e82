//! Which operators of a function can be reached, by Wasmtime's reckoning: what cannot costs nothing.

/// What a label belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A block, or the function itself.
    Block,
    /// A loop: branches go to its beginning.
    Loop,
    /// An `if` whose `else` has not come, or never comes.
    If,
    /// An `if` after its `else`.
    Else,
}

#[derive(Debug)]
struct Frame {
    kind: Kind,
    entered_live: bool,
    /// Whether the part before `else` ran to its end.
    then_live: bool,
    /// Whether anything that is reached branches to the end.
    branched: bool,
}

/// Follows a function's operators.
#[derive(Debug)]
pub(crate) struct Reach {
    frames: Vec<Frame>,
    live: bool,
}

impl Reach {
    /// At a function's beginning.
    pub(crate) fn new() -> Self {
        let mut reach = Self { frames: Vec::new(), live: true };
        reach.enter(Kind::Block);
        reach
    }

    /// Whether the next operator can be reached.
    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    /// A block, loop or `if` begins.
    pub(crate) fn enter(&mut self, kind: Kind) {
        self.frames.push(Frame { kind, entered_live: self.live, then_live: false, branched: false });
    }

    /// Something that is reached branches, perhaps.
    pub(crate) fn branch(&mut self, relative_depth: u32) {
        let depth = usize::try_from(relative_depth).unwrap_or(usize::MAX);
        if let Some(target) = self.frames.iter_mut().nth_back(depth)
            && target.kind != Kind::Loop
        {
            target.branched = true;
        }
    }

    /// Nothing goes on from here.
    pub(crate) fn stop(&mut self) {
        self.live = false;
    }

    /// At `else`.
    pub(crate) fn otherwise(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            frame.kind = Kind::Else;
            frame.then_live = self.live;
            self.live = frame.entered_live;
        }
    }

    /// Whether the innermost block is a loop: branches to it do not go to its `end`.
    pub(crate) fn is_loop(&self) -> bool {
        self.frames.last().is_some_and(|frame| frame.kind == Kind::Loop)
    }

    /// Whether several ways meet at the `end` that comes now.
    pub(crate) fn is_join(&self) -> bool {
        self.frames.last().is_some_and(|frame| frame.branched || frame.is_gone_around())
    }

    /// At `end`. Whether it is the function's own.
    pub(crate) fn leave(&mut self) -> bool {
        if let Some(frame) = self.frames.pop() {
            self.live |= frame.branched || frame.is_gone_around();
        }
        self.frames.is_empty()
    }
}

impl Frame {
    /// Whether the end is also reached by the other part of an `if`.
    fn is_gone_around(&self) -> bool {
        match self.kind {
            Kind::Block | Kind::Loop => false,
            Kind::If => self.entered_live,
            Kind::Else => self.then_live,
        }
    }
}
