const { parseArgs } = require('util');
const options = {
  verbose: { type: 'boolean', short: 'v' }, out: { type: 'string', short: 'o' }, level: { type: 'string', default: '1' }, tag: { type: 'string', multiple: true },
};
const show = (config) => {
  try {
    console.log(JSON.stringify(parseArgs({ options, ...config })));
  } catch (error) {
    console.log(error.name, error.code, error.message);
  }
};
show({ args: ['-v', '--out', 'a.txt', 'in.txt', '--level=3', '--tag', 'a', '--tag=b'], allowPositionals: true });
show({ args: ['-vo', 'a', '--', '-x'], allowPositionals: true, tokens: true });
show({ args: ['-voa'] });
show({ args: ['--nope'] });
show({ args: ['--nope'], allowPositionals: true });
show({ args: ['--nope=1', 'x'], strict: false });
show({ args: ['x'] });
show({ args: ['--out'] });
show({ args: ['--out', '-v'] });
show({ args: ['--verbose=1'] });
show({});
