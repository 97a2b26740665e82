//! Tests the descriptions of a session's global variables.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use glovebox::{
    ClassDescription, Commit, FunctionSignature, KeywordParameter, Language, Policy, Sandbox, Session, Tool,
    VariableKind,
};
use glovebox_tests::{engine, sandbox, short};
use serde_json::json;

/// Runs a script that must complete.
fn run(session: &Session, source: &str) {
    let execution = session.execute(source).unwrap();
    assert_eq!(short(&execution.outcome), "completed", "{}", execution.stderr.text());
}

fn variables(session: &Session) -> Vec<(String, VariableKind)> {
    session.variables().unwrap().into_iter().map(|variable| (variable.name, variable.kind)).collect()
}

fn names(session: &Session) -> Option<Vec<String>> {
    Some(session.variables()?.into_iter().map(|variable| variable.name).collect())
}

fn instance(module: &str, class: &str) -> VariableKind {
    VariableKind::Instance { module: module.to_owned(), class: class.to_owned() }
}

fn object(class: &str) -> VariableKind {
    VariableKind::Object { class: class.to_owned() }
}

fn imported(module: &str, name: &str) -> VariableKind {
    VariableKind::Imported { module: module.to_owned(), name: name.to_owned() }
}

#[test]
fn values_have_descriptions() {
    let session = sandbox(Language::Python, |_| {}).session().unwrap();
    assert_eq!(session.variables(), Some(Vec::new()));
    run(
        &session,
        "import datetime, xml.etree.ElementTree as tree\nfrom math import sqrt as root\nfrom typing import Literal\n\
         class Own: pass\nday = datetime.date(2026, 1, 2)\nown = Own()\nrows = [1]\nnothing = None\nday_type = datetime.date\n\
         async def load(a, b, /, c=1, *rest, d, e=2, **others): pass\ndef plain(): pass\n__private = 1",
    );
    let load = FunctionSignature {
        positional: ["a", "b", "c"].map(str::to_owned).into(),
        positional_only_count: 2,
        default_count: 1,
        keyword_only: [("d", true), ("e", false)]
            .map(|(name, is_required)| KeywordParameter { name: name.to_owned(), is_required })
            .into(),
        rest: Some("rest".to_owned()),
        keywords: Some("others".to_owned()),
        is_async: true,
    };
    let module = |name: &str| VariableKind::Module { name: name.to_owned() };
    let expected = [
        ("Literal", imported("typing", "Literal")),
        ("Own", VariableKind::Class(ClassDescription::default())),
        ("__private", instance("builtins", "int")),
        ("datetime", module("datetime")),
        ("day", instance("datetime", "date")),
        ("day_type", imported("datetime", "date")),
        ("load", VariableKind::Function(load)),
        ("nothing", instance("builtins", "NoneType")),
        ("own", object("Own")),
        ("plain", VariableKind::Function(FunctionSignature::default())),
        ("root", imported("math", "sqrt")),
        ("rows", instance("builtins", "list")),
        ("tree", module("xml.etree.ElementTree")),
    ];
    assert_eq!(variables(&session), expected.map(|(name, kind)| (name.to_owned(), kind)));
}

