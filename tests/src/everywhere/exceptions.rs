//! The cases in which the portable provider differs from the engine, and the reasons. A trial fails if an entry is
//! missing from this table or superfluous.

use glovebox::Language;

use super::Host;
use crate::Case;

/// The kind of difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DifferenceKind {
    /// The outcome differs from the expected outcome.
    Outcome,
    /// The outcome is as expected. But under a fixed clock and seeded entropy, a number or a string that the case does
    /// not check differs from the engine's.
    Details,
}

/// Cases that differ for the same reason.
#[derive(Debug)]
pub struct Exception {
    /// The case names; a name with the prefix of a language, `python/NAME`, applies only to that language.
    pub cases: &'static [&'static str],
    /// The hosts in which the cases differ.
    pub hosts: &'static [Host],
    /// The kind of difference.
    pub differs: DifferenceKind,
    /// `true` if only version 0.2.0 of the provider differs, because its tool calls block.
    pub only_blocking: bool,
    /// The reason, for the generated page.
    pub reason: &'static str,
}

/// Recursion that exhausts the native stack budget before it reaches the interpreter's own limit.
const STACK_EXCEPTION: Exception = Exception {
    cases: &[
        "deep-source",
        "nested-parentheses",
        "recursion-depths",
        "sort-callback-deep",
        "python/repr-recursion",
        "javascript/callee-names-hostile",
        "javascript/deep-json",
        "javascript/hostile-session-deep-value",
        "javascript/proxy-chain",
        "javascript/recursion-caught",
        "javascript/recursion-uncaught",
        "javascript/session-recursion",
    ],
    hosts: &Host::ALL,
    differs: DifferenceKind::Outcome,
    only_blocking: false,
    reason: "The provider limits its native stack to a budget that fits into 512 KiB, the smallest stack of any host \
             (Wasmtime). The script exhausts this budget before it reaches the interpreter's own limit, and ends as \
             `trapped` with `stack-overflow`. In the engine, whose stack is 4 MiB, the script can catch the error. The \
             instance and the session's last checkpoint survive.",
};

/// All exceptions, in the order of the generated page.
pub const EXCEPTIONS: &[Exception] = &[
    STACK_EXCEPTION,
    Exception {
        cases: &["validate-deep-nesting"],
        hosts: &Host::ALL,
        differs: DifferenceKind::Details,
        only_blocking: false,
        reason: "As above: the parser exhausts the native stack budget, and the diagnostic reports that instead of \
                 the interpreter's error.",
    },
    Exception {
        cases: &[
            "tools-concurrent-calls",
            "javascript/javascript-tools-concurrent-calls",
            "python/tools-python-concurrent-calls",
        ],
        hosts: &Host::ALL,
        differs: DifferenceKind::Outcome,
        only_blocking: true,
        reason: "A tool call blocks until the tool has answered. Tools therefore run one after the other, and a \
                 script with several concurrent calls waits for the sum of their durations.",
    },
    Exception {
        cases: &[
            "tools-timeout",
            "javascript/javascript-tools-errors",
            "python/interrupt-python-time",
            "python/tools-pending-at-the-end",
            "python/tools-python-pending-in-next-execution",
        ],
        hosts: &Host::ALL,
        differs: DifferenceKind::Outcome,
        only_blocking: true,
        reason: "As above: a call cannot end before its tool has answered. The timeout of a slow call, and that of \
                 its script, take effect only afterwards.",
    },
    Exception {
        cases: &["python/tools-python-fixed-clock"],
        hosts: &Host::ALL,
        differs: DifferenceKind::Details,
        only_blocking: true,
        reason: "A tool call blocks until the tool has answered. The reply is then available immediately, so the \
                 script does not poll for it and uses less fuel.",
    },
    Exception {
        cases: &[
            "javascript/typescript-alternatives",
            "javascript/typescript-angle-brackets",
            "javascript/typescript-classes",
            "javascript/typescript-decorators",
            "javascript/typescript-enum",
            "javascript/typescript-error-positions",
            "javascript/typescript-import-equals",
            "javascript/typescript-line-of-error",
            "javascript/typescript-module",
            "javascript/typescript-module-file",
            "javascript/typescript-module-types",
            "javascript/typescript-namespace",
            "javascript/typescript-parameter-property",
            "javascript/typescript-semicolons",
            "javascript/typescript-session",
            "javascript/typescript-syntax-error",
            "javascript/typescript-types",
            "javascript/typescript-validate",
        ],
        hosts: &Host::ALL,
        differs: DifferenceKind::Outcome,
        only_blocking: false,
        reason: "The provider cannot strip TypeScript types. It runs every script as JavaScript, where types are a \
                 `SyntaxError`.",
    },
    Exception {
        cases: &["python/session-seeded-generators"],
        hosts: &Host::ALL,
        differs: DifferenceKind::Outcome,
        only_blocking: false,
        reason: "The provider's random numbers are always seeded, and seeded numbers continue in a resumed session. \
                 With the engine's default, the host's entropy, a resumed session draws new numbers.",
    },
    Exception {
        cases: &["javascript/import-computed-builtin"],
        hosts: &Host::ALL,
        differs: DifferenceKind::Outcome,
        only_blocking: false,
        reason: "The provider loads only Node modules whose names appear in the script. A computed name is not known \
                 in advance.",
    },
    Exception {
        cases: &["javascript/typescript-depends-on-file-name"],
        hosts: &Host::ALL,
        differs: DifferenceKind::Details,
        only_blocking: false,
        reason: "The provider does not look for TypeScript types. A script without types runs, and uses no fuel for \
                 the search.",
    },
];

