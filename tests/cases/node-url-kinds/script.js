const texts = [
  'foo', 'http://', 'http://a b', 'http://[::1]:80/', 'http://1.2.3', 'http://0x7f.1', 'HTTP://A.B:80/x', 'file:///a/b', 'data:text/plain,x', 'mailto:a@b',
  'http://a:99999', 'javascript:alert(1)', 'http://a/%', 'http://münchen.de/ü?ü#ü', 'https://a:443/', '  http://x  ', 'http://x/a\tb', 'http:\\\\a\\b',
  'http://a@b@c/', 'http://256.1.1.1/', 'http://%41.com/', 'http://[::ffff:1.2.3.4]/', 'http://a/b;c=d,e', 'about:blank', 'ws://x:80', 'http://a/%2e%2e/b',
];
for (const text of texts) {
  try {
    console.log(JSON.stringify(text), new URL(text).href);
  } catch (error) {
    console.log(JSON.stringify(text), error.code, error.message);
  }
}
for (const to of ['../x', '?y', '#z', '//h/p', '/abs', 'a b', 'http:foo', '%zz', 'x:y']) console.log(new URL(to, 'http://a.com/d/e?f#g').href);
console.log(URL.canParse('x'), URL.canParse('x', 'http://y'), URL.parse('x'));
