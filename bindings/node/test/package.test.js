'use strict';
// The package as others see it: its types, both kinds of modules, and the programs of its README.

const assert = require('node:assert/strict');
const { execFile, execFileSync } = require('node:child_process');
const { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const { promisify } = require('node:util');

const root = path.join(__dirname, '..');
const tsc = path.join(root, 'node_modules/typescript/bin/tsc');

/** A folder in which the package is installed. @param {import('node:test').TestContext} context */
function installed(context) {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'windrow-'));
  context.after(() => rmSync(folder, { recursive: true }));
  const modules = path.join(folder, 'node_modules');
  execFileSync('mkdir', [modules]);
  symlinkSync(root, path.join(modules, 'windrow'), 'dir');
  return folder;
}

test('the types are those of the sources', { skip: !existsSync(tsc) && 'typescript is not installed' }, (context) => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'windrow-'));
  context.after(() => rmSync(folder, { recursive: true }));
  execFileSync(process.execPath, [tsc, '--project', path.join(root, 'tsconfig.types.json'), '--outDir', folder]);
  const files = readdirSync(folder).sort();
  assert.deepEqual(readdirSync(path.join(root, 'types')).sort(), files);
  for (const file of files) {
    const hint = `types/${file} is old (npm run types makes it anew)`;
    assert.equal(readFileSync(path.join(root, 'types', file), 'utf8'), readFileSync(path.join(folder, file), 'utf8'), hint);
  }
});

test('both kinds of modules get the same', async (context) => {
  const folder = installed(context);
  writeFileSync(
    path.join(folder, 'program.mjs'),
    `import windrow, { Tokenizer } from 'windrow';
     import { createRequire } from 'node:module';
     const required = createRequire(import.meta.url)('windrow');
     const names = Object.keys(await import('windrow')).filter((name) => !['default', 'module.exports'].includes(name)).sort();
     console.log(JSON.stringify([required === windrow, required.Tokenizer === Tokenizer, names.join() === Object.keys(required).sort().join()]));`,
  );
  const { stdout } = await promisify(execFile)(process.execPath, ['program.mjs'], { cwd: folder });
  assert.equal(stdout, '[true,true,true]\n');
});

test('the programs of the README run', async (context) => {
  const folder = installed(context);
  const readme = readFileSync(path.join(root, 'README.md'), 'utf8');
  const programs = [...readme.matchAll(/```js\n([^]*?)```/g)].map((found) => found[1]);
  assert.ok(programs.length >= 3);
  // They follow each other, and await as modules may.
  writeFileSync(path.join(folder, 'program.mjs'), programs.join('\n'));
  await promisify(execFile)(process.execPath, ['program.mjs'], { cwd: folder });
});

test('an addon that is missing is named with the remedy', async (context) => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'windrow-'));
  context.after(() => rmSync(folder, { recursive: true }));
  execFileSync('cp', ['-r', path.join(root, 'lib'), path.join(root, 'package.json'), folder]);
  await assert.rejects(promisify(execFile)(process.execPath, ['-e', `require(${JSON.stringify(folder)})`]), (error) => {
    assert.match(/** @type {any} */ (error).stderr, /windrow has no addon for [a-z0-9-]+\n *hint: npm rebuild windrow/);
    return true;
  });
});
