'use strict';
// A table of (call, wrong value): each is an error of a documented class that names the argument, in the words of JavaScript.

const assert = require('node:assert/strict');
const { mkdtempSync, readdirSync, rmSync, writeFileSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, test } = require('node:test');

const { FileError, InputError, Tokenizer, TokenizerError, WindrowError, encodeFiles } = require('windrow');

const gpt2 = Tokenizer.fromTiktokenSync('gpt2');
const folder = mkdtempSync(path.join(os.tmpdir(), 'windrow-'));
after(() => rmSync(folder, { recursive: true }));

const input = path.join(folder, 'a.txt');
const output = path.join(folder, 'out');
writeFileSync(input, 'Hello world');

/** Values that are wrong everywhere but where they are named. */
const VALUES = {
  undefined,
  null: null,
  boolean: true,
  number: 7,
  NaN: NaN,
  negative: -1,
  fraction: 0.5,
  huge: 1e300,
  bigint: 7n,
  string: 'a b',
  empty: '',
  symbol: Symbol('a'),
  function: () => 0,
  object: { a: 1 },
  array: [],
  arrayOfNull: [null],
  bare: Object.create(null),
};

/** @typedef {keyof typeof VALUES} Kind */

/**
 * @param {string} name What the message must name.
 * @param {(value: any) => unknown} call
 * @param {Kind[]} right Kinds of values that the call takes.
 */
