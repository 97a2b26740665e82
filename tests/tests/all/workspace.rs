//! Tests a host directory as the workspace, and additional mounts.

use std::{fs, os::unix::fs::symlink, path::Path};

use glovebox::{Commit, Language, Mount, Outcome, Policy, Sandbox};
use glovebox_tests::{engine, sandbox, short};
use tempfile::TempDir;

fn in_dir(language: Language, dir: &Path) -> Sandbox {
    sandbox(language, |policy| policy.workspace = Some(dir.to_path_buf()))
}

#[test]
fn the_workspace_is_named_in_the_result() {
    let dir = TempDir::new().unwrap();
    for language in Language::ALL {
        let execution = in_dir(language, dir.path()).execute("").unwrap();
        assert_eq!(execution.workspace_path.as_deref(), Some(dir.path()));
        assert_eq!(sandbox(language, |_| {}).execute("").unwrap().workspace_path, None);
    }
}

#[test]
fn both_languages_see_one_workspace() {
    let dir = TempDir::new().unwrap();
    let python = in_dir(Language::Python, dir.path());
    let javascript = in_dir(Language::JavaScript, dir.path());
    let execution = python.execute("import json\njson.dump({'counter': 1}, open('/app/data.json', 'w'))").unwrap();
    assert_eq!(
        (short(&execution.outcome).as_str(), execution.files_created.as_slice()),
        ("completed", &["data.json".to_owned()][..])
    );
    let execution = javascript
        .execute("const data = JSON.parse(std.loadFile('/app/data.json')); data.counter += 1; const f = std.open('/app/data.json', 'w'); f.puts(JSON.stringify(data)); f.close()")
        .unwrap();
    assert_eq!(
        (short(&execution.outcome).as_str(), execution.files_modified.as_slice()),
        ("completed", &["data.json".to_owned()][..])
    );
    let execution = python.execute("import json\nprint(json.load(open('/app/data.json'))['counter'])").unwrap();
    assert_eq!(execution.stdout.text(), "2\n");
    assert_eq!(fs::read_to_string(dir.path().join("data.json")).unwrap(), "{\"counter\":2}");
}

#[test]
fn host_links_do_not_leave_the_workspace() {
    let secret = TempDir::new().unwrap();
    fs::write(secret.path().join("secret"), "tenant b").unwrap();
    let dir = TempDir::new().unwrap();
    symlink(secret.path(), dir.path().join("dir")).unwrap();
    symlink(secret.path().join("secret"), dir.path().join("file")).unwrap();
    symlink("/etc/passwd", dir.path().join("passwd")).unwrap();
    let source = "import os\nfor p in ['dir/secret', 'file', 'passwd', 'dir/../dir/secret']:\n    try:\n        print('read', p, open(p).read())\n    except OSError: print('refused')\n    try:\n        open(p, 'w').write('x')\n    except OSError: pass\n";
    let execution = in_dir(Language::Python, dir.path()).execute(source).unwrap();
    assert_eq!(execution.stdout.text(), "refused\n".repeat(4));
    assert_eq!(fs::read_to_string(secret.path().join("secret")).unwrap(), "tenant b");
}

#[test]
fn guest_links_do_not_lead_out_later() {
    let dir = TempDir::new().unwrap();
    let sandbox = in_dir(Language::Python, dir.path());
    let make = "import os\nfor i, t in enumerate(['/etc/passwd', '../../../../etc/passwd', '..']):\n    try: os.symlink(t, f'l{i}')\n    except OSError: pass";
    let _ = sandbox.execute(make);
    let execution = sandbox
        .execute("import os\nfor n in os.listdir():\n    try: print(open(n).read())\n    except OSError: pass")
        .unwrap();
    assert_eq!(execution.stdout.text(), "");
}

#[test]
fn javascript_reports_links_as_links() {
    let dir = TempDir::new().unwrap();
    fs::create_dir_all(dir.path().join("real/below")).unwrap();
    fs::write(dir.path().join("real/below/held"), "held").unwrap();
    fs::create_dir(dir.path().join("tree")).unwrap();
    for (link, target) in
        [("tree/link", "../real"), ("file", "real/below/held"), ("dir", "real"), ("loop", "loop"), ("gone", "none")]
    {
        symlink(target, dir.path().join(link)).unwrap();
    }
    let source = "const fs = require('fs');\n\
        const kind = (entry) => (entry.isSymbolicLink() ? 'link' : entry.isDirectory() ? 'directory' : 'file');\n\
        console.log(fs.readdirSync('.', { withFileTypes: true }).map((entry) => `${entry.name} ${kind(entry)}`).join());\n\
        console.log(['dir', 'file', 'loop', 'real'].map((name) => kind(fs.lstatSync(name))).join(), kind(fs.statSync('dir')), kind(fs.statSync('file')));\n\
        console.log(fs.readdirSync('.', { recursive: true }).join());\n\
        fs.rmSync('tree', { recursive: true });\n\
        for (const name of ['dir', 'file', 'loop', 'gone']) fs.unlinkSync(name);\n\
        console.log(fs.readdirSync('.', { recursive: true }).join(), fs.readFileSync('real/below/held', 'utf8'));";
    let execution = in_dir(Language::JavaScript, dir.path()).execute(source).unwrap();
    assert_eq!(
        execution.stdout.text(),
        "dir link,file link,gone link,loop link,real directory,tree directory\n\
         link,link,link,directory directory file\n\
         dir,file,gone,loop,real,real/below,real/below/held,tree,tree/link\n\
         real,real/below,real/below/held held\n",
        "{}",
        execution.stderr.text()
    );
    assert_eq!(fs::read_to_string(dir.path().join("real/below/held")).unwrap(), "held");
}

