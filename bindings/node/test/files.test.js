'use strict';

const assert = require('node:assert/strict');
const { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const { pathToFileURL } = require('node:url');

const { FileError, InputError, Tokenizer, encodeFiles } = require('windrow');

const gpt2 = Tokenizer.fromTiktokenSync('gpt2');

/** @param {import('node:test').TestContext} context */
function folderOf(context) {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'windrow-'));
  context.after(() => rmSync(folder, { recursive: true }));
  return folder;
}

test('files are encoded', async (context) => {
  const folder = folderOf(context);
  const input = path.join(folder, 'a.jsonl');
  writeFileSync(input, '{"text":"Hello world","id":1,"a,b":3,"a":4}\n{"text":"Hello","id":2}\n');
  /** @type {import('windrow').Progress[]} */
  const reports = [];
  const summary = await encodeFiles(pathToFileURL(input), path.join(folder, 'out'), {
    tokenizer: gpt2,
    format: 'jsonl',
    field: 'text',
    keep: ['id', 'a,b', 'idd'],
    appendEos: true,
    progress: (progress) => reports.push(progress),
  });
  assert.deepEqual(summary.documents, { read: 2, written: 2, skipped: 0, failed: 0 });
  assert.equal(summary.tokens, 5);
  assert.equal(summary.eos, 50256);
  const last = reports[reports.length - 1];
  assert.deepEqual([last.documents, last.tokens, last.totalBytes], [2, 3, readFileSync(input).length]);
  const lines = summary.outputs.filter((file) => file.endsWith('.jsonl')).flatMap((file) => readFileSync(file, 'utf8').trim().split('\n'));
  assert.deepEqual(JSON.parse(lines[0]).ids, [15496, 995, 50256]);
  assert.deepEqual(JSON.parse(lines[2]), { id: 1, 'a,b': 3, idd: null });
  assert.deepEqual(summary.notes, ['no document has the field "idd" named in keep, so all its values are null; the first document has "id"']);
});

test('a tokenizer is named in several ways', async (context) => {
  const folder = folderOf(context);
  const input = path.join(folder, 'a.txt');
  writeFileSync(input, 'Hello world');
  for (const [number, tokenizer] of ['gpt2', gpt2, undefined].entries()) {
    const { tokens } = await encodeFiles([input], path.join(folder, `out${number}`), { tokenizer });
    assert.equal(tokens, 2);
  }
  await assert.rejects(encodeFiles([input], path.join(folder, 'x'), { tokenizer: 'none_base' }), { name: 'TokenizerError' });
});

test('special tokens in files are text, unless they are asked for', async (context) => {
  const folder = folderOf(context);
  const input = path.join(folder, 'a.txt');
  writeFileSync(input, 'a<|endoftext|>');
  const plain = Tokenizer.fromTiktokenSync('gpt2', { encodeSpecialTokens: true });
  for (const [number, tokenizer] of ['gpt2', gpt2, plain].entries()) {
    for (const specialInText of [false, true]) {
      const output = path.join(folder, `out${number}${specialInText}`);
      const { tokens, special_tokens } = await encodeFiles(input, output, { tokenizer, specialInText });
      assert.deepEqual([tokens === 2, special_tokens], [specialInText, Number(specialInText)]);
    }
  }
});

test('bad inputs and options are refused, and nothing is published', async (context) => {
  const folder = folderOf(context);
  const output = path.join(folder, 'out');
  const bad = path.join(folder, 'bad.jsonl');
  writeFileSync(bad, '{"text":"good"}\n{"other":1}\n');
  const wrong = /** @type {any} */ (encodeFiles);
  await assert.rejects(wrong(bad, output, { colour: 1 }), /encodeFiles has no option colour\nhint: the options are /);
  await assert.rejects(wrong(bad, output, { progress: 1 }), TypeError);
  await assert.rejects(wrong(bad, output, { format: 'none' }), InputError);
  await assert.rejects(encodeFiles(path.join(folder, 'missing'), output), (error) => error instanceof FileError && error.code === 'ENOENT');
  await assert.rejects(encodeFiles(bad, output, { tokenizer: gpt2 }), (error) => error instanceof InputError && error.message.includes('bad.jsonl:2'));
  assert.deepEqual(readdirSync(folder), ['bad.jsonl']);
  await encodeFiles(bad, output, { tokenizer: gpt2, onError: 'skip' });
  await assert.rejects(encodeFiles(bad, output, { tokenizer: gpt2 }), (error) => error instanceof FileError && error.code === 'EEXIST' && error.message.includes('overwrite: true'));
});

test('an abort, or an error of progress, ends a run', async (context) => {
  const folder = folderOf(context);
  const input = path.join(folder, 'a.txt');
  writeFileSync(input, 'Hello world, this is a text. '.repeat(4_000_000));
  const output = path.join(folder, 'out');
  const controller = new AbortController();
  setTimeout(() => controller.abort(), 50);
  const begin = performance.now();
  await assert.rejects(encodeFiles(input, output, { tokenizer: gpt2, lines: true, signal: controller.signal }), { name: 'AbortError' });
  assert.ok(performance.now() - begin < 50 + 500);
  const error = new Error('enough');
  const progress = () => {
    throw error;
  };
  await assert.rejects(encodeFiles(input, output, { tokenizer: gpt2, progress }), error);
  // The runs end soon after, and take back what they had begun.
  for (let wait = 0; readdirSync(folder).length > 1 && wait < 100; wait++) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.ok(!existsSync(`${output}.ids.npy`));
  assert.deepEqual(readdirSync(folder), ['a.txt']);
});
