const csv = requireVendor('csv-simple');
const rows = [{ name: 'Smith, "Jo"', count: 0, ok: false, note: null }, { name: 'Ann', count: 2, ok: true, note: 'two\nlines' }];
const text = csv.stringify(rows);
console.log(text);
console.log(csv.parse(text));
console.log(csv.parse('a;b\n1;2\n', { delimiter: ';', header: false }), csv.stringify([[1, 2], ['x', 0]]));
try {
  csv.parse('a,b\n"open,1');
} catch (error) {
  console.log(error.message);
}
