// The script of a Web worker.
import { type Port, listen } from './serve.ts';

listen(globalThis as unknown as Port);
