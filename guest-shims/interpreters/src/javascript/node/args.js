'use strict';
// `util.parseArgs`.
{
  const $ = $glovebox;
  const { coded } = $;

  const refuse = (code, message) => {
    throw coded(TypeError, `ERR_PARSE_ARGS_${code}`, message);
  };
  const isLikeOption = (text) => text !== undefined && text.length > 1 && text[0] === '-';

  // Returns a token for each argument, as in Node. `-abc` gives three tokens.
  const tokensOf = (args, options) => {
    const typeOf = (name) => (Object.hasOwn(options, name) ? options[name].type : undefined);
    const longName = (short) => Object.keys(options).find((name) => options[name].short === short) ?? short;
    const tokens = [];
    const left = [...args];
    let index = -1;
    let inGroup = 0;
    while (left.length > 0) {
      const arg = left.shift();
      if (inGroup > 0) inGroup--;
      else index++;
      const option = (name, rawName, value) => {
        const isInline = value !== undefined;
        let given = value;
        const at = index;
        if (!isInline && typeOf(name) === 'string' && left.length > 0) {
          given = left.shift();
          index++;
        }
        tokens.push({ kind: 'option', name, rawName, index: at, value: given, inlineValue: given === undefined ? undefined : isInline });
      };
      if (arg === '--') {
        tokens.push({ kind: 'option-terminator', index });
        for (const value of left.splice(0)) tokens.push({ kind: 'positional', index: ++index, value });
      } else if (/^-[^-]$/s.test(arg)) option(longName(arg[1]), arg);
      else if (/^-[^-]/s.test(arg)) {
        if (typeOf(longName(arg[1])) === 'string') {
          option(longName(arg[1]), arg.slice(0, 2), arg.slice(2));
          continue;
        }
        const parts = [];
        for (let i = 1; i < arg.length; i++) {
          const isLast = typeOf(longName(arg[i])) === 'string';
          parts.push(`-${isLast ? arg.slice(i) : arg[i]}`);
          if (isLast) break;
        }
        left.unshift(...parts);
        // All letters of a group such as `-abc` have the index of the group.
        inGroup = parts.length;
      } else if (/^--./s.test(arg)) {
        const at = arg.indexOf('=', 3);
        if (at < 0) option(arg.slice(2), arg);
        else option(arg.slice(2, at), arg.slice(0, at), arg.slice(at + 1));
      } else tokens.push({ kind: 'positional', index, value: arg });
    }
    return tokens;
  };

  const check = ({ name, rawName, value, inlineValue }, options, allowPositionals, isNegated) => {
    if (!Object.hasOwn(options, name) && !isNegated) {
      const hint = allowPositionals ? `. To specify a positional argument starting with a '-', place it at the end of the command after '--', as in '-- "${rawName}"` : '';
      refuse('UNKNOWN_OPTION', `Unknown option '${rawName}'${hint}`);
    }
    const { type, short } = isNegated ? { type: 'boolean' } : options[name];
    const shown = `${short === undefined ? '' : `-${short}, `}--${name}`;
    if (type === 'string' && value === undefined) refuse('INVALID_OPTION_VALUE', `Option '${shown} <value>' argument missing`);
    if (type === 'boolean' && value !== undefined) refuse('INVALID_OPTION_VALUE', `Option '${shown}' does not take an argument`);
    if (inlineValue || !isLikeOption(value)) return;
    const example = rawName.startsWith('--') ? `'${rawName}=-XYZ'` : `'--${name}=-XYZ' or '${rawName}-XYZ'`;
    refuse('INVALID_OPTION_VALUE', `Option '${rawName}' argument is ambiguous.\nDid you forget to specify the option argument for '${rawName}'?\nTo specify an option argument starting with a dash use ${example}.`);
  };

  $.parseArgs = (config = {}) => {
    const { args = process.argv.slice(2), options = {}, strict = true, allowPositionals = !strict, allowNegative = false, tokens: wantsTokens = false } = config;
    for (const name of Object.keys(options)) {
      const { type, short } = options[name];
      if (type !== 'string' && type !== 'boolean') {
        throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', `The "options.${name}.type" property must be one of type 'string|boolean'. Received ${$.received(type)}`);
      }
      if (short !== undefined && short.length !== 1) {
        throw coded(TypeError, 'ERR_INVALID_ARG_VALUE', `The property 'options.${name}.short' must be a single character. Received ${$.inspect(short, 0)}`);
      }
    }
    const values = { __proto__: null };
    const positionals = [];
    const tokens = tokensOf(args.map(String), options);
    for (const token of tokens) {
      if (token.kind === 'positional') {
        if (!allowPositionals) refuse('UNEXPECTED_POSITIONAL', `Unexpected argument '${token.value}'. This command does not take positional arguments`);
        positionals.push(token.value);
      }
      if (token.kind !== 'option') continue;
      const plain = token.name.slice(3);
      const isNegated = allowNegative && token.name.startsWith('no-') && !Object.hasOwn(options, token.name) && (!strict || (Object.hasOwn(options, plain) && options[plain].type === 'boolean'));
      if (strict) check(token, options, allowPositionals, isNegated);
      const name = isNegated ? plain : token.name;
      if (name === '__proto__') continue;
      const value = isNegated ? false : token.value ?? true;
      if (Object.hasOwn(options, name) && options[name].multiple) (values[name] ??= []).push(value);
      else values[name] = value;
    }
    for (const name of Object.keys(options)) {
      if (options[name].default !== undefined && values[name] === undefined) values[name] = options[name].default;
    }
    return wantsTokens ? { values, positionals, tokens } : { values, positionals };
  };
}
