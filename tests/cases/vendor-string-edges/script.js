const text = requireVendor('string-utils');
console.log([text.slugify('Crème Brûlée & Straße — ñ!'), text.slugify('日本語 テスト'), text.slugify('  '), text.slugify('a_b', '_'), text.slugify(0)]);
console.log([text.truncate('héllo wörld', 5), text.truncate('abc', 3), text.truncate('abcd', 3, '...'), text.truncate('😀😀😀', 2), text.truncate('abc', 0)]);
console.log([text.camelCase('foo-bar_baz qux'), text.snakeCase('HTTPServerError2'), text.kebabCase('fooBar'), text.capitalize('éa'), text.capitalize('')]);
console.log([text.pad('a', 5, 'xy', 'both'), text.pad('a', 3, ''), text.pad('😀', 3, '-', 'left'), text.clean(' a \n b ')]);
console.log([text.reverse('a😀b'), text.isPalindrome('A man, a plan, a canal: Panama'), text.isPalindrome('Été'), text.isPalindrome(''), text.count('aaa', 'aa'), text.count('a', '')]);
console.log(text.words("it's fooBar 2x"), text.wordCount('one  two'));
