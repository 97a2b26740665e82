const [s, error] = os.stat("input.txt");
console.log(s.size, (s.mode & os.S_IFMT) === os.S_IFREG, (s.mode & os.S_IFMT) === os.S_IFDIR);
