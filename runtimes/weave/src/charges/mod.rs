//! Where a function charges how much: a plan that is made before anything is written.
//!
//! What is charged has to be exact only where the counter is looked at: at checks, at calls and where the function is left. A
//! function is cut into *segments* there, and wherever control goes or comes: each runs as a whole. Between two looks the
//! counter may run ahead of what was run by any amount, as long as all ways to one place agree on it: a place's *potential*. So
//! a segment charges what it costs, and the potential that it leads to, without the one that it comes from; any choice of
//! potentials charges the same along every path from look to look.
//!
//! They are chosen so that most segments charge nothing: from the function's end backwards, the potential of a label becomes
//! what the code behind it wants to have been charged already. That moves charges back along all ways to the label, up to
//! a call or check, beside which one costs next to nothing. Places share a potential where one branch decides between them: the
//! targets of a `br_table`, the two sides of an `if` and of a `br_if`. Where the counter is looked at it is zero, as
//! it is at loops and at the function's end.
//!
//! A charge may be negative: one side of an `if` is cheaper than the other. None is ever seen by a check.
//!
//! Where an exception lands ([`landings`](crate::landings)) the counter is what it was at the call, so that the potential of these labels is
//! zero too, and everything that leads there saves the counter.

#[cfg(test)]
mod tests;

use wasmparser::Operator;

use crate::{
    cost::{self, SMALL_BULK, cost},
    landings::{self, Landings},
    lengths::Constants,
    reach::{Kind, Reach},
};

/// What is written around each operator of a function.
#[derive(Debug, Default)]
pub(crate) struct Charges {
    /// What is charged at the beginning, after the check there, which [`ENTRY`](crate::cost::ENTRY) is charged before.
    pub(crate) first: i64,
    /// For every operator.
    pub(crate) steps: Vec<Step>,
    /// Something that is reached branches to the function's end.
    pub(crate) branches_out: bool,
    /// Something that is reached catches exceptions.
    pub(crate) catches: bool,
    /// Something that is reached catches whatever is thrown.
    pub(crate) catches_all: bool,
}

/// What is written around an operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Step {
    /// It can be reached; of an `else` and an `end`: what follows it can.
    pub(crate) is_live: bool,
    /// Charged before the counter is looked at here, or saved.
    pub(crate) before: i64,
    pub(crate) look: Look,
    /// Charged after that: behind an operator that calls or where ways part or meet, before one that is checked.
    pub(crate) after: i64,
    /// After this call, or where exceptions land, the counter is not needed before it is saved again.
    pub(crate) stays_saved: bool,
    /// This leads to where exceptions land: the counter is saved before it, and used on.
    pub(crate) syncs: bool,
    /// Behind this exceptions land.
    pub(crate) lands: bool,
}

/// How an operator looks at the counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Look {
    #[default]
    No,
    /// Whether anything is left.
    Check,
    /// The same after the number on top of the stack was charged.
    CheckLength,
}

/// Places that have the same potential, by number.
type Label = usize;

/// The label of all places whose potential is zero.
const EXACT: Label = 0;

/// A stretch of code that runs as a whole.
#[derive(Debug)]
struct Segment {
    cost: i64,
    /// The operator behind which it begins; none at the function's beginning.
    begin: Option<usize>,
    from: Label,
    to: Label,
    /// The operator at its end, where that looks at the counter or saves it: the segment's charge goes there.
    looked_at: Option<usize>,
    /// That operator saves the counter.
    is_saved: bool,
}

/// The labels of a block.
#[derive(Clone, Copy, Debug)]
struct Frame {
    /// What branches to it reach.
    target: Label,
    end: Label,
    /// Where the parts of an `if` begin.
    parts: Label,
    /// Both parts are there: none is nothing at all.
    has_else: bool,
    /// Exceptions land at what branches to it reach.
    is_landing: bool,
}

struct Planner {
    charges: Charges,
    landings: Landings,
    reach: Reach,
    frames: Vec<Frame>,
    /// For each label one that it is the same as: itself, or an older one.
    same: Vec<Label>,
    /// What is open goes on where nothing else is said; nothing is where nothing can be reached.
    open: Option<Segment>,
    /// Those that ended, in the order of their code.
    segments: Vec<Segment>,
}

