'use strict';

// One text has one answer: `bindings/doors.json` has the ids of texts, which the tests of the command and of Python compare, too.

const assert = require('node:assert/strict');
const { mkdtempSync, readFileSync, rmSync, writeFileSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');

const { InputError, ItemError, Tokenizer, encodeFiles } = require('windrow');

/** @type {{ tokenizer: object, texts: { about: string, json: string, text: number[] | null, file: number[] | null }[] }} */
const doors = JSON.parse(readFileSync(path.join(__dirname, '..', '..', 'doors.json'), 'utf8'));

for (const { about, json, text: ids, file: idsOfFile } of doors.texts) {
  test(`one answer: ${about}`, async (context) => {
    const tokenizer = await Tokenizer.fromString(JSON.stringify(doors.tokenizer));
    /** @type {string} */
    const text = JSON.parse(json);
    const inputs = [text];
    /** @type {[() => Promise<ArrayLike<number>> | ArrayLike<number>, number[] | null][]} */
    const calls = [
      [() => tokenizer.encode(text), ids],
      [() => tokenizer.encodeSync(text), ids],
      [async () => (await tokenizer.encodeBatch(inputs)).ids, ids],
      [() => tokenizer.encode(text, { addSpecialTokens: false }), ids && ids.slice(1, -1)],
      [async () => [await tokenizer.count(text), tokenizer.countSync(text)], ids && [ids.length, ids.length]],
    ];
    for (const [call, expected] of calls) {
      if (expected) assert.deepEqual([...Array.from(await call())], expected);
      else await assert.rejects(async () => call(), ItemError);
    }

    const folder = mkdtempSync(path.join(os.tmpdir(), 'windrow-'));
    context.after(() => rmSync(folder, { recursive: true }));
    const [input, output] = [path.join(folder, 'in.jsonl'), path.join(folder, 'out')];
    writeFileSync(input, `{"text": ${json}}\n`);
    const encoded = encodeFiles(input, output, { tokenizer, format: 'jsonl' });
    if (idsOfFile) {
      await encoded;
      assert.deepEqual(JSON.parse(readFileSync(`${output}.jsonl`, 'utf8')).ids, idsOfFile);
    } else {
      await assert.rejects(encoded, InputError);
    }
  });
}
