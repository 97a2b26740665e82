//! Tests the advice on scripts' common failures, and generates `docs/guidance.md` from it. Also checks that every
//! module and package in the advice exists.

use std::{fmt::Write, fs, path::Path};

use glovebox::{Execution, Language, Policy, Request, Sandbox, guidance};
use glovebox_tests::{Goldens, engine, fixed, sandbox, short};

const PAGE: &str = "docs/guidance.md";

/// Scripts with the typical failures of code from language models.
const FAILURES: &[(&str, Language, &[&str])] = &[
    (
        "Limits",
        Language::Python,
        &[
            "n = 0\nwhile True:\n    n += 1",
            "import time\ntime.sleep(60)",
            "x = 'a' * 500_000_000",
            "def f(n):\n    return f(n + 1)\nf(0)",
            "print('x' * 3000)",
        ],
    ),
    (
        "Limits",
        Language::JavaScript,
        &["for (;;) {}", "const all = [];\nwhile (true) all.push(new ArrayBuffer(1e6));", "function f() { f() }\nf()"],
    ),
    (
        "Modules",
        Language::Python,
        &[
            "import jsno",
            "import numpy as np",
            "from bs4 import BeautifulSoup",
            "import httpx",
            "import IPython",
            "import my_company_tools",
            "import pip",
            "import openpyxle",
            "import chardet",
            "import sys\nsys.path.pop()\nimport openpyxl",
        ],
    ),
    (
        "Modules",
        Language::JavaScript,
        &[
            "import fs from 'fss'",
            "const path = require('paht');",
            "const csv = require('csv-smple');",
            "import axios from 'axios'",
            "const http = require('node:http');",
            "const net = require('net');",
            "import { exec } from 'child_process'",
            "const { Worker } = require('worker_threads');",
            "const { pipeline } = require('stream/promises');",
            "import { createReadStream } from 'fs'",
            "const fs = require('fs');\nfs.createWriteStream('x.txt').write('x');",
            "import { joni } from 'path'",
            "const rl = require('readline').createInterface({ input: process.stdin });",
            "const zlib = require('zlib');",
            "const _ = require('lodash');",
            "const Papa = require('papaparse');",
            "const { v4 } = require('uuid');",
            "const sqlite = require('better-sqlite3');",
            "const mine = require('./mine');",
            "import mine from './mine.js'",
            "import leftpad from 'leftpad'",
            "const leftpad = require('leftpad');",
            "const csv = requireVendor('csv-smple');",
            "const nope = requireVendor('nope');",
            "const _ = requireVendor('lodash');",
            "const path = requireVendor('path');",
        ],
    ),
    (
        "Syntax",
        Language::Python,
        &[
            "print 'hello'",
            "x = 1\nif x == 1\n    print(x)",
            "if True:\n    x = 1\nelse if x:\n    x = 2",
            "x = (1,",
            "x = 'open",
            "if True:\nx = 1",
            "x = = 1",
            "```py\nprint(1)\n```",
            "const x = 1;",
            "for (let i = 0; i < 3; i++) {\n}",
            "console.log(1)",
            "x = {'a': null}",
            "!pip install tabulate",
            "%matplotlib inline",
            "def f():\n    await g()",
            "import ast\nast.parse('-' * 100_000 + '1')",
        ],
    ),
    (
        "Syntax",
        Language::JavaScript,
        &[
            "const x = ",
            "x = {a: 1",
            "```\n1\n```",
            "def f(x):\n    return x",
            "def f(x): return x",
            "for i in range(3):\n    print(i)",
            "for i in range(3): print(i)",
            "import os, sys",
            "squares = [n * n for n in range(3)]",
            "const n = len([1, 2])",
            "const done = True",
            "let s = 'open",
        ],
    ),
    (
        "Files",
        Language::Python,
        &[
            "open('/etc/passwd')",
            "open('/var/x', 'w')",
            "open('../secret')",
            "open('/app/../etc/passwd')",
            r"open('C:\\data\\x.csv')",
            "open('data.csv')",
            "open('reports/data.csv', 'w')",
            "import os\nos.symlink('../notes.txt', 'link')\nopen('link')",
            "import os\nopen('data.csv', 'w').close()\nos.rename('data.csv', 'old/data.csv')",
        ],
    ),
    (
        "Files",
        Language::JavaScript,
        &[
            "std.open('/etc/passwd', 'r').readAsString()",
            "std.loadFile('data.csv').length",
            "const fs = require('fs');\nfs.readFileSync('data.csv', 'utf8');",
            "readText('data.txt')",
            "readJson('/app/../etc/data.json')",
            "const fs = require('fs/promises');\nawait fs.readFile('data.csv');",
            "require('fs').renameSync('old.txt', 'new.txt')",
            "const fs = require('fs');\nfs.writeFileSync('data.csv', '');\nfs.renameSync('data.csv', '../data.csv');",
        ],
    ),
    (
        "Network",
        Language::Python,
        &[
            "import socket\nsocket.socket()",
            "import urllib.request\nurllib.request.urlopen('http://example.com')",
            "import urllib.request\nurllib.request.urlopen('https://example.com')",
            "import http.client\nhttp.client.HTTPSConnection('example.com').request('GET', '/')",
            "import ssl",
        ],
    ),
    (
        "Network",
        Language::JavaScript,
        &["const r = await fetch('https://example.com')", "new WebSocket('wss://example.com')"],
    ),
    (
        "Processes and threads",
        Language::Python,
        &[
            "import subprocess\nsubprocess.run(['ls'])",
            "import os\nos.system('ls')",
            "import psutil",
            "import threading\nthreading.Thread(target=print).start()",
            "import signal\nsignal.alarm(1)",
        ],
    ),
    ("Processes and threads", Language::JavaScript, &["new Worker('x.js')"]),
    ("Other environments", Language::Python, &["name = input('Your name: ')", "import tkinter"]),
    (
        "Other environments",
        Language::JavaScript,
        &["document.querySelector('p')", "localStorage.getItem('x')", "alert(1)", "Deno.readTextFile('x')"],
    ),
];