#[test]
fn commit_policy_controls_what_reaches_the_host() {
    let rules = [
        (Commit::Always, "open('f', 'w').write('x')", true),
        (Commit::Always, "open('f', 'w').write('x')\nraise ValueError", true),
        (Commit::OnSuccess, "open('f', 'w').write('x')", true),
        (Commit::OnSuccess, "open('f', 'w').write('x')\nraise ValueError", false),
        (Commit::OnSuccess, "open('f', 'w').write('x')\nimport sys\nsys.exit(1)", false),
        (Commit::Never, "open('f', 'w').write('x')", false),
    ];
    for (commit, source, reaches) in rules {
        let dir = TempDir::new().unwrap();
        let sandbox = sandbox(Language::Python, |policy| {
            policy.workspace = Some(dir.path().to_path_buf());
            policy.commit = commit;
        });
        let execution = sandbox.execute(source).unwrap();
        assert_eq!(execution.files_created, ["f"], "the change is reported: {commit:?} {source:?}");
        assert_eq!(execution.files().read("f").unwrap(), b"x");
        assert_eq!(dir.path().join("f").exists(), reaches, "{commit:?} {source:?}");
    }
}

#[test]
fn interrupted_run_leaves_no_partial_file() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("f"), "whole").unwrap();
    let sandbox = sandbox(Language::Python, |policy| {
        policy.workspace = Some(dir.path().to_path_buf());
        policy.commit = Commit::OnSuccess;
        policy.limits.fuel = 100_000_000;
    });
    let execution = sandbox.execute("f = open('f', 'w')\nwhile True: f.write('half')").unwrap();
    assert_eq!(short(&execution.outcome), "exhausted fuel");
    assert_eq!(fs::read_to_string(dir.path().join("f")).unwrap(), "whole");
    assert_eq!(
        fs::read_dir(dir.path())
            .unwrap()
            .filter(|entry| !entry.as_ref().unwrap().file_name().to_string_lossy().starts_with('.'))
            .count(),
        1
    );
}

#[test]
fn read_only_mount_cannot_be_written() {
    let data = TempDir::new().unwrap();
    fs::write(data.path().join("in.txt"), "input").unwrap();
    let sandbox = sandbox(Language::Python, |policy| {
        policy.mounts = vec![Mount { host: data.path().to_path_buf(), guest: "/data".into(), read_only: true }];
    });
    let source = "import os\nprint(open('/data/in.txt').read(), os.listdir('/data'))\nfor call in (lambda: open('/data/in.txt', 'w'), lambda: open('/data/new', 'w'), lambda: os.remove('/data/in.txt'), lambda: os.mkdir('/data/d'), lambda: os.rename('/data/in.txt', '/data/x')):\n    try:\n        call()\n        print('changed')\n    except OSError: pass\n";
    let execution = sandbox.execute(source).unwrap();
    assert_eq!(execution.stdout.text(), "input ['in.txt']\n", "{}", execution.stderr.text());
    assert_eq!(fs::read_to_string(data.path().join("in.txt")).unwrap(), "input");
}

#[test]
fn scratch_directory_can_be_mounted_as_a_whole() {
    let data = TempDir::new().unwrap();
    fs::write(data.path().join("in.txt"), "input").unwrap();
    let open = |language: Language, guest: &str| {
        let mut policy = Policy::default();
        policy.mounts = vec![Mount { host: data.path().to_path_buf(), guest: guest.into(), read_only: true }];
        Sandbox::builder(engine()).language(language).policy(policy).build()
    };
    for language in Language::ALL {
        for guest in ["/tmp/data", "/tmp/a/b"] {
            let error = open(language, guest).err().unwrap().to_string();
            assert!(error.contains("mount at `/tmp` itself"), "{error}");
        }
        let source = match language {
            Language::Python => "print(open('/tmp/in.txt').read())",
            Language::JavaScript => "console.log(std.loadFile('/tmp/in.txt'))",
        };
        let execution = open(language, "/tmp").unwrap().execute(source).unwrap();
        assert_eq!(execution.stdout.text(), "input\n", "{}", execution.stderr.text());
        assert!(open(language, "/tmpdata").is_ok());
    }
}

#[test]
fn a_mount_larger_than_the_memory_limit_can_be_read() {
    let data = TempDir::new().unwrap();
    let file = fs::File::create(data.path().join("big")).unwrap();
    file.set_len(200 << 20).unwrap();
    let sandbox = sandbox(Language::Python, |policy| {
        policy.limits.memory_bytes = 64 << 20;
        policy.mounts = vec![Mount { host: data.path().to_path_buf(), guest: "/data".into(), read_only: true }];
    });
    let execution = sandbox
        .execute("n = 0\nwith open('/data/big', 'rb') as f:\n    while c := f.read(1 << 20): n += len(c)\nprint(n)")
        .unwrap();
    assert_eq!(
        execution.stdout.text(),
        format!("{}\n", 200 << 20),
        "{:?} {}",
        execution.outcome,
        execution.stderr.text()
    );
    assert!(execution.memory_used_bytes <= 64 << 20);
}

#[test]
fn workspaces_are_isolated() {
    let (one, two) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let first = in_dir(Language::JavaScript, one.path()).execute("std.open('mine', 'w').puts('one')").unwrap();
    assert_eq!(first.outcome, Outcome::Completed);
    let second = in_dir(Language::JavaScript, two.path())
        .execute("console.log(JSON.stringify(os.readdir('.')[0].filter((n) => n[0] !== '.')))")
        .unwrap();
    assert_eq!(second.stdout.text(), "[]\n");
}
