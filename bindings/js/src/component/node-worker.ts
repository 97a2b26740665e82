/// <reference types="node" />
// The script of a Node.js worker.
import { parentPort } from 'node:worker_threads';
import { type Port, listen } from './serve.ts';

const port: Port = { postMessage: (message) => parentPort?.postMessage(message), onmessage: null };
parentPort?.on('message', (data) => port.onmessage?.({ data }));
listen(port);