fn execute(language: Language, source: &str) -> Execution {
    let policy = |policy: &mut Policy| {
        // With a fixed clock, waiting takes no time.
        if source.contains("sleep") {
            policy.limits.timeout_ms = 200;
        } else {
            fixed(policy);
        }
        (policy.limits.fuel, policy.limits.stdout_bytes) = (400_000_000, 2_000);
    };
    sandbox(language, policy).execute(source).unwrap()
}

fn page() -> String {
    let mut page = String::from(
        "# Guidance\n\n\
         Read this page to find the advice that each kind of failure returns, and the conditions for it.\n\n\
         Every execution has `guidance`: an analysis of its fuel and, after a failure or truncated output, advice. Advice consists of the\n\
         problem, possible solutions and, if the correction is unambiguous, the corrected line. `glovebox run` prints the advice below the error.\n\
         Read the guidance from the `guidance` key of `--json`, from `Execution::guidance` in Rust, or from `execution` in the contract. Guidance is\n\
         derived from the outcome, the limits and the source, never from the script's output.\n\n\
         A test runs these scripts and generates this page. Python scripts run on `python-3.12`, which has neither numpy nor pandas. Some limits are\n\
         lower than [their defaults](limits.md): 400 million units of fuel, 2,000 bytes of standard output and, for scripts that sleep, 200 ms.\n\
         The network is off. Each script is followed by its outcome, then the kind of advice, the problem, the solutions and, for some scripts,\n\
         the corrected line.\n",
    );
    let mut last = "";
    for (title, language, scripts) in FAILURES {
        if *title != last {
            write!(page, "\n## {title}\n").unwrap();
            last = title;
        }
        for source in *scripts {
            let execution = execute(*language, source);
            write!(page, "\n````{language}\n{source}\n````\n\nOutcome: {}\n", short(&execution.outcome)).unwrap();
            let advice = &execution.guidance.advice;
            if advice.is_empty() {
                page.push_str("\nNo advice.\n");
            }
            for advice in advice {
                let kind = serde_json::to_string(&advice.kind).unwrap();
                write!(page, "\n`{}`: {}\n\n", kind.trim_matches('"'), advice.summary).unwrap();
                advice.steps.iter().for_each(|step| writeln!(page, "* {step}").unwrap());
                if let Some(correction) = &advice.correction {
                    write!(page, "\nLine {}: `{}`\n", correction.line, correction.text).unwrap();
                }
            }
        }
    }
    page
}

#[test]
fn guidance_page_matches_the_texts() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(PAGE);
    let made = page();
    if Goldens::blessing() {
        fs::write(&path, &made).unwrap();
    }
    let held = fs::read_to_string(&path).unwrap_or_default();
    assert!(held == made, "{PAGE} is out of date; run with BLESS=1");
    assert!(!held.contains("No advice."), "an entry has no advice");
}

