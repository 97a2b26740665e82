const value = JSON.parse('{"a": [1, 2.5, null, true, "\\u00e9"], "b": {"c": "x"}}');
console.log(JSON.stringify(value));
console.log(value.a[1], value.a[4]);
