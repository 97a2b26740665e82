//! Hostile scripts, each with its exact outcome, in a process of its own whose memory is measured.
//!
//! The first part is what brought other sandboxes down (`shared/design/peers.md`), the second every way to recurse that
//! the languages offer. An abort, a hang or a host that grows is a failure, and so is any outcome but the one named.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test program: a panic is a failed test"
)]

use std::{process::ExitCode, time::Duration};

use glovebox::{Language, Sandbox};
use glovebox_tests::{process, sandbox, short};
use libtest_mimic::{Arguments, Failed, Trial};

use Language::{JavaScript, Python};

const MIB: u64 = 1 << 20;
/// What the scripts of the first part are given: two seconds, 64 MiB, more fuel than two seconds can burn.
const TIMEOUT_MS: u64 = 2_000;
/// Those of the second part end by themselves, and not sooner on a busy machine.
const DEEP_TIMEOUT_MS: u64 = 20_000;
const MEMORY_BYTES: u64 = 64 * MIB;
/// What the host may grow by beside the guest's own memory: a pool slot's page tables, stacks, this program's buffers.
const SLACK_BYTES: u64 = 48 * MIB;

struct Row {
    name: &'static str,
    language: Language,
    source: &'static str,
    outcome: &'static str,
    /// What standard output holds, at least.
    stdout: &'static str,
}

const fn row(
    name: &'static str,
    language: Language,
    source: &'static str,
    outcome: &'static str,
    stdout: &'static str,
) -> Row {
    Row { name, language, source, outcome, stdout }
}

