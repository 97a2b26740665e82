//! The cases that the portable provider does not pass as the engine does, each with its reason. A trial fails where this table is too
//! short, and where it is too long.

use glovebox::Language;

use super::Host;
use crate::Case;

/// In what a case differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Differs {
    /// It ends otherwise than it says itself.
    Outcome,
    /// It ends as it says. Under a fixed clock and seeded entropy it is not in everything what the engine gives: a figure, or a text
    /// that the case does not look at.
    Figures,
}

/// Cases that differ for one reason.
#[derive(Debug)]
pub struct Exception {
    /// Their names; of one language where it stands before: `python/NAME`.
    pub cases: &'static [&'static str],
    /// Where.
    pub hosts: &'static [Host],
    /// In what.
    pub differs: Differs,
    /// Why, for the page.
    pub reason: &'static str,
}

/// All of them, in the order of the page.
pub const EXCEPTIONS: &[Exception] = &[
    Exception {
        cases: &[
            "deep-source",
            "nested-parentheses",
            "sort-callback-deep",
            "python/repr-recursion",
            "javascript/deep-json",
            "javascript/hostile-session-deep-value",
            "javascript/proxy-chain",
            "javascript/recursion-caught",
            "javascript/recursion-uncaught",
            "javascript/session-recursion",
        ],
        hosts: &Host::ALL,
        differs: Differs::Outcome,
        reason: "The provider counts the native stack that it takes, to fit what every host gives (512 KiB in Wasmtime), and that \
                 ends before the interpreter's own limit: the script ends as `trapped` with `stack-overflow`, where the engine, with \
                 4 MiB, lets it catch the error. The instance, and a session's last checkpoint, live on.",
    },
    Exception {
        cases: &["validate-deep-nesting"],
        hosts: &Host::ALL,
        differs: Differs::Figures,
        reason: "The same: the parser is stopped by the budget of stack, and the diagnostic says so instead of naming the \
                 interpreter's error.",
    },
    Exception {
        cases: &["tools-several-at-once", "javascript/javascript-tools-at-once", "python/tools-python-at-once"],
        hosts: &Host::ALL,
        differs: Differs::Outcome,
        reason: "A call of the component's host returns when the tool has answered: tools run one after the other, and a script \
                 that asks several at once waits for the sum of their times.",
    },
    Exception {
        cases: &[
            "tools-timeout",
            "javascript/javascript-tools-errors",
            "python/interrupt-python-time",
            "python/tools-pending-at-the-end",
            "python/tools-python-left-over",
        ],
        hosts: &Host::ALL,
        differs: Differs::Outcome,
        reason: "The same: no call can be ended before its tool has answered, nor be left unfinished; one that took too long has \
                 its time-out afterwards, and so has its script.",
    },
    Exception {
        cases: &["python/tools-python-fixed-clock"],
        hosts: &Host::ALL,
        differs: Differs::Figures,
        reason: "The same: the reply is there at once, so that the script does not look for it again and again, and takes less fuel.",
    },
    Exception {
        cases: &[
            "javascript/typescript-angle-brackets",
            "javascript/typescript-classes",
            "javascript/typescript-decorators",
            "javascript/typescript-enum",
            "javascript/typescript-import-equals",
            "javascript/typescript-instead",
            "javascript/typescript-line-of-error",
            "javascript/typescript-module",
            "javascript/typescript-module-file",
            "javascript/typescript-module-types",
            "javascript/typescript-namespace",
            "javascript/typescript-parameter-property",
            "javascript/typescript-places",
            "javascript/typescript-semicolons",
            "javascript/typescript-session",
            "javascript/typescript-types",
            "javascript/typescript-validate",
            "javascript/typescript-wrong",
        ],
        hosts: &Host::ALL,
        differs: Differs::Outcome,
        reason: "The provider has nothing that removes types: a script is JavaScript whatever its name, and types are a `SyntaxError`.",
    },
    Exception {
        cases: &["javascript/typescript-name-decides"],
        hosts: &Host::ALL,
        differs: Differs::Figures,
        reason: "The same: what needs no types removed runs, and does not pay for looking.",
    },
];

/// What is expected of a case in a host: in what it differs, if it does.
#[must_use]
pub fn expected(host: Host, case: &Case) -> Option<&'static Exception> {
    EXCEPTIONS.iter().find(|exception| exception.hosts.contains(&host) && exception.names(case.language, &case.name))
}

