const fs = require('fs');
const tries = {
  write: () => fs.writeFileSync('/data_js/csv-simple.js', 'module.exports = {}'),
  append: () => fs.appendFileSync('/data_js/csv-simple.js', '// mine'),
  create: () => fs.writeFileSync('/data_js/mine.js', ''),
  mkdir: () => fs.mkdirSync('/data_js/mine'),
  unlink: () => fs.unlinkSync('/data_js/csv-simple.js'),
  rm: () => fs.rmSync('/data_js/node', { recursive: true }),
  rename: () => fs.renameSync('/data_js/csv-simple.js', '/data_js/x.js'),
  away: () => fs.renameSync('/data_js/csv-simple.js', '/app/x.js'),
  over: () => {
    fs.writeFileSync('x.js', '');
    fs.renameSync('x.js', '/data_js/csv-simple.js');
  },
  truncate: () => fs.truncateSync('/data_js/csv-simple.js'),
};
for (const [name, attempt] of Object.entries(tries)) {
  try {
    attempt();
    console.log(name, 'succeeded');
  } catch (error) {
    console.log(name, error.code);
  }
}
console.log(fs.readFileSync('/data_js/csv-simple.js', 'utf8').split('\n')[0]);
console.log(requireVendor('csv-simple').stringify([{ a: 0 }]));
