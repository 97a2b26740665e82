import { pathToFileURL } from 'node:url';
if (import.meta.url === pathToFileURL(process.argv[1]).href) console.log('main');
console.log(import.meta.url, import.meta.filename, import.meta.dirname);
console.log(import.meta.resolve('./lib/a.mjs'), import.meta.resolve('fs'), import.meta.main);
console.log('import.meta', /^import.meta$/.test(`${import.meta.url}`));
