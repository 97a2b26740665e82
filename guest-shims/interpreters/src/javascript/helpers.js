'use strict';
// Global helper functions. A script can declare the same names.
{
  const $ = $glovebox;
  const { fs, path } = $.node;

  const makeRoom = (file) => {
    const directory = path.dirname(path.resolve(file));
    if (!fs.existsSync(directory)) fs.mkdirSync(directory, { recursive: true });
  };
  const helpers = {
    readText: (file) => fs.readFileSync(file, 'utf8'),
    writeText(file, text) {
      makeRoom(file);
      fs.writeFileSync(file, `${text}`);
    },
    appendText(file, text) {
      makeRoom(file);
      fs.appendFileSync(file, `${text}`);
    },
    readJson(file) {
      const text = fs.readFileSync(file, 'utf8');
      try {
        return JSON.parse(text.replace(/^\ufeff/, ''));
      } catch (error) {
        throw new SyntaxError(`${file} is not JSON: ${error.message}`);
      }
    },
    writeJson(file, value, indent = 2) {
      const text = JSON.stringify(value, null, indent);
      if (text === undefined) throw new TypeError(`${$.inspect(value, 0)} cannot be converted to JSON`);
      helpers.writeText(file, `${text}\n`);
    },
    readLines: (file) => $.lines(fs.readFileSync(file, 'utf8')),
    writeLines(file, lines) {
      helpers.writeText(file, Array.from(lines, (line) => `${line}\n`).join(''));
    },
    fileExists: (file) => fs.existsSync(file),
    fileSize: (file) => fs.statSync(file).size,
    listFiles: (directory = '.') => fs.readdirSync(directory),
    copyFile(from, to) {
      makeRoom(to);
      fs.copyFileSync(from, to);
    },
    removeFile(file) {
      fs.unlinkSync(file);
    },
  };
  for (const name of Object.keys(helpers)) $.global(name, helpers[name]);
}
