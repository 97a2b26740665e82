os.remove('input.txt');
os.remove('/app/dir/inner.txt');
