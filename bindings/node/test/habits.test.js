'use strict';
// What programs for models ask of a tokenizer: whole encodings, limits, streams, conversations, models by name, counts of files.

const assert = require('node:assert/strict');
const { mkdirSync, mkdtempSync, rmSync, writeFileSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { Readable } = require('node:stream');
const { test } = require('node:test');

const { DecodeStream, InputError, ItemError, Tokenizer, TokenizerError, countFiles } = require('windrow');

const gpt2 = Tokenizer.fromTiktokenSync('gpt2');

/** Words in the form of BERT, as a file. */
const BERT = JSON.stringify({
  version: '1.0',
  added_tokens: ['[PAD]', '[CLS]', '[SEP]'].map((content, id) => ({
    id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true,
  })),
  normalizer: null,
  pre_tokenizer: { type: 'Whitespace' },
  post_processor: { type: 'BertProcessing', sep: ['[SEP]', 2], cls: ['[CLS]', 1] },
  decoder: null,
  model: { type: 'WordLevel', vocab: { '[PAD]': 0, '[CLS]': 1, '[SEP]': 2, '[UNK]': 3, one: 4, two: 5, three: 6, '😀': 7 }, unk_token: '[UNK]' },
});
const bert = Tokenizer.fromStringSync(BERT);

/** A folder that is removed after the test. @param {import('node:test').TestContext} context */
function folderOf(context) {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'windrow-'));
  context.after(() => rmSync(folder, { recursive: true }));
  return folder;
}

/** @param {Uint32Array} array @param {import('windrow').Encodings} encodings */
const rows = (array, { offsets }) => Array.from(offsets.subarray(1), (end, row) => [...array.subarray(offsets[row], end)]);

test('encodings are padded to the longest', async () => {
  const batch = await bert.encodings(['one two', 'three'], { padding: true });
  assert.deepEqual(rows(batch.ids, batch), [[1, 4, 5, 2], [1, 6, 2, 0]]);
  assert.deepEqual(rows(batch.attentionMask, batch), [[1, 1, 1, 1], [1, 1, 1, 0]]);
  assert.deepEqual(rows(batch.specialTokensMask, batch), [[1, 0, 0, 1], [1, 0, 1, 1]]);
  assert.deepEqual(batch.inputs, Float64Array.of(0, 1));
  assert.deepEqual(bert.encodingsSync(['one two', 'three'], { padding: true }), batch);
  assert.deepEqual(await bert.decodeBatch(batch), ['one two', 'three']);

  const fixed = bert.encodingsSync(['one'], { padding: 5, padId: 9, paddingSide: 'left' });
  assert.deepEqual([...fixed.ids], [9, 9, 1, 4, 2]);
  assert.deepEqual([...fixed.attentionMask], [0, 0, 1, 1, 1]);
  assert.deepEqual([...bert.encodingsSync(['one'], { padding: true, padToMultipleOf: 4 }).ids], [1, 4, 2, 0]);
  assert.deepEqual([...gpt2.encodingsSync(['Hello world', 'Hello'], { padding: true }).ids], [15496, 995, 15496, 50256]);
  assert.deepEqual(bert.encodingsSync([]).offsets, Float64Array.of(0));
});

test('encodings are truncated', () => {
  const texts = ['one two three one', 'two'];
  const cut = bert.encodingsSync(texts, { maxLength: 4 });
  assert.deepEqual(rows(cut.ids, cut), [[1, 4, 5, 2], [1, 5, 2]]);
  const left = bert.encodingsSync(texts, { maxLength: 4, truncationSide: 'left' });
  assert.deepEqual(rows(left.ids, left), [[1, 6, 4, 2], [1, 5, 2]]);
  const all = bert.encodingsSync(texts, { maxLength: 4, overflow: true, stride: 1 });
  assert.deepEqual(rows(all.ids, all), [[1, 4, 5, 2], [1, 5, 6, 2], [1, 6, 4, 2], [1, 5, 2]]);
  assert.deepEqual(all.inputs, Float64Array.of(0, 0, 0, 1));
  const plain = bert.encodingsSync(texts, { maxLength: 1, addSpecialTokens: false });
  assert.deepEqual([...plain.ids], [4, 5]);
});