/// What was tried on the peers.
const PEERS: &[Row] = &[
    row(
        "parentheses_5000",
        Python,
        "eval(compile('(' * 5000 + '1' + ')' * 5000, 'x', 'eval'))",
        "raised MemoryError",
        "",
    ),
    row("parentheses_190", Python, "eval('(' * 190 + '1' + ')' * 190)", "raised MemoryError", ""),
    row("parentheses_javascript", JavaScript, "eval('('.repeat(1e6) + '1' + ')'.repeat(1e6))", "raised RangeError", ""),
    row("brackets_javascript", JavaScript, "eval('['.repeat(1e6))", "raised RangeError", ""),
    row("repeat", JavaScript, "'a'.repeat(1e9).length", "exhausted memory", ""),
    row("repeat_python", Python, "len('a' * 10**9)", "exhausted memory", ""),
    row("array_buffer", JavaScript, "new ArrayBuffer(1e9)", "exhausted memory", ""),
    row(
        "array_buffers",
        JavaScript,
        "const all = []; for (;;) all.push(new ArrayBuffer(1 << 20))",
        "exhausted memory",
        "",
    ),
    row("string_doubling", JavaScript, "let s = 'x'; for (;;) { s += s; s.charCodeAt(1); }", "exhausted memory", ""),
    row("string_doubling_python", Python, "s = 'x'\nwhile True: s += s", "exhausted memory", ""),
    row("list_bomb", Python, "x = [0]\nwhile True: x = x * 2", "exhausted memory", ""),
    row("dict_bomb", Python, "d = {}\nfor i in range(10**9): d[i] = i", "exhausted memory", ""),
    row("array_join", JavaScript, "Array(1e9) + ''", "exhausted time", ""),
    row("array_fill", JavaScript, "new Array(1e9).fill(0)", "exhausted memory", ""),
    row("regular_expression", JavaScript, "/^(a+)+$/.test('a'.repeat(50) + 'b')", "exhausted time", ""),
    row("regular_expression_python", Python, "import re; re.match('(a+)+$', 'a' * 50 + 'b')", "exhausted time", ""),
    row("big_power", Python, "x = 3 ** 10**9", "exhausted time", ""),
    row("big_power_javascript", JavaScript, "3n ** (10n ** 9n)", "raised RangeError", ""),
    row(
        "output_200_mb",
        Python,
        "import sys\ns = 'x' * 10**6\nfor _ in range(200): sys.stdout.write(s)",
        "completed",
        "xxx",
    ),
    row(
        "output_200_mb_javascript",
        JavaScript,
        "const s = 'x'.repeat(1e6); for (let i = 0; i < 200; i++) std.out.puts(s)",
        "completed",
        "xxx",
    ),
    row(
        "error_output_200_mb",
        Python,
        "import sys\ns = 'x' * 10**6\nfor _ in range(200): sys.stderr.write(s)",
        "completed",
        "",
    ),
    row("sleep", Python, "import time; time.sleep(30)", "exhausted time", ""),
    row("sleep_javascript", JavaScript, "os.sleep(30000)", "exhausted time", ""),
    row("timer", JavaScript, "setTimeout(() => 0, 30000)", "exhausted time", ""),
    row(
        "files",
        Python,
        "i = 0\nwhile True:\n    open(f'f{i}', 'w').write('x' * 4096)\n    i += 1",
        "raised OSError",
        "",
    ),
    row("one_big_file", Python, "f = open('f', 'wb')\nwhile True: f.write(b'x' * 65536)", "raised OSError", ""),
    row("sparse_file", Python, "open('f', 'wb').truncate(1 << 40)", "raised OSError", ""),
    row("directories", Python, "import os\nwhile True:\n    os.mkdir('d'); os.chdir('d')", "raised OSError", ""),
    row("generator_endless", Python, "print(sum(1 for _ in iter(int, 1)))", "exhausted time", ""),
    row("microtasks_endless", JavaScript, "const f = () => Promise.resolve().then(f); f()", "exhausted memory", ""),
    row("timers_endless", JavaScript, "const f = () => setTimeout(f, 0); f()", "exhausted time", ""),
    row(
        "microtasks_without_end",
        JavaScript,
        "const f = () => { Promise.resolve().then(f) }; f()",
        "exhausted time",
        "",
    ),
    row(
        "exit_prevented",
        Python,
        "import sys\nwhile True:\n    try: sys.exit(1)\n    except BaseException: pass",
        "exhausted time",
        "",
    ),
    row("exit_handlers_endless", Python, "import atexit, time\natexit.register(time.sleep, 60)", "exhausted time", ""),
    row(
        "destructor_endless",
        Python,
        "class D:\n    def __del__(self):\n        while True: pass\nd = D()\ndel d",
        "exhausted time",
        "",
    ),
    row(
        "memory_error_handled_for_ever",
        Python,
        "while True:\n    try: x = 'a' * 10**9\n    except MemoryError: pass",
        "exhausted time",
        "",
    ),
    row(
        "getter_on_error",
        JavaScript,
        "const e = new Error('x'); Object.defineProperty(e, 'message', { get() { for (;;); } }); throw e",
        "exhausted time",
        "",
    ),
    row(
        "str_of_error_endless",
        Python,
        "class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E",
        "exhausted time",
        "",
    ),
    row("getter_on_console", JavaScript, "console.log({ get a() { for (;;); } })", "completed", "[Getter]"),
    row(
        "console_wide",
        JavaScript,
        "console.log(new Array(1e6).fill({ a: { b: { c: [1, 2, 3] } } }))",
        "completed",
        "",
    ),
    row(
        "console_deep",
        JavaScript,
        "let o = {}; for (let i = 0; i < 1e5; i++) o = { o }; console.log(o)",
        "completed",
        "",
    ),
    row(
        "js_json_stringify_deeper",
        JavaScript,
        "let o = {}; for (let i = 0; i < 1e5; i++) o = { o }; JSON.stringify(o)",
        "exhausted time",
        "",
    ),
    row("js_thenable", JavaScript, "const t = { then(r) { r(t) } }; Promise.resolve(t)", "exhausted time", ""),
    row("js_error_in_catch", JavaScript, "function f() { try { f() } finally { f() } } f()", "exhausted time", ""),
];

/// Prints the exception that `call` ends in.
macro_rules! caught {
    (py: $setup:literal, $call:literal) => {
        concat!("import sys\n", $setup, "\ntry:\n    ", $call, "\n    print('through')\nexcept Exception as e:\n    print(type(e).__name__)\nprint('alive', sum(range(10)))")
    };
    (js: $setup:literal, $call:literal) => {
        concat!($setup, ";\ntry { ", $call, "; console.log('through') } catch (e) { console.log(e.name) }\nconsole.log('alive', [1, 2, 3].map((x) => x * 2).join())")
    };
}

