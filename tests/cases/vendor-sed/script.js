const { sed, grep, head, tail, wc } = requireVendor('sandbox-utils');
writeText('a.txt', 'a.b a.b 10-20\nsecond\n');
console.log(sed('a.txt', 'a.b', '$& $1'), readText('a.txt'));
console.log(sed('a.txt', /(\d+)-(\d+)/g, '$2-$1'), readText('a.txt'));
console.log(sed('a.txt', /second/, (found) => found.toUpperCase()), sed('a.txt', /none/, 'x'), sed('a.txt', 'none', 'x'), readText('a.txt'));
console.log(grep(/^SEC/, 'a.txt'), head('a.txt', 1), tail('a.txt', 1), tail('a.txt', 0), wc('a.txt'));