test('pairs have types', async () => {
  const pairs = [['one', 'two three'], ['two', 'one']].map(([first, second]) => /** @type {[string, string]} */ ([first, second]));
  const batch = await bert.encodings(pairs, { padding: true });
  assert.deepEqual(rows(batch.ids, batch), [[1, 4, 2, 5, 6, 2], [1, 5, 2, 4, 2, 0]]);
  assert.deepEqual(rows(batch.typeIds, batch), [[0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 0]]);
  const cut = bert.encodingsSync(pairs, { maxLength: 5, truncation: 'onlySecond' });
  assert.deepEqual(rows(cut.ids, cut), [[1, 4, 2, 5, 2], [1, 5, 2, 4, 2]]);
  // More than a piece holds, so that pairs are divided between pieces.
  const many = Array.from({ length: 20_001 }, () => /** @type {[string, string]} */ (['one '.repeat(7), 'two '.repeat(11)]));
  const long = await bert.encodings(many);
  assert.equal(long.ids.length, 20_001 * 21);
  assert.deepEqual(long.ids.slice(-21), long.ids.slice(0, 21));
});

test('spans are places in the string', () => {
  for (const [tokenizer, text] of /** @type {[Tokenizer, string][]} */ ([[bert, 'one 😀 two'], [gpt2, 'Hello wörld 😀 end']])) {
    const { ids, spans } = tokenizer.encodingsSync([text], { addSpecialTokens: false });
    const parts = Array.from(ids, (_, at) => text.slice(spans[2 * at], spans[2 * at + 1]));
    assert.equal(parts[0], text.split(' ')[0]);
    assert.equal(parts.at(-1)?.trim(), text.split(' ').at(-1));
  }
  const { spans } = bert.encodingsSync([['😀', '😀 one']], { addSpecialTokens: false });
  assert.deepEqual([...spans], [0, 2, 0, 2, 3, 6]);
});

test('wrong options of encodings are named', async () => {
  /** @type {[any, any, RegExp][]} */
  const cases = [
    [['a'], { maxLength: 0 }, /maxLength must be a whole number of at least 1, not 0/],
    [['a'], { padding: 'max' }, /padding must be a whole number of at least 1, not a string/],
    [['a'], { truncation: 'first' }, /truncation must be 'longestFirst' or 'onlyFirst' or 'onlySecond', not 'first'/],
    [['a'], { paddingSide: 1 }, /paddingSide must be 'right' or 'left', not a number/],
    [['a'], { maxlength: 3 }, /encodings has no option maxlength/],
    ['a', {}, /texts must be several texts/],
    [[['a', 'b'], 'c'], {}, /item 1 must be a pair of strings/],
  ];
  for (const [inputs, options, message] of cases) {
    await assert.rejects(bert.encodings(inputs, options), { name: 'TypeError', message });
  }
  await assert.rejects(bert.encodings(['one'], { maxLength: 3, stride: 3 }), InputError);
  await assert.rejects(bert.encodings(['one'], { maxLength: 1 }), ItemError);
  await assert.rejects(bert.encodings(['one', 'a\ud800']), { name: 'ItemError', item: 1 });
  const noPad = JSON.parse(BERT);
  [noPad.added_tokens, noPad.post_processor, noPad.model.vocab] = [[], null, { '[UNK]': 0, one: 1 }];
  const words = Tokenizer.fromStringSync(JSON.stringify(noPad));
  assert.throws(() => words.encodingsSync(['one'], { padding: true }), { name: 'InputError', message: /hint: pass the id to pad with as padId/ });
});

test('countTokens stops at its limit', () => {
  assert.equal(gpt2.countTokens('Hello world'), 2);
  assert.equal(gpt2.countTokens('Hello world', { limit: 2 }), 2);
  assert.equal(gpt2.countTokens('Hello world', { limit: 1 }), Infinity);
  assert.equal(gpt2.countTokens('', { limit: 0 }), 0);
  assert.equal(bert.countTokens('one two'), 4);
  assert.equal(bert.countTokens('one two', { addSpecialTokens: false, limit: 2 }), 2);
  const text = 'The quick brown fox jumps over the lazy dog. '.repeat(200_000);
  const all = gpt2.countTokens(text);
  assert.equal(all, gpt2.countSync(text));
  assert.equal(gpt2.countTokens(text, { limit: all }), all);
  assert.equal(gpt2.countTokens(text, { limit: all - 1 }), Infinity);
  const time = (/** @type {number} */ limit) => {
    const begin = performance.now();
    gpt2.countTokens(text, { limit });
    return performance.now() - begin;
  };
  const early = Math.min(...Array.from({ length: 5 }, () => time(100)));
  assert.ok(early < Math.min(time(Infinity), time(Infinity)) / 2, `${early} ms with a limit`);
  assert.throws(() => gpt2.countTokens('a', { limit: -1 }), { name: 'TypeError', message: /limit must be a number of at least 0, not -1/ });
  assert.throws(() => gpt2.countTokens('a\ud800'), ItemError);
});

