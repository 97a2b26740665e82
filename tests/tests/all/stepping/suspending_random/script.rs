//! Random scripts that call tools.

use glovebox::{Language, ToolAnswer, ToolError, ToolErrorKind, ToolRequest};
use glovebox_tests::model::Dice;
use serde_json::json;

use super::super::of;

/// The standard input of all scripts.
pub(super) const INPUT: &[u8] = b"one\ntwo\n";

const MAX_STATEMENTS: usize = 6;

const PYTHON_HEAD: &str = "\
import asyncio, os, random, sys, time, uuid
seen = []
def safe(q):
    try: return tools.ask(q=q)
    except tools.ToolError as error: return type(error).__name__, str(error)
async def later(q):
    try: return await tools.ask.aio(q=q)
    except tools.ToolError as error: return type(error).__name__, str(error)
";

const JAVASCRIPT_HEAD: &str = "\
const fs = require('fs'), seen = [];
const safe = q => tools.ask({q}).catch(error => [error.name, error.message]);
";

/// The statements in both languages. `$B` is the statement's position in the script, `$N` a number from 1 to 3, and
/// `$F` 0 or 1. Lines with random numbers and times begin with `~`.
///
/// While a call waits for the caller, no statement sets a timer: the script's order would then depend on the speed of
/// the caller.
const STATEMENTS: [[&str; 2]; 12] = [
    [
        "\
for i in range($N):
    seen.append(safe([$B, i]))
    print($B, i, seen[-1])
",
        "for (let i = 0; i < $N; i++) { seen.push(await safe([$B, i])); print($B, i, seen.at(-1)); }\n",
    ],
    ["print($B, tools.ask(q='$B'))\n", "print($B, await tools.ask({q: '$B'}));\n"],
    CONCURRENT,
    CONCURRENT,
    [
        "for i in range(len(str(safe('$B'))) % 3): print($B, safe([$B, i]))\n",
        "for (let i = 0, n = String(await safe('$B')).length % 3; i < n; i++) print($B, await safe([$B, i]));\n",
    ],
    [
        "\
with open('f$F', 'a') as file: file.write('$B;')
print($B, open('f$F').read(), sorted(os.listdir('.')))
",
        "\
fs.appendFileSync('f$F', '$B;');
print($B, fs.readFileSync('f$F', 'utf8'), fs.readdirSync('.').sort());
",
    ],
    ["if os.path.exists('f$F'): os.remove('f$F')\n", "if (fs.existsSync('f$F')) fs.unlinkSync('f$F');\n"],
    [
        "print('~', random.random(), time.time_ns(), time.monotonic_ns(), os.urandom(3).hex(), uuid.uuid4())\n",
        "print('~', Math.random(), Date.now(), performance.now(), crypto.randomUUID());\n",
    ],
    ["time.sleep(0.001)\n", "await new Promise(done => setTimeout(done, 1));\n"],
    ["asyncio.run(asyncio.sleep(0.001))\n", "await new Promise(done => setTimeout(done, 0));\n"],
    ["print($B, repr(sys.stdin.readline()))\n", "print($B, std.in.getline());\n"],
    ["print($B, file=sys.stderr)\n", "console.error($B);\n"],
];

/// Several calls at the same time, some of them followed by another call.
const CONCURRENT: [&str; 2] = [
    "\
async def work$B(i):
    first = await later([$B, i])
    print('~', random.random())
    print($B, i, first)
    return await later([$B, i, first]) if i % 2 else first
async def all$B(): return await asyncio.gather(*[work$B(i) for i in range(1 + $N)])
seen += asyncio.run(all$B())
print($B, seen[-1])
",
    "\
seen.push(...await Promise.all(Array.from({length: 1 + $N}, async (_, i) => {
    const first = await safe([$B, i]);
    print('~', Math.random());
    print($B, i, first);
    return i % 2 ? await safe([$B, i, first]) : first;
})));
print($B, seen.at(-1));
",
];

/// The last statements. The second one leaves a call unanswered.
const ENDS: [[&str; 2]; 6] = [
    ["len(seen)\n", "seen.length\n"],
    [
        "\
async def first():
    calls = [asyncio.ensure_future(later(['first', i])) for i in range(2)]
    done, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    return [task.result() for task in done]
print(asyncio.run(first()))
",
        "print(await Promise.race([safe('first'), safe('second')]));\n",
    ],
    ["raise ValueError(len(seen))\n", "throw new TypeError(seen.length);\n"],
    ["raise SystemExit(3)\n", "process.exit(3);\n"],
    ["seen\n", "seen\n"],
    ["print('end', tools.ask(q='end'))\n", "print('end', await tools.ask({q: 'end'}));\n"],
];

/// Returns a random script.
pub(super) fn script(dice: &mut Dice, language: Language) -> String {
    let mut script = of(language, PYTHON_HEAD, JAVASCRIPT_HEAD).to_owned();
    for position in 0..=dice.below(MAX_STATEMENTS) {
        let [python, javascript] = dice.pick(&STATEMENTS);
        let statement = of(language, python, javascript).replace("$B", &position.to_string());
        let statement = statement.replace("$N", &(1 + dice.below(3)).to_string());
        script += &statement.replace("$F", &dice.below(2).to_string());
    }
    let [python, javascript] = dice.pick(&ENDS);
    script + of(language, python, javascript)
}

/// Returns an answer that depends only on `seed` and the call's arguments.
pub(super) fn reply(seed: u64, call: &ToolRequest) -> ToolAnswer {
    let hash = call.arguments.bytes().fold(seed, |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let mut dice = Dice::new(hash);
    let value = match dice.below(8) {
        0 => {
            let kind = dice.pick(&[ToolErrorKind::Failed, ToolErrorKind::Denied, ToolErrorKind::Timeout]);
            return ToolAnswer::error(call.id, ToolError::of(kind, "refused\nby the test"));
        }
        1 => json!(null),
        2 => json!("é".repeat(dice.below(2_000))),
        3 => json!([1, [2.5, "\u{1F600}\0"], {"a": {"b": false}}]),
        4 => json!(1e300),
        _ => json!(dice.below(1_000)),
    };
    ToolAnswer::value(call.id, &value)
}
