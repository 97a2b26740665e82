import { readFileSync } from 'fs';
import { half } from './lib.js';

globalThis.rules = JSON.parse(readFileSync('rules.json', 'utf8'));
globalThis.half = half;
console.log(`${rules.length} rules`);
