function main() {
  console.log('main', __filename.endsWith('.js') || __filename, module.id, exports === module.exports, require.main.filename === __filename);
}
if (require.main === module) main();
