const { parse, stringify } = requireVendor('csv-simple');
const rows = [['a'], [''], ['x"y'], ['a,b'], ['1\r\n2'], [' x '], ['\ufeffq'], ['é€😀'], [''], ['0']];
console.log(JSON.stringify(parse(stringify(rows), { header: false })) === JSON.stringify(rows));
console.log(parse('\ufeffa;b\r\n1;"x\r\ny"\r\n;\r\n', { delimiter: ';' }), parse('a,b\n1'), parse('a,b\n1,2,3'), parse('\n\n'), parse(''));
console.log(parse('__proto__,constructor\n1,2'), {}.polluted, parse('a\n""', {}), parse('a\rb\rc', { header: false }));
console.log(stringify([{ a: 0, b: false, c: null, d: undefined, e: '', f: ' x ', g: { z: 1 }, h: [1], i: -0, j: 1n, k: new Date(0), l: new Date(NaN) }]));
console.log(stringify([{ a: 1 }, { b: 2 }]), stringify([], { columns: ['a'] }), JSON.stringify(stringify([])));
for (const attempt of [() => parse('a\n"x'), () => parse('a\n"x"y'), () => parse(null), () => stringify(null), () => parse('', { delimiter: '"' })]) {
  try {
    attempt();
  } catch (error) {
    console.log(error.name, error.message);
  }
}