/// Every way to go deep. What is caught leaves a language that works.
const DEEP: &[Row] = &[
    row("py_function", Python, caught!(py: "def f(): f()", "f()"), "completed", "RecursionError\nalive"),
    row(
        "py_method_init",
        Python,
        caught!(py: "class A:\n    def __init__(self): A()", "A()"),
        "completed",
        "RecursionError\nalive",
    ),
    row(
        "py_new",
        Python,
        caught!(py: "class A:\n    def __new__(cls): return A()", "A()"),
        "completed",
        "RecursionError\nalive",
    ),
    row(
        "py_metaclass_call",
        Python,
        caught!(py: "class M(type):\n    def __call__(cls): return cls()\nclass A(metaclass=M): ...", "A()"),
        "completed",
        "RecursionError\nalive",
    ),
    row(
        "py_getattr",
        Python,
        caught!(py: "class A:\n    def __getattr__(self, n): return getattr(self, n + 'x')", "A().a"),
        "completed",
        "RecursionError\nalive",
    ),
    row(
        "py_getitem",
        Python,
        caught!(py: "class A:\n    def __getitem__(self, n): return self[n + 1]", "A()[0]"),
        "completed",
        "RecursionError\nalive",
    ),
    row(
        "py_eq",
        Python,
        caught!(py: "class A:\n    def __eq__(self, o): return o == self", "A() == A()"),
        "completed",
        "RecursionError\nalive",
    ),
    row(
        "py_add",
        Python,
        caught!(py: "class A:\n    def __add__(self, o): return self + o", "A() + A()"),
        "completed",
        "RecursionError\nalive",
    ),
    row(
        "py_repr",
        Python,
        caught!(py: "class A:\n    def __repr__(self): return repr(self)", "repr(A())"),
        "completed",
        "RecursionError\nalive",
    ),
    row(
        "py_str_format",
        Python,
        caught!(py: "class A:\n    def __format__(self, s): return f'{self}'", "format(A())"),
        "completed",
        "RecursionError\nalive",
    ),
    row(
        "py_hash",
        Python,
        caught!(py: "class A:\n    def __hash__(self): return hash((self,))", "hash(A())"),
        "completed",
        "RecursionError\nalive",
    ),
    row(
        "py_iter",
        Python,
        caught!(py: "class A:\n    def __iter__(self): return iter(list(self))", "list(A())"),
        "completed",
        "RecursionError\nalive",
    ),
    row(
        "py_property",
        Python,
        caught!(py: "class A:\n    @property\n    def p(self): return self.p", "A().p"),
        "completed",
        "RecursionError\nalive",
    ),
    row(
        "py_descriptor",
        Python,
        caught!(py: "class D:\n    def __get__(self, o, t): return o.d\nclass A:\n    d = D()", "A().d"),
        "completed",
        "RecursionError\nalive",
    ),
    row(
        "py_context_manager",
        Python,
        caught!(py: "class C:\n    def __enter__(self):\n        with self: pass\n    def __exit__(self, *a): pass", "C().__enter__()"),
        "completed",
        "RecursionError\nalive",
    ),
    row(
        "py_sort_key",
        Python,
        caught!(py: "def f(x): return sorted([1, 2], key=f)", "f(1)"),
        "completed",
        "RecursionError\nalive",
    ),
    row(
        "py_map",
        Python,
        caught!(py: "def f(x): return list(map(f, [x]))", "f(1)"),
        "completed",
        "RecursionError\nalive",
    ),
    row(
        "py_reduce",
        Python,
        caught!(py: "from functools import reduce\ndef f(a, b): return reduce(f, [a, b])", "f(1, 2)"),
        "completed",
        "RecursionError\nalive",
    ),
    row(
        "py_partial",
        Python,
        caught!(py: "from functools import partial\np = print\nfor _ in range(20000): p = partial(lambda g: g(), p)", "p()"),
        "completed",
        "RecursionError\nalive",
    ),
    row(
        "py_generator",
        Python,
        caught!(py: "def g(): yield from g()", "next(g())"),
        "completed",
        "RecursionError\nalive",
    ),
    row(
        "py_comprehension",
        Python,
        caught!(py: "f = lambda: [f() for _ in range(1)]", "f()"),
        "completed",
        "RecursionError\nalive",
    ),
    row(
        "py_re_sub",
        Python,
        caught!(py: "import re\ndef f(m): return re.sub('a', f, 'a')", "f(1)"),
        "completed",
        "RecursionError\nalive",
    ),
    row("py_eval", Python, caught!(py: "s = 'eval(s)'", "eval(s)"), "completed", "RecursionError\nalive"),
    row("py_exec", Python, caught!(py: "s = 'exec(s)'", "exec(s)"), "completed", "RecursionError\nalive"),
    row(
        "py_import_hook",
        Python,
        caught!(py: "import builtins\nreal = builtins.__import__\nbuiltins.__import__ = lambda *a, **k: builtins.__import__(*a, **k)", "import json"),
        "completed",
        "RecursionError",
    ),
    row(
        "py_json_deep",
        Python,
        caught!(py: "import json", "json.loads('[' * 100000)"),
        "completed",
        "RecursionError\nalive",
    ),
    row(
        "py_json_dump_deep",
        Python,
        caught!(py: "import json\nx = []\nfor _ in range(100000): x = [x]", "json.dumps(x)"),
        "completed",
        "RecursionError\nalive",
    ),
    row(
        "py_repr_deep",
        Python,
        caught!(py: "x = []\nfor _ in range(100000): x = [x]", "repr(x)"),
        "completed",
        "RecursionError\nalive",
    ),
    row(
        "py_repr_deep_dict",
        Python,
        caught!(py: "x = {}\nfor _ in range(100000): x = {1: x}", "repr(x)"),
        "completed",
        "RecursionError\nalive",
    ),
    row(
        "py_compare_deep",
        Python,
        caught!(py: "x = []; y = []\nfor _ in range(100000): x = [x]; y = [y]", "x == y"),
        "completed",
        "RecursionError\nalive",
    ),
    row(
        "py_hash_deep",
        Python,
        caught!(py: "x = ()\nfor _ in range(100000): x = (x,)", "hash(x)"),
        "trapped stack-overflow",
        "",
    ),
    row(
        "py_deepcopy",
        Python,
        caught!(py: "import copy\nx = []\nfor _ in range(100000): x = [x]", "copy.deepcopy(x)"),
        "completed",
        "RecursionError\nalive",
    ),
    row(
        "py_pickle_deep",
        Python,
        caught!(py: "import pickle\nx = []\nfor _ in range(100000): x = [x]", "pickle.dumps(x)"),
        "completed",
        "RecursionError\nalive",
    ),
    row(
        "py_marshal_deep",
        Python,
        caught!(py: "import marshal\nx = []\nfor _ in range(100000): x = [x]", "marshal.dumps(x)"),
        "completed",
        "ValueError\nalive",
    ),
    row(
        "py_marshal_load_deep",
        Python,
        caught!(py: "import marshal", "marshal.loads(b'[\\x01\\0\\0\\0' * 100000 + b'N')"),
        "completed",
        "ValueError\nalive",
    ),
    row(
        "py_free_deep_list",
        Python,
        "x = []\nfor _ in range(300000): x = [x]\ndel x\nprint('freed')",
        "completed",
        "freed",
    ),
    row(
        "py_free_deep_dict",
        Python,
        "x = {}\nfor _ in range(100000): x = {1: x}\ndel x\nprint('freed')",
        "completed",
        "freed",
    ),
    row(
        "py_free_linked_objects",
        Python,
        "class N:\n    pass\nx = None\nfor _ in range(100000):\n    n = N(); n.next = x; x = n\ndel x, n\nprint('freed')",
        "completed",
        "freed",
    ),
    row(
        "py_free_generators",
        Python,
        "def g(x):\n    yield x\nx = None\nfor _ in range(20000):\n    x = g(x); next(x)\ndel x\nprint('freed')",
        "completed",
        "freed",
    ),
    row(
        "py_free_tracebacks",
        Python,
        "e = None\nfor _ in range(20000):\n    try:\n        raise ValueError from e\n    except ValueError as f:\n        e = f\ndel e\nprint('freed')",
        "completed",
        "freed",
    ),
    row(
        "py_chain_of_maps",
        Python,
        caught!(py: "def make(n):\n    x = iter([1])\n    for _ in range(n): x = map(abs, x)\n    return x\nx = make(160000)", "next(x)"),
        "trapped stack-overflow",
        "",
    ),
    row(
        "py_chain_of_chains",
        Python,
        caught!(py: "import itertools\ndef make(n):\n    x = iter([1])\n    for _ in range(n): x = itertools.chain(x)\n    return x\nx = make(160000)", "next(x)"),
        "trapped stack-overflow",
        "",
    ),
    row("py_ast_unary", Python, caught!(py: "", "eval('-' * 100000 + '1')"), "completed", "alive"),
    row("py_ast_attribute", Python, caught!(py: "", "compile('a' + '.b' * 100000, 'x', 'eval')"), "completed", "alive"),
    row("py_ast_call", Python, caught!(py: "", "compile('a' + '()' * 100000, 'x', 'eval')"), "completed", "alive"),
    row(
        "py_ast_binary",
        Python,
        caught!(py: "", "compile('+'.join(['a'] * 100000), 'x', 'eval')"),
        "completed",
        "alive",
    ),
    row(
        "py_ast_conditional",
        Python,
        caught!(py: "", "compile('1 if 1 else ' * 50000 + '1', 'x', 'eval')"),
        "completed",
        "alive",
    ),
    row(
        "py_ast_lambda",
        Python,
        caught!(py: "", "compile('lambda: ' * 50000 + '1', 'x', 'eval')"),
        "completed",
        "alive",
    ),
    row("py_ast_not", Python, caught!(py: "", "compile('not ' * 100000 + '1', 'x', 'eval')"), "completed", "alive"),
    row(
        "py_ast_elif",
        Python,
        caught!(py: "", "compile('if a: pass\\n' + 'elif a: pass\\n' * 30000, 'x', 'exec')"),
        "completed",
        "alive",
    ),
    row(
        "py_ast_indent",
        Python,
        caught!(py: "", "compile(''.join(' ' * i + 'if 1:\\n' for i in range(99)) + ' ' * 99 + 'pass', 'x', 'exec')"),
        "completed",
        "alive",
    ),
    row(
        "py_ast_fstring",
        Python,
        caught!(py: "", "compile('f\"{' * 140 + '1' + '}\"' * 140, 'x', 'eval')"),
        "completed",
        "alive",
    ),
    row(
        "py_ast_subscript",
        Python,
        caught!(py: "", "compile('a[' * 150 + '0' + ']' * 150, 'x', 'eval')"),
        "completed",
        "alive",
    ),
    row(
        "py_ast_dict",
        Python,
        caught!(py: "", "compile('{1:' * 150 + '0' + '}' * 150, 'x', 'eval')"),
        "completed",
        "alive",
    ),
    row(
        "py_ast_literal",
        Python,
        caught!(py: "import ast", "ast.literal_eval('-' * 5000 + '1')"),
        "completed",
        "alive",
    ),
    row(
        "py_ast_parse_deep",
        Python,
        caught!(py: "import ast", "ast.dump(ast.parse('a' + '.b' * 5000))"),
        "completed",
        "alive",
    ),
    row(
        "py_re_nested_groups",
        Python,
        caught!(py: "import re", "re.compile('(' * 5000 + ')' * 5000)"),
        "completed",
        "RecursionError\nalive",
    ),
    row(
        "py_xml_deep",
        Python,
        caught!(py: "import xml.etree.ElementTree as ET", "ET.tostring(ET.fromstring('<a>' * 20000 + '</a>' * 20000))"),
        "completed",
        "alive",
    ),
    row(
        "py_isinstance_deep",
        Python,
        caught!(py: "t = int\nfor _ in range(100000): t = (t,)", "isinstance('', t)"),
        "completed",
        "RecursionError\nalive",
    ),
    row(
        "py_union_deep",
        Python,
        caught!(py: "class A:\n    def __or__(self, o): return self | o", "A() | 1"),
        "completed",
        "RecursionError\nalive",
    ),
    row(
        "py_instancecheck",
        Python,
        caught!(py: "class M(type):\n    def __instancecheck__(c, o): return isinstance(o, c)\nclass A(metaclass=M): ...", "isinstance(1, A)"),
        "completed",
        "RecursionError\nalive",
    ),
    row(
        "py_recursion_limit_raised",
        Python,
        "import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\ntry:\n    f()\nexcept RecursionError:\n    print('RecursionError')",
        "raised SystemError",
        "",
    ),
    row(
        "py_excepthook_deep",
        Python,
        "import sys\nsys.excepthook = lambda *a: sys.excepthook(*a)\nraise ValueError('x')",
        "raised ValueError",
        "",
    ),
    row(
        "py_context_cycle",
        Python,
        "a = ValueError('a'); b = ValueError('b')\na.__cause__ = b; b.__cause__ = a\nraise a",
        "raised ValueError",
        "",
    ),
    row(
        "py_group_deep",
        Python,
        "e = ValueError(1)\nfor i in range(5000): e = ExceptionGroup('g', [e])\nraise e",
        "raised ExceptionGroup",
        "",
    ),
    row(
        "js_function",
        JavaScript,
        caught!(js: "function f() { return f() + 1 }", "f()"),
        "completed",
        "RangeError\nalive",
    ),
    row(
        "js_arrow_spread",
        JavaScript,
        caught!(js: "const f = (...a) => f(...a, 1)", "f()"),
        "completed",
        "RangeError\nalive",
    ),
    row(
        "js_getter",
        JavaScript,
        caught!(js: "const o = { get a() { return this.a } }", "o.a"),
        "completed",
        "RangeError\nalive",
    ),
    row(
        "js_setter",
        JavaScript,
        caught!(js: "const o = { set a(v) { this.a = v } }", "o.a = 1"),
        "completed",
        "RangeError\nalive",
    ),
    row(
        "js_to_string",
        JavaScript,
        caught!(js: "const o = { toString() { return String(this) } }", "String(o)"),
        "completed",
        "RangeError\nalive",
    ),
    row(
        "js_to_primitive",
        JavaScript,
        caught!(js: "const o = { [Symbol.toPrimitive]() { return +this } }", "+o"),
        "completed",
        "RangeError\nalive",
    ),
    row("js_sort", JavaScript, caught!(js: "const f = () => [2, 1].sort(f)", "f()"), "completed", "RangeError\nalive"),
    row("js_map", JavaScript, caught!(js: "const f = () => [1].map(f)", "f()"), "completed", "RangeError\nalive"),
    row(
        "js_replace",
        JavaScript,
        caught!(js: "const f = () => 'a'.replace(/a/, f)", "f()"),
        "completed",
        "RangeError\nalive",
    ),
    row(
        "js_reflect",
        JavaScript,
        caught!(js: "const f = () => Reflect.apply(f, null, [])", "f()"),
        "completed",
        "RangeError\nalive",
    ),
    row(
        "js_bind",
        JavaScript,
        caught!(js: "let f = () => 1; for (let i = 0; i < 3e3; i++) f = f.bind(null)", "f()"),
        "completed",
        "RangeError\nalive",
    ),
    row(
        "js_construct",
        JavaScript,
        caught!(js: "class A { constructor() { new A() } }", "new A()"),
        "completed",
        "RangeError\nalive",
    ),
    row(
        "js_extends_chain",
        JavaScript,
        caught!(js: "let C = class {}; for (let i = 0; i < 1e4; i++) C = class extends C {}", "new C()"),
        "completed",
        "RangeError\nalive",
    ),
    row(
        "js_proxy_chain",
        JavaScript,
        caught!(js: "let p = {}; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {})", "p.x"),
        "completed",
        "RangeError\nalive",
    ),
    row(
        "js_proxy_self",
        JavaScript,
        caught!(js: "const p = new Proxy({}, { get(t, k, r) { return r[k] } })", "p.x"),
        "completed",
        "RangeError\nalive",
    ),
    row(
        "js_proxy_prototype",
        JavaScript,
        caught!(js: "const o = {}; const p = new Proxy(o, {}); Object.setPrototypeOf(o, p)", "o.x"),
        "completed",
        "RangeError\nalive",
    ),
    row(
        "js_instanceof_bound",
        JavaScript,
        caught!(js: "let f = function () {}; for (let i = 0; i < 3e3; i++) f = f.bind()", "({}) instanceof f"),
        "completed",
        "alive",
    ),
    row(
        "js_json_parse",
        JavaScript,
        caught!(js: "", "JSON.parse('['.repeat(1e5) + ']'.repeat(1e5))"),
        "completed",
        "alive",
    ),
    row(
        "js_json_parse_object",
        JavaScript,
        caught!(js: "", "JSON.parse('{\"a\":'.repeat(1e5) + '1' + '}'.repeat(1e5))"),
        "completed",
        "alive",
    ),
    row(
        "js_json_stringify",
        JavaScript,
        caught!(js: "let o = {}; for (let i = 0; i < 1e3; i++) o = { o }", "JSON.stringify(o)"),
        "completed",
        "through\nalive",
    ),
    row(
        "js_json_to_json",
        JavaScript,
        caught!(js: "const o = { toJSON() { return JSON.stringify(this) } }", "JSON.stringify(o)"),
        "completed",
        "RangeError\nalive",
    ),
    row(
        "js_json_reviver",
        JavaScript,
        caught!(js: "let s = '['.repeat(500) + ']'.repeat(500); const f = () => JSON.parse(s, f)", "f()"),
        "completed",
        "RangeError\nalive",
    ),
    row(
        "js_flat",
        JavaScript,
        caught!(js: "let a = []; for (let i = 0; i < 1e5; i++) a = [a]", "a.flat(Infinity)"),
        "completed",
        "RangeError\nalive",
    ),
    row(
        "js_array_to_string",
        JavaScript,
        caught!(js: "let a = []; for (let i = 0; i < 1e5; i++) a = [a]", "String(a)"),
        "completed",
        "RangeError\nalive",
    ),
    row(
        "js_structured_concat",
        JavaScript,
        caught!(js: "const a = []; a[Symbol.isConcatSpreadable] = true; Object.defineProperty(a, 0, { get() { return a.concat(a) } })", "a[0]"),
        "completed",
        "RangeError\nalive",
    ),
    row(
        "js_regexp_groups",
        JavaScript,
        caught!(js: "", "new RegExp('('.repeat(1e5) + ')'.repeat(1e5))"),
        "completed",
        "alive",
    ),
    row(
        "js_regexp_lookahead",
        JavaScript,
        caught!(js: "", "new RegExp('(?='.repeat(1e4) + ')'.repeat(1e4)).test('a')"),
        "completed",
        "alive",
    ),
    row(
        "js_regexp_class",
        JavaScript,
        caught!(js: "", "new RegExp('['.repeat(1e5) + 'a' + ']'.repeat(1e5), 'v')"),
        "completed",
        "alive",
    ),
    row("js_eval", JavaScript, caught!(js: "globalThis.s = 'eval(s)'", "eval(s)"), "completed", "RangeError\nalive"),
    row(
        "js_function_constructor",
        JavaScript,
        caught!(js: "globalThis.s = 'return new Function(s)()'", "new Function(s)()"),
        "completed",
        "RangeError\nalive",
    ),
    row(
        "js_source_unary",
        JavaScript,
        caught!(js: "", "eval('!'.repeat(1e6) + '1')"),
        "completed",
        "RangeError\nalive",
    ),
    row(
        "js_source_blocks",
        JavaScript,
        caught!(js: "", "eval('{'.repeat(1e5) + '}'.repeat(1e5))"),
        "completed",
        "RangeError\nalive",
    ),
    row(
        "js_source_functions",
        JavaScript,
        caught!(js: "", "eval('()=>'.repeat(1e5) + '1')"),
        "completed",
        "SyntaxError\nalive",
    ),
    row(
        "js_source_ternary",
        JavaScript,
        caught!(js: "", "eval('1?'.repeat(1e5) + '1' + ':1'.repeat(1e5))"),
        "completed",
        "RangeError\nalive",
    ),
    row(
        "js_source_template",
        JavaScript,
        caught!(js: "", "eval('`${'.repeat(1e5) + '1' + '}`'.repeat(1e5))"),
        "completed",
        "RangeError\nalive",
    ),
    row(
        "js_source_destructuring",
        JavaScript,
        caught!(js: "", "eval('var ' + '['.repeat(1e5) + 'a' + ']'.repeat(1e5) + '=1')"),
        "completed",
        "SyntaxError\nalive",
    ),
    row("js_source_sum", JavaScript, caught!(js: "", "eval('1' + '+1'.repeat(1e5))"), "completed", "through\nalive"),
    row(
        "js_source_else",
        JavaScript,
        caught!(js: "", "eval('if(0);else '.repeat(1e5) + ';')"),
        "completed",
        "RangeError\nalive",
    ),
    row(
        "js_source_member",
        JavaScript,
        caught!(js: "globalThis.a = new Proxy(function () {}, { get: () => a })", "eval('a' + '.b'.repeat(1e5))"),
        "completed",
        "through\nalive",
    ),
    row(
        "js_generator",
        JavaScript,
        caught!(js: "function* g() { yield* g() }", "g().next()"),
        "completed",
        "RangeError\nalive",
    ),
    row(
        "js_iterator",
        JavaScript,
        caught!(js: "const o = { [Symbol.iterator]() { return [...this] } }", "[...o]"),
        "completed",
        "RangeError\nalive",
    ),
    row(
        "js_async_sync_part",
        JavaScript,
        "async function f() { await f() } f().catch((e) => console.log(e.name))",
        "completed",
        "RangeError",
    ),
    row(
        "js_free_deep",
        JavaScript,
        "let o = null; for (let i = 0; i < 3e5; i++) o = { o }; o = null; std.gc(); console.log('freed')",
        "completed",
        "freed",
    ),
    row(
        "js_free_closures",
        JavaScript,
        "let f = null; for (let i = 0; i < 2e5; i++) { const g = f; f = () => g } f = null; std.gc(); console.log('freed')",
        "completed",
        "freed",
    ),
    row(
        "js_string_rope",
        JavaScript,
        "let s = ''; for (let i = 0; i < 1e6; i++) s = 'a' + s; console.log(s.length)",
        "completed",
        "1000000",
    ),
    row(
        "js_prepare_stack_trace",
        JavaScript,
        "Error.prepareStackTrace = () => new Error().stack; function f() { f() } try { f() } catch (e) { console.log(e.name) }",
        "completed",
        "RangeError",
    ),
    row("js_error_cause_cycle", JavaScript, "const e = new Error('a'); e.cause = e; throw e", "raised Error", ""),
    row(
        "js_module_cycle",
        JavaScript,
        "const w = (n, s) => { const f = std.open(n, 'w'); f.puts(s); f.close() }; w('a.js', 'import \"./b.js\"; export const a = 1'); w('b.js', 'import \"./a.js\"'); await import('./a.js'); console.log('through')",
        "completed",
        "through",
    ),
    row(
        "js_module_chain",
        JavaScript,
        "for (let i = 0; i < 3000; i++) { const f = std.open(`m${i}.js`, 'w'); f.puts(i < 2999 ? `import './m${i + 1}.js'` : ''); f.close() } try { await import('./m0.js'); console.log('through') } catch (e) { console.log(e.name) }",
        "completed",
        "RangeError",
    ),
];

