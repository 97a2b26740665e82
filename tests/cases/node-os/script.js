const os = require('os');
console.log(JSON.stringify(os.EOL), os.platform(), os.tmpdir(), os.homedir(), os.cpus().length);
