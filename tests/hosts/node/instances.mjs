// Measures the creation of an instance of a closed provider: `node instances.mjs DIRECTORY` prints JSON. The duration
// includes the first call, in which the component parses its woven data.
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