fn main() -> ExitCode {
    if let Some(task) = process::child_task() {
        return child(&task);
    }
    let args = Arguments::from_args();
    let trials =
        PEERS.iter().chain(DEEP).map(|row| Trial::test(format!("hostile::{}", row.name), move || show(row))).collect();
    libtest_mimic::run(&args, trials).exit_code()
}

fn timeout_ms(row: &Row) -> u64 {
    if DEEP.iter().any(|deep| deep.name == row.name) { DEEP_TIMEOUT_MS } else { TIMEOUT_MS }
}

fn prepare(row: &Row) -> Sandbox {
    sandbox(row.language, |policy| {
        policy.limits.timeout_ms = timeout_ms(row);
        policy.limits.memory_bytes = MEMORY_BYTES;
        policy.limits.fuel = 1_000_000_000_000;
    })
}

fn find(name: &str) -> &'static Row {
    PEERS.iter().chain(DEEP).find(|row| row.name == name).expect("the parent names a row")
}

/// In the child: runs the script, prints outcome and growth on lines of their own, then what the script printed.
fn child(task: &str) -> ExitCode {
    let row = find(task);
    let sandbox = prepare(row);
    sandbox.execute("").unwrap();
    let before = process::resident_bytes();
    let execution = sandbox.execute(row.source).unwrap();
    let grown = process::peak_resident_bytes().saturating_sub(before);
    let duration = execution.duration.as_millis();
    let after =
        sandbox.execute(if row.language == Python { "print('usable')" } else { "console.log('usable')" }).unwrap();
    println!("outcome={}", short(&execution.outcome));
    println!("grown={grown}");
    println!("duration={duration}");
    println!("memory={}", execution.memory_used_bytes);
    println!("after={}", after.stdout.text().trim_end());
    println!("stdout={:?}", execution.stdout.text().chars().take(2_000).collect::<String>());
    println!("stderr={}", execution.stderr.text().chars().take(2_000).collect::<String>());
    ExitCode::SUCCESS
}