#[test]
fn proposed_modules_exist() {
    let names: Vec<&str> = guidance::modules(Language::Python).collect();
    let source = "import sys\nfor name in sys.stdin.read().split():\n    __import__(name)";
    let ran = sandbox(Language::Python, fixed).run(Request::new(source).stdin(names.join(" ").as_bytes())).unwrap();
    assert!(ran.is_success(), "{}", ran.stderr.text());

    // Every name must be in the source, because a Node module is only created for a source that names it.
    let mut source = String::new();
    for name in guidance::modules(Language::JavaScript) {
        writeln!(source, "console.log(typeof (await import('{name}')));").unwrap();
        if name != "std" {
            writeln!(source, "require('{name}');").unwrap();
        }
    }
    let ran = sandbox(Language::JavaScript, fixed).execute(&source).unwrap();
    assert_eq!(
        ran.stdout.text(),
        "object\n".repeat(guidance::modules(Language::JavaScript).count()),
        "{}",
        ran.stderr.text()
    );
}

#[test]
fn modules_advised_as_replacements_exist() {
    let mut policy = Policy::default();
    (policy.limits.timeout_ms, policy.limits.fuel) = (300_000, 100_000_000_000);
    let with_data = Sandbox::builder(engine()).runtime("python-3.15-data").policy(policy).build().unwrap();
    for (sandbox, has_data_packages) in [(sandbox(Language::Python, fixed), false), (with_data, true)] {
        let names: Vec<&str> = guidance::substitutes(has_data_packages).collect();
        assert!(names.len() > 25, "{names:?}");
        let source = format!("for name in '{}'.split():\n    __import__(name)", names.join(" "));
        let ran = sandbox.execute(&source).unwrap();
        assert!(ran.is_success(), "{}", ran.stderr.text());
    }
}

#[test]
fn available_node_modules_are_all_proposed() {
    let source = "for (const name of require('module').builtinModules) {\n    require(name);\n    await import(name);\n    console.log(name);\n}";
    let ran = sandbox(Language::JavaScript, fixed).execute(source).unwrap();
    assert!(ran.is_success(), "{}", ran.stderr.text());
    let text = ran.stdout.text();
    let mut there: Vec<&str> = text.lines().chain(["std"]).collect();
    there.sort_unstable();
    there.dedup();
    assert_eq!(there, guidance::modules(Language::JavaScript).collect::<Vec<_>>());
}

#[test]
fn every_package_is_proposed_and_importable() {
    let list = glovebox::PackageList::builtin().unwrap();
    let mut names: Vec<&str> =
        list.packages().iter().flat_map(|package| &package.imports).map(String::as_str).collect();
    names.extend(["requests", "sandbox_utils"]);
    names.sort_unstable();
    assert_eq!(guidance::packages().collect::<Vec<_>>(), names);
    let source = format!("import sys\nfor name in '{}'.split():\n    __import__(name)", names.join(" "));
    // The import is cheap: every package is already compiled in the image.
    let ran = sandbox(Language::Python, fixed).execute(&source).unwrap();
    assert!(ran.is_success() && ran.fuel_consumed < 40_000_000, "{}: {}", ran.fuel_consumed, ran.stderr.text());
}

#[test]
fn current_standard_library_modules_are_proposed() {
    let source = "import sys, warnings\nwarnings.simplefilter('error')\nsys.stdout = None\nfound = []\n\
        for name in sorted(sys.stdlib_module_names):\n    try:\n        __import__(name)\n        found.append(name)\n    \
        except Exception:\n        pass\nsys.stdout = sys.__stdout__\nprint(*[n for n in found if n[0] != '_'])";
    let ran = sandbox(Language::Python, fixed).execute(source).unwrap();
    let rather_not = [
        "chunk",
        "genericpath",
        "ntpath",
        "nt",
        "nturl2path",
        "posix",
        "pyexpat",
        "sre_compile",
        "sre_constants",
        "sre_parse",
        "tabnanny",
        "this",
    ];
    let text = ran.stdout.text();
    let there: Vec<&str> = text.split_whitespace().filter(|name| !rather_not.contains(name)).collect();
    assert_eq!(there, guidance::modules(Language::Python).collect::<Vec<_>>());
}
