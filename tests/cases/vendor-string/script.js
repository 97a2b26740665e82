const s = requireVendor('string-utils');
console.log(s.slugify('Crème Brûlée & Straße, Œuvre!'), s.slugify('Hello World!'), s.truncate('a long sentence', 8));
console.log(s.camelCase('foo-bar baz'), s.snakeCase('fooBarBaz'), s.kebabCase('HTTPServer error'), s.capitalize('élan'));
console.log(`[${s.pad('7', 3, '0', 'left')}] [${s.clean('  a \n b ')}]`, s.count('banana', 'an'), s.reverse('a😀b'), s.isPalindrome('Été'));
console.log(s.words('one two'), s.wordCount('one, two; three'));
