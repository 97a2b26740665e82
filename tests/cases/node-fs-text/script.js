const fs = require('fs');
fs.writeFileSync('notes.txt', 'one\n');
fs.appendFileSync('notes.txt', 'zwei: ä\n');
console.log(fs.readFileSync('notes.txt', 'utf8').trim().split('\n'));
console.log(fs.existsSync('notes.txt'), fs.existsSync('nowhere.txt'), fs.statSync('notes.txt').size);