async function refuses(name, call, right) {
  for (const [kind, value] of Object.entries(VALUES)) {
    if (right.includes(/** @type {Kind} */ (kind))) {
      continue;
    }
    /** @type {any} */
    let error;
    try {
      await call(value);
    } catch (thrown) {
      error = thrown;
    }
    const where = `${name}, ${kind}: ${error}`;
    assert.ok(error instanceof TypeError || error instanceof RangeError || error instanceof WindrowError, where);
    assert.ok(error.message.includes(name), where);
    assert.doesNotMatch(error.message, /(^|[\s'"(])--?[a-z]|[Nn]ative|\bnapi|Expected \$|Cannot (read|destructure|convert|use)/, where);
  }
}

const OPTIONS = /** @type {Kind[]} */ (['undefined', 'null', 'array', 'bare']);
const ABSENT = /** @type {Kind[]} */ (['undefined', 'null']);

test('functions that load', async () => {
  const load = /** @type {any} */ (Tokenizer);
  for (const [name, source] of [['file', 'fromFile'], ['json', 'fromString'], ['name', 'fromTiktoken']]) {
    for (const call of [source, `${source}Sync`]) {
      await refuses(name, (value) => load[call](value), ['string', 'empty']);
      const good = name === 'name' ? 'gpt2' : '{}';
      await refuses('options', (value) => load[call](good, value), [...OPTIONS, 'object', 'arrayOfNull']);
      await refuses('encodeSpecialTokens', (value) => load[call](good, { encodeSpecialTokens: value }), [...ABSENT, 'boolean']);
      await assert.rejects(async () => load[call](good, { encodeSpecial: true }), { name: 'TypeError', message: /has no option encodeSpecial\nhint: the options are / });
    }
  }
  const missing = path.join(folder, 'missing.json');
  await assert.rejects(Tokenizer.fromFile(missing), (error) => error instanceof FileError && error.code === 'ENOENT' && error.message.includes(missing));
  await assert.rejects(Tokenizer.fromFile(''), { name: 'TypeError', message: 'file must not be empty' });
  await assert.rejects(Tokenizer.fromFile(folder), FileError);
  await assert.rejects(Tokenizer.fromString(''), TokenizerError);
  await assert.rejects(Tokenizer.fromTiktoken(''), TokenizerError);
  await assert.rejects(Tokenizer.fromTiktoken('a b'), (error) => {
    assert.ok(error instanceof TokenizerError);
    assert.match(error.message, /^tokenizer "a b" is not the name of a vocabulary\nhint: the vocabularies are [^/]*; Tokenizer\.fromFile loads files$/);
    return true;
  });
  await assert.rejects(Tokenizer.fromFile('s3://bucket/tokenizer.json'), (error) => error instanceof WindrowError && error.message.includes('s3://bucket/tokenizer.json'));
  await assert.rejects(Tokenizer.fromFile(new URL('s3://bucket/tokenizer.json')), (error) => error instanceof WindrowError && error.message.includes('s3://bucket/tokenizer.json'));
});

test('methods of texts', async () => {
  const tokenizer = /** @type {any} */ (gpt2);
  for (const method of ['encode', 'count', 'encodeBatch', 'countBatch']) {
    for (const call of [method, `${method}Sync`]) {
      const isBatch = method.endsWith('Batch');
      const text = isBatch ? ['a'] : 'a';
      await refuses(isBatch ? 'texts' : 'text', (value) => tokenizer[call](value), isBatch ? ['array', 'arrayOfNull'] : ['string', 'empty']);
      if (isBatch) {
        await refuses('item 1', (value) => tokenizer[call](['a', value]), ['string', 'empty']);
      }
      await refuses('options', (value) => tokenizer[call](text, value), [...OPTIONS, 'object', 'arrayOfNull']);
      await refuses('addSpecialTokens', (value) => tokenizer[call](text, { addSpecialTokens: value }), [...ABSENT, 'boolean']);
      await refuses('signal', (value) => tokenizer[call](text, { signal: value }), call === method ? ABSENT : []);
      await assert.rejects(async () => tokenizer[call](text, { addSpecialToken: true }), { name: 'TypeError', message: /has no option addSpecialToken\nhint: the options are addSpecialTokens/ });
      await tokenizer[call](text, null);
    }
  }
  await assert.rejects(tokenizer.encodeBatch('text'), /put it in an array/);
  await assert.rejects(tokenizer.encodeBatch(['a', 3]), { name: 'TypeError', message: 'item 1 must be a string, not a number' });
  await assert.rejects(tokenizer.encode(undefined), { name: 'TypeError', message: 'text must be a string, not undefined' });
});

test('methods of ids', async () => {
  const tokenizer = /** @type {any} */ (gpt2);
  for (const call of ['decode', 'decodeSync']) {
    await refuses('ids', (value) => tokenizer[call](value), ['array', 'empty']);
    await refuses('ids[1]', (value) => tokenizer[call]([1, value]), ['number']);
    await refuses('options', (value) => tokenizer[call]([1], value), [...OPTIONS, 'object', 'arrayOfNull']);
    await refuses('skipSpecialTokens', (value) => tokenizer[call]([1], { skipSpecialTokens: value }), [...ABSENT, 'boolean']);
  }
  for (const call of ['decodeBatch', 'decodeBatchSync']) {
    await refuses('batch', (value) => tokenizer[call](value), ['array', 'empty']);
    await refuses('batch[1]', (value) => tokenizer[call]([[1], value]), ['array', 'empty']);
    await refuses('batch.ids', (value) => tokenizer[call]({ ids: value, offsets: [0] }), []);
    await refuses('batch', (value) => tokenizer[call]({ ids: Uint32Array.of(1), offsets: value }), ['arrayOfNull']);
    for (const offsets of [[0, 2], [-1, 1], [1, 0], [NaN, 1], ['a', 'b']]) {
      await assert.rejects(async () => tokenizer[call]({ ids: Uint32Array.of(1), offsets }), { name: 'RangeError', message: /^batch\.offsets: item 0 is from / });
    }
  }
  await assert.rejects(tokenizer.decode([1.5]), { name: 'TypeError', message: 'ids[0] must be a whole number from 0 to 4294967295, not 1.5' });
  await refuses('id', (value) => tokenizer.idToToken(value), ['number']);
  await refuses('token', (value) => tokenizer.tokenToId(value), ['string', 'empty']);
  assert.equal(tokenizer.idToToken(0xffffffff), null);
});

test('encodeFiles', async () => {
  const encode = /** @type {any} */ (encodeFiles);
  await refuses('inputs', (value) => encode(value, output), ['string']);
  await refuses('inputs[1]', (value) => encode([input, value], output), ['string']);
  await refuses('output', (value) => encode(input, value), ['string']);
  await refuses('options', (value) => encode(input, output, value), [...OPTIONS, 'object', 'arrayOfNull']);
  await refuses('tokenizer', (value) => encode(input, output, { tokenizer: value }), ABSENT);
  for (const flag of ['appendEos', 'addSpecialTokens', 'specialInText', 'lines', 'allText', 'hidden', 'noIgnore', 'overwrite', 'resume']) {
    await refuses(flag, (value) => encode(input, output, { [flag]: value }), [...ABSENT, 'boolean']);
  }
  for (const name of ['dtype', 'inputFormat', 'format', 'onError', 'threads', 'memory', 'shardSize']) {
    await refuses(name, (value) => encode(input, output, { [name]: value }), [...ABSENT, ...(['threads', 'memory', 'shardSize'].includes(name) ? /** @type {Kind[]} */ (['number']) : [])]);
  }
  for (const name of ['eos', 'bos', 'maxSkipped', 'join', 'field', 'keep', 'ext']) {
    // Some of these values are right there: what they cause is not checked here.
    await refuses(name, (value) => encode(input, output, { [name]: value }), [...ABSENT, 'number', 'array', 'string', 'empty']);
  }
  await refuses('progress', (value) => encode(input, output, { progress: value }), [...ABSENT, 'function']);
  await refuses('signal', (value) => encode(input, output, { signal: value }), ABSENT);
  const missing = path.join(folder, 'missing');
  await assert.rejects(encode(missing, output), (/** @type {any} */ error) => error instanceof FileError && error.code === 'ENOENT' && error.message.includes(missing));
  await assert.rejects(encode('s3://bucket/a.txt', output), (/** @type {any} */ error) => error instanceof WindrowError && error.message.includes('s3://bucket/a.txt'));
  assert.deepEqual(readdirSync(folder), ['a.txt']);
});

test('null is no option', async () => {
  const names = ['tokenizer', 'format', 'dtype', 'eos', 'bos', 'join', 'field', 'keep', 'threads', 'memory', 'progress', 'signal', 'overwrite'];
  const { tokens } = await encodeFiles(input, output, { ...Object.fromEntries(names.map((name) => [name, null])), lines: null });
  assert.equal(tokens, 2);
  await encodeFiles(input, output, { overwrite: true });
  await assert.rejects(encodeFiles(input, output, null), /already exists/);
});

test('messages have the words of JavaScript', async () => {
  const jsonl = path.join(folder, 'b.jsonl');
  writeFileSync(jsonl, '{"body":"a"}\n');
  const exists = path.join(folder, 'exists');
  await encodeFiles(input, exists);
  for (const [call, message] of /** @type {const} */ ([
    [() => encodeFiles(input, exists), /already exists[^]*overwrite: true/],
    [() => encodeFiles(input, output, { format: /** @type {any} */ ('none') }), /format: unknown variant `none`/],
    [() => encodeFiles(input, output, { eos: '<|none|>' }), /eos/],
    [() => encodeFiles(jsonl, output, { overwrite: true }), /select it with field: 'NAME'/],
    [() => encodeFiles(jsonl, output, { overwrite: true, field: 'body', join: ' ' }), /join has no effect with fewer than two fields\nhint: pass field several times/],
    [() => encodeFiles(input, output, { overwrite: true, threads: 1e9 }), /threads/],
  ])) {
    await assert.rejects(call, (/** @type {any} */ error) => {
      assert.ok(error instanceof InputError || error instanceof FileError, String(error));
      assert.match(error.message, message);
      assert.doesNotMatch(error.message, /(^|[\s'"(`])--?[a-z]/);
      return true;
    });
  }
});

test('every message of the command has the words of the options', () => {
  const { inOptions } = require('../lib/words.js');
  for (const [from, to] of [
    ["pass --overwrite to replace it, or choose another name with -o", 'pass overwrite: true to replace it, or choose another name with output'],
    ["invalid value 'NaN' for '--threads <N>': no", "invalid value 'NaN' for threads: no"],
    ['hint: pass --append-eos too, or omit --eos', 'hint: pass appendEos: true too, or omit eos'],
    ['--max-skipped has no effect\nhint: pass --on-error skip too', "maxSkipped has no effect\nhint: pass onError: 'skip' too"],
    ['/a/--overwrite/x: bad', '/a/--overwrite/x: bad'],
    ['hint: pass --memory 512M', "hint: pass memory: '512M'"],
    ['hint: cargo install windrow-cli --features object-store, or download the object first', 'hint: download the object first'],
    ['add `--input-format text|lines`, or take it for text with `--all-text`', "add `inputFormat: 'text' or 'lines'`, or take it for text with `allText: true`"],
    ['--ext and --no-ignore', 'ext and noIgnore: true'],
    ['decompress it: xz --format=lzma -dc FILE | windrow encode - --input-format FORMAT, where FORMAT is text or jsonl', "decompress it: xz --format=lzma -dc FILE > NEW, and pass NEW with inputFormat: 'FORMAT', where FORMAT is text or jsonl"],
  ]) {
    assert.equal(inOptions(from), to);
  }
});