fn show(row: &Row) -> Result<(), Failed> {
    let output = process::run_child(row.name, row.name, Duration::from_secs(60));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let told =
        |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).unwrap_or("").to_owned();
    let number = |key: &str| told(key).parse::<u64>().unwrap_or(u64::MAX);
    let mut wrong = Vec::new();
    if !output.status.success() {
        wrong.push(format!("the host ended with {}:\n{}", output.status, String::from_utf8_lossy(&output.stderr)));
    }
    if told("outcome") != row.outcome {
        wrong.push(format!("expected `{}`, got `{}`", row.outcome, told("outcome")));
    }
    let stdout = format!("{:?}", row.stdout);
    if !told("stdout").contains(stdout.trim_matches('"')) {
        wrong.push(format!("standard output lacks {stdout}"));
    }
    if told("after") != "usable" {
        wrong.push("the next execution failed".into());
    }
    if number("grown") > MEMORY_BYTES + SLACK_BYTES {
        wrong.push(format!("the host grew by {} MiB", number("grown") / MIB));
    }
    if number("memory") > MEMORY_BYTES {
        wrong.push(format!("{} bytes of memory used at a limit of {MEMORY_BYTES}", number("memory")));
    }
    if number("duration") > timeout_ms(row) + 1_500 {
        wrong.push(format!("it took {} ms", number("duration")));
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failed::from(format!("{}\n{text}", wrong.join("\n")))) }
}
