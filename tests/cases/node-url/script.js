const url = new URL('../b?x=1&y=%20#top', 'https://user:pw@example.com:8080/a/c/d');
console.log(url.href, url.origin, url.searchParams.get('y'), url.hash);
url.searchParams.append('z', 'ä & ö');
url.port = '';
console.log(String(url));
console.log(new URL('http://münchen.example/ä').href, new URL('http://[::1]:80/').host, URL.canParse('no url'));
try {
  new URL('/relative');
} catch (error) {
  console.log(error.name, error.code, error.message);
}
console.log(new URLSearchParams({ a: 1, b: 'x y' }).toString(), [...new URLSearchParams('a=1&a=2').getAll('a')]);
console.log(new URL('https://a.example/p?q=1'));