#[test]
fn classes_have_descriptions() {
    let session = sandbox(Language::Python, |_| {}).session().unwrap();
    run(
        &session,
        "import contextlib, dataclasses, enum, functools\nclass Account:\n    RATE = 3\n    note: str\n    \
         def __init__(self, owner, *, limit=1): self.owner = owner\n    \
         async def pay(self, euros): return [print(n) or self.paid for n in euros]\n    \
         @property\n    def name(self): return self._name\n    \
         @name.setter\n    def name(self, name): self._name = name\n\
         class Saver(Account):\n    def pay(self): self.owner = self.rate = 1\n    \
         @contextlib.contextmanager\n    def held(self): self.is_held = True; yield\n\
         class Failed(Exception): pass\n@dataclasses.dataclass\nclass Point:\n    x: int\n    y: int = 0\n\
         class Dynamic:\n    def __getattr__(self, name): return 1\n\
         class Options:\n    def __init__(self, **options): self.__dict__.update(options)\n\
         class Record:\n    def fill(self, pairs): [setattr(self, name, value) for name, value in pairs]\n\
         class Cached:\n    @functools.cache\n    def rows(self): self.hidden = 1\n\
         class Color(enum.Enum): RED = 1\nclass Meta(type): pass\nclass Made(metaclass=Meta): pass\n\
         class Numbers(list):\n    def __new__(cls): return list.__new__(cls)\n\
         class Old: pass\nold = Old()\nclass Old: pass\nAlias = Account\nsaver = Saver('Ada')\nsaver.late = 1\n\
         def local():\n    class Local: pass\n    return Local()\nlocal = local()",
    );
    let described = variables(&session);
    let kind = |name: &str| described.iter().find(|(described, _)| described == name).unwrap().1.clone();
    let class = |name: &str| match kind(name) {
        VariableKind::Class(class) => class,
        other => panic!("{name}: {other:?}"),
    };
    let methods = |class: &ClassDescription| -> Vec<String> {
        class
            .methods
            .iter()
            .map(|method| format!("{}({})", method.name, method.signature.positional.join(", ")))
            .collect()
    };
    let account = class("Account");
    assert_eq!(methods(&account), ["__init__(self, owner)", "pay(self, euros)"]);
    let signatures: Vec<_> = account.methods.iter().map(|method| &method.signature).collect();
    assert_eq!((signatures[0].keyword_only[0].name.as_str(), signatures[1].is_async), ("limit", true));
    for attribute in ["RATE", "note", "owner", "paid", "name", "_name"] {
        assert!(account.attributes.iter().any(|known| known == attribute), "{attribute}: {account:?}");
    }
    assert!(!account.attributes.iter().any(|known| known == "pay"), "{account:?}");
    assert!(!account.is_open && !account.is_dataclass && account.bases.is_empty(), "{account:?}");
    let saver = class("Saver");
    assert_eq!((methods(&saver), saver.bases.as_slice()), (vec!["pay(self)".to_owned()], &["Account".to_owned()][..]));
    // Instances in variables can have further attributes.
    for attribute in ["rate", "late", "held", "is_held"] {
        assert!(saver.attributes.iter().any(|known| known == attribute), "{attribute}: {saver:?}");
    }
    let point = class("Point");
    assert!(point.is_dataclass && ["x", "y"].iter().all(|field| point.attributes.iter().any(|known| known == field)));
    for open in ["Cached", "Dynamic", "Failed", "Options", "Record"] {
        assert!(class(open).is_open && class(open).bases.is_empty(), "{open}");
    }
    assert_eq!((kind("Alias"), kind("Numbers")), (instance("builtins", "type"), instance("builtins", "type")));
    assert_eq!((kind("Color"), kind("Meta")), (instance("enum", "EnumType"), instance("builtins", "type")));
    assert_eq!(kind("Made"), instance("__main__", "Meta"));
    assert_eq!((kind("saver"), kind("old")), (object("Saver"), instance("__main__", "Old")));
    // The name of a local class is not an identifier.
    assert_eq!(kind("local"), VariableKind::Other);
}