test('a stream decodes ids as they come', async () => {
  const text = 'Hello wörld 👨‍👩‍👧 日本語';
  const ids = gpt2.encodeSync(text);
  const stream = gpt2.decodeStream();
  assert.ok(stream instanceof DecodeStream);
  const parts = Array.from(ids, (id) => stream.push(id));
  assert.equal(parts.join(''), text);
  assert.ok(parts.includes('') && parts.every((part) => !part.includes('\ufffd')));
  assert.equal(stream.end(), '');
  assert.equal(stream.push(ids), text);
  // Half of a character, at the end.
  assert.equal(stream.push(ids.subarray(0, 1)) + stream.push(8582) + stream.end(), 'Hello\ufffd');
  const come = async function* () {
    yield* ids;
  };
  for (const source of [come(), Readable.from(ids), [ids.subarray(0, 2), [...ids.subarray(2)]]]) {
    const texts = [];
    for await (const part of gpt2.decodeStream().texts(source)) texts.push(part);
    assert.equal(texts.join(''), text);
  }
  assert.equal(bert.decodeStream({ skipSpecialTokens: false }).push([1, 4]), '[CLS] one');
  assert.throws(() => gpt2.decodeStream().push(99_999_999), ItemError);
});

test('texts may come from a stream', async () => {
  const texts = Array.from({ length: 5000 }, (_, number) => `text ${number} `.repeat(number % 30));
  const expected = gpt2.encodeBatchSync(texts);
  const come = async function* () {
    yield* texts;
  };
  assert.deepEqual(await gpt2.encodeBatch(come()), expected);
  assert.deepEqual(await gpt2.encodeBatch(Readable.from(texts)), expected);
  assert.deepEqual(await gpt2.countBatch(/** @type {any} */ (ReadableStream).from(texts)), gpt2.countBatchSync(texts));
  assert.deepEqual(await gpt2.encodeBatch(Readable.from([])), { ids: new Uint32Array(), offsets: Float64Array.of(0) });
  await assert.rejects(gpt2.encodeBatch(Readable.from([...texts, 'a\ud800'])), { name: 'ItemError', item: 5000 });
  await assert.rejects(gpt2.encodeBatch(/** @type {any} */ (Readable.from([Buffer.from('a')]))), { name: 'TypeError', message: /item 0 must be a string.*setEncoding/ });
  const failing = async function* () {
    yield 'a';
    throw new Error('the source has failed');
  };
  await assert.rejects(gpt2.countBatch(failing()), /the source has failed/);
  const endless = async function* () {
    for (;;) yield 'text';
  };
  await assert.rejects(gpt2.countBatch(endless(), { signal: AbortSignal.timeout(50) }), { name: 'TimeoutError' });
});

test('models have names', async (context) => {
  for (const [model, name] of [['gpt-4o', 'o200k_base'], ['gpt-oss-20b', 'o200k_harmony'], ['text-davinci-003', 'p50k_base']]) {
    assert.equal((await Tokenizer.fromModel(model)).name, name);
  }
  assert.throws(() => Tokenizer.fromModelSync('gpt4o'), { name: 'TokenizerError', message: /did you mean gpt-4o/ });
  const folder = folderOf(context);
  const snapshot = path.join(folder, 'models--me--words/snapshots/1');
  mkdirSync(snapshot, { recursive: true });
  mkdirSync(path.join(folder, 'models--me--words/refs'));
  writeFileSync(path.join(folder, 'models--me--words/refs/main'), '1');
  writeFileSync(path.join(snapshot, 'tokenizer.json'), BERT);
  const { HF_HUB_CACHE } = process.env;
  process.env.HF_HUB_CACHE = folder;
  try {
    const words = await Tokenizer.fromModel('me/words');
    assert.deepEqual([...words.encodeSync('one')], [1, 4, 2]);
    assert.throws(() => Tokenizer.fromModelSync('me/other'), { name: 'TokenizerError', message: /hf download me\/other tokenizer\.json/ });
    const file = path.join(folder, 'a.txt');
    writeFileSync(file, 'one two');
    assert.equal((await countFiles(file, { tokenizer: 'me/words' })).total.tokens, 2);
  } finally {
    if (HF_HUB_CACHE === undefined) delete process.env.HF_HUB_CACHE;
    else process.env.HF_HUB_CACHE = HF_HUB_CACHE;
  }
});

