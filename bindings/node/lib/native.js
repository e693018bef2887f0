'use strict';
// The addon: built here, or one of those that come with the package.

const { existsSync } = require('node:fs');
const path = require('node:path');

/** The name of a target, as the folders of `prebuilds` have it. */
function target() {
  const { platform, arch } = process;
  // Only glibc's report has its version.
  const isMusl = platform === 'linux' && !(/** @type {any} */ (process.report.getReport()).header.glibcVersionRuntime);
  return `${platform}-${arch}${isMusl ? '-musl' : ''}`;
}

function load() {
  const root = path.join(__dirname, '..');
  const built = path.join(root, 'windrow.node');
  if (existsSync(built)) {
    return require(built);
  }
  const prebuilt = path.join(root, 'prebuilds', target(), 'windrow.node');
  if (existsSync(prebuilt)) {
    return require(prebuilt);
  }
  const hint = `hint: npm rebuild windrow, which builds it with Rust; or node ${path.join(root, 'scripts', 'build.js')}`;
  throw new Error(`windrow has no addon for ${target()}\n${hint}`);
}

module.exports = load();
