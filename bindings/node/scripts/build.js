'use strict';
// Builds the addon with cargo, and puts it where `lib/native.js` looks.
//
//     node scripts/build.js [--profile NAME] [--features NAMES] [--target TRIPLE] [--out FILE] [--if-missing]

const { execFileSync } = require('node:child_process');
const { copyFileSync, mkdirSync, renameSync } = require('node:fs');
const path = require('node:path');
const { parseArgs } = require('node:util');

const root = path.join(__dirname, '..');
const { values } = parseArgs({
  options: {
    profile: { type: 'string', default: process.env.WINDROW_PROFILE ?? 'dist' },
    features: { type: 'string' },
    target: { type: 'string' },
    out: { type: 'string', default: path.join(root, 'windrow.node') },
    'if-missing': { type: 'boolean' },
  },
});

/** Whether the addon cannot be loaded. */
function isMissing() {
  try {
    require('../lib/native.js');
    return false;
  } catch {
    return true;
  }
}

function build() {
  const manifest = path.join(root, 'Cargo.toml');
  const words = ['build', '--locked', '--manifest-path', manifest, '--profile', values.profile, '--message-format', 'json-render-diagnostics'];
  for (const name of /** @type {const} */ (['features', 'target'])) {
    if (values[name] !== undefined) {
      words.push(`--${name}`, values[name]);
    }
  }
  let messages;
  try {
    messages = execFileSync('cargo', words, { stdio: ['ignore', 'pipe', 'inherit'], maxBuffer: 1 << 28, encoding: 'utf8' });
  } catch (error) {
    if (/** @type {any} */ (error).code === 'ENOENT') {
      throw new Error('windrow is built with Rust, but cargo was not found\nhint: install Rust: see rustup.rs');
    }
    throw error;
  }
  const library = messages
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line))
    .filter((message) => message.reason === 'compiler-artifact' && message.target.name === 'windrow_node')
    .flatMap((message) => message.filenames)
    .find((file) => /\.(so|dylib|dll)$/.test(file));
  // Replaced as a whole: a process may have the old one loaded.
  mkdirSync(path.dirname(values.out), { recursive: true });
  const staged = `${values.out}.${process.pid}`;
  copyFileSync(library, staged);
  renameSync(staged, values.out);
}

try {
  if (!values['if-missing'] || isMissing()) {
    build();
  }
} catch (error) {
  process.stderr.write(`error: ${/** @type {Error} */ (error).message}\n`);
  process.exitCode = 1;
}
