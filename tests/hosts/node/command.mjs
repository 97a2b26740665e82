// Runs a component that is a WASI command: `node command.mjs DIRECTORY`, with this process's standard streams.
import { load } from './load.mjs';
import { useStdio } from './stdio.mjs';

useStdio();
const instantiate = await load(process.argv[2]);
const command = await instantiate();
command.run.run();