/// Hostile scripts that end otherwise, each at the limits of `tests/tests/cases/everywhere_hostile.rs`.
#[derive(Debug)]
pub struct HostileException {
    /// Their names.
    pub rows: &'static [&'static str],
    /// Where.
    pub hosts: &'static [Host],
    /// How they end there: an outcome, or [`INSTANCE_ENDS`].
    pub outcome: &'static str,
    /// Why, for the page.
    pub reason: &'static str,
}

/// A trap that cannot be caught: the host reports it, and whoever wants to go on makes a new instance.
pub const INSTANCE_ENDS: &str = "the instance ends";

/// All of them, in the order of the page.
pub const HOSTILE_EXCEPTIONS: &[HostileException] = &[HostileException {
    rows: &[
        "deep-javascript/array_to_string",
        "deep-javascript/arrow_spread",
        "deep-javascript/async_sync_part",
        "deep-javascript/bind",
        "deep-javascript/construct",
        "deep-javascript/eval",
        "deep-javascript/extends_chain",
        "deep-javascript/flat",
        "deep-javascript/function",
        "deep-javascript/function_constructor",
        "deep-javascript/generator",
        "deep-javascript/getter",
        "deep-javascript/instanceof_bound",
        "deep-javascript/iterator",
        "deep-javascript/json_parse",
        "deep-javascript/json_parse_object",
        "deep-javascript/json_reviver",
        "deep-javascript/json_to_json",
        "deep-javascript/map",
        "deep-javascript/module_chain",
        "deep-javascript/prepare_stack_trace",
        "deep-javascript/proxy_chain",
        "deep-javascript/proxy_prototype",
        "deep-javascript/proxy_self",
        "deep-javascript/reflect",
        "deep-javascript/regexp_class",
        "deep-javascript/regexp_lookahead",
        "deep-javascript/replace",
        "deep-javascript/setter",
        "deep-javascript/sort",
        "deep-javascript/source_blocks",
        "deep-javascript/source_else",
        "deep-javascript/source_functions",
        "deep-javascript/source_template",
        "deep-javascript/source_ternary",
        "deep-javascript/source_unary",
        "deep-javascript/structured_concat",
        "deep-javascript/to_primitive",
        "deep-javascript/to_string",
        "deep-python/add",
        "deep-python/ast_conditional",
        "deep-python/ast_dict",
        "deep-python/ast_elif",
        "deep-python/ast_fstring",
        "deep-python/ast_lambda",
        "deep-python/ast_literal",
        "deep-python/ast_not",
        "deep-python/ast_subscript",
        "deep-python/ast_unary",
        "deep-python/context_manager",
        "deep-python/descriptor",
        "deep-python/eval",
        "deep-python/exec",
        "deep-python/getattr",
        "deep-python/hash",
        "deep-python/instancecheck",
        "deep-python/iter",
        "deep-python/map",
        "deep-python/metaclass_call",
        "deep-python/method_init",
        "deep-python/new",
        "deep-python/partial",
        "deep-python/partial_chain",
        "deep-python/re_sub",
        "deep-python/reduce",
        "deep-python/sort_key",
        "deep-python/str_format",
        "deep-python/union_deep",
        "peers/brackets_javascript",
        "peers/js_error_in_catch",
        "peers/js_json_stringify_deeper",
        "peers/parentheses_190",
        "peers/parentheses_5000",
        "peers/parentheses_javascript",
    ],
    hosts: &Host::ALL,
    outcome: "trapped stack-overflow",
    reason: "The budget of native stack, which fits what every host gives, ends before the interpreter's own limit, so that the \
             script cannot catch the error. The instance answers the next call.",
}];

/// How a hostile script ends in a host, if not as its row says.
#[must_use]
pub fn expected_of_hostile(host: Host, row: &str) -> Option<&'static HostileException> {
    HOSTILE_EXCEPTIONS.iter().find(|exception| exception.hosts.contains(&host) && exception.rows.contains(&row))
}

impl Exception {
    /// Whether it is about this case.
    #[must_use]
    pub fn names(&self, language: Language, case: &str) -> bool {
        let named = |name: &&str| match name.split_once('/') {
            Some((of, name)) => of == language.name() && name == case,
            None => *name == case,
        };
        self.cases.iter().any(named)
    }
}
