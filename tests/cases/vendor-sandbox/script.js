const u = requireVendor('sandbox-utils');
writeText('src/a.js', 'let x = 1;\n// todo: more\n');
writeText('src/deep/b.txt', 'todo\n');
console.log(u.find('src', '*.js'), u.tree('src'), u.grep('todo', u.find('src')));
console.log(u.sed('src/a.js', 'x', 'y'), u.head('src/a.js', 1), u.wc('src/a.js'));
console.log(u.groupBy([1, 2, 3], (n) => (n % 2 ? 'odd' : 'even')), u.sortBy([{ n: 2 }, { n: 1 }], 'n'), u.unique([1, 1, 2]), u.chunk([1, 2, 3], 2));
writeText('t.csv', 'a,b\n1,2\n');
u.csvToJson('t.csv', 't.json');
console.log(readJson('t.json'));
