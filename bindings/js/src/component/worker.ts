// The script of a worker of the Web.
import { type Port, listen } from './serve.ts';

listen(globalThis as unknown as Port);
