'use strict';
// Patterns for file names.
{
  const $ = $glovebox;

  // Converts a pattern to a regular expression. Supports `*` and `?` within a name, `**` across directories, `{a,b}`
  // and `[a-z]`.
  $.globPattern = (pattern) => {
    let source = '';
    let depth = 0;
    for (let i = 0; i < pattern.length; i++) {
      const c = pattern[i];
      if (pattern.startsWith('**/', i)) {
        source += '(?:[^/]+/)*';
        i += 2;
      } else if (pattern.startsWith('**', i)) {
        source += '.*';
        i++;
      } else if (c === '*') source += '[^/]*';
      else if (c === '?') source += '[^/]';
      else if (c === '[' && pattern.indexOf(']', i) > 0) {
        const end = pattern.indexOf(']', i);
        source += `[${pattern.slice(i + 1, end).replace(/^!/, '^').replace(/\\/g, '\\\\')}]`;
        i = end;
      } else if (c === '{') {
        source += '(?:';
        depth++;
      } else if (c === '}' && depth > 0) {
        source += ')';
        depth--;
      } else if (c === ',' && depth > 0) source += '|';
      else source += c.replace(/[\\^$.|+(){}\[\]]/, '\\$&');
    }
    return new RegExp(`^${source}${')'.repeat(depth)}$`, 's');
  };
}
