// How long an instance takes: `node instances.mjs DIRECTORY`, of a closed provider, prints JSON. With the first call of each, which
// the component begins by reading what was woven into it.
import { load } from './load.mjs';

const instantiate = await load(process.argv[2]);
const times = [];
for (let turn = 0; turn < 40; turn += 1) {
  const start = performance.now();
  const { sandbox } = await instantiate();
  sandbox.info();
  times.push(performance.now() - start);
}
times.sort((one, other) => one - other);
console.log(JSON.stringify({ instance_us: Math.round(times[times.length / 2] * 1000) }));