test('conversations are written by their template', async (context) => {
  const template =
    '{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}{% if tools %}{{ tools | length }} tools{% endif %}' +
    "{% if add_generation_prompt %}<|assistant|>{% endif %}{{ strftime_now('%Y') if dated else '' }}";
  const messages = [{ role: 'user', content: 'Hi <|endoftext|>' }, { role: 'assistant', content: 'Hello' }];
  const options = { chatTemplate: template };
  assert.equal(gpt2.chatText(messages, options), '<|user|>Hi <|endoftext|><|assistant|>Hello<|assistant|>');
  const plain = { ...options, addGenerationPrompt: false };
  assert.equal(gpt2.chatText(messages, plain), '<|user|>Hi <|endoftext|><|assistant|>Hello');
  assert.equal(gpt2.chatText(messages, { ...plain, tools: [{}, {}] }), '<|user|>Hi <|endoftext|><|assistant|>Hello2 tools');
  assert.deepEqual(await gpt2.encodeChat(messages, plain), gpt2.encodeSync('<|user|>Hi <|endoftext|><|assistant|>Hello'));
  const text = Tokenizer.fromTiktokenSync('gpt2', { encodeSpecialTokens: true });
  assert.ok((await text.encodeChat(messages, plain)).includes(50256));
  const year = { chatTemplate: "{{ messages[0].content }} {{ strftime_now('%Y-%m-%d') }}", addGenerationPrompt: false };
  const [user] = messages;
  assert.equal(gpt2.chatText([user], { ...year, date: '2024-07-26' }), 'Hi <|endoftext|> 2024-07-26');
  assert.match(gpt2.chatText([user], year), /> \d{4}-\d\d-\d\d$/);

  const folder = folderOf(context);
  writeFileSync(path.join(folder, 'tokenizer.json'), BERT);
  writeFileSync(path.join(folder, 'tokenizer_config.json'), JSON.stringify({ eos_token: '[SEP]', chat_template: '{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}' }));
  const words = Tokenizer.fromFileSync(folder);
  assert.equal(words.chatText([{ role: 'user', content: 'one' }]), 'one[SEP]');
  assert.deepEqual([...(await words.encodeChat([{ role: 'user', content: 'one' }]))], [4, 2]);

  assert.throws(() => gpt2.chatText(messages), { name: 'TokenizerError', message: /hint: pass one as chatTemplate/ });
  assert.throws(() => bert.chatText(messages), TokenizerError);
  assert.throws(() => gpt2.chatText(messages, { chatTemplate: '{% for %}' }), TokenizerError);
  assert.throws(() => gpt2.chatText(/** @type {any} */ ([{ content: 'Hi' }]), options), InputError);
  assert.throws(() => gpt2.chatText(/** @type {any} */ ('Hi'), options), { name: 'TypeError', message: /messages must be an array/ });
  assert.throws(() => gpt2.chatText(messages, { ...options, date: 'today' }), TokenizerError);
});

test('files are counted', async (context) => {
  const folder = folderOf(context);
  writeFileSync(path.join(folder, 'a.txt'), 'Hello world');
  writeFileSync(path.join(folder, 'b.jsonl'), '{"text": "Hello world"}\n{"text": "Hello"}\n');
  const counts = await countFiles(folder, { tokenizer: 'gpt2' });
  assert.deepEqual(counts.files.map(({ path: file, tokens }) => [path.basename(file), tokens]), [['a.txt', 2], ['b.jsonl', 3]]);
  assert.deepEqual(counts.total, { files: 2, bytes: 27, tokens: 5 });
  assert.deepEqual((await countFiles([path.join(folder, 'b.jsonl')], { tokenizer: gpt2, raw: true })).total.tokens, gpt2.countSync('{"text": "Hello world"}\n{"text": "Hello"}\n'));
  writeFileSync(path.join(folder, 'c.jsonl'), '{"text": "Hello"}\n{"text": 1}\n');
  const skipped = await countFiles(folder, { tokenizer: gpt2, onError: 'skip' });
  assert.equal(skipped.total.tokens, 5);
  assert.match(skipped.errors[0], /c\.jsonl:2/);
  await assert.rejects(countFiles(folder, { tokenizer: gpt2 }), (/** @type {any} */ error) => {
    assert.ok(error instanceof InputError);
    assert.equal(/** @type {any} */ (error).counts.total.tokens, 5);
    return true;
  });
  await assert.rejects(countFiles(folder, /** @type {any} */ ({ tokeniser: 'gpt2' })), { name: 'TypeError', message: /countFiles has no option tokeniser/ });
  await assert.rejects(countFiles(folder, { signal: AbortSignal.abort() }), { name: 'AbortError' });
  await assert.rejects(countFiles(path.join(folder, 'none'), { tokenizer: gpt2 }), InputError);
});