#[test]
fn description_runs_no_code_of_the_session() {
    let session = sandbox(Language::Python, |_| {}).session().unwrap();
    run(
        &session,
        "import json, os, sys\nclass Meta(type):\n    __module__ = property(lambda self: os._exit(1))\n    \
         def __eq__(self, other): os._exit(2)\n    def __getattribute__(self, name): os._exit(3)\n    \
         def __hash__(self): os._exit(8)\n\
         class Hostile(metaclass=Meta):\n    __class__ = property(lambda self: os._exit(4))\n    \
         def __getattribute__(self, name): os._exit(5)\n    def __repr__(self): os._exit(6)\n\
         class Text(str):\n    def isidentifier(self): os._exit(7)\nhostile = Hostile()\ndef f(): pass\n\
         class Several(tuple):\n    def __bool__(self): os._exit(10)\n    def __iter__(self): os._exit(11)\n\
         class Named(dict):\n    def __bool__(self): os._exit(12)\n    def __contains__(self, key): os._exit(13)\n\
         def g(*, a=1): pass\nf.__defaults__, g.__kwdefaults__ = Several((1,)), Named(a=1)\n\
         class Uses:\n    a, b = Hostile, hostile\n    __dict__ = property(lambda self: os._exit(9))\nuses = Uses()\n\
         f.__module__ = hostile\njson.__name__ = hostile\nglobals()[Text('text')] = 1\nglobals()['class'] = 1\n\
         globals()['a b'] = 1\nlen = sorted = type = vars = globals = list = any = str = None",
    );
    let described = variables(&session);
    let kind = |name: &str| &described.iter().find(|(described, _)| described == name).unwrap().1;
    assert_eq!(*kind("hostile"), instance("__main__", "Hostile"));
    assert_eq!((kind("Hostile"), kind("json")), (&VariableKind::Other, &VariableKind::Other));
    assert_eq!((kind("len"), kind("any")), (&instance("builtins", "NoneType"), &instance("builtins", "NoneType")));
    assert!(described.iter().all(|(name, _)| !["text", "class", "a b"].contains(&name.as_str())), "{described:?}");
}

#[test]
fn session_and_host_do_not_change() {
    let (host, calls) = (tempfile::tempdir().unwrap(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&calls);
    let tool = Tool::new("count", "Counts.").handler(move |_, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(json!(null))
    });
    let mut policy = Policy::default();
    policy.workspace = Some(host.path().to_owned());
    policy.commit = Commit::Always;
    let session = Sandbox::builder(engine()).policy(policy).tool(tool).build().unwrap().session().unwrap();
    // Replaces the function that statements such as `import sys` call.
    run(
        &session,
        "import builtins, random\nexpected = random.Random(5).random()\nrandom.seed(5)\ncount = 0\n\
         import_module = builtins.__import__\ndef hooked(*args, **options):\n    global count\n    count += 1\n    \
         open('hooked', 'w').write('x')\n    tools.count()\n    return import_module(*args, **options)\n\
         builtins.__import__ = hooked",
    );
    let before = session.info();
    let _ = session.variables();
    let after = session.info();
    assert_eq!((after.executions, after.rollbacks, after.ended), (before.executions, before.rollbacks, None));
    assert_eq!((calls.load(Ordering::SeqCst), host.path().join("hooked").exists()), (0, false));
    let value = session.execute("(count, random.random() == expected)").unwrap().value.unwrap();
    assert_eq!(value.repr, "(0, True)");
}

#[test]
fn variables_that_cannot_be_determined_are_unknown() {
    let session = sandbox(Language::JavaScript, |_| {}).session().unwrap();
    session.execute("const x = 1").unwrap();
    assert_eq!(session.variables(), None);

    let session = sandbox(Language::Python, |_| {}).session().unwrap();
    for (count, is_known) in [(1_999, true), (2_000, true), (2_001, false)] {
        run(&session, &format!("globals().update({{f'x{{n}}': n for n in range({count})}})"));
        assert_eq!(names(&session).map(|names| names.len()), is_known.then_some(count), "{count}");
    }
    run(&session, "for n in range(2_001): del globals()[f'x{n}']\ndel n");
    assert_eq!(names(&session), Some(Vec::new()));
    run(&session, &format!("globals()['{}'] = 1", "x".repeat(201)));
    assert_eq!(session.variables(), None);
    session.close().unwrap();
    assert_eq!(session.variables(), None);
}
