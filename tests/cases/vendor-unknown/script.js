for (const name of ['csv-smple', 'strings', '../app/x', 'nope']) {
  try {
    requireVendor(name);
  } catch (error) {
    console.log(error.code, error.message);
  }
}
console.log(require('fs').readdirSync('/data_js'));
