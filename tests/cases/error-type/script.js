throw new TypeError('bad type')
