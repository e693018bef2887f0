'use strict';
// The package as others see it: its types, both kinds of modules, bundles, platforms, and the programs of its README.

const assert = require('node:assert/strict');
const { execFile, execFileSync } = require('node:child_process');
const { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync, symlinkSync, writeFileSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const { promisify } = require('node:util');

const { SCOPE, TARGETS, target } = require('../lib/targets.js');

const root = path.join(__dirname, '..');
const tsc = path.join(root, 'node_modules/typescript/bin/tsc');

const run = promisify(execFile);

/** A folder that is removed after the test. @param {import('node:test').TestContext} context */
function folderOf(context) {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'windrow-'));
  context.after(() => rmSync(folder, { recursive: true }));
  return folder;
}

/** A folder in which the package is installed. @param {import('node:test').TestContext} context */
function installed(context) {
  const folder = folderOf(context);
  mkdirSync(path.join(folder, 'node_modules'));
  symlinkSync(root, path.join(folder, 'node_modules/windrow'), 'dir');
  return folder;
}

/** The folders that npm publishes, each with a file that is no addon. @param {import('node:test').TestContext} context */
function packed(context) {
  const folder = folderOf(context);
  for (const target of TARGETS) {
    mkdirSync(path.join(folder, 'addons', target), { recursive: true });
    writeFileSync(path.join(folder, 'addons', target, 'windrow.node'), 'no addon');
  }
  const notices = path.join(folder, 'notices');
  writeFileSync(notices, 'the notices');
  execFileSync(process.execPath, [path.join(root, 'scripts/pack.js'), '--addons', path.join(folder, 'addons'), '--notices', notices, '--out', folder]);
  return folder;
}

/** The folder of the package as npm brings it, without the package of a platform. @param {import('node:test').TestContext} context */
function withoutAddon(context) {
  return path.join(packed(context), 'windrow');
}

