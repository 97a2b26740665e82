if (os.rename('source.txt', 'target.txt') !== 0) throw new Error("rename");