/// Returns the expected difference of a case in a host.
pub fn expected(host: Host, case: &Case) -> Option<&'static Exception> {
    EXCEPTIONS.iter().find(|exception| exception.hosts.contains(&host) && exception.names(case.language, &case.name))
}

/// Returns the expected difference of a case on version 0.3.0 of the provider in a host.
#[must_use]
pub fn expected_of_concurrent(host: Host, case: &Case) -> Option<&'static Exception> {
    expected(host, case).filter(|exception| !exception.only_blocking)
}

/// The stack exception for Python 3.15. Its cases differ from those of Python 3.12, because this interpreter is
/// optimized. A level of C recursion uses little of the stack that the interpreter measures. The interpreter therefore
/// allows more levels than fit into the budget.
static LARGE_STACK_EXCEPTION: Exception = Exception {
    cases: &[
        "deep-json",
        "deep-source",
        "hostile-session-deep-value",
        "nested-parentheses",
        "recursion-caught",
        "recursion-depths",
        "recursion-uncaught",
        "repr-recursion",
        "session-recursion",
        "sort-callback-deep",
    ],
    ..STACK_EXCEPTION
};

/// Returns the exception for a case on Python 3.15.
pub fn expected_of_large(host: Host, case: &Case) -> Option<&'static Exception> {
    if LARGE_STACK_EXCEPTION.names(case.language, &case.name) {
        return Some(&LARGE_STACK_EXCEPTION);
    }
    expected(host, case).filter(|exception| exception.reason != STACK_EXCEPTION.reason)
}

/// Hostile scripts with a different outcome, at the limits of `tests/tests/cases/everywhere_hostile.rs`.
#[derive(Debug)]
pub struct HostileException {
    /// The row names.
    pub rows: &'static [&'static str],
    /// The hosts with this outcome.
    pub hosts: &'static [Host],
    /// The outcome in these hosts, or [`INSTANCE_ENDS`].
    pub outcome: &'static str,
    /// The reason, for the generated page.
    pub reason: &'static str,
}

/// A trap that cannot be caught. The host reports it, and the caller must create a new instance.
pub const INSTANCE_ENDS: &str = "the instance ends";

/// All exceptions for hostile scripts, in the order of the generated page.
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
    reason: "The script exhausts the native stack budget, which fits every host, before it reaches the interpreter's \
             own limit, and cannot catch the error. The instance answers the next call.",
}];

/// Returns the exception for a hostile script in a host, if its outcome differs from its row.
pub fn expected_of_hostile(host: Host, row: &str) -> Option<&'static HostileException> {
    HOSTILE_EXCEPTIONS.iter().find(|exception| exception.hosts.contains(&host) && exception.rows.contains(&row))
}

impl Exception {
    /// Returns `true` if the exception applies to this case.
    pub fn names(&self, language: Language, case: &str) -> bool {
        let named = |name: &&str| match name.split_once('/') {
            Some((of, name)) => of == language.name() && name == case,
            None => *name == case,
        };
        self.cases.iter().any(named)
    }
}
