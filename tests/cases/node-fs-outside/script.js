const fs = require('fs');
for (const file of ['/etc/passwd', '../etc/passwd', '/app/../etc/passwd']) {
  try {
    fs.readFileSync(file, 'utf8');
  } catch (error) {
    console.log(error.code);
  }
}
try {
  fs.writeFileSync('/data_js/mine.js', '1');
} catch (error) {
  console.log(error.code);
}
