if (os.rename('input.txt', 'new.txt') !== 0) throw new Error("rename");