test('the types are those of the sources', { skip: !existsSync(tsc) && 'typescript is not installed' }, (context) => {
  const folder = folderOf(context);
  execFileSync(process.execPath, [tsc, '--project', path.join(root, 'tsconfig.types.json'), '--outDir', folder]);
  const files = readdirSync(folder).sort();
  assert.deepEqual(readdirSync(path.join(root, 'types')).sort(), files);
  for (const file of files) {
    const hint = `types/${file} is old (npm run types makes it again)`;
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
  const { stdout } = await run(process.execPath, ['program.mjs'], { cwd: folder });
  assert.equal(stdout, '[true,true,true]\n');
});

test('the programs of the README run', async (context) => {
  const folder = installed(context);
  const readme = readFileSync(path.join(root, 'README.md'), 'utf8');
  const programs = [...readme.matchAll(/```js\n([^]*?)```/g)].map((found) => found[1]);
  assert.ok(programs.length >= 3);
  // They follow each other, and await as modules may.
  writeFileSync(path.join(folder, 'program.mjs'), programs.join('\n'));
  await run(process.execPath, ['program.mjs'], { cwd: folder });
});

test('the types are those of both kinds of modules, for each way to find them', { skip: !existsSync(tsc) && 'typescript is not installed' }, async (context) => {
  const folder = installed(context);
  symlinkSync(path.join(root, 'node_modules/@types'), path.join(folder, 'node_modules/@types'), 'dir');
  for (const extension of ['mts', 'cts', 'ts']) {
    copyFileSync(path.join(root, 'test/types.ts'), path.join(folder, `types.${extension}`));
  }
  const compile = async (/** @type {string} */ words) => {
    const failed = (/** @type {any} */ error) => assert.fail(`tsc ${words}\n${error.stdout}`);
    await run(process.execPath, [tsc, '--strict', '--noEmit', '--target', 'es2022', ...words.split(' ')], { cwd: folder }).catch(failed);
  };
  await compile('--module nodenext --types node types.mts types.cts');
  await compile('--module preserve --moduleResolution bundler --types node types.mts types.cts types.ts');
  // A program of browsers has no types of Node.
  await compile('--module esnext --moduleResolution bundler --lib es2022,dom --typeRoots none types.ts');
});

test('both kinds of modules have the same types', () => {
  const names = ['index.d.ts', 'index.d.mts'].map((file) => {
    const text = readFileSync(path.join(root, 'types', file), 'utf8');
    return [...text.matchAll(/^export type (\w+)/gm)].map((found) => found[1]).sort();
  });
  assert.ok(names[0].length >= 10);
  assert.deepEqual(names[0], names[1]);
});

test('an addon that is missing is named with the remedy', async (context) => {
  const folder = withoutAddon(context);
  await assert.rejects(run(process.execPath, ['-e', `require(${JSON.stringify(folder)})`]), (error) => {
    assert.match(/** @type {any} */ (error).stderr, /windrow's addon is missing: the package @windrow-rs\/[a-z0-9-]+ is not installed\n *hint: install windrow again/);
    return true;
  });
});

test('a file that is no addon is an error', async (context) => {
  const folder = withoutAddon(context);
  writeFileSync(path.join(folder, 'windrow.node'), 'no addon');
  await assert.rejects(run(process.execPath, ['-e', `require(${JSON.stringify(folder)})`]), (error) => {
    assert.doesNotMatch(/** @type {any} */ (error).stderr, /addon is missing/);
    assert.match(/** @type {any} */ (error).stderr, /windrow\.node/);
    return true;
  });
});

/** A program whose dynamic linker is this one, as far as its header says. @param {string} linker @param {number} place */
function elf(linker, place) {
  const file = Buffer.alloc(place + linker.length + 1);
  file.writeUInt32BE(0x7f454c46, 0);
  file.writeBigUInt64LE(64n, 32);
  file.writeUInt16LE(56, 54);
  file.writeUInt16LE(2, 56);
  file.writeUInt32LE(6, 64);
  file.writeUInt32LE(3, 64 + 56);
  file.writeBigUInt64LE(BigInt(place), 64 + 56 + 8);
  file.writeBigUInt64LE(BigInt(linker.length + 1), 64 + 56 + 32);
  file.write(linker, place);
  return file;
}

test('musl is known by the dynamic linker', (context) => {
  const { isMusl } = require('../lib/libc.js');
  const file = path.join(folderOf(context), 'program');
  for (const [linker, place, expected] of /** @type {const} */ ([
    ['/lib/ld-musl-x86_64.so.1', 176, true],
    ['/lib/ld-musl-aarch64.so.1', 90_000, true],
    ['/nix/store/abc-musl-1.2.5/lib/ld-musl-x86_64.so.1', 5000, true],
    ['/lib64/ld-linux-x86-64.so.2', 176, false],
    ['/lib/ld-linux-aarch64.so.1', 176, false],
  ])) {
    writeFileSync(file, elf(linker, place));
    assert.equal(isMusl(file), expected, linker);
  }
  for (const text of ['', '#!/bin/sh', 'x'.repeat(200)]) {
    writeFileSync(file, text);
    assert.equal(isMusl(file), false);
  }
  assert.equal(isMusl('/no/such/file'), false);
});

test('each platform gets its addon, or one sentence', { skip: process.platform !== 'linux' && 'the platform is made up with files of Linux' }, async (context) => {
  const folder = withoutAddon(context);
  const program = path.join(folder, 'program');
  writeFileSync(program, elf('/lib/ld-musl-x86_64.so.1', 176));
  const load = async (/** @type {string} */ arch) => {
    const pretend = `
      Object.defineProperty(process, 'arch', { value: ${JSON.stringify(arch)} });
      const fs = require('node:fs');
      const { openSync } = fs;
      fs.openSync = (file, ...rest) => openSync(file === '/proc/self/exe' ? ${JSON.stringify(program)} : file, ...rest);`;
    const outcome = await run(process.execPath, ['-e', `${pretend} require(${JSON.stringify(folder)})`]).catch((error) => error);
    return String(outcome.stderr);
  };
  assert.match(await load('x64'), /windrow's addon is missing: the package @windrow-rs\/linux-x64-musl is not/);
  assert.match(await load('arm64'), /windrow's addon is missing: the package @windrow-rs\/linux-arm64-musl is not/);
  assert.match(await load('riscv64'), /windrow has no addon for linux-riscv64-musl, only for linux-x64, [^]*hint: choose one of these platforms, or build/);
});

test('the addons that are asked for are built, and the README names them', () => {
  const loader = readFileSync(path.join(root, 'lib/native.js'), 'utf8');
  const asked = [...loader.matchAll(/case '([a-z0-9-]+)':\n\s*return require\('@windrow-rs\/\1\/windrow\.node'\)/g)].map((found) => found[1]);
  assert.deepEqual(asked, TARGETS);
  const readme = readFileSync(path.join(root, 'README.md'), 'utf8');
  assert.deepEqual(asked.filter((name) => !readme.includes(`\`${name}\``)), []);
  const workflow = readFileSync(path.join(root, '../../.github/workflows/node.yml'), 'utf8');
  const built = [...workflow.matchAll(/- \{ name: ([a-z0-9-]+)/g)].map((found) => found[1]);
  assert.deepEqual(built.sort(), asked.sort());
});

test('a platform gets the addon that it can load, and no script runs at its installation', (context) => {
  const folder = packed(context);
  const manifest = (/** @type {string} */ name) => JSON.parse(readFileSync(path.join(folder, name, 'package.json'), 'utf8'));
  const { version, scripts, devDependencies, optionalDependencies, files } = manifest('windrow');
  assert.deepEqual([scripts, devDependencies], [undefined, undefined]);
  assert.deepEqual(optionalDependencies, Object.fromEntries(TARGETS.map((each) => [`${SCOPE}/${each}`, version])));
  for (const each of TARGETS) {
    const { name, version: own, os: system, cpu, libc, main } = manifest(each);
    const wanted = system[0] === 'linux' ? [`${system}-${cpu}${libc[0] === 'musl' ? '-musl' : ''}`, 1] : [`${system}-${cpu}`, undefined];
    assert.deepEqual([name, own, each, libc?.length], [`${SCOPE}/${each}`, version, ...wanted]);
    assert.ok(existsSync(path.join(folder, each, main)));
  }
  for (const name of ['windrow', ...TARGETS]) {
    const listed = manifest(name).files;
    assert.ok(listed.includes('THIRD-PARTY.txt') && listed.includes('LICENSE-MIT'), name);
    assert.deepEqual(listed.filter((/** @type {string} */ file) => !existsSync(path.join(folder, name, file))), [], name);
  }
  assert.ok(files.includes('types'));
});

/** The folder of `withoutAddon`, next to the package of this platform. @param {import('node:test').TestContext} context */
function asPublished(context) {
  require('windrow');
  const folder = packed(context);
  const modules = path.join(folder, 'windrow/node_modules', SCOPE);
  mkdirSync(modules, { recursive: true });
  renameSync(path.join(folder, target()), path.join(modules, target()));
  const addon = /** @type {string} */ (Object.keys(require.cache).find((file) => file.endsWith('windrow.node')));
  rmSync(path.join(modules, target(), 'windrow.node'));
  symlinkSync(addon, path.join(modules, target(), 'windrow.node'));
  return path.join(folder, 'windrow');
}

test('an import looks at nothing of the process', async (context) => {
  // A report looks up the addresses of all sockets, and other runtimes have none.
  const published = JSON.stringify(asPublished(context));
  const load = `const begin = performance.now(); require(${published}); const took = performance.now() - begin;`;
  const noReport = "Object.defineProperty(process, 'report', { get() { throw new Error('a report'); } });";
  const { stdout } = await run(process.execPath, ['-e', `${noReport} ${load} console.log(took > 0)`]);
  assert.equal(stdout, 'true\n');
  // 127.0.0.2 has no name.
  const sockets = `
    const net = require('node:net');
    const server = net.createServer().listen(0, '127.0.0.2', async () => {
      const { port } = server.address();
      const open = () => new Promise((resolve) => { const socket = net.connect(port, '127.0.0.2', () => resolve(socket)); });
      await Promise.all(Array.from({ length: 50 }, open));
      ${load}
      console.log(took);
      process.exit();
    });`;
  /** @type {number[][]} */
  const times = [[], []];
  for (let round = 0; round < 5; round++) {
    for (const [place, program] of [sockets, `${load} console.log(took);`].entries()) {
      times[place].push(Number((await run(process.execPath, ['-e', program])).stdout));
    }
  }
  // With other processes on the machine both take longer. Fifty addresses without names took 5 s.
  const [open, none] = times.map((each) => Math.min(...each));
  assert.ok(open <= Math.max(30, 2 * none), `${open} ms with 50 open sockets, ${none} ms without`);
});

test('a bundle runs', { skip: !existsSync(path.join(root, 'node_modules/esbuild')) && 'esbuild is not installed' }, async (context) => {
  const folder = installed(context);
  writeFileSync(path.join(folder, 'program.mjs'), `import { Tokenizer } from 'windrow'; console.log(Tokenizer.fromTiktokenSync('gpt2').countSync('Hello world'));`);
  const esbuild = require('esbuild');
  const outdir = path.join(folder, 'dist');
  const { warnings, errors } = await esbuild.build({
    entryPoints: [path.join(folder, 'program.mjs')],
    bundle: true,
    platform: 'node',
    outdir,
    loader: { '.node': 'copy' },
    logLevel: 'silent',
  });
  assert.deepEqual([warnings, errors], [[], []]);
  // The bundle stands for itself.
  rmSync(path.join(folder, 'node_modules'), { recursive: true });
  const { stdout } = await run(process.execPath, [path.join(outdir, 'program.js')]);
  assert.equal(stdout, '2\n');
});