/// The plan for a function. `grows_by_call`: `memory.grow` is replaced by a call.
pub(crate) fn charges(operators: &[Operator<'_>], lengths: &Constants, grows_by_call: bool) -> Charges {
    let mut planner = Planner::new(Landings::of(operators));
    for (place, operator) in operators.iter().enumerate() {
        planner.charges.steps.push(Step { is_live: planner.reach.is_live(), ..Step::default() });
        planner.operator(place, operator, lengths.get(&place).copied(), grows_by_call);
        if matches!(operator, Operator::Else | Operator::End) {
            planner.note_live(place);
        }
    }
    planner.finish()
}

impl Planner {
    fn new(landings: Landings) -> Self {
        let is_landing = landings.is_function;
        let function = Frame { target: EXACT, end: EXACT, parts: EXACT, has_else: false, is_landing };
        let mut planner = Self {
            charges: Charges::default(),
            landings,
            reach: Reach::new(),
            frames: vec![function],
            same: vec![EXACT],
            open: None,
            segments: Vec::new(),
        };
        planner.begin(None, EXACT);
        planner
    }

    fn operator(&mut self, place: usize, operator: &Operator<'_>, length: Option<i32>, grows_by_call: bool) {
        if let Some(open) = &mut self.open {
            open.cost += cost(operator);
        }
        match operator {
            Operator::Block { .. } => _ = self.enter(Kind::Block, place),
            Operator::TryTable { try_table } => {
                if self.reach.is_live() {
                    self.catches(&try_table.catches);
                }
                self.enter(Kind::Block, place);
            }
            Operator::Loop { .. } => {
                self.end_at(EXACT);
                let is_landing = self.enter(Kind::Loop, place).is_landing;
                self.sync(place, is_landing);
                self.land(place, is_landing);
                self.look(place, Look::Check);
                self.begin(Some(place), EXACT);
            }
            Operator::If { .. } => {
                let Frame { parts, is_landing, .. } = self.enter(Kind::If, place);
                // Without an `else`, one way goes to the end from here.
                self.sync(place, is_landing);
                self.end_at(parts);
                self.begin(Some(place), parts);
            }
            Operator::Else => self.otherwise(place),
            Operator::End => self.end(place),
            _ if self.reach.is_live() => self.live(place, operator, length, grows_by_call),
            _ => {}
        }
    }

    /// An operator that can be reached, and is not of the nesting.
    fn live(&mut self, place: usize, operator: &Operator<'_>, length: Option<i32>, grows_by_call: bool) {
        match operator {
            Operator::Br { relative_depth } => {
                let target = self.branch(place, *relative_depth);
                self.end_at(target);
                self.reach.stop();
            }
            Operator::BrIf { relative_depth } => {
                let target = self.branch(place, *relative_depth);
                self.end_at(target);
                self.begin(Some(place), target);
            }
            Operator::BrTable { targets } => {
                let shared = self.branch(place, targets.default());
                // That they can be read was seen when the operators were.
                for target in targets.targets().flatten() {
                    let target = self.branch(place, target);
                    self.share(shared, target);
                }
                self.end_at(shared);
                self.reach.stop();
            }
            Operator::Return
            | Operator::Unreachable
            | Operator::Throw { .. }
            | Operator::ThrowRef
            | Operator::ReturnCall { .. }
            | Operator::ReturnCallIndirect { .. } => {
                self.end_looked_at(place, true);
                self.reach.stop();
            }
            Operator::Call { .. } | Operator::CallIndirect { .. } => {
                self.end_looked_at(place, true);
                self.begin(Some(place), EXACT);
            }
            Operator::MemoryGrow { .. } => {
                // Pages are free, but the check is not left out where their number is not known.
                let is_checked = length.is_none();
                if is_checked {
                    self.look(place, Look::Check);
                }
                if is_checked || grows_by_call {
                    self.end_looked_at(place, !is_checked);
                    self.begin(Some(place), EXACT);
                }
            }
            _ if cost::is_bulk(operator) => self.bulk(place, length),
            _ => {}
        }
    }

    fn bulk(&mut self, place: usize, length: Option<i32>) {
        let length = length.map(|length| i64::from(length.cast_unsigned()));
        if let Some(open) = &mut self.open {
            open.cost += length.unwrap_or(0);
        }
        self.look(
            place,
            match length {
                Some(length) if length <= SMALL_BULK => return,
                Some(_) => Look::Check,
                None => Look::CheckLength,
            },
        );
        self.end_looked_at(place, false);
        self.begin(Some(place), EXACT);
    }

    /// Something catches exceptions that is reached: they may come to these labels, whatever is in it.
    fn catches(&mut self, catches: &[wasmparser::Catch]) {
        self.charges.catches |= !catches.is_empty();
        self.charges.catches_all |= catches.iter().any(landings::catches_all);
        for catch in catches {
            self.reached(landings::label(catch));
        }
    }

    /// Enters a block.
    fn enter(&mut self, kind: Kind, place: usize) -> Frame {
        let is_landing = self.landings.is_at(place);
        let (end, parts) = (self.label(), self.label());
        let target = if kind == Kind::Loop { EXACT } else { end };
        if is_landing {
            self.share(EXACT, target);
        }
        let frame = Frame { target, end, parts, has_else: false, is_landing };
        self.frames.push(frame);
        self.reach.enter(kind);
        frame
    }

    fn otherwise(&mut self, place: usize) {
        let Some(frame) = self.frames.last_mut() else { return };
        frame.has_else = true;
        let Frame { end, parts, is_landing, .. } = *frame;
        self.sync(place, is_landing);
        self.end_at(end);
        self.reach.otherwise();
        self.begin(Some(place), parts);
    }

    fn end(&mut self, place: usize) {
        let Some(frame) = self.frames.pop() else { return };
        if !frame.has_else {
            self.share(frame.end, frame.parts);
        }
        let lands = frame.is_landing && self.reach.is_join();
        if !self.reach.is_loop() {
            self.sync(place, lands);
            self.land(place, lands);
        }
        if !self.frames.is_empty() {
            // Where only what comes before leads here, it goes on.
            if self.reach.is_join() {
                self.end_at(frame.end);
            }
            self.reach.leave();
            if self.open.is_none() {
                self.begin(Some(place), frame.end);
            }
        } else {
            if self.charges.branches_out {
                self.end_at(EXACT);
            } else {
                self.end_looked_at(place, true);
            }
            self.reach.leave();
        }
    }

    /// Something that is reached branches, perhaps, and this is the label.
    fn branch(&mut self, place: usize, relative_depth: u32) -> Label {
        let frame = self.reached(relative_depth);
        self.sync(place, frame.is_some_and(|frame| frame.is_landing));
        frame.map_or(EXACT, |frame| frame.target)
    }

    /// The frame whose label something reaches that is reached itself.
    fn reached(&mut self, relative_depth: u32) -> Option<Frame> {
        self.reach.branch(relative_depth);
        let depth = usize::try_from(relative_depth).unwrap_or(usize::MAX);
        self.charges.branches_out |= depth.saturating_add(1) == self.frames.len();
        self.frames.iter().nth_back(depth).copied()
    }

    fn note_live(&mut self, place: usize) {
        let is_live = self.reach.is_live();
        if let Some(step) = self.charges.steps.get_mut(place) {
            step.is_live = is_live;
        }
    }

    /// The operator at this place leads to where exceptions land, if it is reached.
    fn sync(&mut self, place: usize, is_landing: bool) {
        let is_live = self.reach.is_live();
        if let Some(step) = self.charges.steps.get_mut(place) {
            step.syncs |= is_landing && is_live;
        }
    }

    fn land(&mut self, place: usize, is_landing: bool) {
        if let Some(step) = self.charges.steps.get_mut(place) {
            step.lands |= is_landing;
        }
    }

    fn look(&mut self, place: usize, look: Look) {
        if self.reach.is_live()
            && let Some(step) = self.charges.steps.get_mut(place)
        {
            step.look = look;
        }
    }

    /// A segment begins here, if here can be reached.
    fn begin(&mut self, begin: Option<usize>, from: Label) {
        let segment = Segment { cost: 0, begin, from, to: EXACT, looked_at: None, is_saved: false };
        self.open = self.reach.is_live().then_some(segment);
    }

    /// The open segment ends at a label.
    fn end_at(&mut self, to: Label) {
        self.segments.extend(self.open.take().map(|open| Segment { to, ..open }));
    }

    /// The open segment ends at an operator that looks at the counter.
    fn end_looked_at(&mut self, place: usize, is_saved: bool) {
        let ended = self.open.take().map(|open| Segment { looked_at: Some(place), is_saved, ..open });
        self.segments.extend(ended);
    }

    fn label(&mut self) -> Label {
        let label = self.same.len();
        self.same.push(label);
        label
    }

    /// The oldest label that is the same. Each that is passed is brought nearer to it, so that no chain is followed often.
    fn oldest(&mut self, mut label: Label) -> Label {
        loop {
            let next = self.same.get(label).copied().unwrap_or(label);
            if next == label {
                return label;
            }
            let after = self.same.get(next).copied().unwrap_or(next);
            if let Some(same) = self.same.get_mut(label) {
                *same = after;
            }
            label = after;
        }
    }

    /// Both labels have the same potential from now on. The oldest stays, so that none takes the place of [`EXACT`].
    fn share(&mut self, one: Label, other: Label) {
        let (one, other) = (self.oldest(one), self.oldest(other));
        if let Some(same) = self.same.get_mut(one.max(other)) {
            *same = one.min(other);
        }
    }

    /// Chooses the potentials, backwards, and says what they make each segment charge.
    fn finish(mut self) -> Charges {
        let mut potentials: Vec<Option<i64>> = vec![None; self.same.len()];
        if let Some(exact) = potentials.get_mut(EXACT) {
            *exact = Some(0);
        }
        for segment in std::mem::take(&mut self.segments).into_iter().rev() {
            let mut potential = |label: Label, wanted: i64| {
                potentials.get_mut(self.oldest(label)).map_or(0, |potential| *potential.get_or_insert(wanted))
            };
            let ahead = potential(segment.to, 0) + segment.cost;
            let charge = ahead - potential(segment.from, ahead);
            self.charges.place(&segment, charge);
        }
        self.charges
    }
}

impl Charges {
    /// A segment's charge goes where it is cheapest: to what looks at the counter at its end, or else to its beginning.
    fn place(&mut self, segment: &Segment, charge: i64) {
        if let Some(begin) = segment.begin.and_then(|begin| self.steps.get_mut(begin)) {
            begin.stays_saved = segment.is_saved;
        }
        if let Some(end) = segment.looked_at.and_then(|end| self.steps.get_mut(end)) {
            end.before = charge;
        } else if let Some(begin) = segment.begin.and_then(|begin| self.steps.get_mut(begin)) {
            begin.after = charge;
        } else {
            self.first = charge;
        }
    }
}
