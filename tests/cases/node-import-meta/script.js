import path from 'path';
import { readFileSync, writeFileSync } from 'fs';
import { fileURLToPath } from 'url';
const directory = path.dirname(fileURLToPath(import.meta.url));
writeFileSync(path.join(directory, 'data.json'), '{}');
console.log(path.basename(fileURLToPath(import.meta.url)), readFileSync(new URL('./data.json', import.meta.url), 'utf8'));
