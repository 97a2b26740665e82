//! State of the analysis of one function.

use crate::{
    module::Module,
    values::{Block, Value, Values, Variable},
};

pub(super) struct Reader<'m> {
    pub(super) module: &'m Module<'m>,
    pub(super) imported_globals: usize,
    pub(super) values: Values,
    pub(super) variables: Variable,
    pub(super) at: Block,
    pub(super) is_live: bool,
    pub(super) stack: Vec<Value>,
    pub(super) frames: Vec<Frame>,
    /// Handlers of the exceptions that a call may throw at the current position.
    pub(super) handlers: Vec<Block>,
}

/// An open block, with the data that `else` and `end` need.
pub(super) struct Frame {
    pub(super) kind: Kind,
    /// The block after the end, and the variables that it receives.
    pub(super) next: Block,
    pub(super) results: Vec<Variable>,
    /// Height of the operand stack below the block's parameters.
    pub(super) height: usize,
    pub(super) entered_live: bool,
    pub(super) branched: bool,
}

pub(super) enum Kind {
    Block,
    /// A `try_table` inside `around` handlers.
    Try {
        around: usize,
    },
    /// Branches go to the header.
    Loop {
        header: Block,
        params: Vec<Variable>,
    },
    If {
        /// The block that tests the condition.
        head: Block,
        /// Block for a false condition. `None` if parameters and results have equal types: `else` is optional then, and
        /// a false condition leads to the end until it appears.
        otherwise: Option<Block>,
        params: Vec<Value>,
    },
    Else {
        then_live: bool,
    },
}

impl Frame {
    /// Returns the block that branches go to, and the variables that they carry.
    pub(super) fn target(&self) -> (Block, &[Variable]) {
        match &self.kind {
            Kind::Loop { header, params } => (*header, params),
            _ => (self.next, &self.results),
        }
    }
}
