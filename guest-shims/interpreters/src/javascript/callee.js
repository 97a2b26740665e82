'use strict';
// Builds error messages for a callee that is not a function or constructor, for a value that is not iterable, and for a
// destructured `undefined` or `null`. The engine calls `nameCallee` with copies of the running function's code and of
// the names of its variables. `nameCallee` interprets the instructions up to the failed one, with source texts in place
// of values.
//
// The older build's engine does not call `nameCallee`.
{
  const $ = globalThis.$glovebox;
  const { uncurry } = $;
  const Bytes = Uint8Array;
  const View = DataView;
  const charCodeAt = uncurry(String.prototype.charCodeAt);
  const slice = uncurry(String.prototype.slice);
  const u16 = uncurry(DataView.prototype.getUint16);
  const i16 = uncurry(DataView.prototype.getInt16);
  const i32 = uncurry(DataView.prototype.getInt32);
  const i8 = uncurry(DataView.prototype.getInt8);
  const atomText = $.readAtom === undefined ? undefined : uncurry($.readAtom);

  const INSTRUCTIONS = 256;
  const digits = (text) => {
    const numbers = [];
    for (let i = 0; i < INSTRUCTIONS; i++) numbers[i] = i < text.length ? parseInt(text[i], 36) : 0;
    return numbers;
  };

  // For each instruction, in base 36: its size, and the numbers of values that it pops and pushes.
  const SIZES = digits('1555551111112311111111111111111113333333111111111653111555511666555111111115511111262663333333333333333355555111111aaaaaa77751111211121111111111122211115111111111111111111111111513311211111111112322122211111111111111111111111111111111111111222311111111');
  const TAKES = digits('000000000000001231223234345243345211220310100221101221200112300111223322334212223332323011011011001101101100012111212111100001111313440111111111100111120222222222222222222222212001021100000000000000001100000111111110000111111110000111111111110011111111');
  const LEAVES = digits('011111111111110122346345345243345110101100201200001111111003000012010112010112122231123101101101010010000001001111201000022221333520450222111112200011111111111111111111111111111111110201111111111111110121111000011111111000011111111000011111000011111111');

  // Sizes of `JSVarDef` and `JSClosureVar` in bytes, and the offset of the name in `JSClosureVar`.
  const VARIABLE_BYTES = 20;
  const OUTER_BYTES = 8;
  const OUTER_NAME = 4;
  const UNKNOWN = '(intermediate value)';
  const CONCAT = `${UNKNOWN}.concat`;
  // For a longer function, the engine throws its own error. Longer names are truncated, because the engine's messages
  // have at most 255 bytes.
  const MOST_BYTES = 1 << 17;
  const MOST_NAME = 120;
  const MOST_WIDE_NAME = 60;
  // Maximum length of an object and a property together.
  const MOST_BOTH = 60;
  // The kinds of errors, as in `runtimes/src/rewrite/quickjs`.
  const NOT_ITERABLE = 2, NOT_AN_OBJECT = 3;
  // Maximum number of stack slots, above the engine's own limit of 65,534.
  const MOST_VALUES = 1 << 16;

  const PUSH_I32 = 1, PUSH_ATOM = 4, UNDEFINED = 6, NULL = 7, THIS = 8, FALSE = 9, TRUE = 10, DUP = 17, PERM3 = 24, SWAP = 27, CONSTRUCT = 33,
    CALL = 34, TAIL_CALL = 35, CALL_METHOD = 36, TAIL_CALL_METHOD = 37, ARRAY_FROM = 38, APPLY = 39, RETURN = 40, RETURN_UNDEFINED = 41, RETURN_ASYNC = 47,
    THROW = 48, THROW_ERROR = 49, EVAL = 50, GET_SUPER = 53, GET_VAR_UNDEFINED = 55, GET_VAR = 56, GET_FIELD = 64, GET_FIELD2 = 65, GET_PRIVATE = 67,
    GET_ELEMENT = 70, GET_ELEMENT2 = 71, APPEND = 81, GET_LOCAL = 87, PUT_LOCAL = 88, GET_ARGUMENT = 90, GET_OUTER = 93, GET_LOCAL_CHECKED = 97,
    PUT_LOCAL_CHECKED = 98, PUT_LOCAL_INITIAL = 99, GET_OUTER_CHECKED = 100, IF_FALSE = 104, IF_TRUE = 105, GOTO = 106, CATCH = 107, GOSUB = 108, RET = 109,
    TO_OBJECT = 112, TO_KEY = 113, FOR_OF = 126, FOR_AWAIT_OF = 127, IS_NULLISH = 175, PUSH_MINUS_1 = 185, PUSH_7 = 193, PUSH_I8 = 194, PUSH_I16 = 195,
    GET_LOCAL_8 = 199, PUT_LOCAL_8 = 200, GET_LOCALS_0_1 = 202, GET_LOCAL_0 = 203, GET_LOCAL_3 = 206, PUT_LOCAL_0 = 207, PUT_LOCAL_3 = 210, GET_ARGUMENT_0 = 215,
    GET_ARGUMENT_3 = 218,
    GET_OUTER_0 = 227, GET_OUTER_3 = 230, GET_LENGTH = 239, IF_FALSE_8 = 240, IF_TRUE_8 = 241, GOTO_8 = 242, GOTO_16 = 243, CALL_0 = 244, CALL_3 = 247;

  // The state of the current call of `nameCallee`. Calls are never nested.
  let bytes, code, variables, outers, argumentCount, values, height, jumps, isReached, kind, value;
  // The values at backward jumps, while `follow` collects them, and the position of the current instruction.
  let backward, position;

  // A value is its source text, an object for a literal key, or `undefined` if it has no text.
  const joined = (object, name) => {
    const base = object ?? UNKNOWN;
    return slice(base, -1) === '?' ? `${base}.${name}` : `${base}${charCodeAt(name, 0) === 91 ? '' : '.'}${name}`;
  };
  const element = (object, key) => {
    if (key === undefined) return undefined;
    if (typeof key === 'object') return joined(object, key.text);
    return joined(object, `[${key}]`);
  };
  const shortened = (callee) => {
    const name = slice(callee, -1) === '?' ? slice(callee, 0, -1) : callee;
    let most = MOST_NAME;
    for (let i = 0; i < name.length && i < MOST_NAME; i++) if (charCodeAt(name, name.length - 1 - i) > 127) most = MOST_WIDE_NAME;
    return name.length > most ? `…${slice(name, -most)}` : name;
  };
  const textOf = (value) => (typeof value === 'object' ? undefined : value);

  const push = (value) => {
    if (height < MOST_VALUES) values[height++] = value;
  };
  const pop = () => (height > 0 ? values[--height] : undefined);
  const top = (depth) => (height > depth ? values[height - 1 - depth] : undefined);
  const replace = (takes, leaves, value) => {
    height = height > takes ? height - takes : 0;
    for (let i = 1; i < leaves; i++) push(undefined);
    if (leaves > 0) push(value);
  };
  const jump = (to) => {
    if (jumps[to] !== undefined) return;
    const copy = { __proto__: null, height };
    for (let i = 0; i < height; i++) copy[i] = values[i];
    jumps[to] = copy;
    if (backward === undefined || to > position) return;
    copy.isBackward = true;
    backward[to] = copy;
  };
  const word = (at) => u16(code, at + 1, true);
  const atom = (at) => atomText(i32(code, at + 1, true));
  const named = (text) => (text === '' || charCodeAt(text, 0) === 60 ? undefined : text);
  const variable = (index) => named(atomText(i32(variables, index * VARIABLE_BYTES, true)));
  const outer = (index) => named(atomText(i32(outers, index * OUTER_BYTES + OUTER_NAME, true)));
  const local = (index) => variable(argumentCount + index);

  // The handlers by instruction. Without a handler, an instruction pops its values and pushes values without a text.
  const actions = [];
  for (let op = 0; op < INSTRUCTIONS; op++) actions[op] = undefined;
  const on = (first, last, act) => {
    for (let op = first; op <= last; op++) actions[op] = act;
  };
  const is = (op, act) => on(op, op, act);
  const texts = (first, last, textAt) => on(first, last, (at, op) => replace(TAKES[op], LEAVES[op], textAt(at, op)));
  const text = (op, textAt) => texts(op, op, textAt);
  // Number and string literals have a text only as property keys.
  const key = (value) => ({ text: value });
  text(PUSH_I32, (at) => key(`[${i32(code, at + 1, true)}]`));
  text(PUSH_I8, (at) => key(`[${i8(code, at + 1)}]`));
  text(PUSH_I16, (at) => key(`[${i16(code, at + 1, true)}]`));
  texts(PUSH_MINUS_1, PUSH_7, (at, op) => key(`[${op - PUSH_MINUS_1 - 1}]`));
  text(PUSH_ATOM, (at) => key(atom(at)));
  text(UNDEFINED, () => 'undefined');
  text(NULL, () => 'null');
  text(THIS, () => 'this');
  text(FALSE, () => 'false');
  text(TRUE, () => 'true');
  text(GET_SUPER, () => 'super');
  texts(GET_VAR_UNDEFINED, GET_VAR, atom);
  text(GET_LOCAL, (at) => local(word(at)));
  text(GET_LOCAL_CHECKED, (at) => local(word(at)));
  text(GET_LOCAL_8, (at) => local(bytes[at + 1]));
  texts(GET_LOCAL_0, GET_LOCAL_3, (at, op) => local(op - GET_LOCAL_0));
  text(GET_ARGUMENT, (at) => variable(word(at)));
  texts(GET_ARGUMENT_0, GET_ARGUMENT_3, (at, op) => variable(op - GET_ARGUMENT_0));
  text(GET_OUTER, (at) => outer(word(at)));
  text(GET_OUTER_CHECKED, (at) => outer(word(at)));
  texts(GET_OUTER_0, GET_OUTER_3, (at, op) => outer(op - GET_OUTER_0));
  is(GET_LOCALS_0_1, () => {
    push(local(0));
    push(local(1));
  });
  text(GET_FIELD, (at) => joined(textOf(top(0)), atom(at)));
  is(GET_FIELD2, (at) => push(joined(textOf(top(0)), atom(at))));
  text(GET_LENGTH, () => joined(textOf(top(0)), 'length'));
  text(GET_PRIVATE, () => (textOf(top(0)) === undefined ? undefined : joined(textOf(top(1)), top(0))));
  text(GET_ELEMENT, () => element(textOf(top(1)), top(0)));
  is(GET_ELEMENT2, () => {
    const value = element(textOf(top(1)), top(0));
    pop();
    push(value);
  });
  is(DUP, () => push(top(0)));
  is(SWAP, () => {
    const last = pop();
    const before = pop();
    push(last);
    push(before);
  });
  is(PERM3, () => {
    const last = pop();
    const middle = pop();
    const first = pop();
    push(middle);
    push(first);
    push(last);
  });
  is(TO_KEY, () => {});
  is(IS_NULLISH, () => {
    // `?.` tests a copy of the value.
    pop();
    const tested = textOf(top(0));
    if (tested !== undefined) values[height - 1] = `${tested}?`;
    push(undefined);
  });

  const called = (takes, isMethod, leaves) => {
    const callee = takes > height ? undefined : textOf(values[height - takes + (isMethod ? 1 : 0)]);
    // A template literal is compiled to a call of `concat`.
    replace(takes, leaves, callee === CONCAT ? undefined : `${callee ?? UNKNOWN}(...)`);
  };
  is(CALL, (at) => called(1 + word(at), false, 1));
  is(CALL_METHOD, (at) => called(2 + word(at), true, 1));
  on(CALL_0, CALL_3, (at, op) => called(1 + op - CALL_0, false, 1));
  is(CONSTRUCT, (at) => replace(2 + word(at), 1, undefined));
  is(ARRAY_FROM, (at) => replace(word(at), 1, undefined));
  is(EVAL, (at) => replace(1 + word(at), 1, undefined));

  on(IF_FALSE, IF_TRUE, (at) => {
    pop();
    jump(at + 1 + i32(code, at + 1, true));
  });
  on(IF_FALSE_8, IF_TRUE_8, (at) => {
    pop();
    jump(at + 1 + i8(code, at + 1));
  });
  const leave = (to) => {
    jump(to);
    isReached = false;
  };
  is(GOTO, (at) => leave(at + 1 + i32(code, at + 1, true)));
  is(GOTO_8, (at) => leave(at + 1 + i8(code, at + 1)));
  is(GOTO_16, (at) => leave(at + 1 + i16(code, at + 1, true)));
  is(CATCH, (at) => {
    push(undefined);
    jump(at + 1 + i32(code, at + 1, true));
  });
  is(GOSUB, (at) => {
    push(undefined);
    jump(at + 1 + i32(code, at + 1, true));
    pop();
  });
  const end = () => {
    isReached = false;
  };
  is(TAIL_CALL, end);
  is(TAIL_CALL_METHOD, end);
  on(RETURN, RETURN_UNDEFINED, end);
  is(RETURN_ASYNC, end);
  on(THROW, THROW_ERROR, end);
  is(RET, end);

  // Merges the values that arrive at an instruction from jumps to it.
  const arrive = (at) => {
    const arriving = jumps[at];
    if (arriving === undefined) {
      if (!isReached) height = 0;
    } else if (isReached) {
      // In a declaration, an `undefined` that is never used is pushed before the code of a pattern.
      const isUnused = (text) => arriving.isBackward && text === 'undefined';
      for (let i = 0; i < height; i++) if (values[i] !== arriving[i]) values[i] = isUnused(values[i]) ? arriving[i] : undefined;
    } else {
      values = arriving;
      height = arriving.height;
    }
    isReached = true;
  };

  const iterableMessage = (op) => {
    if (op !== FOR_OF && op !== FOR_AWAIT_OF && op !== APPEND) return undefined;
    const iterated = textOf(top(0));
    return iterated === undefined ? undefined : `${shortened(iterated)} is not ${op === FOR_AWAIT_OF ? 'async ' : ''}iterable`;
  };
  // After the conversion to an object, `with` stores the object. A pattern reads a property, if its name is constant.
  const patternMessage = (at, op) => {
    const next = bytes[at + 1];
    const isWith = next === PUT_LOCAL || next === PUT_LOCAL_CHECKED || next === PUT_LOCAL_INITIAL || next === PUT_LOCAL_8 ||
      next >= PUT_LOCAL_0 && next <= PUT_LOCAL_3;
    if (op !== TO_OBJECT || isWith) return undefined;
    const object = shortened(textOf(top(0)) ?? `${value}`);
    const property = next === GET_FIELD2 ? atom(at + 1) : undefined;
    const isNamed = property !== undefined && property.length + object.length <= MOST_BOTH;
    return `Cannot destructure ${isNamed ? `property '${property}' of ` : ''}'${object}' as it is ${value}.`;
  };

  // Returns the message for the failed instruction at `at`, or `undefined` if the value has no text.
  const messageOf = (at, op) => {
    if (kind === NOT_ITERABLE) return iterableMessage(op);
    if (kind === NOT_AN_OBJECT) return patternMessage(at, op);
    let count;
    let isConstructor = op === CONSTRUCT;
    if (op >= CONSTRUCT && op <= TAIL_CALL_METHOD) count = word(at) + (isConstructor ? 2 : 1);
    else if (op === EVAL) count = word(at) + 1;
    else if (op >= CALL_0 && op <= CALL_3) count = op - CALL_0 + 1;
    else if (op === APPLY) {
      count = 3;
      isConstructor = word(at) === 1;
    } else return undefined;
    const callee = count > height ? undefined : textOf(values[height - count]);
    if (callee === undefined || (isConstructor && callee === 'super')) return undefined;
    return `${shortened(callee)} is not a ${isConstructor ? 'constructor' : 'function'}`;
  };

  // Follows the code up to the instruction that contains `target`, which can be the position of an operand.
  const follow = (target) => {
    for (let at = 0; at <= target; ) {
      const op = bytes[at];
      if (op === undefined) return undefined;
      const size = SIZES[op];
      position = at;
      if (!isReached || at in jumps) arrive(at);
      if (target < at + size) return backward === undefined ? messageOf(at, op) : undefined;
      const act = actions[op];
      if (act === undefined) replace(TAKES[op], LEAVES[op], undefined);
      else act(at, op);
      if (size === 0) return undefined;
      at += size;
    }
    return undefined;
  };

  // Returns the message, or `undefined` if the value has no text. The engine then throws its own error.
  $.nameCallee = (codeBuffer, variableBuffer, outerBuffer, target, count, errorKind, wrongValue) => {
    if (codeBuffer.byteLength > MOST_BYTES) return undefined;
    bytes = new Bytes(codeBuffer);
    code = new View(codeBuffer);
    variables = new View(variableBuffer);
    outers = new View(outerBuffer);
    argumentCount = count;
    // `for await` calls the iterator method without checking that there is one.
    const isAwaited = errorKind === 0 && bytes[target] === FOR_AWAIT_OF;
    kind = isAwaited ? NOT_ITERABLE : errorKind;
    value = wrongValue;
    // Uses objects instead of arrays, because scripts can change `Array.prototype`.
    const begin = (known) => {
      values = { __proto__: null };
      height = 0;
      jumps = known;
      isReached = true;
    };
    try {
      begin({ __proto__: null });
      if (kind >= NOT_ITERABLE) {
        // The code of a pattern precedes the code of its value, which ends with a backward jump.
        backward = { __proto__: null };
        follow(codeBuffer.byteLength);
        begin(backward);
        backward = undefined;
      }
      const message = follow(target);
      return message === undefined && isAwaited ? 'value is not async iterable' : message;
    } finally {
      bytes = code = variables = outers = values = jumps = value = backward = undefined;
    }
  };
}
